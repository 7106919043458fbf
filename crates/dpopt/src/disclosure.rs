//! What an organisation publishes about a release: an entry for the public registry of deployments, a checklist after NIST SP 800-226, a model card.
//!
//! Everything in these texts comes from the released file, from constants of this library, or from [`Facts`] that the publisher states. What the file does not say
//! and nobody states is marked as not known, or [`FILL_IN`]. The same file and facts give the same text.

mod attack;
mod audits;
mod card;
mod checklist;
mod facts;
mod markdown;
mod mechanisms;
mod registry;
mod release;
mod yaml;

pub use attack::{AttackBound, FALSE_POSITIVE_RATES, attack_bounds};
pub use audits::{AUDITS, Audit};
pub use checklist::{Item, checklist};
pub use facts::{FILL_IN, Facts, FactsError};
pub use release::{Product, Release, Unreadable};

use crate::recall::Recalls;
use thiserror::Error;

/// Which document is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// YAML for the registry of deployments (github.com/opendp/deployments-registry-data).
    Registry,
    /// Markdown: the checklist by NIST SP 800-226.
    Checklist,
    /// Markdown: a model card with the fields of Mitchell et al. (2019).
    ModelCard,
}

/// The events of a release cost more than it states, or a known fault says so: nothing is written about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("its guarantee does not hold: {0}")]
pub struct DoesNotHold(pub String);

impl Release {
    /// The document about this release, which ends with a line break. `recalls` are the faults of earlier versions that it is held against; those that may
    /// concern it are named.
    ///
    /// # Errors
    /// The guarantee does not follow from the events in the file, or a recall certainly concerns it, so that it cost more than it states.
    pub fn disclose(&self, recalls: &Recalls, facts: &Facts, form: Form) -> Result<String, DoesNotHold> {
        if let Some(fault) = self.guarantee.recompute().faults.into_iter().next() {
            return Err(DoesNotHold(fault));
        }
        if let Some(notice) = self.notices(recalls).iter().find(|notice| notice.refutes()) {
            return Err(DoesNotHold(notice.to_string()));
        }
        Ok(match form {
            Form::Registry => registry::entry(self, recalls, facts),
            Form::Checklist => card::checklist_page(self, recalls, facts),
            Form::ModelCard => card::model_card(self, recalls, facts),
        })
    }
}

#[cfg(test)]
mod tests;
