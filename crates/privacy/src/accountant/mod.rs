//! Accountants: upper bounds on ε(δ) and δ(ε) of an event.

pub mod conversion;
pub mod gdp;
mod integer_shift;
pub mod pld;
pub mod pure;
pub mod rdp;
pub(crate) mod sampler_error;
pub mod split;
pub mod zcdp;

use crate::{Budget, Event, Relation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A certified upper bound, with what is known about its slack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bound {
    /// The bound: ε for [`Accountant::epsilon`], δ for [`Accountant::delta`]. Rounded up.
    pub upper: f64,
    /// A certified lower bound on what the event's worst pair attains, where the accountant has one.
    pub lower: Option<f64>,
    /// Name of the accountant: `gdp`, `pure`, `zcdp`, `rdp`, `pld`, `split`.
    pub accountant: String,
    /// The bound for (with the record ‖ without it), where directions are told apart.
    #[serde(default)]
    pub with_to_without: Option<f64>,
    /// The bound for (without the record ‖ with it), where directions are told apart.
    #[serde(default)]
    pub without_to_with: Option<f64>,
    /// Numerical slack of a lattice computation.
    #[serde(default)]
    pub slack: Option<Slack>,
}

/// What a lattice computation added to stay on the safe side; all of it is already inside [`Bound::upper`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slack {
    /// δ of losses beyond the grid.
    pub inf_mass: f64,
    /// δ added for rounding of the Fourier transform.
    pub fft: f64,
    /// Bound on δ added by aliasing (losses that wrap around the window), where it was worked out.
    #[serde(default)]
    pub alias: Option<f64>,
    /// Total variation charged by [`Event::Approximate`].
    pub total_variation: f64,
    /// Lattice step in ε.
    pub grid_interval: f64,
    /// Points of the Fourier window.
    pub window_points: usize,
    /// Exponential tilt λ (Rényi order minus one).
    pub tilt: f64,
}

impl Bound {
    /// A bound with nothing known about its slack.
    pub fn new(upper: f64, accountant: &str) -> Self {
        Self {
            upper,
            lower: None,
            accountant: accountant.into(),
            with_to_without: None,
            without_to_with: None,
            slack: None,
        }
    }

    /// A closed form: exact up to rounding, so that `lower` is known too.
    pub fn exact(lower: f64, upper: f64, accountant: &str) -> Self {
        Self { lower: Some(lower), ..Self::new(upper, accountant) }
    }
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
    /// `gdp`, `pure`, `zcdp`, `rdp`, `pld`, `split`.
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
    &[
        &gdp::GdpAccountant,
        &split::SplitAccountant,
        &pure::PureAccountant,
        &zcdp::ZcdpAccountant,
        &pld::Pld { quality: pld::Quality::BRACKET },
        &rdp::RdpAccountant,
    ]
}

/// δ must lie in [0, 1).
pub(crate) fn check_delta(delta: f64) -> Result<(), AccountingError> {
    if (0.0..1.0).contains(&delta) {
        return Ok(());
    }
    Err(AccountingError::Parameter(format!("delta is {delta}; give a number in [0, 1), for example 1e-6")))
}

/// ε must be finite and at least 0.
pub(crate) fn check_epsilon(epsilon: f64) -> Result<(), AccountingError> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        return Ok(());
    }
    Err(AccountingError::Parameter(format!("epsilon is {epsilon}; give a finite number, at least 0")))
}

/// The tightest ε that can be certified at `delta`.
pub fn epsilon(event: &Event, relation: Relation, delta: f64) -> Result<Bound, AccountingError> {
    epsilon_at(event, relation, delta, pld::Quality::FINE)
}

/// Proof by an accountant that needs no lattice that the event fits the budget, if there is one: exact for trees of
/// Gaussians; for objective perturbation one evaluation of δ at the budget's ε, which is then the bound.
pub fn closed_form(event: &Event, relation: Relation, budget: Budget) -> Option<Bound> {
    if let Ok(bound) = gdp::GdpAccountant.epsilon(event, relation, budget.delta()) {
        return (bound.upper <= budget.epsilon()).then_some(bound);
    }
    let spent = split::SplitAccountant.delta(event, relation, budget.epsilon()).ok()?;
    (spent.upper <= budget.delta()).then(|| Bound::new(budget.epsilon(), split::SplitAccountant.name()))
}

/// The tightest δ that can be certified at `epsilon`.
pub fn delta(event: &Event, relation: Relation, epsilon: f64) -> Result<Bound, AccountingError> {
    automatic(event, relation, pld::Quality::FINE, |a| a.delta(event, relation, epsilon))
}

/// [`epsilon`] at a chosen quality of the lattice computation.
pub fn epsilon_at(
    event: &Event,
    relation: Relation,
    delta: f64,
    quality: pld::Quality,
) -> Result<Bound, AccountingError> {
    automatic(event, relation, quality, |a| a.epsilon(event, relation, delta))
}

/// Every accountant's answer, for reports: those that do not support the event say why.
pub fn compare(
    event: &Event,
    relation: Relation,
    delta: f64,
) -> Vec<(&'static str, Result<Bound, AccountingError>)> {
    all().iter().map(|a| (a.name(), a.epsilon(event, relation, delta))).collect()
}

/// Whether a choice of bounded range is part of the event.
fn has_choice(event: &Event) -> bool {
    matches!(event, Event::ExponentialMechanism { .. }) || event.children().iter().any(has_choice)
}

/// A closed form where there is one; else the best of the lattice, the pure and the splitting accountant; the Rényi family
/// only when these have no number (it is never tighter than a lattice of exact pairs), or where the lattice has envelopes:
/// many choices of bounded range cost less by their exact Rényi curve.
fn automatic(
    event: &Event,
    relation: Relation,
    quality: pld::Quality,
    ask: impl Fn(&dyn Accountant) -> Result<Bound, AccountingError>,
) -> Result<Bound, AccountingError> {
    let named = |name: &str| all().iter().copied().find(|a| a.name() == name);
    if let Some(Ok(bound)) = named("gdp").map(&ask) {
        return Ok(bound);
    }
    let lattice = ask(&pld::Pld { quality });
    let mut found = vec![lattice.clone()];
    found.extend(["pure", "split"].into_iter().filter_map(named).map(&ask));
    // where the samplers' errors leave nothing of δ at the lattice's ε, they leave nothing at a larger one
    let used_up = matches!(lattice, Err(AccountingError::Unreachable(_)))
        && event.exact(relation).is_ok_and(|exact| exact.total_variation > 0.0);
    if (found.iter().all(Result::is_err) || has_choice(event)) && !used_up {
        found.extend(["zcdp", "rdp"].into_iter().filter_map(named).map(&ask));
    }
    // what is attained does not depend on who bounds it
    let attained = lattice.as_ref().ok().and_then(|b| b.lower);
    let least = found.into_iter().flatten().min_by(|a, b| a.upper.total_cmp(&b.upper)).map(|mut bound| {
        bound.lower = bound.lower.or(attained);
        bound
    });
    // the lattice accountant's reason is the most telling
    least.map_or(lattice, Ok)
}

#[cfg(test)]
mod integers_and_choices_tests;
