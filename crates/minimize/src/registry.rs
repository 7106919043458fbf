//! The methods that a program knows: planned, certified and compared for one problem, those that ship and user-defined ones.

use super::plan::{Candidate, MinimizePlan};
use super::problem::{Answers, MinimizeProblem};
use dpopt_optimize::options::{MethodOptions, OptionInfo, OptionReader, not_private, options_of, shown};
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::registry::Described;
use dpopt_privacy::Budget;
use std::fmt;
use std::sync::Arc;

/// A method that minimizes objectives: what can be said of it, and its certified plan.
///
/// A user-defined method makes its plan with [`MinimizePlan::along`], which certifies the sums that it follows, and is added to a registry by
/// [`MinimizeRegistry::with`].
pub trait Minimizer: Send + Sync + 'static {
    /// What was said of its options.
    type Options;

    /// Name, as in `method=`.
    fn name(&self) -> &'static str;

    /// Whether it is made for objectives that say so much.
    fn takes(&self, answers: Answers) -> bool {
        answers == Answers::Gradients
    }

    /// Why it is never taken unless it is named; `None`: it may be.
    fn by_name_only(&self) -> Option<&'static str> {
        None
    }

    /// The method that it is preferred to where its prediction is lower by more than predictions are worth.
    fn instead_of(&self) -> Option<&'static str> {
        None
    }

    /// Asks for all options that it has.
    fn read(&self, options: &OptionReader<'_>) -> Self::Options;

    /// The certified plan; touches no record.
    ///
    /// # Errors
    /// Why there is none.
    fn plan(
        &self,
        options: Self::Options,
        problem: &MinimizeProblem,
        budget: Budget,
    ) -> Result<MinimizePlan, NotApplicable>;
}

/// A [`Minimizer`] whatever its options are.
trait Known: Send + Sync {
    fn name(&self) -> &'static str;
    fn takes(&self, answers: Answers) -> bool;
    fn by_name_only(&self) -> Option<&'static str>;
    fn instead_of(&self) -> Option<&'static str>;
    fn options(&self) -> Vec<OptionInfo>;
    /// Refuses options that it does not have.
    fn accepts(&self, options: &MethodOptions) -> Result<(), NotApplicable>;
    fn plan(
        &self,
        options: &MethodOptions,
        problem: &MinimizeProblem,
        budget: Budget,
    ) -> Result<MinimizePlan, NotApplicable>;
}

/// What was said of a method; nothing that was said is ignored.
fn asked<M: Minimizer>(method: &M, options: &MethodOptions) -> Result<M::Options, NotApplicable> {
    let options = OptionReader::new(options);
    let asked = method.read(&options);
    options.all_used(method.name())?;
    Ok(asked)
}

impl<M: Minimizer> Known for M {
    fn name(&self) -> &'static str {
        Minimizer::name(self)
    }

    fn takes(&self, answers: Answers) -> bool {
        Minimizer::takes(self, answers)
    }

    fn by_name_only(&self) -> Option<&'static str> {
        Minimizer::by_name_only(self)
    }

    fn instead_of(&self) -> Option<&'static str> {
        Minimizer::instead_of(self)
    }

    fn options(&self) -> Vec<OptionInfo> {
        options_of(|options| {
            self.read(options);
        })
    }

    fn accepts(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        asked(self, options).map(drop)
    }

    fn plan(
        &self,
        options: &MethodOptions,
        problem: &MinimizeProblem,
        budget: Budget,
    ) -> Result<MinimizePlan, NotApplicable> {
        Minimizer::plan(self, asked(self, options)?, problem, budget)
    }
}

/// A prediction below so much of another one says more than predictions are worth.
const CLEARLY_LESS: f64 = 0.9;

/// The methods that a program knows, in their tie-break order: values of this type say what can be planned, and with which options.
///
/// [`registry`](super::registry) has those that ship; [`with`](Self::with) adds a user-defined one.
#[derive(Clone, Default)]
pub struct MinimizeRegistry {
    methods: Vec<Arc<dyn Known>>,
    catalogue: Vec<Described>,
}

impl fmt::Debug for MinimizeRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl MinimizeRegistry {
    /// A registry without any method.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a method, after the others in the tie-break order.
    ///
    /// # Panics
    /// If there is a method of that name, or it has an option whose name another one has for something else.
    #[must_use]
    pub fn with(mut self, method: impl Minimizer) -> Self {
        let name = method.name();
        assert!(self.find(name).is_none(), "there is a method `{name}` already");
        Described::add(&mut self.catalogue, name, Known::options(&method));
        self.methods.push(Arc::new(method));
        self
    }

    fn find(&self, name: &str) -> Option<&dyn Known> {
        self.methods.iter().find(|method| method.name() == name).map(|method| &**method)
    }

