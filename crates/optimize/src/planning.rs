//! What every linear method's plan shares: the Gaussian budget, sampler errors, calibration, checks of options.

use crate::options::OptionReader;
use crate::plan::{Assumption, NotApplicable, Problem};
pub use dpopt_mechanism::SamplerError;
use dpopt_mechanism::{Gaussian, Mechanism};
use dpopt_noise::Grid;
use dpopt_objective::loss::Loss;
use dpopt_objective::solver::{Accuracy, IntegerSums, MAX_CURVED_WEIGHTS, Scale, USUAL_PASSES};
use dpopt_privacy::{Budget, Certificate, Event, Relation, Shown, calibrate, special};
use dpopt_refusal::{Refusal, Text, option, text};

/// Regression targets are scaled to [−1, 1] by the encoder.
pub const TARGET_BOUND: f64 = 1.0;

/// μ such that one Gaussian release of noise C/μ on a sum of contributions of norm C meets the budget.
pub fn gaussian_mu(problem: &Problem, budget: Budget) -> Result<f64, NotApplicable> {
    require_delta(budget)?;
    Ok(remaining_mu(problem, budget.epsilon(), budget.delta()) / problem.relation().sum_sensitivity())
}

/// μ of Gaussian differential privacy that (ε, δ) leaves to the method for one record, after what is released before it.
pub fn remaining_mu(problem: &Problem, epsilon: f64, delta: f64) -> f64 {
    left_of_mu(problem, special::gaussian_mu(epsilon, delta))
}

/// What of the μ of a whole run is left to the method for one record.
pub fn left_of_mu(problem: &Problem, mu: f64) -> f64 {
    problem.method_mu(problem.prior_release.as_ref().map_or(mu, |prior_release| prior_release.rest_of(mu)))
        / problem.group() as f64
}

/// Gaussian noise has no pure guarantee.
pub fn require_delta(budget: Budget) -> Result<(), NotApplicable> {
    if budget.delta() > 0.0 {
        Ok(())
    } else {
        Err(NotApplicable::Problem("Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into()))
    }
}

/// Non-zeros of a row where no bound is public (LIBSVM rows may be full, but then nobody would choose that format), and beyond
/// which its entries are taken to be no smaller.
const TYPICAL_NONZEROS: usize = 128;

/// Cost of a weight that is reached by a batch's entries over that of one in a loop over all of them, on one thread.
pub const COST_RATIO: f64 = 8.0;

fn likely_nonzeros(problem: &Problem) -> usize {
    let most = if problem.nonzeros < problem.features { problem.nonzeros } else { TYPICAL_NONZEROS };
    most.min(problem.features)
}

/// Non-zeros of a row, from public facts: a row of norm R has entries of about R/√m.
pub fn typical_nonzeros(problem: &Problem) -> f64 {
    likely_nonzeros(problem).clamp(1, TYPICAL_NONZEROS) as f64
}

/// Entries of the rows of so many records, from public facts.
pub fn entries(problem: &Problem, records: f64) -> f64 {
    records * problem.rows_of_a_record() * likely_nonzeros(problem) as f64
}

/// Features beyond which rows whose entries nothing bounds are taken for words, and not for dense ones.
pub const MAX_DENSE_FEATURES: usize = 2048;

/// Products of entries with weights in so many gradients or values of one record, from public facts.
pub fn products(problem: &Problem, evaluations: f64) -> f64 {
    let evaluations = evaluations * problem.rows_of_a_record();
    let entries = if problem.features <= MAX_DENSE_FEATURES {
        evaluations * problem.nonzeros.min(problem.features) as f64
    } else {
        entries(problem, evaluations)
    };
    entries * problem.loss.outputs() as f64
}

/// The number of steps that the user asked for.
pub fn asked_steps(steps: Option<u64>) -> Result<Option<u64>, NotApplicable> {
    if steps == Some(0) {
        Err(NotApplicable::Option(Refusal::of(option("steps")).given("0").allowed("at least 1")))
    } else {
        Ok(steps)
    }
}

/// η on the mean loss: the one that the user asked for, or the largest that is stable.
pub fn asked_or_stable_rate(rate: Option<f64>, problem: &Problem) -> Result<f64, NotApplicable> {
    let stable = 1.0 / (problem.loss.facts().smoothness.unwrap_or(1.0) * (problem.row_norm * problem.row_norm));
    positive("the learning rate", rate.unwrap_or(stable))
}

/// Refuses a weight decay by half or more per step.
pub fn check_decay(decay: f64, regularization: f64, learning_rate: f64) -> Result<(), NotApplicable> {
    if decay < 0.5 {
        return Ok(());
    }
    Err(NotApplicable::Option(format!(
        "regularization {regularization} with learning rate {learning_rate} shrinks the weights by half or more per step; lower one of \
         them"
    ).into()))
}

/// The grid of a sum of at most `records` vectors of norm at most `clip_norm` with Gaussian noise of standard deviation `noise_std`, on which both can be made.
pub fn sum_grid(clip_norm: f64, noise_std: f64, records: u64, dimension: usize) -> Result<Grid, NotApplicable> {
    let grid = Grid::for_sum(clip_norm, noise_std, records, dimension);
    can_sum(clip_norm, noise_std, grid)?;
    Ok(grid)
}

/// [`sum_grid`] of the squares of the rows of `problem`: it has room for many more than a guess of their number says.
pub fn product_grid(clip_norm: f64, noise_std: f64, problem: &Problem) -> Result<Grid, NotApplicable> {
    let grid = Grid::for_products(clip_norm, noise_std, most_rows(problem));
    can_sum(clip_norm, noise_std, grid)?;
    Ok(grid)
}

/// Refuses a sum whose clip or whose noise can't be made on the grid: known now, and not when the budget is spent.
pub fn can_sum(clip_norm: f64, noise_std: f64, grid: Grid) -> Result<(), NotApplicable> {
    Ok(Gaussian::new(noise_std / clip_norm, clip_norm, grid, 1, "sum").can_draw()?)
}

/// What a clipped sum keeps.
pub fn clipped() -> Assumption {
    Assumption::enforced("each record's gradient has l2 norm at most the clip norm: enforced in exact integers")
}

/// What a Poisson batch of the curator's is.
pub fn sampled_secretly() -> Assumption {
    Assumption::enforced("each record enters each batch independently and secretly: drawn by the curator")
}

/// The smallest noise whose event is certified, together with what is released before it.
pub fn noise(
    problem: &Problem,
    budget: Budget,
    event_of: impl Fn(f64) -> Event,
) -> Result<(f64, Certificate), NotApplicable> {
    Ok(calibrate::noise(|noise| problem.whole(event_of(noise)), problem.neighbours.within(budget))?)
}

/// `value` if it lies in [low, high].
pub fn in_range(name: impl Into<Text>, value: f64, low: f64, high: f64) -> Result<f64, NotApplicable> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        let refusal = Refusal::of(name).given(Shown(value).to_string());
        Err(NotApplicable::Option(refusal.allowed(format!("a number from {low} to {high}"))))
    }
}

