//! The methods that ship, and what a user may say of each.

use super::kind::{ALL, Method};
use super::o2nc_schedule::ConversionAsked;
use super::plan::{Asked, Candidate, MinimizePlan, plan};
use super::problem::{Answers, MinimizeProblem};
use super::registry::{MinimizeRegistry, Minimizer};
use super::schedule::{Averaged, Goal};
use super::spider_schedule::SpiderAsked;
use super::{net, o2nc, o2nc_once, tree};
use dpopt_optimize::choices::Domain;
use dpopt_optimize::options::common::{
    BALL_RADIUS, BOX_RADIUS, CORRELATION, GRADIENT_MOMENT, LEARNING_RATE, MOMENT_ORDER, MOMENTUM, REGULARIZATION,
    SAMPLING_PROBABILITY, SECOND_MOMENTUM, STEPS,
};
use dpopt_optimize::options::{Choice, MethodOptions, OptionReader, Range, Setting};
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::Budget;
use std::sync::LazyLock;

static CLIP_NORM: Setting<f64> = Setting::real(
    "clip_norm",
    Range::POSITIVE,
    "l2 norm that one record's gradient is clipped to [default: 1; for accelerated-srgd, where it bounds a weighted \
     difference of two gradients, 1 + smoothness·distance/2]. For net and tree: bound on the change of a record's \
     loss per unit of distance from the start",
);
static PASSES: Setting<f64> = Setting::real(
    "passes",
    Range::POSITIVE,
    "number of times that each record is read, on average [default: 20; 1 for dp-ftrl, 200 for zeroth-order]",
);
static AVERAGE: Setting<Averaged> = Setting::choice(
    "average",
    &[
        Choice { word: "last-half", meaning: "mean of the last half of the iterates", value: Averaged::LastHalf },
        Choice { word: "last", meaning: "the last iterate", value: Averaged::Last },
        Choice { word: "all", meaning: "mean of all iterates, for which bounds are proved", value: Averaged::All },
    ],
    "which iterates make the result [default: last-half]",
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
    "what is minimized [default: empirical]",
);
static CHUNKS: Setting<u64> = Setting::whole(
    "chunks",
    "for goal population: number of disjoint chunks that each phase splits its records into; the most central result \
     of the chunks is used, so that a bad chunk has no effect [default: 1]",
);
static BATCHES: Setting<bool> = Setting::choice(
    "batches",
    &[
        Choice { word: "poisson", meaning: "each record independently with the sampling probability", value: false },
        Choice { word: "fixed", meaning: "fixed size, without replacement; needs more noise", value: true },
    ],
    "how a batch is drawn [default: poisson]",
);
static RESTARTS: Setting<u64> = Setting::whole(
    "restarts",
    "number of rounds on the same records; each starts where the previous one ended, with half its noise [default: \
     1]",
);
static SMOOTHING: Setting<f64> = Setting::real(
    "smoothing",
    Range::NOT_NEGATIVE,
    "radius, as a multiple of D·d^¼/T, of the ball around the point in which each record's gradient is evaluated; \
     for nonsmooth losses [default: 0; published: 1]",
);
static POINTS: Setting<u64> = Setting::whole(
    "points",
    "largest number of points of the net [default: as many as the error bound needs, at most 10^6 points and 10^9 \
     loss evaluations; for a callable 10^4 and 3·10^8]",
);
static LOSS_BOUND: Setting<f64> = Setting::real(
    "loss_bound",
    Range::POSITIVE,
    "for net and tree: losses are clipped to the range from 0 to this; noise is then proportional to it, instead of clip_norm \
     times the width of the domain [default: none]",
);
static DIRECTIONS: Setting<u64> = Setting::whole(
    "directions",
    "number of random directions of a step, whose derivatives are clipped as one vector [default: 8]. For o2nc and \
     one-pass-o2nc: directions of each record's estimate [default: four per dimension from values; from gradients \
     enough that a rotating gradient is not clipped, at most 64]",
);
static DIFFERENCE: Setting<f64> = Setting::real(
    "difference",
    Range::POSITIVE,
    "step h of the derivative (φ(x + hu) − φ(x − hu))/(2h), with u of length √d [default: 1e-3·distance/√d]",
);

