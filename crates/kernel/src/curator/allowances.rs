//! What a certified event lets a run release: a list of leaves with how often each may still be taken.
//!
//! Compositions, in whatever way they nest, are lists of their leaves. What samples, or splits into blocks, stays one leaf: it is
//! taken by a release on such a sample, or by [opening the blocks](crate::Blocks), each of which then has allowances of its own.
//! An event for users who own several records is a list of what is released of the records: that no user owns more is what
//! [`PublicShape::of_a_unit`](crate::PublicShape) says of them, and what runs a plan compares the two.

use crate::sampler_error::{SamplerError, Sum};
use dpopt_privacy::{Certificate, Event};

/// The releases that one curator may still make, and what its samplers may be off.
#[derive(Clone)]
pub(crate) struct Allowances {
    leaves: Vec<Leaf>,
    /// What samplers may be off in all, and what they were so far. `None` if it is not counted.
    distance: Option<Sum>,
    drawn: Sum,
}

/// What samplers may be off in all where the guarantee has δ = 0: it speaks of exact laws and can't pay for any distance.
const UNPAID: f64 = 8.881_784_197_001_252e-16; // 2^-50

#[derive(Clone, PartialEq)]
struct Leaf {
    event: Event,
    remaining: u64,
}

/// Why something is not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The event has no (more) such leaf.
    Unforeseen,
    /// Samplers would be further from their laws than what δ pays for.
    Distance,
}

impl Allowances {
    /// All releases of a certificate's event.
    pub(crate) fn certified(certificate: &Certificate) -> Self {
        let pays = certificate.budget().delta() > 0.0;
        let distance = if pays { planned(certificate.event()) } else { Sum::default().and(UNPAID, 1.0) };
        Self { distance: Some(distance), ..Self::exact(certificate.event()) }
    }

    /// All releases of an event whose samplers are taken as exact.
    pub(crate) fn exact(event: &Event) -> Self {
        let mut leaves = Vec::new();
        flatten(event, 1, &mut leaves);
        Self { leaves, distance: None, drawn: Sum::default() }
    }

    /// The releases of one of `blocks` blocks, whose event is part of this one's: samplers are counted where this one counts them, and what
    /// nothing pays for is shared.
    pub(crate) fn of_block(&self, event: &Event, pays: bool, blocks: usize) -> Self {
        let own = if pays { planned(event) } else { Sum::default().and(UNPAID / blocks as f64, 1.0) };
        Self { distance: self.distance.map(|_| own), ..Self::exact(event) }
    }

    /// True if every leaf was taken.
    pub(crate) fn is_spent(&self) -> bool {
        self.leaves.iter().all(|leaf| leaf.remaining == 0)
    }

    /// Takes every leaf of `event` and its samplers' error, or nothing.
    pub(crate) fn take(&mut self, event: &Event, error: SamplerError) -> Result<(), Denied> {
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

    /// Takes what opened blocks may draw, exactly.
    pub(crate) fn draw_planned(&mut self, event: &Event) -> Result<(), Denied> {
        let mut drawn = self.drawn;
        add_planned(event, 1.0, &mut drawn);
        if self.distance.is_some_and(|most| !drawn.is_within(most)) {
            return Err(Denied::Distance);
        }
        self.drawn = drawn;
        Ok(())
    }

    /// Takes the error of a draw that is no release, such as a batch's.
    pub(crate) fn draw(&mut self, error: SamplerError) -> Result<(), Denied> {
        let drawn = self.drawn.and(error.total_variation(), 1.0);
        if self.distance.is_some_and(|most| !drawn.is_within(most)) {
            return Err(Denied::Distance);
        }
        self.drawn = drawn;
        Ok(())
    }
}

/// Compositions become lists of leaves with multiplicities; sampled events, blocks and single leaves stay whole.
fn flatten(event: &Event, times: u64, out: &mut Vec<Leaf>) {
    match event {
        Event::NoOp => {}
        _ if times == 0 => {}
        Event::Composed { events } => events.iter().for_each(|e| flatten(e, times, out)),
        Event::SelfComposed { event, count } => flatten(event, times.saturating_mul(*count), out),
        Event::Approximate { event, .. } | Event::UserUnit { event, .. } => flatten(event, times, out),
        leaf => out.push(Leaf { event: leaf.clone(), remaining: times }),
    }
}

/// What samplers may be off in all of `event`: what the accountants charge to δ, or less.
pub(crate) fn planned(event: &Event) -> Sum {
    let mut sum = Sum::default();
    add_planned(event, 1.0, &mut sum);
    sum
}

fn add_planned(event: &Event, times: f64, sum: &mut Sum) {
    match event {
        // the number of runs is secret: the mechanism counts their samplers itself
        Event::RepeatAndSelect { .. } => {}
        Event::SelfComposed { event, count } => add_planned(event, times * *count as f64, sum),
        Event::Approximate { total_variation, event } => {
            *sum = sum.and(*total_variation, times);
            add_planned(event, times, sum);
        }
        other => other.children().iter().for_each(|child| add_planned(child, times, sum)),
    }
}
