//! What the crate beside the kernel needs of it: `dpopt-mechanism`, whose mechanisms read what is sensitive and release it too.
//!
//! **Who names this module is trusted for privacy.** With it a sensitive value can be read, a value released that is not charged, and a
//! mechanism made whose event is not what it does. Only `dpopt-mechanism` names it. It is the only package that depends on this crate,
//! which `crates/dpopt/tests/sources/what_ships.rs` asks cargo, and it does not hand this module on, so the compiler keeps it from every other crate.

use crate::curator::Curator;
use crate::curator::batch::{Batch, BatchId, FixedBatch};
use crate::curator::mechanism::InteractiveStart;
use crate::sums::batch_sum::BatchSum;
use crate::sums::grid_sum::GridSum;
use crate::sums::vectors::ClippedVectors;
use crate::{Released, Sensitive};
use dpopt_noise::{Grid, NoiseSource, Quantizer};
use dpopt_privacy::Event;

pub use crate::curator::mechanism::sealed::Sealed;
pub use crate::curator::seen::Seen;
pub use crate::sums::aggregate_query::remote_sums;
pub use crate::sums::clip::{add_up_vectors, quantizer};
pub use crate::sums::clipped::{Scratch, Touched, Weights};
pub use crate::sums::contributions::merge_equal;
pub use crate::sums::gaussian::{add_rounded_gaussian, rounded_gaussian};
pub use crate::sums::majorant::remote_majorant;

/// Reads sensitive values: in a mechanism, or in a step whose result is [`Sensitive`] again.
pub trait Expose {
    /// What is sensitive.
    type Value;
    /// Reads the value.
    fn expose(&self) -> &Self::Value;
    /// Changes a value that stays sensitive.
    fn expose_mut(&mut self) -> &mut Self::Value;
}

impl<T> Expose for Sensitive<T> {
    type Value = T;

    fn expose(&self) -> &T {
        Sensitive::expose(self)
    }

    fn expose_mut(&mut self) -> &mut T {
        Sensitive::expose_mut(self)
    }
}

/// Says who is in a batch, which is as secret as the records.
pub trait Members {
    /// Indices of the records in it.
    fn records(&self) -> &[u64];
}

impl Members for Batch {
    fn records(&self) -> &[u64] {
        Batch::records(self)
    }
}

impl Members for FixedBatch {
    fn records(&self) -> &[u64] {
        FixedBatch::records(self)
    }
}

/// Reads a sum whose vectors are still coming, which is as sensitive as the records.
pub trait Units: Sized {
    /// Begins a sum over `batch`, without any vector yet.
    fn over(quantizer: &Quantizer, batch: Batch, dimension: usize) -> Self;
    /// Begins a sum over the records at public positions, without any vector yet; no curator releases it.
    fn of_positions(quantizer: &Quantizer, positions: Vec<u64>, dimension: usize) -> Self;
    /// The integer sums of the vectors so far.
    fn sums(&self) -> &[i64];
    /// What was added, if it is the sum that has this id.
    fn into_units_of(self, id: BatchId) -> Option<Vec<i64>>;
}

impl Units for BatchSum {
    fn over(quantizer: &Quantizer, batch: Batch, dimension: usize) -> Self {
        Self::new(quantizer, batch, dimension)
    }

    fn of_positions(quantizer: &Quantizer, positions: Vec<u64>, dimension: usize) -> Self {
        BatchSum::of_positions(quantizer, positions, dimension)
    }

    fn sums(&self) -> &[i64] {
        BatchSum::sums(self)
    }

    fn into_units_of(self, id: BatchId) -> Option<Vec<i64>> {
        BatchSum::into_units_of(self, id)
    }
}

/// The clipped sum of one vector per set of records, over a batch of the sets or over all of them. `vector` sees what is sensitive.
pub fn sum_of_sets<R: Sync>(
    clipped: &ClippedVectors,
    sets: &[Sensitive<R>],
    batch: Option<Batch>,
    dimension: usize,
    vector: impl Fn(&R, &mut Vec<f64>) + Sync,
) -> Sensitive<GridSum> {
    clipped.sum_of_sets(sets, batch, dimension, vector)
}

/// Integers to which each record, of `batch` or of all, added a vector of l2 norm at most `clip_norm` on `grid`.
pub fn grid_sum(quanta: Vec<i64>, grid: Grid, clip_norm: f64, batch: Option<BatchId>) -> Sensitive<GridSum> {
    Sensitive::new(GridSum { quanta, grid, clip_norm, batch })
}

/// A value that an open mechanism releases; all its answers were charged when it was opened.
pub fn released<T>(value: T) -> Released<T> {
    Released::new(value)
}

/// What an opened mechanism draws with, and where it records what it releases.
pub struct Opened<'a> {
    /// The source of the mechanism's noise.
    pub noise: &'a mut NoiseSource,
    /// Where a test or an audit watches the curator: what the mechanism releases goes here too.
    pub seen: Option<Seen>,
}

/// The parts of an opening that mechanisms beside the kernel use.
pub fn opened(opening: InteractiveStart<'_>) -> Opened<'_> {
    Opened { noise: opening.noise, seen: opening.seen }
}

/// A curator for an event without a certificate, whose samplers are taken as exact: for tests and audits, whose records are made up.
pub fn uncharged(event: &Event, noise: NoiseSource) -> Curator {
    Curator::for_event(event, noise)
}

/// An [uncharged] curator that also keeps what it releases.
pub fn watched(event: &Event, noise: NoiseSource) -> Curator {
    Curator::watched(event, noise)
}

/// The releases of a [watched] run, in order.
pub fn seen(curator: &Curator) -> Vec<Vec<f64>> {
    curator.seen()
}
