//! The fixed menu: events from a public list, each used at most once, in any adaptive order.
//!
//! Valid with the tightest accountant for the whole list: draw one sample of every event's pair in advance; given the
//! history each release is post-processing of its own sample, and order and stopping read only samples already used.

use super::{Refusal, Rule};
use crate::certify::CertifyError;
use crate::{Certificate, Event, Terms, certify};

/// A list of events that was certified as a whole.
///
/// ```
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, filter::Menu};
/// let events = vec![Event::gaussian(6.0), Event::gaussian(6.0), Event::laplace(20.0)];
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(2.0, 1e-5)?);
/// let mut menu = Menu::new(events, terms)?;
/// assert_eq!(menu.take(2)?, Event::laplace(20.0)); // whichever is useful first…
/// assert!(menu.take(2).is_err()); // …but each once
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Menu {
    certificate: Certificate,
    items: Vec<Option<Event>>,
}

impl Menu {
    /// Certifies the composition of all `events` within `terms`.
    pub fn new(events: Vec<Event>, terms: Terms) -> Result<Self, CertifyError> {
        let certificate = certify(&Event::composed(events.clone()), terms)?;
        Ok(Self { certificate, items: events.into_iter().map(Some).collect() })
    }

    /// Takes the event at `index`; refused if it was taken before or does not exist.
    pub fn take(&mut self, index: usize) -> Result<Event, Refusal> {
        self.items.get_mut(index).and_then(Option::take).ok_or_else(|| Refusal::Unsupported {
            rule: Rule::Basic,
            reason: format!("item {index} of the menu does not exist or was used; each item can be used once"),
        })
    }

    /// The guarantee of the whole menu, whatever part of it is used.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }
}
