//! The methods, what a user may say of each, and which is taken.

use super::kind::{ALL, METHODS, Method};
use super::o2nc_schedule::ConversionAsked;
use super::plan::{Asked, Candidate, MinimizePlan, plan};
use super::problem::{Answers, MinimizeProblem};
use super::schedule::{Averaged, Goal};
use super::spider_schedule::SpiderAsked;
use super::{net, o2nc, o2nc_once};

use dpopt_optimize::choices::Domain;

use dpopt_optimize::options::common::{
    BALL_RADIUS, BOX_RADIUS, CORRELATION, GRADIENT_MOMENT, LEARNING_RATE, MOMENT_ORDER, MOMENTUM, REGULARIZATION,
    SAMPLING_PROBABILITY, SECOND_MOMENTUM, STEPS,
};
use dpopt_optimize::options::{
    Choice, MethodOptions, OptionInfo, Range, Said, Setting, nearest, not_private, options_of, shown,
};
use dpopt_optimize::plan::NotApplicable;
use dpopt_optimize::registry::Described;
use dpopt_privacy::Budget;
use std::sync::LazyLock;

static CLIP_NORM: Setting<f64> = Setting::real(
    "clip_norm",
    Range::POSITIVE,
    "bound on the l2 norm of one record's gradient; larger ones are shortened to it [default: 1; for accelerated-srgd, where it bounds the weighted \
     difference of two, 1 + half of smoothness times distance]. Of net: bound on how much a record's loss changes per unit of distance from the start",
);
static PASSES: Setting<f64> = Setting::real(
    "passes",
    Range::POSITIVE,
    "how often each record is read, on average [default: 20; 1 for dp-ftrl, 200 for zeroth-order]",
);
static AVERAGE: Setting<Averaged> = Setting::choice(
    "average",
    &[
        Choice { word: "last-half", meaning: "mean of the last half of the iterates", value: Averaged::LastHalf },
        Choice { word: "last", meaning: "the last iterate", value: Averaged::Last },
        Choice { word: "all", meaning: "mean of all iterates: what bounds are proved for", value: Averaged::All },
    ],
    "what of the iterates is the answer [default: last-half]",
);
static GOAL: Setting<Goal> = Setting::choice(
    "goal",
    &[
        Choice { word: "empirical", meaning: "the mean loss of the records", value: Goal::Empirical },
        Choice {
            word: "population",
            meaning: "the expected loss of a further record of the same kind: phases on disjoint blocks of the records",
            value: Goal::Population,
        },
    ],
    "what is to be small [default: empirical]",
);
static CHUNKS: Setting<u64> = Setting::whole(
    "chunks",
    "of goal population: each phase on so many disjoint chunks of its records, of whose answers the most central one counts: a chunk that goes wrong does not \
     show [default: 1]",
);
static BATCHES: Setting<bool> = Setting::choice(
    "batches",
    &[
        Choice { word: "poisson", meaning: "each record by itself, with the sampling probability", value: false },
        Choice { word: "fixed", meaning: "always as many, without replacement: costs more noise", value: true },
    ],
    "how a batch is drawn [default: poisson]",
);
static RESTARTS: Setting<u64> = Setting::whole(
    "restarts",
    "rounds on the same records, each from where the last one ended and with half its noise [default: 1]",
);
static SMOOTHING: Setting<f64> = Setting::real(
    "smoothing",
    Range::NOT_NEGATIVE,
    "each record's gradient is taken near the point, in a ball of so many times D·d^¼/T: for losses with kinks [default: 0; published: 1]",
);
static POINTS: Setting<u64> = Setting::whole(
    "points",
    "most points of the net [default: as many as the bound asks for, at most 10^6, and 10^9 losses in all; of a callable 10^4, and 3·10^8]",
);
static LOSS_BOUND: Setting<f64> = Setting::real(
    "loss_bound",
    Range::POSITIVE,
    "of net: losses lie between 0 and this, and others are cut to that; noise is in proportion to it then, and no more to clip_norm times the domain's width [default: none]",
);
static DIRECTIONS: Setting<u64> = Setting::whole(
    "directions",
    "random directions of a step, whose derivatives are clipped as one vector [default: 8]. Of o2nc and one-pass-o2nc: of each record's estimate [default: by values four for each \
     dimension; of gradients as many that one turning gradient is not cut, at most 64]",
);
static DIFFERENCE: Setting<f64> = Setting::real(
    "difference",
    Range::POSITIVE,
    "h of a derivative (φ(x + hu) − φ(x − hu))/(2h), u of length √d [default: 1e-3 of the distance over √d]",
);

