//! What every linear method's plan shares: the Gaussian budget, sampler errors, calibration, checks of options.

use crate::loss::Loss;
use crate::plan::{Assumption, NotApplicable, Problem};
pub(crate) use crate::sampler_error::SamplerError;
use crate::solver::{Accuracy, Scale};
use dpopt_privacy::{Budget, Certificate, Event, Relation, Shown, calibrate, special};

/// Regression targets are scaled to [−1, 1] by the encoder.
pub(crate) const TARGET_BOUND: f64 = 1.0;

/// μ such that one Gaussian release of noise C/μ on a sum of contributions of norm C meets the budget.
pub(crate) fn gaussian_mu(problem: &Problem, budget: Budget) -> Result<f64, NotApplicable> {
    require_delta(budget)?;
    Ok(special::gaussian_mu(budget.epsilon(), budget.delta()) / problem.relation().sum_sensitivity())
}

/// Gaussian noise has no pure guarantee.
pub(crate) fn require_delta(budget: Budget) -> Result<(), NotApplicable> {
    if budget.delta() > 0.0 {
        Ok(())
    } else {
        Err(NotApplicable::Problem("Gaussian noise needs delta > 0; give a small delta, for example 1e-6".into()))
    }
}

/// Non-zeros of a row beyond which its entries are taken to be no smaller.
const TYPICAL_NONZEROS: usize = 128;

/// Non-zeros of a row, from public facts: a row of norm R has entries of about R/√m.
pub(crate) fn typical_nonzeros(problem: &Problem) -> f64 {
    let most = if problem.nonzeros < problem.features { problem.nonzeros } else { TYPICAL_NONZEROS };
    most.min(problem.features).clamp(1, TYPICAL_NONZEROS) as f64
}

/// The smallest noise whose event is certified.
pub(crate) fn noise(
    problem: &Problem,
    budget: Budget,
    event_of: impl Fn(f64) -> Event,
) -> Result<(f64, Certificate), NotApplicable> {
    Ok(calibrate::noise(event_of, problem.neighbours.within(budget))?)
}

/// `value` if it lies in [low, high].
pub(crate) fn in_range(name: &str, value: f64, low: f64, high: f64) -> Result<f64, NotApplicable> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(NotApplicable::Option(format!("{name} is {}; give a number from {low} to {high}", Shown(value))))
    }
}

/// `value` if it is positive and finite.
pub(crate) fn positive(name: &str, value: f64) -> Result<f64, NotApplicable> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(NotApplicable::Option(format!("{name} is {}; give a positive, finite number", Shown(value))))
    }
}

/// At least the number of records. Under add-or-remove it is protected and `rows` is a guess: sixteen times as many, and at
/// least sixteen million, is what a plan is made for and says it is made for ([`most_rows_assumption`]).
pub(crate) fn most_rows(problem: &Problem) -> u64 {
    match problem.relation() {
        Relation::AddOrRemove => problem.rows.max(1_000_000).saturating_mul(16),
        Relation::ZeroOut | Relation::ReplaceOne => problem.rows,
    }
}

/// What a report must say about [`most_rows`] where the number of records is protected.
pub(crate) fn most_rows_assumption(problem: &Problem) -> Option<Assumption> {
    let most = most_rows(problem);
    (problem.relation() == Relation::AddOrRemove).then(|| {
        Assumption::public(format!(
            "there are at most {most} records: a public promise, which bounds the rounding errors of sums over them"
        ))
    })
}

/// What the solver promises for the problem's records, a loss, λ of the sum objective and a linear term of norm at most
/// `linear_norm`.
pub(crate) fn accuracy(
    problem: &Problem,
    loss: Loss,
    regularization: f64,
    linear_norm: f64,
) -> Result<Accuracy, NotApplicable> {
    let scale = Scale {
        rows: most_rows(problem),
        row_norm: problem.row_norm,
        loss,
        regularization,
        linear_norm,
        target_bound: TARGET_BOUND,
    };
    Ok(scale.accuracy()?)
}

/// Refuses parameters of a loss that are outside their ranges.
fn check_loss(loss: Loss) -> Result<(), NotApplicable> {
    match loss {
        Loss::Logistic { shift } => in_range("the shift", shift, 0.0, 20.0).map(drop),
        Loss::Softmax { classes } => in_range("the number of classes", f64::from(classes), 2.0, 1e6).map(drop),
        Loss::Huber { threshold } => in_range("the Huber threshold", threshold, 1e-6, 1e6).map(drop),
        Loss::SmoothedHinge { width } => in_range("the width of the hinge", width, 1e-6, 1e6).map(drop),
        Loss::Squared | Loss::Absolute | Loss::Hinge | Loss::Sigmoid => Ok(()),
    }
}

/// Refuses problems no linear method can plan for.
pub(crate) fn check_problem(problem: &Problem) -> Result<(), NotApplicable> {
    positive("the row norm", problem.row_norm)?;
    check_loss(problem.loss)?;
    if problem.rows == 0 || problem.features == 0 {
        return Err(NotApplicable::Problem("there are no rows or no features; check the schema".into()));
    }
    Ok(())
}