    /// Names of the methods, in the tie-break order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.methods.iter().map(|method| method.name())
    }

    /// All options of all methods, each once.
    pub fn catalogue(&self) -> &[Described] {
        &self.catalogue
    }

    /// Refuses names and values that no method takes.
    fn check_values(&self, options: &MethodOptions) -> Result<(), NotApplicable> {
        if let Some(name) = options.method.as_deref().filter(|name| self.find(name).is_none()) {
            return Err(NotApplicable::Option(self.no_method(name).into()));
        }
        for name in options.names() {
            let Some(option) = self.catalogue.iter().find(|option| option.info.name == name) else {
                return Err(Described::unknown(&self.catalogue, name));
            };
            options.given(name).map_or(Ok(()), |value| option.info.check(value))?;
        }
        Ok(())
    }

    fn no_method(&self, name: &str) -> String {
        if let Some(why) = not_private(name) {
            return why;
        }
        if name == "output-perturbation" {
            return "output-perturbation cannot be used with an objective of your own: its noise would depend on a \
                    gradient bound that nothing enforces, and a bound that is too small would break the guarantee; \
                    choose noisy-sgd or dp-adam, which clip gradients (dpopt fit has output-perturbation for linear \
                    models, whose rows are clipped)"
                .into();
        }
        format!(
            "there is no method `{}` for objectives; leave it out, or choose one of {}",
            shown(name),
            self.names().collect::<Vec<_>>().join(", ")
        )
    }

    /// Plans and certifies every method; touches no record. The method asked for by name comes first, then the others as they stand: stochastic before full-batch
    /// descent where its bound is as good, and after them what no measurement has shown to be better (docs/methods/minimize.md).
    pub fn candidates(&self, problem: &MinimizeProblem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
        let checked = problem.check().and_then(|()| self.check_values(options));
        let others = MethodOptions::default();
        let plan = |method: &dyn Known| {
            let named = options.method.as_deref() == Some(method.name());
            let own = if options.method.is_none() || named { options } else { &others };
            checked.clone().and_then(|()| match method.by_name_only().filter(|_| !named) {
                Some(why) => Err(NotApplicable::Problem(why.into())),
                None => method.plan(own, problem, budget),
            })
        };
        let mut all: Vec<Candidate> =
            self.methods.iter().map(|method| Candidate { method: method.name(), plan: plan(&**method) }).collect();
        let bound = |c: &Candidate| c.plan.as_ref().map_or(f64::INFINITY, |plan| plan.predicted_excess);
        for method in &self.methods {
            let place = |name: &str| all.iter().position(|c| c.method == name);
            if let (Some(own), Some(other)) = (place(method.name()), method.instead_of().and_then(place))
                && bound(&all[own]) < CLEARLY_LESS * bound(&all[other])
                && other < own
            {
                all[other..=own].rotate_right(1);
            }
        }
        // why a method does not apply that takes what was said comes before which options others have not
        let takes = |name: &str| self.find(name).is_some_and(|method| method.accepts(options).is_ok());
        all.sort_by_key(|c| (options.method.as_deref() != Some(c.method), c.plan.is_err(), !takes(c.method)));
        all
    }

    /// Refuses what every method refuses before it plans, with the reason of one that takes such objectives.
    ///
    /// # Errors
    /// The first that is refused.
    pub fn check(&self, problem: &MinimizeProblem, options: &MethodOptions) -> Result<(), NotApplicable> {
        problem.check()?;
        self.check_values(options)?;
        if options.method.is_some() {
            return Ok(());
        }
        let mut last = Ok(());
        for method in self.methods.iter().filter(|method| method.takes(problem.answers)) {
            match method.accepts(options) {
                Ok(()) => return Ok(()),
                refused => last = refused,
            }
        }
        last.map_err(|why| {
            let options: Vec<String> = options.names().map(|name| format!("`{name}`")).collect();
            match options.len() {
                1 => NotApplicable::Option(
                    format!(
                        "{} is not an option of any method for objectives that give {}; leave it out",
                        options[0],
                        if problem.answers == Answers::Gradients { "gradients" } else { "values or derivatives" }
                    )
                    .into(),
                ),
                _ => why,
            }
        })
    }

    /// The plan to run: of the method that is asked for, or of the first that applies.
    ///
    /// # Errors
    /// Why there is none.
    pub fn choose(
        &self,
        problem: &MinimizeProblem,
        budget: Budget,
        options: &MethodOptions,
    ) -> Result<MinimizePlan, NotApplicable> {
        self.check(problem, options)?;
        if let Some(named) = options.method.as_deref().and_then(|name| self.find(name)) {
            return named.plan(options, problem, budget);
        }
        let first = self.candidates(problem, budget, options).into_iter().next();
        first.map_or_else(|| Err(NotApplicable::Problem("no method".into())), |c| c.plan)
    }
}
