//! Accountants: upper bounds on ε(δ) and δ(ε) of an event.

use crate::{Event, Relation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A certified upper bound, with what is known about its slack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The bound: ε for [`Accountant::epsilon`], δ for [`Accountant::delta`]. Rounded up.
    pub upper: f64,
    /// A certified lower bound on what the event's worst pair attains, where the accountant has one.
    pub lower: Option<f64>,
    /// Name of the accountant: `gdp`, `pure`, `zcdp`, `rdp`, `pld`.
    pub accountant: String,
}

/// Why an accountant gives no number.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum AccountingError {
    /// The accountant has no valid bound for this event under this relation.
    #[error("the {accountant} accountant does not support this event under {relation}: {reason}")]
    Unsupported {
        /// Which accountant.
        accountant: &'static str,
        /// Under which relation.
        relation: Relation,
        /// Why, and what to do.
        reason: String,
    },
    /// A parameter is outside its range.
    #[error("{0}")]
    Parameter(String),
    /// No finite ε exists at this δ (or no δ < 1 at this ε).
    #[error("{0}")]
    Unreachable(String),
}

/// One way to bound the privacy loss of an event.
pub trait Accountant: Sync {
    /// `gdp`, `pure`, `zcdp`, `rdp`, `pld`.
    fn name(&self) -> &'static str;
    /// Honest: `Ok` only if [`epsilon`](Self::epsilon) is a theorem for this event and relation.
    fn supports(&self, event: &Event, relation: Relation) -> Result<(), AccountingError>;
    /// Smallest ε this accountant can certify at `delta`.
    fn epsilon(&self, event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError>;
    /// Smallest δ this accountant can certify at `epsilon`.
    fn delta(&self, event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError>;
}

/// Every accountant, cheapest first.
pub fn all() -> &'static [&'static dyn Accountant] {
    &[]
}

/// The tightest ε over all accountants that support the event.
pub fn epsilon(event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
    best(all().iter().map(|a| a.epsilon(event, relation, delta)))
}

/// The tightest δ over all accountants that support the event.
pub fn delta(event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
    best(all().iter().map(|a| a.delta(event, relation, epsilon)))
}

fn best(bounds: impl Iterator<Item = Result<Bound, AccountingError>>) -> Result<Bound, AccountingError> {
    let mut best: Result<Bound, AccountingError> =
        Err(AccountingError::Parameter("no accountant supports this event".into()));
    for bound in bounds {
        match (&best, &bound) {
            (Ok(b), Ok(c)) if c.upper >= b.upper => {}
            (Ok(_), Err(_)) => {}
            _ => best = bound,
        }
    }
    best
}