/// `value` if it is positive and finite.
pub fn positive(name: impl Into<Text>, value: f64) -> Result<f64, NotApplicable> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        let refusal = Refusal::of(name).given(Shown(value).to_string());
        Err(NotApplicable::Option(refusal.allowed("a positive, finite number")))
    }
}

/// (G, k) of the public promise (E‖gradient‖^k)^(1/k) ≤ G, if there is one.
pub fn asked_moment(root: Option<f64>, order: Option<f64>) -> Result<Option<(f64, f64)>, NotApplicable> {
    if order.is_some() && root.is_none() {
        return Err(NotApplicable::Option(
            text![option("moment_order"), " is given without ", option("gradient_moment"), "; give both, or neither"]
                .into(),
        ));
    }
    let order = order.unwrap_or(2.0);
    if !(order > 1.0 && order <= 64.0) {
        return Err(NotApplicable::Option(text![option("moment_order"), " is not above 1 and at most 64"].into()));
    }
    root.map(|root| Ok((positive("the moment of gradients", root)?, order))).transpose()
}

/// At least the number of records. Under add-or-remove it is protected and `rows` is a guess: sixteen times as many, and at
/// least sixteen million, is what a plan is made for and says it is made for ([`most_rows_assumption`]).
pub fn most_rows(problem: &Problem) -> u64 {
    match problem.relation() {
        Relation::AddOrRemove => problem.rows.max(1_000_000).saturating_mul(16),
        Relation::ZeroOut | Relation::ReplaceOne => problem.rows,
    }
}

/// What a report must say about [`most_rows`] where the number of records is protected.
pub fn most_rows_assumption(problem: &Problem) -> Option<Assumption> {
    let most = most_rows(problem);
    (problem.relation() == Relation::AddOrRemove).then(|| {
        Assumption::public(format!(
            "there are at most {most} records: a public bound, which limits the rounding errors of sums and, for \
             remote records, keeps integer sums from overflowing"
        ))
    })
}

