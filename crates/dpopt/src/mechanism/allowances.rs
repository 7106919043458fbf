//! What a certified event lets a run release: a list of leaves with how often each may still be taken.
//!
//! Compositions, in whatever way they nest, are lists of their leaves. What samples, or splits into blocks, stays one leaf: it is
//! taken by a release on such a sample, or by [opening the blocks](super::Blocks), each of which then has allowances of its own.

use crate::sampler_error::{Drawn, SamplerError};
use dpopt_privacy::{Certificate, Event};

/// Of one curator.
#[derive(Clone)]
pub(super) struct Allowances {
    leaves: Vec<Leaf>,
    /// What samplers may be off in all, and what they were so far. `None` if the event speaks of exact laws: of a guarantee
    /// with δ = 0, which can't pay for any distance, and says so.
    distance: Option<f64>,
    drawn: Drawn,
}

#[derive(Clone, PartialEq)]
struct Leaf {
    event: Event,
    remaining: u64,
}

/// Why something is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Denied {
    /// The event has no (more) such leaf.
    Unforeseen,
    /// Samplers would be further from their laws than what δ pays for.
    Distance,
}

impl Allowances {
    /// Of a certificate.
    pub(super) fn certified(certificate: &Certificate) -> Self {
        let exact = Self::exact(certificate.event());
        // a certificate with δ > 0 pays for its samplers in δ, or has none
        let distance = (certificate.budget().delta() > 0.0).then(|| distance(certificate.event(), 1.0));
        Self { distance, ..exact }
    }

    /// Of an event whose samplers are taken as exact.
    pub(super) fn exact(event: &Event) -> Self {
        let mut leaves = Vec::new();
        flatten(event, 1, &mut leaves);
        Self { leaves, distance: None, drawn: Drawn::default() }
    }

    /// Of a block whose event stands in this one's: samplers are counted where this one counts them.
    pub(super) fn of_block(&self, event: &Event) -> Self {
        Self { distance: self.distance.map(|_| distance(event, 1.0)), ..Self::exact(event) }
    }

    /// True if every leaf was taken.
    pub(super) fn is_spent(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.remaining == 0)
    }

    /// Takes every leaf of `event` and its samplers' error, or nothing.
    pub(super) fn take(&mut self, event: &Event, error: SamplerError) -> Result<(), Denied> {
        let mut wanted = Vec::new();
        flatten(event, 1, &mut wanted);
        if wanted.is_empty() {
            return Err(Denied::Unforeseen);
        }
        let mut left = self.leaves.clone();
        for need in &wanted {
            let mut count = need.remaining;
            for leaf in left.iter_mut().filter(|leaf| leaf.event == need.event) {
                let taken = count.min(leaf.remaining);
                leaf.remaining -= taken;
                count -= taken;
            }
            if count > 0 {
                return Err(Denied::Unforeseen);
            }
        }
        self.draw(error)?;
        self.leaves = left;
        Ok(())
    }

    /// Takes the error of a draw that is no release, such as a batch's.
    pub(super) fn draw(&mut self, error: SamplerError) -> Result<(), Denied> {
        // what is no number is denied too
        if self.distance.is_some_and(|most| !(self.drawn.with(error) <= most)) {
            return Err(Denied::Distance);
        }
        self.drawn.add(error);
        Ok(())
    }
}

/// Compositions become lists of leaves with multiplicities; sampled events, blocks and single leaves stay whole.
fn flatten(event: &Event, times: u64, out: &mut Vec<Leaf>) {
    match event {
        Event::NoOp => {}
        Event::Composed { events } => events.iter().for_each(|e| flatten(e, times, out)),
        Event::SelfComposed { event, count } => flatten(event, times.saturating_mul(*count), out),
        Event::Approximate { event, .. } => flatten(event, times, out),
        leaf => out.push(Leaf { event: leaf.clone(), remaining: times }),
    }
}

/// What samplers may be off in all of `event`, `times` times: what the accountants charge to δ, or less.
pub(super) fn distance(event: &Event, times: f64) -> f64 {
    match event {
        // of a number of runs that is secret: they are the door's own
        Event::RepeatAndSelect { .. } => 0.0,
        Event::SelfComposed { event, count } => distance(event, times * *count as f64),
        Event::Approximate { total_variation, event } => total_variation * times + distance(event, times),
        other => other.children().iter().map(|child| distance(child, times)).sum(),
    }
}
