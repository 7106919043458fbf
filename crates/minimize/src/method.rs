//! The methods that ship, and what a user may say of each.

use super::kind::{ALL, Method};
use super::o2nc_schedule::ConversionAsked;
use super::plan::{Asked, Candidate, MinimizePlan, plan};
use super::problem::{Answers, MinimizeProblem};
use super::registry::{MinimizeRegistry, Minimizer};
use super::schedule::{Averaged, Goal};
use super::spider_schedule::SpiderAsked;
use super::{net, o2nc, o2nc_once};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::options::common::{
    BALL_RADIUS, BOX_RADIUS, CORRELATION, GRADIENT_MOMENT, LEARNING_RATE, MOMENT_ORDER, MOMENTUM, REGULARIZATION,
    SAMPLING_PROBABILITY, SECOND_MOMENTUM, STEPS,
};
use dpopt_optimize::options::{Choice, MethodOptions, Range, Said, Setting};
use dpopt_optimize::plan::NotApplicable;
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
}

impl Minimizer for Method {
    type Options = Asked;

    fn name(&self) -> &'static str {
        Method::name(*self)
    }

    fn takes(&self, answers: Answers) -> bool {
        Method::takes(*self, answers)
    }

    fn by_name_only(&self) -> Option<&'static str> {
        Method::by_name_only(*self).then_some(
            "taken by name only: no loss was found on which it is ahead of descent (docs/methods/o2nc.md); give method, if it is what you want",
        )
    }

    fn instead_of(&self) -> Option<&'static str> {
        (*self == Self::GradientDescent).then_some(Self::Sgd.name())
    }

    fn read(&self, said: &Said<'_>) -> Asked {
        Method::read(*self, said)
    }

    fn plan(&self, asked: Asked, problem: &MinimizeProblem, budget: Budget) -> Result<MinimizePlan, NotApplicable> {
        match self {
            Self::Net => net::plan(problem, budget, &asked),
            Self::Conversion => o2nc::plan(problem, budget, &asked),
            Self::ConversionOnce => o2nc_once::plan(problem, budget, &asked),
            _ => plan(*self, problem, budget, asked),
        }
    }
}

/// The methods that ship.
pub fn registry() -> &'static MinimizeRegistry {
    static ALL_METHODS: LazyLock<MinimizeRegistry> =
        LazyLock::new(|| ALL.into_iter().fold(MinimizeRegistry::new(), MinimizeRegistry::with));
    &ALL_METHODS
}

/// [`MinimizeRegistry::candidates`] of the methods that ship.
pub fn candidates(problem: &MinimizeProblem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
    registry().candidates(problem, budget, options)
}

/// [`MinimizeRegistry::choose`] among the methods that ship.
///
/// # Errors
/// Why there is no plan.
pub fn choose(
    problem: &MinimizeProblem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<MinimizePlan, NotApplicable> {
    registry().choose(problem, budget, options)
}