/// The largest shift of a logistic loss that a minimiser in parts takes: beyond, the curvature where it begins is e^-shift, and steps of
/// Newton's method are many (docs/decisions/0029).
const MAX_SHIFT_IN_PARTS: f64 = 2.0;

/// Where the sums of a certified minimiser come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Solver {
    /// Rows in memory: sums of floats.
    #[default]
    Here,
    /// Rows in remote partitions: sums of integers, the same bits however the rows are divided.
    InPartitions,
}

impl Solver {
    /// The solver for where the options say that the rows are.
    pub fn of(options: &OptionReader<'_>) -> Self {
        if options.remote() { Self::InPartitions } else { Self::Here }
    }

    /// What it promises for the problem's records, a loss, λ of the sum objective and a linear term of norm at most `linear_norm`.
    pub fn accuracy(
        self,
        problem: &Problem,
        loss: Loss,
        regularization: f64,
        linear_norm: f64,
    ) -> Result<Accuracy, NotApplicable> {
        let grid_error = match self {
            Self::Here => 0.0,
            Self::InPartitions => {
                let weights = loss.outputs() * problem.features;
                if weights > MAX_CURVED_WEIGHTS {
                    return Err(NotApplicable::Problem(
                        format!(
                            "with remote records it needs the Hessian, and {weights} weights are more than the \
                         {MAX_CURVED_WEIGHTS} that fit; choose an iterative method such as noisy-gradient-descent"
                        )
                        .into(),
                    ));
                }
                if let Loss::Logistic { shift } = loss
                    && shift > MAX_SHIFT_IN_PARTS
                {
                    return Err(NotApplicable::Option(format!(
                        "with remote records the shift is at most {MAX_SHIFT_IN_PARTS}, since Newton's method takes \
                         many passes with a larger one; lower it, or fit where the rows are in memory"
                    ).into()));
                }
                if !matches!(loss, Loss::Logistic { .. } | Loss::Softmax { .. }) {
                    return Err(NotApplicable::Problem(
                        "with remote records it takes Newton steps of one pass each, and too many of them where the curvature of a loss jumps; use the logistic or softmax loss, or an iterative method such as noisy-gradient-descent"
                            .into(),
                    ));
                }
                let objective = problem.objective().with_loss(loss);
                IntegerSums::new(&objective, most_rows(problem), TARGET_BOUND).grid_error()
            }
        };
        let scale = Scale {
            rows: most_rows(problem),
            row_norm: problem.row_norm,
            loss,
            regularization,
            linear_norm,
            target_bound: TARGET_BOUND,
            grid_error,
        };
        Ok(scale.accuracy()?)
    }

    /// Passes over the records, on most tables.
    pub fn passes(self) -> f64 {
        match self {
            Self::Here => 15.0,
            Self::InPartitions => USUAL_PASSES as f64,
        }
    }
}

/// Refuses parameters of a loss that are outside their ranges.
fn check_loss(loss: Loss) -> Result<(), NotApplicable> {
    match loss {
        Loss::Logistic { shift } => in_range("the shift", shift, 0.0, 20.0).map(drop),
        Loss::Softmax { classes } => in_range("the number of classes", f64::from(classes), 2.0, 1e6).map(drop),
        Loss::Huber { threshold } => in_range("the Huber threshold", threshold, 1e-6, 1e6).map(drop),
        Loss::SmoothedHinge { width } => in_range("the width of the hinge", width, 1e-6, 1e6).map(drop),
        Loss::Poisson { top } => in_range("the largest count over the usual one", top, 1.5, 1e4).map(drop),
        Loss::Quantile { level, width } => {
            in_range("the width of the quantile's loss", width, 1e-6, 1.0)?;
            if level > 0.0 && level < 1.0 {
                return Ok(());
            }
            let refusal = Refusal::of("the level of the quantile").given(Shown(level).to_string());
            Err(NotApplicable::Option(refusal.allowed("a number between 0 and 1, neither of the two included")))
        }
        Loss::Squared | Loss::Absolute | Loss::Hinge | Loss::Sigmoid => Ok(()),
    }
}

/// Refuses problems no linear method can plan for.
pub fn check_problem(problem: &Problem) -> Result<(), NotApplicable> {
    positive("the row norm", problem.row_norm)?;
    check_loss(problem.loss)?;
    if problem.rows == 0 || problem.features == 0 {
        return Err(NotApplicable::Problem("there are no rows or no features; check the schema".into()));
    }
    Ok(())
}
