//! What every linear method's plan shares: the Gaussian budget, sampler errors, calibration, checks of options.

use crate::loss::Loss;
pub(crate) use crate::plan::{SAMPLER_ERROR, approximate};
use crate::plan::{NotApplicable, Problem};
use dpopt_privacy::{Budget, Certificate, Event, Relation, calibrate, special};

/// μ such that one Gaussian release of noise C/μ on a sum of contributions of norm C meets the budget.
pub(crate) fn gaussian_mu(problem: &Problem, budget: Budget) -> Result<f64, NotApplicable> {
    require_delta(budget)?;
    Ok(special::gaussian_mu(budget.epsilon(), budget.delta()) / problem.relation.sum_sensitivity())
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
    Ok(calibrate::noise(event_of, problem.relation, budget)?)
}

/// `value` if it lies in [low, high].
pub(crate) fn in_range(name: &str, value: f64, low: f64, high: f64) -> Result<f64, NotApplicable> {
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(NotApplicable::Option(format!("{name} is {value}; give a number from {low} to {high}")))
    }
}

/// `value` if it is positive and finite.
pub(crate) fn positive(name: &str, value: f64) -> Result<f64, NotApplicable> {
    if value > 0.0 && value.is_finite() {
        Ok(value)
    } else {
        Err(NotApplicable::Option(format!("{name} is {value}; give a positive, finite number")))
    }
}

/// τ of a certified minimiser, from public facts. Under add-or-remove the number of records is protected, so τ leaves room
/// for many more than guessed: the rounding error of up to fifteen times as many stays below it.
pub(crate) fn public_tolerance(problem: &Problem, slope: f64) -> f64 {
    let rows = if problem.relation == Relation::AddOrRemove { problem.rows.max(1_000_000) } else { problem.rows };
    super::solver::tolerance(rows, problem.row_norm, slope)
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