impl Method {
    /// Asks for all that it has.
    fn read(self, options: &OptionReader<'_>) -> Asked {
        options.only_one(&BOX_RADIUS, &BALL_RADIUS);
        let (side, radius) = (options.get(&BOX_RADIUS), options.get(&BALL_RADIUS));
        let domain = side.map(|radius| Domain::Box { radius }).or(radius.map(|radius| Domain::Ball { radius }));
        if matches!(self, Self::Net | Self::Tree) {
            return Asked {
                clip_norm: options.get(&CLIP_NORM),
                domain: domain.unwrap_or_default(),
                points: if self == Self::Net { options.get(&POINTS) } else { None },
                loss_bound: options.get(&LOSS_BOUND),
                regularization: if self == Self::Tree { options.get(&REGULARIZATION) } else { None },
                ..Asked::default()
            };
        }
        let mut asked = Asked {
            steps: options.get(&STEPS),
            clip_norm: options.get(&CLIP_NORM),
            domain: domain.unwrap_or_default(),
            ..Asked::default()
        };
        if matches!(self, Self::Conversion | Self::ConversionOnce) {
            asked.conversion = match self {
                Self::Conversion => ConversionAsked::read(options),
                _ => ConversionAsked::of_one_pass(options),
            };
            asked.spider = SpiderAsked::of_conversion(options);
            asked.directions = options.get(&DIRECTIONS);
            return asked;
        }
        if self == Self::Spider {
            asked.spider = SpiderAsked::read(options);
            return asked;
        }
        if self == Self::OnePass {
            asked.spider = SpiderAsked::of_one_pass(options);
            return asked;
        }
        if !matches!(self, Self::ZerothOrder | Self::Recursive) {
            asked.moment = options.get(&GRADIENT_MOMENT);
            asked.moment_order = options.get(&MOMENT_ORDER);
        }
        if !matches!(self, Self::GradientDescent | Self::Recursive) {
            asked.passes = options.get(&PASSES);
        }
        if !matches!(self, Self::GradientDescent | Self::Ftrl | Self::Recursive) {
            asked.sampling_probability = options.get(&SAMPLING_PROBABILITY);
            asked.fixed = options.get(&BATCHES).unwrap_or(false);
        }
        if matches!(self, Self::Sgd | Self::GradientDescent | Self::Accelerated) {
            asked.goal = options.get(&GOAL).unwrap_or_default();
            asked.chunks = options.get(&CHUNKS);
        }
        if self == Self::Recursive {
            asked.correlation = options.get(&CORRELATION);
            return asked;
        }
        if self == Self::Accelerated {
            asked.restarts = options.get(&RESTARTS);
            asked.smoothing = options.get(&SMOOTHING);
            return asked;
        }
        asked.learning_rate = options.get(&LEARNING_RATE);
        asked.momentum = options.get(&MOMENTUM);
        asked.regularization = options.get(&REGULARIZATION);
        asked.average = options.get(&AVERAGE);
        match self {
            Self::Adam => asked.second_momentum = options.get(&SECOND_MOMENTUM),
            Self::Ftrl => asked.correlation = options.get(&CORRELATION),
            Self::ZerothOrder => {
                asked.directions = options.get(&DIRECTIONS);
                asked.difference = options.get(&DIFFERENCE);
            }
            Self::GradientDescent
            | Self::Sgd
            | Self::Accelerated
            | Self::Recursive
            | Self::Spider
            | Self::OnePass
            | Self::Net
            | Self::Tree
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
        Method::by_name_only(*self)
    }

    fn instead_of(&self) -> Option<&'static str> {
        (*self == Self::GradientDescent).then_some(Self::Sgd.name())
    }

    fn read(&self, options: &OptionReader<'_>) -> Asked {
        Method::read(*self, options)
    }

    fn plan(&self, asked: Asked, problem: &MinimizeProblem, budget: Budget) -> Result<MinimizePlan, NotApplicable> {
        match self {
            Self::Net => net::plan(problem, budget, &asked),
            Self::Tree => tree::plan(problem, budget, &asked),
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