impl Method {
    /// Asks for all that it has.
    fn read(self, said: &Said<'_>) -> Asked {
        said.only_one(&BOX_RADIUS, &BALL_RADIUS);
        let (side, radius) = (said.get(&BOX_RADIUS), said.get(&BALL_RADIUS));
        let domain = side.map(|radius| Domain::Box { radius }).or(radius.map(|radius| Domain::Ball { radius }));
        if self == Self::Net {
            return Asked {
                clip_norm: said.get(&CLIP_NORM),
                domain: domain.unwrap_or_default(),
                points: said.get(&POINTS),
                loss_bound: said.get(&LOSS_BOUND),
                ..Asked::default()
            };
        }
        let mut asked = Asked {
            steps: said.get(&STEPS),
            clip_norm: said.get(&CLIP_NORM),
            domain: domain.unwrap_or_default(),
            ..Asked::default()
        };
        if matches!(self, Self::Conversion | Self::ConversionOnce) {
            asked.conversion = match self {
                Self::Conversion => ConversionAsked::read(said),
                _ => ConversionAsked::of_one_pass(said),
            };
            asked.spider = SpiderAsked::of_conversion(said);
            asked.directions = said.get(&DIRECTIONS);
            return asked;
        }
        if self == Self::Spider {
            asked.spider = SpiderAsked::read(said);
            return asked;
        }
        if self == Self::OnePass {
            asked.spider = SpiderAsked::of_one_pass(said);
            return asked;
        }
        if !matches!(self, Self::ZerothOrder | Self::Recursive) {
            asked.moment = said.get(&GRADIENT_MOMENT);
            asked.moment_order = said.get(&MOMENT_ORDER);
        }
        if !matches!(self, Self::GradientDescent | Self::Recursive) {
            asked.passes = said.get(&PASSES);
        }
        if !matches!(self, Self::GradientDescent | Self::Ftrl | Self::Recursive) {
            asked.sampling_probability = said.get(&SAMPLING_PROBABILITY);
            asked.fixed = said.get(&BATCHES).unwrap_or(false);
        }
        if matches!(self, Self::Sgd | Self::GradientDescent | Self::Accelerated) {
            asked.goal = said.get(&GOAL).unwrap_or_default();
            asked.chunks = said.get(&CHUNKS);
        }
        if self == Self::Recursive {
            asked.correlation = said.get(&CORRELATION);
            return asked;
        }
        if self == Self::Accelerated {
            asked.restarts = said.get(&RESTARTS);
            asked.smoothing = said.get(&SMOOTHING);
            return asked;
        }
        asked.learning_rate = said.get(&LEARNING_RATE);
        asked.momentum = said.get(&MOMENTUM);
        asked.regularization = said.get(&REGULARIZATION);
        asked.average = said.get(&AVERAGE);
        match self {
            Self::Adam => asked.second_momentum = said.get(&SECOND_MOMENTUM),
            Self::Ftrl => asked.correlation = said.get(&CORRELATION),
            Self::ZerothOrder => {
                asked.directions = said.get(&DIRECTIONS);
                asked.difference = said.get(&DIFFERENCE);
            }
            Self::GradientDescent
            | Self::Sgd
            | Self::Accelerated
            | Self::Recursive
            | Self::Spider
            | Self::OnePass
            | Self::Net
            | Self::Conversion
            | Self::ConversionOnce => {}
        }
        asked
    }

    fn options(self) -> Vec<OptionInfo> {
        options_of(|said| {
            self.read(said);
        })
    }

    fn asked(self, options: &MethodOptions) -> Result<Asked, NotApplicable> {
        let said = Said::new(options);
        let asked = self.read(&said);
        said.all_used(self.name())?;
        Ok(asked)
    }
}

/// All options of all methods of this task, each once.
pub fn catalogue() -> &'static [Described] {
    static CATALOGUE: LazyLock<Vec<Described>> = LazyLock::new(|| {
        let mut all: Vec<Described> = Vec::new();
        for method in ALL {
            for info in method.options() {
                match all.iter_mut().find(|known| known.info.name == info.name) {
                    Some(known) => known.methods.push(method.name()),
                    None => all.push(Described { info, methods: vec![method.name()] }),
                }
            }
        }
        all
    });
    &CATALOGUE
}

