//! The curator of a run: the only one that turns [`Sensitive`] into [`Released`].
//!
//! It holds the certified event as a list of allowances. A release whose event is not among the remaining ones is
//! refused, so that a run can never release more than its plan certified, whatever the algorithm's code does.

use crate::{Released, Sensitive};
use dpopt_privacy::{Certificate, Event};
use serde::Serialize;
use thiserror::Error;

/// A randomised function with a known event. Sealed: only this crate's mechanisms are doors.
pub trait Mechanism: sealed::Sealed {
    /// What it reads.
    type Input;
    /// What it lets out.
    type Output;
    /// Exactly what [`apply`](Self::apply) does, as accounted.
    fn event(&self) -> Event;
    /// For the ledger table: what is released, for example `gradient sum`.
    fn label(&self) -> &'static str;
    /// The mechanism itself. Called by the curator only, after the charge.
    fn apply(&self, input: &Self::Input, noise: &mut dpopt_noise::NoiseSource) -> Result<Self::Output, CuratorError>;
}

pub(crate) mod sealed {
    /// Keeps foreign types out of [`Mechanism`](super::Mechanism).
    pub trait Sealed {}
}

/// Why a release was refused. Nothing was released.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum CuratorError {
    /// The plan's event has no (more) such release.
    #[error("a release of `{label}` was refused: the certified plan does not foresee it (a bug; please report it)")]
    Unforeseen {
        /// What the mechanism calls itself.
        label: &'static str,
    },
    /// The input's declared sensitivity is not the mechanism's.
    #[error("a release was refused: its input was clipped to {input} but the mechanism is calibrated for {mechanism}")]
    Sensitivity {
        /// Clip norm of the input.
        input: f64,
        /// Clip norm the noise was calibrated for.
        mechanism: f64,
    },
    /// A sampler could not be built for the planned scale.
    #[error("{0}")]
    Noise(String),
}

/// One line of a run's ledger.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReleaseRecord {
    /// What was released.
    pub label: &'static str,
    /// Its event.
    pub event: Event,
    /// How often in a row.
    pub count: u64,
}

struct Allowance {
    event: Event,
    remaining: u64,
}

/// Guards one run.
pub struct Curator {
    allowances: Vec<Allowance>,
    noise: dpopt_noise::NoiseSource,
    records: Vec<ReleaseRecord>,
}

impl Curator {
    /// Opens a run for a certified event. A file ledger must have been charged before.
    pub fn open(certificate: &Certificate, noise: dpopt_noise::NoiseSource) -> Self {
        let mut allowances = Vec::new();
        flatten(certificate.event(), 1, &mut allowances);
        Self { allowances, noise, records: Vec::new() }
    }

    /// Applies `mechanism` to `input` if the plan foresees exactly this release.
    pub fn release<M: Mechanism>(
        &mut self,
        mechanism: &M,
        input: &Sensitive<M::Input>,
    ) -> Result<Released<M::Output>, CuratorError> {
        let event = mechanism.event();
        self.charge(&event, mechanism.label())?;
        mechanism.apply(input.expose(), &mut self.noise).map(Released::new)
    }

    /// What has been released so far.
    pub fn records(&self) -> &[ReleaseRecord] {
        &self.records
    }

    fn charge(&mut self, event: &Event, label: &'static str) -> Result<(), CuratorError> {
        let allowance = self
            .allowances
            .iter_mut()
            .find(|a| a.remaining > 0 && a.event == *event)
            .ok_or(CuratorError::Unforeseen { label })?;
        allowance.remaining -= 1;
        match self.records.last_mut() {
            Some(last) if last.label == label && last.event == *event => last.count += 1,
            _ => self.records.push(ReleaseRecord { label, event: event.clone(), count: 1 }),
        }
        Ok(())
    }
}

/// Compositions become lists of leaves with multiplicities; sampled events and single leaves stay whole.
fn flatten(event: &Event, times: u64, out: &mut Vec<Allowance>) {
    match event {
        Event::NoOp => {}
        Event::Composed { events } => events.iter().for_each(|e| flatten(e, times, out)),
        Event::SelfComposed { event, count } => flatten(event, times.saturating_mul(*count), out),
        Event::Approximate { event, .. } => flatten(event, times, out),
        leaf => out.push(Allowance { event: leaf.clone(), remaining: times }),
    }
}
