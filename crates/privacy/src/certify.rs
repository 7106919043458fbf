//! The one place where a guarantee is established: an event against a budget.

use crate::accountant::pld::Quality;
use crate::accountant::{self, AccountingError, Bound};
use crate::rounding::six_digits_up;
use crate::{Budget, Event, Neighbours, Relation, Terms};
use dpopt_process::stop;
use thiserror::Error;

/// Proof that `event` fits `budget`: what a run is allowed to release.
#[derive(Clone, Debug)]
pub struct Certificate {
    event: Event,
    terms: Terms,
    bound: Bound,
}

/// Why an event is not certified.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum CertifyError {
    /// The event costs more than the budget allows.
    #[error(
        "the plan costs epsilon {} at delta {delta:e}, more than the budget's {allowed}; add noise, or raise the budget",
        six_digits_up(*needed)
    )]
    OverBudget {
        /// Certified ε of the event.
        needed: f64,
        /// ε of the budget.
        allowed: f64,
        /// δ of the budget.
        delta: f64,
    },
    /// No accountant has a bound.
    #[error(transparent)]
    Accounting(#[from] AccountingError),
}

/// Accounts `event` under the relation of `terms` and refuses it when it exceeds their budget. A closed form that already fits the budget is proof enough;
/// otherwise the tightest accountant that is valid for the event decides.
pub fn certify(event: &Event, terms: Terms) -> Result<Certificate, CertifyError> {
    stop::point();
    let Terms { budget, neighbours: Neighbours { relation, .. } } = terms;
    let bound = match accountant::closed_form(event, relation, budget) {
        Some(bound) => bound,
        None => accountant::epsilon_at(event, relation, budget.delta(), Quality::BRACKET)?,
    };
    if bound.upper > budget.epsilon() {
        return Err(CertifyError::OverBudget { needed: bound.upper, allowed: budget.epsilon(), delta: budget.delta() });
    }
    Ok(Certificate { event: event.clone(), terms, bound })
}

impl Certificate {
    /// The event: everything that may be released.
    pub fn event(&self) -> &Event {
        &self.event
    }
    /// What was allowed, and between which neighbours.
    pub fn terms(&self) -> Terms {
        self.terms
    }
    /// Between which data sets the bound holds.
    pub fn neighbours(&self) -> Neighbours {
        self.terms.neighbours
    }
    /// The neighbouring relation under which the bound holds.
    pub fn relation(&self) -> Relation {
        self.terms.neighbours.relation
    }
    /// The budget that was allowed.
    pub fn budget(&self) -> Budget {
        self.terms.budget
    }
    /// The certified ε at the budget's δ, and by which accountant.
    pub fn bound(&self) -> &Bound {
        &self.bound
    }
}
