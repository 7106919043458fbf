//! Every method for linear models that a program knows, planned for one problem and sorted by predicted risk: the table of `explain`, and
//! `method = auto` takes its first row.

use crate::algorithm::{Algorithm, Capabilities, RowAccess};
use crate::options::common::{CALIBRATION, INTERVALS};
use crate::options::{
    MethodOptions, NO_SUCH_OPTION, OptionInfo, OptionReader, nearest, not_private, options_of, shown, usual_name,
};
use crate::plan::{Grade, NotApplicable, Problem};
use crate::planning::{MAX_DENSE_FEATURES, products};
use crate::prepared::{Candidate, Prepared, prepare};
use crate::regime::{Regime, Regimes};
use crate::selection::{Compared, Reason, Selection, factor_of_two_bucket, first_applicable};
use dpopt_objective::loss::Loss;
use dpopt_privacy::Budget;
use dpopt_process::in_threads;
use dpopt_process::stop::Stop;
use dpopt_refusal::{Part, Refusal, Text, option, setting, text};
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Plans one method within a registry, whose other methods it may name where it refuses.
pub type Planner = fn(&Registry, &Problem, Budget, &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable>;

/// A method as the registry knows it.
#[derive(Clone)]
struct Registered {
    name: &'static str,
    about: &'static str,
    capabilities: Capabilities,
    options: fn() -> Vec<OptionInfo>,
    /// Refuses options that it does not have, or that exclude each other.
    accepts: fn(&MethodOptions) -> Result<(), NotApplicable>,
    plan: Planner,
}

fn registered<A: Algorithm>(plan: Planner) -> Registered {
    Registered {
        name: A::NAME,
        about: A::ABOUT,
        capabilities: A::CAPABILITIES,
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
fn read<A: Algorithm>(said: &OptionReader<'_>) -> A {
    if A::CAPABILITIES.calibrates {
        said.get(&CALIBRATION);
    }
    if A::CAPABILITIES.intervals {
        said.get(&INTERVALS);
    }
    A::read(said)
}

/// What the user said, as options of the method; nothing that was said is ignored.
///
/// # Errors
/// An option that the method does not have, with the nearest that it has, or options that exclude each other.
pub fn asked<A: Algorithm>(options: &MethodOptions) -> Result<A, NotApplicable> {
    let said = OptionReader::new(options);
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
    /// Names of the methods, in the tie-break order.
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
        let near = nearest(name, &known)
            .map_or(Text::default(), |near| text!["; did you mean ", option(near.to_string()), "?"]);
        NotApplicable::Option(text!["there is no option ", option(shown(name).to_string())].and(near).into())
    }
}

/// The methods that a program knows: values of this type say what can be planned, in which order, and with which options.
///
/// `dpopt_linear::registry` has those that ship; [`with`](Self::with) adds a user-defined one.
#[derive(Clone)]
pub struct Registry(Arc<Methods>);

#[derive(Clone)]
struct Methods {
    /// In the tie-break order: one release before many, full batches before samples.
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

    /// With a method of linear models, after the others in the tie-break order.
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

    /// This registry with the method of embedding models.
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

    /// Names of the methods for linear models, as in `--method`, in the tie-break order.
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
                        return Err(NotApplicable::Option(
                            Refusal::of(text![
                                Part::Option(name.to_string().into()),
                                " is an option of embedding models, and this model is linear"
                            ])
                            .or("ask for an embedding model")
                            .or("leave the option out"),
                        ));
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
        self.find(method).map(|method| method.capabilities.rows)
    }

    /// The method that is taken where rows are on disk and none is named: the first that reads them in batches and has every
    /// option that was said, or else the first such that passes over them.
    pub fn first_from_disk(&self, options: &MethodOptions) -> Option<&'static str> {
        let has_all = |method: &Registered| {
            let own = (method.options)();
            options.names().all(|name| own.iter().any(|info| info.name == name))
        };
        let first = |access| self.linear().find(|m| m.capabilities.rows == access && has_all(m));
        first(RowAccess::Batches).or_else(|| first(RowAccess::Passes)).map(|m| m.name)
    }

    /// Whether a method's proved error grows with ln d and not with √d.
    pub fn logarithmic(&self, method: &str) -> bool {
        self.find(method).is_some_and(|method| method.capabilities.logarithmic)
    }

    /// Plans a method whose options are read by `read` as the registry plans its own: a reference only if it is named, for remote rows only
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
        if A::CAPABILITIES.reference && options.method.as_deref() != Some(A::NAME) {
            return Err(NotApplicable::Option(Refusal::of(text![
                "a reference method from the literature, which is planned only by name: ",
                setting("method", A::NAME)
            ])));
        }
        self.told(A::NAME, A::CAPABILITIES, options)?;
        by_unit_or_row(read(options)?, problem, budget, options)
    }

    /// Refuses a method that needs more than sums of remote rows. One of many small sums is planned there if it is asked for: an aggregate query costs
    /// more than its rows, unless they are very many.
    fn told(&self, name: &str, capabilities: Capabilities, options: &MethodOptions) -> Result<(), NotApplicable> {
        if !options.remote {
            return Ok(());
        }
        if !capabilities.sums {
            let others: Vec<&str> = self.linear().filter(|m| m.capabilities.sums).map(|m| m.name).collect();
            return Err(NotApplicable::Problem(
                format!(
                    "{name} needs more than sums over rows, and remote records answer with sums only; choose one of \
                     {}",
                    others.join(", ")
                )
                .into(),
            ));
        }
        if capabilities.rows == RowAccess::Batches && options.method.as_deref() != Some(name) {
            return Err(NotApplicable::Option(
                "the records are remote: a method of many small batches queries them too often, unless there are very \
             many rows; it is planned only if it is chosen by name"
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
    /// the fixed options are its own then, and the others are planned with their defaults, for comparison. Where rows are in remote partitions,
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
        let factor_of_two_bucket = |c: &Candidate| factor_of_two_bucket(risk(c), best);
        let work = |c: &Candidate| {
            c.plan.as_ref().map_or(f64::INFINITY, |plan| work(plan.problem(), plan.summary().gradients))
        };
        let mut least: BTreeMap<u32, f64> = BTreeMap::new();
        for candidate in all.iter().filter(|c| is_certified(c)) {
            let of_bucket = least.entry(factor_of_two_bucket(candidate)).or_insert(f64::INFINITY);
            *of_bucket = of_bucket.min(work(candidate));
        }
        let decade =
            |c: &Candidate| decade(work(c), least.get(&factor_of_two_bucket(c)).copied().unwrap_or(f64::INFINITY));
        let regimes = Regimes::of(problem, budget);
        let sparse = regimes.is_some_and(|all| all.at(problem.rows as f64) == Regime::Sparse);
        let regime = |c: &Candidate| !(sparse && c.plan.is_ok() && self.logarithmic(c.method));
        // stable: keeps the tie-break order within a factor of two
        all.sort_by_key(|c| {
            (
                !by_name(c.method),
                regime(c),
                factor_of_two_bucket(c),
                decade(c),
                self.stands_last(c.method, problem.loss),
            )
        });
        if options.remote && options.method.is_none() {
            let of = |c: &Candidate| InPartitions {
                usable: is_certified(c) && !self.stands_last(c.method, problem.loss),
                tie_break: (regime(c), decade(c)),
                risk: risk(c),
                passes: c.plan.as_ref().map_or(u64::MAX, |plan| plan.passes()),
            };
            let all_in_parts: Vec<InPartitions<_>> = all.iter().map(of).collect();
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
        self.find(method).is_some_and(|method| (method.capabilities.stands_last)(loss))
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
        let chosen = self.select(&all, options)?.place;
        all.swap_remove(chosen).plan
    }

    /// Which of the planned `candidates` runs, and why: the method that is asked for by name, or else the first that applies and is proved (research grade
    /// runs by name only).
    ///
    /// # Errors
    /// Why there is none.
    pub fn select(&self, candidates: &[Candidate], options: &MethodOptions) -> Result<Selection, NotApplicable> {
        let place = first_applicable(candidates, options)?;
        let reason = match options.method {
            Some(_) => Reason::ByName,
            None => self.reason(candidates, place, options.remote),
        };
        Ok(Selection { place, reason })
    }

    /// Why the candidate at `place` stands before the others.
    fn reason(&self, candidates: &[Candidate], place: usize, remote: bool) -> Reason {
        let planned =
            |c: &Candidate| c.plan.as_ref().ok().filter(|plan| plan.summary().grade() < Grade::Research).is_some();
        let applicable: Vec<&Candidate> = candidates.iter().filter(|c| planned(c)).collect();
        let chosen = candidates[..place].iter().filter(|c| planned(c)).count();
        let plan =
            |c: &Candidate| c.plan.as_ref().ok().map(|plan| (plan.summary().predicted_excess_risk, plan.passes()));
        if remote
            && let [Some((risk, passes)), Some((of_next, next))] =
                [applicable.first(), applicable.get(1)].map(|c| plan(c?))
            && chosen == 0
            && risk > of_next
            && passes < next
        {
            return Reason::FewerPasses { passes, other: applicable[1].method.into(), of_other: next };
        }
        let compared = applicable.into_iter().filter_map(|c| {
            let plan = c.plan.as_ref().ok()?;
            Some(Compared {
                method: c.method,
                risk: plan.summary().predicted_excess_risk,
                gradients: plan.summary().gradients,
                tie_break: self.linear().position(|m| m.name == c.method).unwrap_or(usize::MAX),
                logarithmic: self.logarithmic(c.method),
                stands_last: self.stands_last(c.method, plan.problem().loss),
            })
        });
        Reason::of(&compared.collect::<Vec<_>>(), chosen)
    }

    /// Refuses values that no method could use, and a name that no method has.
    ///
    /// # Errors
    /// The first that is refused.
    pub fn check_values(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        self.check(options)?;
        if let Some(why) = options.method.as_deref().and_then(not_private) {
            return Err(NotApplicable::Option(why.into()));
        }
        match options.method.as_deref() {
            Some(name) if options.embedding.is_none() && !self.linear().any(|method| method.name == name) => {
                let names: Vec<&str> = self.names().collect();
                let usual = usual_name(name).filter(|usual| names.contains(usual));
                let near = usual
                    .or_else(|| nearest(name, &names))
                    .map_or(String::new(), |near| format!(", did you mean `{near}`?"));
                Err(NotApplicable::Option(
                    format!(
                        "there is no method `{name}`{near}; leave it out to have the method with the smallest \
                         predicted error, or choose one of {}",
                        names.join(", ")
                    )
                    .into(),
                ))
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
                    "no method of this program fits embedding models; leave the embedding out".into(),
                ));
            };
            return match options.method.as_deref() {
                Some(name) if name != method.name => Err(NotApplicable::Option(
                    format!(
                        "`{name}` fits linear models only, and this is an embedding model; leave the method out, or \
                         choose {}",
                        method.name
                    )
                    .into(),
                )),
                _ => (method.accepts)(&options.clone().by(method.name)),
            };
        }
        let Some(name) = options.method.as_deref() else {
            let refusals: Vec<NotApplicable> = self.linear().filter_map(|m| (m.accepts)(options).err()).collect();
            if refusals.len() < self.0.linear.len() {
                return Ok(());
            }
            // options that exclude each other are the reason of every method that has them
            let clash = refusals.into_iter().find(|why| !why.to_string().starts_with(NO_SUCH_OPTION));
            let said = options.names().enumerate();
            let said = said.flat_map(|(i, name)| [if i > 0 { ", " } else { "" }.into(), option(name.to_string())]);
            let all = Text::from("no method has all of ").and(said.collect::<Text>());
            let none = || NotApplicable::Option(Refusal::of(all).or("leave out at least one of them"));
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
    let by_unit = match A::CAPABILITIES.supports_user_level {
        true => prepare(algorithm.clone(), problem, budget),
        false => Err(NotApplicable::Problem(Refusal::of(text![
            format!("{} clips row by row, so that a unit needs a public bound on its rows; give one (", A::NAME),
            option("max_rows_per_unit"),
            "), and the guarantee of one row is extended to that many"
        ]))),
    };
    // one that takes units, though not with what it does by itself, is planned for groups of rows if it is asked for: their accounting takes seconds
    let named = !A::CAPABILITIES.supports_user_level
        || options.embedding.is_some()
        || options.method.as_deref() == Some(A::NAME);
    match (by_unit, problem.by_row().filter(|_| named)) {
        (Ok(units), _) => Ok(units),
        (Err(_), Some(rows)) => prepare(algorithm, &rows, budget),
        (Err(why), None) => Err(why),
    }
}

/// What fewer passes may cost: a share of the predicted risk, far below what predictions are good for.
const RISK_OF_FEWER_PASSES: f64 = 1.05;

/// What counts of a method where every pass is a question to a cluster.
struct InPartitions<S> {
    /// Whether it may come before others for its passes: certified, and not standing last for a reason that predictions do not know.
    usable: bool,
    /// What it stands behind others for, besides its risk.
    tie_break: S,
    risk: f64,
    passes: u64,
}

/// Of the method `taken` and those that stand as it does and whose predicted risk is at most 5 % above its own, the one that makes the fewest
/// passes, the first of equals; none if that is `taken`.
fn in_fewer_passes<S: PartialEq>(all: &[InPartitions<S>], taken: usize) -> Option<usize> {
    let most = RISK_OF_FEWER_PASSES * all[taken].risk;
    let as_good = |c: &InPartitions<S>| c.usable && c.tie_break == all[taken].tie_break && c.risk <= most;
    let fewest = all.iter().filter(|c| as_good(c)).map(|c| c.passes).min().filter(|n| *n < all[taken].passes)?;
    all.iter().position(|c| as_good(c) && c.passes == fewest)
}

/// Whether it can be taken without being asked for.
fn is_certified(candidate: &Candidate) -> bool {
    candidate.plan.as_ref().is_ok_and(|plan| plan.summary().grade() == Grade::Certified)
}

/// Multiplications and additions of so many gradients of one record: one for each entry of a row and each output, in the score and
/// in the sum.
pub fn work(problem: &Problem, gradients: f64) -> f64 {
    2.0 * products(problem, gradients)
}

/// Seconds of one core that so many gradients take, within a factor of five: a nanosecond and a half for each addition and multiplication where rows are sparse, less than
/// half of that where they are dense. Reading and encoding a file is not in it.
pub fn core_seconds(problem: &Problem, gradients: f64) -> f64 {
    let dense = problem.nonzeros >= problem.features && problem.features <= MAX_DENSE_FEATURES;
    work(problem, gradients) * if dense { 0.65e-9 } else { 1.5e-9 }
}

/// Work that is short for a user: five to ten seconds on one core. A method is passed over for a cheaper one from ten times that on: at
/// 10⁷ gradients of rows with 500 entries and ten classes.
const NO_WAIT: f64 = 1e10;

/// How often a method takes ten times the `work` of the `least` that is as good, where that is more than nobody waits for.
fn decade(work: f64, least: f64) -> u32 {
    let decades = (work / least.max(NO_WAIT)).max(1.0).log10();
    if decades.is_finite() { decades.floor() as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_privacy::{Neighbours, Relation};

    #[test]
    fn time_grows_with_gradients_and_entries_and_dense_rows_take_less() {
        let neighbours = Neighbours::of_records(Relation::ZeroOut);
        let of = |nonzeros: usize| Problem { nonzeros, ..Problem::new(100_000, 2101, Loss::Squared, neighbours) };
        // forty passes over 100,000 rows of 250 entries
        assert!((core_seconds(&of(250), 4e6) - 3.0).abs() < 1e-9);
        assert!((core_seconds(&of(500), 8e6) - 12.0).abs() < 1e-9);
        let dense = Problem::new(100_000, 250, Loss::Squared, neighbours);
        assert!((core_seconds(&dense, 4e6) - 1.3).abs() < 1e-9);
    }

    #[test]
    fn a_method_is_passed_over_for_ten_times_the_work_only_where_somebody_would_wait() {
        assert_eq!([1e3, 9e10, 1.1e11, 2e12].map(|work| decade(work, 1e4)), [0, 0, 1, 2]);
        assert_eq!([1e12, 9e12, 1.1e13].map(|work| decade(work, 1e12)), [0, 0, 1]);
        assert_eq!(decade(f64::INFINITY, f64::INFINITY), 0);
        let problem = Problem {
            directions: None,
            prior_release: None,
            calibrated: None,
            intervals: None,
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
        let method = |risk: f64, passes: u64| InPartitions { usable: true, tie_break: 0, risk, passes };
        let slow = || method(1.0, 100);
        assert_eq!(in_fewer_passes(&[slow(), method(1.04, 20), method(1.02, 30)], 0), Some(1));
        assert_eq!(in_fewer_passes(&[slow(), method(1.06, 20)], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), method(1.0, 100), method(1.0, 200)], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), method(1.02, 20), method(1.0, 20)], 0), Some(1));
        assert_eq!(in_fewer_passes(&[slow(), InPartitions { usable: false, ..method(0.5, 2) }], 0), None);
        assert_eq!(in_fewer_passes(&[slow(), InPartitions { tie_break: 1, ..method(1.0, 20) }], 0), None);
        assert_eq!(in_fewer_passes(&[InPartitions { usable: false, ..slow() }, slow(), method(0.9, 20)], 1), Some(2));
    }
}
