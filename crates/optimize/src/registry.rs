//! Every method for linear models that a program knows, planned for one problem and sorted by predicted risk: the table of `explain`, and
//! `method = auto` takes its first row.

use crate::algorithm::{Algorithm, RowAccess, Traits};
use crate::options::common::CALIBRATION;
use crate::options::{MethodOptions, OptionInfo, Said, nearest, not_private, options_of, shown};
use crate::plan::{Grade, NotApplicable, Problem};
use crate::planning::products;
use crate::prepared::{Prepared, prepare};
use crate::regime::{Regime, Regimes};
use dpopt_objective::loss::Loss;
use dpopt_privacy::Budget;
use dpopt_privacy::accountant::AccountingError;
use dpopt_privacy::certify::CertifyError;
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// One row of `explain`: a planned and certified method, or why it does not apply.
pub struct Candidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, ready to run, or the reason.
    pub plan: Result<Box<dyn Prepared>, NotApplicable>,
}

/// Plans one method within a registry, whose other methods it may name where it refuses.
pub type Planner = fn(&Registry, &Problem, Budget, &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable>;

/// A method as the registry knows it.
#[derive(Clone)]
struct Registered {
    name: &'static str,
    about: &'static str,
    traits: Traits,
    options: fn() -> Vec<OptionInfo>,
    /// Refuses options that it does not have, or that exclude each other.
    accepts: fn(&MethodOptions) -> Result<(), NotApplicable>,
    plan: Planner,
}

fn registered<A: Algorithm>(plan: Planner) -> Registered {
    Registered {
        name: A::NAME,
        about: A::ABOUT,
        traits: A::TRAITS,
        options: || {
            options_of(|said| {
                read::<A>(said);
            })
        },
        accepts: |options| asked::<A>(options).map(drop),
        plan,
    }
}

/// What the user said, with what is asked of every linear model.
fn read<A: Algorithm>(said: &Said<'_>) -> A {
    if A::TRAITS.calibrates {
        said.get(&CALIBRATION);
    }
    A::read(said)
}

/// What the user said, as options of the method; nothing that was said is ignored.
///
/// # Errors
/// An option that the method does not have, with the nearest that it has, or options that exclude each other.
pub fn asked<A: Algorithm>(options: &MethodOptions) -> Result<A, NotApplicable> {
    let said = Said::new(options);
    let algorithm = read::<A>(&said);
    said.all_used(A::NAME)?;
    Ok(algorithm)
}

fn planned<A: Algorithm>(
    registry: &Registry,
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    registry.plan_as_asked(asked::<A>, problem, budget, options)
}

/// An option and the methods that have it.
#[derive(Clone, Debug, Serialize)]
pub struct Described {
    /// Name, values, what it does.
    #[serde(flatten)]
    pub info: OptionInfo,
    /// Names of the methods, in the standing order.
    pub methods: Vec<&'static str>,
}

impl Described {
    /// Adds the options of a method to those of others.
    ///
    /// # Panics
    /// If another method has one of that name for something else.
    pub fn add(all: &mut Vec<Self>, method: &'static str, options: Vec<OptionInfo>) {
        for info in options {
            match all.iter_mut().find(|known| known.info.name == info.name) {
                Some(known) => {
                    assert_eq!(known.info, info, "two options share a name");
                    known.methods.push(method);
                }
                None => all.push(Self { info, methods: vec![method] }),
            }
        }
    }

    /// That none of `all` has that name, with the nearest that one has.
    pub fn unknown(all: &[Self], name: &str) -> NotApplicable {
        let known: Vec<&str> = all.iter().map(|option| option.info.name).collect();
        let near = nearest(name, &known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        NotApplicable::Option(format!("there is no option `{}`{near}", shown(name)))
    }
}

/// The methods that a program knows: values of this type say what can be planned, in which order, and with which options.
///
/// `dpopt_linear::registry` has those that ship; [`with`](Self::with) adds one of anybody's.
#[derive(Clone)]
pub struct Registry(Arc<Methods>);

#[derive(Clone)]
struct Methods {
    /// In the standing order: one release before many, full batches before samples.
    linear: Vec<Registered>,
    /// The method of embedding models.
    embedding: Option<Registered>,
    /// What one Gaussian release of everything would leave.
    least_risk: fn(&Problem, Budget) -> Result<f64, NotApplicable>,
    catalogue: Vec<Described>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Registry {
    /// No method yet. `least_risk` is the excess risk to expect whatever the method: of models whose rows' directions are known no method is
    /// believed to do better.
    pub fn new(least_risk: fn(&Problem, Budget) -> Result<f64, NotApplicable>) -> Self {
        Self(Arc::new(Methods { linear: Vec::new(), embedding: None, least_risk, catalogue: Vec::new() }))
    }

    /// With a method of linear models, after the others in the standing order.
    ///
    /// # Panics
    /// If there is a method of that name, or two options share a name and differ.
    #[must_use]
    pub fn with<A: Algorithm>(self) -> Self {
        self.with_planner::<A>(planned::<A>)
    }

    /// As [`with`](Self::with), planned by `plan`: for a method that needs more than what was said.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    pub fn with_planner<A: Algorithm>(mut self, plan: Planner) -> Self {
        self.add(registered::<A>(plan), |methods, method| methods.linear.push(method));
        self
    }

    /// With the method of embedding models.
    ///
    /// # Panics
    /// As [`with`](Self::with).
    #[must_use]
    pub fn with_embedding<A: Algorithm>(mut self) -> Self {
        self.add(registered::<A>(planned::<A>), |methods, method| methods.embedding = Some(method));
        self
    }

    fn add(&mut self, method: Registered, place: fn(&mut Methods, Registered)) {
        assert!(self.find(method.name).is_none(), "there is a method `{}` already", method.name);
        let methods = Arc::make_mut(&mut self.0);
        place(methods, method);
        methods.catalogue = catalogue(methods.linear.iter().chain(&methods.embedding));
    }

    fn linear(&self) -> impl Iterator<Item = &Registered> {
        self.0.linear.iter()
    }

    fn all(&self) -> impl Iterator<Item = &Registered> {
        self.0.linear.iter().chain(&self.0.embedding)
    }

    fn find(&self, name: &str) -> Option<&Registered> {
        self.all().find(|method| method.name == name)
    }

    /// Names of the methods for linear models, as in `--method`, in the standing order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.linear().map(|method| method.name)
    }

    /// All options of all methods, each once: where flags, keywords and the documentation's tables come from.
    pub fn catalogue(&self) -> &[Described] {
        &self.0.catalogue
    }

    /// The option of that name.
    fn described(&self, name: &str) -> Option<&Described> {
        self.catalogue().iter().find(|option| option.info.name == name)
    }

    fn is_of_embeddings_only(&self, option: &Described) -> bool {
        self.0.embedding.as_ref().is_some_and(|method| option.methods == [method.name])
    }

    /// Refuses names that no method has, and values outside the range of every method that has the option; names the option as
    /// Python does (with dashes it is the flag of the command line). What a single method asks beyond that, its plan says.
    ///
    /// # Errors
    /// The first option that is refused.
    pub fn check(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        for (name, value) in options.said_values() {
            match self.described(name) {
                Some(option) => {
                    option.info.check(value)?;
                    if options.embedding.is_none() && self.is_of_embeddings_only(option) {
                        return Err(NotApplicable::Option(format!(
                            "`{name}` is an option of embedding models, and this model is linear; ask for an embedding model, or leave \
                             the option out"
                        )));
                    }
                }
                None => return Err(Described::unknown(self.catalogue(), name)),
            }
        }
        Ok(())
    }

    /// What is asked of the answer, and not of a method: it holds for every method that is compared.
    fn of_the_answer(&self, options: &MethodOptions) -> MethodOptions {
        let of_the_answer = |name: &str| self.described(name).is_some_and(|option| option.info.of_the_answer);
        let mut of_all = options.clone().saying_only(of_the_answer);
        of_all.method = None;
        of_all
    }

    /// What a method releases, and when to take it; `None` if there is no such method.
    pub fn about(&self, method: &str) -> Option<&'static str> {
        self.find(method).map(|method| method.about)
    }

    /// Whether a method has an option.
    pub fn has_option(&self, method: &str, option: &str) -> bool {
        self.described(option).is_some_and(|known| known.methods.contains(&method))
    }

    /// How a method reads the rows; `None` if there is no such method.
    pub fn row_access(&self, method: &str) -> Option<RowAccess> {
        self.find(method).map(|method| method.traits.rows)
    }

    /// The method that is taken where rows are on disk and none is named: the first that reads them in batches and has every
    /// option that was said, or else the first such that passes over them.
    pub fn first_from_disk(&self, options: &MethodOptions) -> Option<&'static str> {
        let has_all = |method: &Registered| {
            let own = (method.options)();
            options.names().all(|name| own.iter().any(|info| info.name == name))
        };
        let first = |access| self.linear().find(|m| m.traits.rows == access && has_all(m));
        first(RowAccess::Batches).or_else(|| first(RowAccess::Passes)).map(|m| m.name)
    }

    /// Whether a method's proved error grows with ln d and not with √d.
    pub fn logarithmic(&self, method: &str) -> bool {
        self.find(method).is_some_and(|method| method.traits.logarithmic)
    }

    /// Plans a method whose options are read by `read` as the registry plans its own: a reference only if it is named, for rows that are elsewhere only
    /// what can work there, and for units by unit or by row.
    ///
    /// # Errors
    /// Why it does not apply.
    pub fn plan_as_asked<A: Algorithm>(
        &self,
        read: impl FnOnce(&MethodOptions) -> Result<A, NotApplicable>,
        problem: &Problem,
        budget: Budget,
        options: &MethodOptions,
    ) -> Result<Box<dyn Prepared>, NotApplicable> {
        if A::TRAITS.reference && options.method.as_deref() != Some(A::NAME) {
            return Err(NotApplicable::Option(format!(
                "a reference of the literature, planned only with --method {}",
                A::NAME
            )));
        }
        self.told(A::NAME, A::TRAITS, options)?;
        by_unit_or_row(read(options)?, problem, budget, options)
    }

    /// Refuses a method that needs more than sums of rows that are elsewhere. One of many small sums is planned there if it is asked for: a question costs more than its rows,
    /// unless they are very many.
    fn told(&self, name: &str, traits: Traits, options: &MethodOptions) -> Result<(), NotApplicable> {
        if !options.elsewhere {
            return Ok(());
        }
        if !traits.sums {
            let others: Vec<&str> = self.linear().filter(|m| m.traits.sums).map(|m| m.name).collect();
            return Err(NotApplicable::Problem(format!(
                "{name} needs more of the rows than sums, and they are elsewhere, in parts; take one of {}",
                others.join(", ")
            )));
        }
        if traits.rows == RowAccess::Batches && options.method.as_deref() != Some(name) {
            return Err(NotApplicable::Option(
            "rows are elsewhere, where many small questions cost more than few large ones unless rows are very many: planned only if it is asked for \
             by name"
                .into(),
        ));
        }
        Ok(())
    }

    /// Plans and certifies every method for `problem` within `budget`; the smallest predicted risk first, methods that do
    /// not apply last, with their reasons. Touches no record.
    ///
    /// The model behind the predictions is worth about a factor of two: methods within each factor of two of the best stay
    /// in the order of the registry, which puts one release before many, and full batches before samples; but one that takes ten times
    /// the work of the least of them, and that is more than a minute or so, comes after it. Where rows are so few and features so many that only an
    /// error that grows with ln d is of use ([`Regime::Sparse`]), methods with such an error come first: the common model of the data
    /// thinks too well of the others there. A method asked for by name comes before all others;
    /// the fixed options are its own then, and the others are planned with their defaults, for comparison. Where rows are elsewhere, in parts,
    /// one that is as good in fewer passes comes first (docs/decisions/0029).
    pub fn candidates(&self, problem: &Problem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
        if options.embedding.is_some() {
            let plan = |method: &Registered| Candidate {
                method: method.name,
                plan: self.check(options).and_then(|()| (method.plan)(self, problem, budget, options)),
            };
            return self.0.embedding.iter().map(plan).collect();
        }
        if let Err(why) = self.check(options) {
            return self.linear().map(|m| Candidate { method: m.name, plan: Err(why.clone()) }).collect();
        }
        let asked = self.of_the_answer(options);
        let by_name = |name: &str| options.method.as_deref() == Some(name);
        let stop = Stop::here();
        let planned = |method: &Registered| {
            let own = if options.method.is_none() || by_name(method.name) { options } else { &asked };
            Candidate { method: method.name, plan: stop.within(|| (method.plan)(self, problem, budget, own)) }
        };
        let mut all: Vec<Candidate> = in_threads(|| self.0.linear.par_iter().map(planned).collect());
        // what one Gaussian release of everything would leave: models of fewer directions than the encoder's promise some methods less
        let floor = problem.directions.as_ref().and_then(|_| (self.0.least_risk)(problem, budget).ok()).unwrap_or(0.0);
        let risk =
            |c: &Candidate| c.plan.as_ref().map_or(f64::INFINITY, |p| p.summary().predicted_excess_risk.max(floor));
        let best = all.iter().map(risk).fold(f64::INFINITY, f64::min);
        let octave = |c: &Candidate| octave(risk(c), best);
        let work = |c: &Candidate| {
            c.plan.as_ref().map_or(f64::INFINITY, |plan| work(plan.problem(), plan.summary().gradients))
        };
        let mut least: BTreeMap<u32, f64> = BTreeMap::new();
        for candidate in all.iter().filter(|c| is_certified(c)) {
            let of_octave = least.entry(octave(candidate)).or_insert(f64::INFINITY);
            *of_octave = of_octave.min(work(candidate));
        }
        let decade = |c: &Candidate| decade(work(c), least.get(&octave(c)).copied().unwrap_or(f64::INFINITY));
        let regimes = Regimes::of(problem, budget);
        let sparse = regimes.is_some_and(|all| all.at(problem.rows as f64) == Regime::Sparse);
        let regime = |c: &Candidate| !(sparse && c.plan.is_ok() && self.logarithmic(c.method));
        // stable: keeps the standing order within a factor of two
        all.sort_by_key(|c| {
            (!by_name(c.method), regime(c), octave(c), decade(c), self.stands_last(c.method, problem.loss))
        });
        if options.elsewhere && options.method.is_none() {
            let of = |c: &Candidate| InParts {
                usable: is_certified(c) && !self.stands_last(c.method, problem.loss),
                standing: (regime(c), decade(c)),
                risk: risk(c),
                passes: c.plan.as_ref().map_or(u64::MAX, |plan| plan.passes()),
            };
            let all_in_parts: Vec<InParts<_>> = all.iter().map(of).collect();
            if let Some(taken) = all.iter().position(is_certified)
                && let Some(place) = in_fewer_passes(&all_in_parts, taken)
            {
                all[..=place].rotate_right(1);
            }
        }
        all
    }

    /// Whether a method stands after all that predictions cannot tell from it.
    fn stands_last(&self, method: &str, loss: Loss) -> bool {
        self.find(method).is_some_and(|method| (method.traits.stands_last)(loss))
    }
    /// The method asked for by name, without the others; `None` if no name is given or no method has it.
    pub fn named(&self, problem: &Problem, budget: Budget, options: &MethodOptions) -> Option<Candidate> {
        let wanted = options.method.as_deref()?;
        if options.embedding.is_some() {
            return self.candidates(problem, budget, options).pop().filter(|c| c.method == wanted);
        }
        let method = self.linear().find(|method| method.name == wanted)?;
        let plan = self.check(options).and_then(|()| (method.plan)(self, problem, budget, options));
        Some(Candidate { method: method.name, plan })
    }

    /// Plans all methods and takes the one to run.
    pub fn choose(
        &self,
        problem: &Problem,
        budget: Budget,
        options: &MethodOptions,
    ) -> Result<Box<dyn Prepared>, NotApplicable> {
        self.check_options(options)?;
        let mut all = self.candidates(problem, budget, options);
        let chosen = first_applicable(&all, options)?;
        all.swap_remove(chosen).plan
    }

    /// Refuses values that no method could use, and a name that no method has.
    ///
    /// # Errors
    /// The first that is refused.
    pub fn check_values(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        self.check(options)?;
        if let Some(why) = options.method.as_deref().and_then(not_private) {
            return Err(NotApplicable::Option(why));
        }
        match options.method.as_deref() {
            Some(name) if options.embedding.is_none() && !self.linear().any(|method| method.name == name) => {
                Err(NotApplicable::Option(format!(
                    "there is no method `{name}`; leave it out for the best prediction, or choose one of {}",
                    self.names().collect::<Vec<_>>().join(", ")
                )))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what can be refused before a problem is known: values that no method could use, a name that no method has, options
    /// that the named method does not have, or that no method has together.
    ///
    /// # Errors
    /// The first that is refused.
    pub fn check_options(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        self.check_values(options)?;
        if options.embedding.is_some() {
            let Some(method) = &self.0.embedding else {
                return Err(NotApplicable::Option(
                    "no method here fits embedding models: leave the embedding out".into(),
                ));
            };
            return match options.method.as_deref() {
                Some(name) if name != method.name => Err(NotApplicable::Option(format!(
                    "`{name}` fits linear models; embedding models are fitted by {}: leave out the method",
                    method.name
                ))),
                _ => (method.accepts)(&options.clone().by(method.name)),
            };
        }
        let Some(name) = options.method.as_deref() else {
            let refusals: Vec<NotApplicable> = self.linear().filter_map(|m| (m.accepts)(options).err()).collect();
            if refusals.len() < self.0.linear.len() {
                return Ok(());
            }
            // options that exclude each other are the reason of every method that has them
            let clash = refusals.into_iter().find(|why| !why.to_string().starts_with("it has no option"));
            let said: Vec<String> = options.names().map(|name| format!("`{name}`")).collect();
            let none = || NotApplicable::Option(format!("no method has all of {}; leave one out", said.join(", ")));
            return Err(clash.unwrap_or_else(none));
        };
        self.linear().find(|method| method.name == name).map_or(Ok(()), |method| (method.accepts)(options))
    }
}

/// All options of `methods`, each once.
fn catalogue<'a>(methods: impl Iterator<Item = &'a Registered>) -> Vec<Described> {
    let mut all: Vec<Described> = Vec::new();
    methods.for_each(|method| Described::add(&mut all, method.name, (method.options)()));
    all
}

/// Where a record is a unit: the plan for units, if the method can take them, or else the plan for rows one by one, if something bounds how many a unit has.
/// A method that can take both never does better by row: k rows of a unit, each clipped to C and with noise for k of them, are a sum of means with noise for
/// one, clipped row by row before the mean is taken.
fn by_unit_or_row<A: Algorithm>(
    algorithm: A,
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    if !problem.is_pooled() {
        return prepare(algorithm, problem, budget);
    }
    let by_unit = match A::TRAITS.pools {
        true => prepare(algorithm.clone(), problem, budget),
        false => Err(NotApplicable::Problem(format!(
            "{} works on rows one by one: give a bound on the rows of a unit (--max-rows-per-unit; in Python max_rows_per_unit), so that its guarantee \
             for a row becomes one for so many",
            A::NAME
        ))),
    };
    // one that takes units, though not with what it does by itself, is planned for groups of rows if it is asked for: their accounting takes seconds
    let named = !A::TRAITS.pools || options.embedding.is_some() || options.method.as_deref() == Some(A::NAME);
    match (by_unit, problem.by_row().filter(|_| named)) {
        (Ok(units), _) => Ok(units),
        (Err(_), Some(rows)) => prepare(algorithm, &rows, budget),
        (Err(why), None) => Err(why),
    }
}

/// What fewer passes may cost: a share of the predicted risk, far below what predictions are good for.
const RISK_OF_FEWER_PASSES: f64 = 1.05;

/// What counts of a method where every pass is a question to a cluster.
struct InParts<S> {
    /// Whether it may come before others for its passes: certified, and not standing last for a reason that predictions do not know.
    usable: bool,
    /// What it stands behind others for, besides its risk.
    standing: S,
    risk: f64,
    passes: u64,
}

/// Of the method `taken` and those that stand as it does and whose predicted risk is at most 5 % above its own, the one that makes the fewest
/// passes, the first of equals; none if that is `taken`.
fn in_fewer_passes<S: PartialEq>(all: &[InParts<S>], taken: usize) -> Option<usize> {
    let most = RISK_OF_FEWER_PASSES * all[taken].risk;
    let as_good = |c: &InParts<S>| c.usable && c.standing == all[taken].standing && c.risk <= most;
    let fewest = all.iter().filter(|c| as_good(c)).map(|c| c.passes).min().filter(|n| *n < all[taken].passes)?;
    all.iter().position(|c| as_good(c) && c.passes == fewest)
}

/// Whether it can be taken without being asked for.
fn is_certified(candidate: &Candidate) -> bool {
    candidate.plan.as_ref().is_ok_and(|plan| plan.summary().grade() == Grade::Certified)
}

/// How often `risk` is twice the `best`: 0 within a factor of two, all that predictions are good for.
pub fn octave(risk: f64, best: f64) -> u32 {
    match (risk / best.max(f64::MIN_POSITIVE)).log2() {
        octaves if octaves.is_finite() => octaves.floor().clamp(0.0, 1e6) as u32,
        _ => u32::MAX,
    }
}

/// Multiplications and additions of so many gradients of one record: one for each entry of a row and each output, in the score and
/// in the sum.
pub fn work(problem: &Problem, gradients: f64) -> f64 {
    2.0 * products(problem, gradients)
}

/// What nobody waits long for: five to ten seconds on one core. A method is passed over for a cheaper one from ten times that on: at
/// 10⁷ gradients of rows with 500 entries and ten classes.
const NO_WAIT: f64 = 1e10;

/// How often a method takes ten times the `work` of the `least` that is as good, where that is more than nobody waits for.
fn decade(work: f64, least: f64) -> u32 {
    let decades = (work / least.max(NO_WAIT)).max(1.0).log10();
    if decades.is_finite() { decades.floor() as u32 } else { 0 }
}

/// The place of the candidate to run: the method asked for by name, or else the first that applies and is proved (research
/// grade is off unless it is asked for by name).
///
/// # Errors
/// Why there is none.
pub fn first_applicable(candidates: &[Candidate], options: &MethodOptions) -> Result<usize, NotApplicable> {
    let mut reasons = Vec::new();
    for (place, candidate) in candidates.iter().enumerate() {
        match (&candidate.plan, options.method.as_deref()) {
            (_, Some(wanted)) if wanted != candidate.method => continue,
            (Ok(_), Some(_)) => return Ok(place),
            (Err(why), Some(name)) => return Err(why.clone().of(name)),
            (Ok(plan), None) if plan.summary().grade() == Grade::Certified => return Ok(place),
            (Ok(_), None) => {}
            (Err(why), _) => reasons.push((candidate.method, why)),
        }
    }
    Err(none_applies(&reasons))
}

/// Longer reasons of one method are cut where they stand for others.
const LONGEST_REASON: usize = 320;

/// Why no method applies, in a sentence that begins with what to do: the reason that most methods share; what each lacks is for `explain`.
fn none_applies(reasons: &[(&str, &NotApplicable)]) -> NotApplicable {
    let too_weak = |why: &NotApplicable| {
        matches!(why, NotApplicable::Budget(CertifyError::Accounting(AccountingError::Unreachable(_))))
    };
    if reasons.iter().any(|(_, why)| too_weak(why)) {
        return NotApplicable::Problem(
            "no method applies: give a smaller epsilon, for example 20, or a larger delta: so little noise as this epsilon allows is not certified at this \
             delta (`explain` says what each method lacks)"
                .into(),
        );
    }
    // the same sentence with other numbers or names of options is the same reason
    let kind = |why: &NotApplicable| why.to_string().replace(|c: char| c.is_ascii_digit(), "");
    let kinds: Vec<String> = reasons.iter().map(|(_, why)| kind(why)).collect();
    let count = |kind: &String| kinds.iter().filter(|other| *other == kind).count();
    // the first of equals: candidates are in order
    let most = (0..kinds.len()).rev().max_by_key(|&i| count(&kinds[i]));
    NotApplicable::Problem(match most {
        None => "no method applies: what could be planned is of research grade, and runs only by name".into(),
        Some(at) => {
            let text: String = reasons[at].1.to_string().chars().take(LONGEST_REASON).collect();
            let of = match count(&kinds[at]) {
                1 => reasons[at].0.to_string(),
                count => format!("{count} of {} methods", reasons.len()),
            };
            format!("no method applies: {text} ({of}; `explain` says what each lacks)")
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::{Neighbours, Relation};

    #[test]
    fn a_method_is_passed_over_for_ten_times_the_work_only_where_somebody_would_wait() {
        assert_eq!([1e3, 9e10, 1.1e11, 2e12].map(|work| decade(work, 1e4)), [0, 0, 1, 2]);
        assert_eq!([1e12, 9e12, 1.1e13].map(|work| decade(work, 1e12)), [0, 0, 1]);
        assert_eq!(decade(f64::INFINITY, f64::INFINITY), 0);
        let problem = Problem {
            directions: None,
            before: None,
            calibrated: None,
            record: Default::default(),
            rows: 8000,
            features: 500,
            nonzeros: 500,
            row_norm: 1.0,
            loss: Loss::Softmax { classes: 10 },
            neighbours: Neighbours::of_records(Relation::ZeroOut),
        };
        assert_eq!(decade(work(&problem, 9.9e6), 1.0), 0);
        assert_eq!(decade(work(&problem, 1.01e7), 1.0), 1);
    }

    #[test]
    fn few_passes_come_first_only_where_nothing_else_speaks_against_them() {
        let method = |risk: f64, passes: u64| InParts { usable: true, standing: 0, risk, passes };
        let slow = || method(1.0, 100);
        assert_eq!(in_fewer_passes(&[slow(), method(1.04, 20), method(1.02, 30)], 0), Some(1));
        assert_eq!(in_fewer_passes(&[slow(), method(1.06, 20)], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), method(1.0, 100), method(1.0, 200)], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), method(1.02, 20), method(1.0, 20)], 0), Some(1));
        assert_eq!(in_fewer_passes(&[slow(), InParts { usable: false, ..method(0.5, 2) }], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), InParts { standing: 1, ..method(1.0, 20) }], 0), None);
        assert_eq!(in_fewer_passes(&[InParts { usable: false, ..slow() }, slow(), method(0.9, 20)], 1), Some(2));
    }
}
