//! When DP-SGD draws its noise lazily, decided from public facts, and with which numbers (docs/proofs/lazy-noise.md).
//!
//! Both ways have one law and one event. A dense step costs a noise variable and an update per weight; a lazy one some ten
//! times as much, but only per weight that the batch touches.

use super::{Average, DescentSchedule, Recipe};
use dpopt_draws::{LazyOptions, Phase, StepRule};
use dpopt_mechanism::progress::Progress;
use dpopt_mechanism::{Clipped, SparseDescent};
use dpopt_noise::Grid;
use dpopt_objective::objective::Objective;
use dpopt_objective::records::RecordSet;
use dpopt_optimize::plan::{Assumption, Problem};
use dpopt_optimize::planning::{COST_RATIO, entries};
use dpopt_privacy::Budget;
use std::fmt;
use std::marker::PhantomData;

/// The lazy path's finite precision may take this share of δ.
const SHARE_OF_DELTA: f64 = 1e-3;
const LAZY: &str = "lazily";

/// What the guarantee of a lazy run rests on besides.
pub(super) fn assumption() -> Assumption {
    Assumption::proved(
        "the noise of a weight that a batch does not touch is drawn when the weight is next read, or at the end, in \
         128-bit fixed point: its distribution is that of noise drawn at each step, up to a share of delta that is \
         accounted",
    )
}

/// When noise is drawn.
pub(super) enum Path {
    Lazy { total_variation: f64 },
    Eager { because: String },
}

impl Path {
    pub(super) fn is_lazy(&self) -> bool {
        matches!(self, Self::Lazy { .. })
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lazy { .. } => f.write_str(LAZY),
            Self::Eager { because } => write!(f, "at each step: {because}"),
        }
    }
}

impl DescentSchedule {
    /// Whether the noise of untouched weights is drawn lazily.
    pub fn is_lazy(&self) -> bool {
        self.noise_drawn == LAZY
    }
}

/// The way that costs less, or the one that was asked for if it can be certified.
pub(super) fn path(recipe: &Recipe, problem: &Problem, budget: Budget, q: f64, wanted: Option<bool>) -> Path {
    let eager = |because: String| Path::Eager { because };
    let weights = problem.weights() as f64;
    let touched = entries(problem, q * problem.rows as f64) * problem.loss.outputs() as f64;
    match wanted {
        Some(false) => return eager("as asked".into()),
        None if touched * COST_RATIO > weights => {
            return eager("the batches touch so many weights that lazy drawing would cost more".into());
        }
        _ => {}
    }
    // precision is worst for the least noise: the plan is checked against the multiplier that is assumed here
    let least = 0.1;
    let sharpest = match recipe.schedule(problem, (least, least * recipe.clip_norm), q, LAZY.into()) {
        Ok(schedule) => schedule,
        Err(why) => return eager(format!("lazy noise cannot be certified here ({why})")),
    };
    match lazy_options(&sharpest, problem).map(|o| o.total_variation()) {
        Some(Ok(total_variation))
            if total_variation * (1.0 + budget.epsilon().exp()) < SHARE_OF_DELTA * budget.delta() =>
        {
            Path::Lazy { total_variation }
        }
        Some(Ok(_)) => eager("so many steps leave too little precision for lazy noise".into()),
        Some(Err(why)) => eager(format!("lazy noise cannot be certified here ({why})")),
        None => eager("lazy noise takes at most 2^21 steps".into()),
    }
}

/// Whether the bound that was certified covers the planned run.
pub(super) fn fits(schedule: &DescentSchedule, problem: &Problem, total_variation: f64) -> bool {
    lazy_options(schedule, problem).is_some_and(|o| o.total_variation().is_ok_and(|tv| tv <= total_variation))
}

/// The schedule as a lazily noised recursion.
fn lazy_options(schedule: &DescentSchedule, problem: &Problem) -> Option<LazyOptions> {
    u32::try_from(schedule.steps).ok()?;
    let rule = |step: u64, average_weight| StepRule {
        learning_rate: schedule.rate(step) * schedule.per_record(problem),
        decay: schedule.decay(problem, step),
        momentum: schedule.momentum,
        average_weight,
    };
    // steps with one rule: stages of the rate, and what is averaged
    let first_averaged = match schedule.average {
        Average::Last => schedule.steps,
        Average::LastHalf | Average::All => schedule.first_averaged(),
    };
    let mut starts = schedule.rate_schedule.starts(schedule.steps);
    starts.push(first_averaged.min(schedule.steps));
    starts.push(schedule.steps);
    starts.sort_unstable();
    starts.dedup();
    let runs = starts
        .windows(2)
        .map(|pair| Phase {
            steps: (pair[1] - pair[0]) as u32,
            rule: rule(pair[0], if pair[0] >= first_averaged { 1.0 } else { 0.0 }),
        })
        .collect();
    let expected = schedule.sampling_probability * problem.rows as f64;
    Some(LazyOptions {
        dimension: problem.weights(),
        runs,
        noise_std: schedule.noise_std.next_up(),
        // a batch twice as large as expected whose records all agree on a coordinate still fits
        max_gradient: schedule.clip_norm * (2.0 * expected + 64.0).min(problem.rows as f64),
        grid: Grid::new(schedule.grid_exponent),
        max_reads: (problem.weights() as u64).saturating_mul(schedule.steps),
    })
}

/// The run as one release. An impossible schedule is refused when it is applied.
pub(crate) fn mechanism<'a, R: RecordSet, O: Objective<R>>(
    schedule: &DescentSchedule,
    problem: &Problem,
    gradient: Clipped<O>,
    progress: &'a dyn Progress,
) -> SparseDescent<'a, R, O> {
    let lazy = lazy_options(schedule, problem).unwrap_or_else(|| LazyOptions {
        dimension: problem.weights(),
        runs: Vec::new(),
        noise_std: schedule.noise_std,
        max_gradient: schedule.clip_norm,
        grid: Grid::new(schedule.grid_exponent),
        max_reads: u64::MAX,
    });
    SparseDescent {
        gradient,
        lazy,
        sampling_probability: schedule.sampling_probability,
        noise_multiplier: schedule.noise_multiplier,
        clip_norm: schedule.clip_norm,
        progress,
        records: PhantomData,
    }
}