/// Refuses names and values that no method of this task takes.
fn check_values(options: &MethodOptions) -> Result<(), NotApplicable> {
    if let Some(why) = options.method.as_deref().and_then(not_private) {
        return Err(NotApplicable::Option(why));
    }
    if options.method.as_deref() == Some("output-perturbation") {
        return Err(NotApplicable::Option(
            "output-perturbation is no method for an objective of your own: its noise would rest on bounds on gradients that are told and that nothing \
             enforces, and one that is too small would break the guarantee; gradients that are clipped keep it whatever is told: take noisy-sgd or dp-adam \
             (dpopt fit has output-perturbation for linear models, whose rows are clipped)"
                .into(),
        ));
    }
    if let Some(name) = options.method.as_deref().filter(|name| !METHODS.contains(name)) {
        return Err(NotApplicable::Option(format!(
            "no method `{}` minimizes an objective; leave it out, or choose one of {}",
            shown(name),
            METHODS.join(", ")
        )));
    }
    for name in options.names() {
        let Some(option) = catalogue().iter().find(|option| option.info.name == name) else {
            let known: Vec<&str> = catalogue().iter().map(|option| option.info.name).collect();
            let near = nearest(name, &known).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
            return Err(NotApplicable::Option(format!("there is no option `{}`{near}", shown(name))));
        };
        options.said(name).map_or(Ok(()), |value| option.info.check(value))?;
    }
    Ok(())
}

/// The certified plan of one method.
fn planned(
    method: Method,
    problem: &MinimizeProblem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<MinimizePlan, NotApplicable> {
    let asked = method.asked(options)?;
    match method {
        Method::Net => net::plan(problem, budget, &asked),
        Method::Conversion => o2nc::plan(problem, budget, &asked),
        Method::ConversionOnce => o2nc_once::plan(problem, budget, &asked),
        _ => plan(method, problem, budget, asked),
    }
}

const BY_NAME_ONLY: &str = "taken by name only: no loss was found on which it is ahead of descent (docs/methods/o2nc.md); give method, if it is what you want";

/// Plans and certifies every method; touches no record. The method asked for by name comes first, then the others as they stand: stochastic before full-batch
/// descent where its bound is as good, and after them what no measurement has shown to be better (docs/methods/minimize.md).
pub fn candidates(problem: &MinimizeProblem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
    let checked = problem.check().and_then(|()| check_values(options));
    let named = |method: Method| options.method.as_deref() == Some(method.name());
    let others = MethodOptions::default();
    let mut all: Vec<Candidate> = ALL
        .iter()
        .map(|&method| {
            let own = if options.method.is_none() || named(method) { options } else { &others };
            let plan = checked.clone().and_then(|()| match method.by_name_only() && !named(method) {
                true => Err(NotApplicable::Problem(BY_NAME_ONLY.into())),
                false => planned(method, problem, budget, own),
            });
            Candidate { method: method.name(), plan }
        })
        .collect();
    let bound = |c: &Candidate| c.plan.as_ref().map_or(f64::INFINITY, |plan| plan.predicted_excess);
    // of the two plain ones the better bound, by more than predictions are worth
    if bound(&all[2]) < 0.9 * bound(&all[1]) {
        all.swap(1, 2);
    }
    // why a method does not apply that takes what was said comes before which options others have not
    let takes = |name: &str| ALL.iter().any(|method| method.name() == name && method.asked(options).is_ok());
    all.sort_by_key(|c| (options.method.as_deref() != Some(c.method), c.plan.is_err(), !takes(c.method)));
    all
}

/// Refuses what every method of the task refuses before it plans, with the reason of one that takes such objectives.
///
/// # Errors
/// The first that is refused.
pub fn check(problem: &MinimizeProblem, options: &MethodOptions) -> Result<(), NotApplicable> {
    problem.check()?;
    check_values(options)?;
    if options.method.is_some() {
        return Ok(());
    }
    let mut last = Ok(());
    for method in ALL.iter().filter(|method| method.takes(problem.answers)) {
        match method.asked(options) {
            Ok(_) => return Ok(()),
            refused => last = refused.map(drop),
        }
    }
    last.map_err(|why| {
        let said: Vec<String> = options.names().map(|name| format!("`{name}`")).collect();
        match said.len() {
            1 => NotApplicable::Option(format!(
                "{} is no option of a method for objectives that say {}; leave it out",
                said[0],
                if problem.answers == Answers::Gradients { "gradients" } else { "values or derivatives" }
            )),
            _ => why,
        }
    })
}

/// The plan to run: of the method that is asked for, or of the first that applies.
///
/// # Errors
/// Why there is none.
pub fn choose(
    problem: &MinimizeProblem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<MinimizePlan, NotApplicable> {
    check(problem, options)?;
    if let Some(&named) = ALL.iter().find(|method| options.method.as_deref() == Some(method.name())) {
        return planned(named, problem, budget, options);
    }
    let first = candidates(problem, budget, options).into_iter().next();
    first.map_or_else(|| Err(NotApplicable::Problem("no method".into())), |c| c.plan)
}
