//! Finds the one free parameter of an event that meets a budget.

use crate::certify::{Certificate, CertifyError};
use crate::{Budget, Event, Relation};

/// Smallest noise parameter in `[low, high]` for which `event_of(parameter)` is certified within `budget`;
/// ε must not grow with the parameter. The returned certificate is of the returned value.
pub fn noise(
    event_of: impl Fn(f64) -> Event,
    relation: Relation,
    budget: Budget,
) -> Result<(f64, Certificate), CertifyError> {
    let _ = (event_of, relation, budget);
    todo!("bracketing and one certified evaluation")
}
