//! The gate that every accountant's answer passes before anybody sees it (`docs/proofs/accounting-gate.md`).
//!
//! A certified lower bound and an upper bound of the same number cannot cross. Where they do, one of them is wrong, and then the
//! answer is an error and never the smallest of several: NaN, a δ below that of one part alone, an ε at which one part alone
//! exceeds δ, an answer below another accountant's lower bound, and a δ of zero for what is not purely private.

use super::pld::attained::delta_floor;
use super::pure::PureAccountant;
use super::{Accountant, AccountingError, Bound};
use dpopt_event::{Event, Relation};

/// Relative tolerance between bounds from below and above: stated numbers and parameters are rounded (a few 1e-16 each, up to 1e-12 in
/// sums of many parts), and δ multiplies that by at most the square of 38 deviations.
const ROUNDING: f64 = 1e-9;

fn contradicted(accountant: &str, reason: String) -> AccountingError {
    AccountingError::Contradicted { accountant: accountant.into(), reason }
}

/// Whether the event has a finite ε at δ = 0.
fn is_pure(event: &Event, relation: Relation) -> bool {
    PureAccountant.claim_epsilon(event, relation, 0.0).is_ok()
}

/// An answer to "which ε at `delta`".
pub(super) fn epsilon<A: Accountant + ?Sized>(
    accountant: &A,
    event: &Event,
    relation: Relation,
    delta: f64,
) -> Result<Bound, AccountingError> {
    super::check_delta(delta)?;
    if delta == 1.0 {
        accountant.supports(event, relation)?;
        return Ok(Bound::exact(0.0, 0.0, accountant.name()));
    }
    // linear arithmetic with δ below the normal numbers does not round upward
    let logarithmic = matches!(accountant.name(), "gdp" | "zcdp" | "rdp");
    let asked = if delta < f64::MIN_POSITIVE && !logarithmic { 0.0 } else { delta };
    let bound = accountant.claim_epsilon(event, relation, asked)?;
    let name = accountant.name();
    if !(bound.upper >= 0.0 && bound.upper.is_finite()) {
        return Err(contradicted(name, format!("epsilon {} is no number that could be met", bound.upper)));
    }
    if asked == 0.0 && !is_pure(event, relation) {
        return Err(AccountingError::Unreachable(
            "the event has no finite epsilon at delta 0 (or at one below 2.2e-308); give a positive delta, for example 1e-6".into(),
        ));
    }
    let floor = delta_floor(event, relation, bound.upper);
    if floor > delta * (1.0 + ROUNDING) + f64::MIN_POSITIVE {
        let upper = bound.upper;
        return Err(contradicted(
            name,
            format!("at epsilon {upper} the event's delta is at least {floor:e}, not {delta:e}"),
        ));
    }
    ordered(name, bound)
}

/// An answer to "which δ at `epsilon`".
pub(super) fn delta<A: Accountant + ?Sized>(
    accountant: &A,
    event: &Event,
    relation: Relation,
    epsilon: f64,
) -> Result<Bound, AccountingError> {
    super::check_epsilon(epsilon)?;
    let mut bound = accountant.claim_delta(event, relation, epsilon)?;
    let name = accountant.name();
    if !(bound.upper >= 0.0) {
        return Err(contradicted(name, format!("delta {} is no probability", bound.upper)));
    }
    bound.upper = bound.upper.min(1.0);
    // an underflow is not nothing: zero is said only where the pure accountant proves it
    let zero = || PureAccountant.claim_delta(event, relation, epsilon).is_ok_and(|b| b.upper == 0.0);
    if bound.upper < f64::MIN_POSITIVE && !zero() {
        bound.upper = f64::MIN_POSITIVE;
    }
    let floor = delta_floor(event, relation, epsilon);
    if bound.upper * (1.0 + ROUNDING) < floor {
        let upper = bound.upper;
        return Err(contradicted(name, format!("delta {upper:e} is below {floor:e}, which the event has at least")));
    }
    bound.lower = Some(bound.lower.map_or(floor, |lower| lower.max(floor)));
    ordered(name, bound)
}

/// An accountant's own bounds must not cross by more than rounding; then neither sign of zero nor rounding is seen.
fn ordered(name: &str, mut bound: Bound) -> Result<Bound, AccountingError> {
    if let Some(lower) = bound.lower {
        if !(lower <= bound.upper * (1.0 + ROUNDING) + f64::MIN_POSITIVE) {
            return Err(contradicted(name, format!("{} is below its own lower bound {lower}", bound.upper)));
        }
        bound.lower = Some(lower.min(bound.upper).max(0.0) + 0.0);
    }
    // −0.0 + 0.0 is 0.0
    bound.upper += 0.0;
    bound.with_to_without = bound.with_to_without.map(|x| x + 0.0);
    bound.without_to_with = bound.without_to_with.map(|x| x + 0.0);
    Ok(bound)
}

/// Several accountants' answers for one event: none may be below what another one shows to be attained. What is
/// attained does not depend on who bounds it, so every answer that stands gets the largest lower bound.
pub(super) fn reconcile<'a>(answers: impl IntoIterator<Item = &'a mut Result<Bound, AccountingError>>) {
    let mut answers: Vec<_> = answers.into_iter().collect();
    let attained = answers
        .iter()
        .flat_map(|a| a.as_ref().ok().and_then(|b| b.lower))
        .fold(None, |m: Option<f64>, l| Some(m.map_or(l, |m| m.max(l))));
    let Some(attained) = attained else { return };
    for answer in answers.iter_mut() {
        let Ok(bound) = answer.as_mut() else { continue };
        if attained > bound.upper * (1.0 + ROUNDING) + f64::MIN_POSITIVE {
            let reason = format!("{} is below {attained}, which another accountant shows to be attained", bound.upper);
            **answer = Err(contradicted(&bound.accountant.clone(), reason));
        } else {
            bound.lower = Some(attained.min(bound.upper));
        }
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;
