//! Batches that the curator drew: who is in one is as secret as the records.

use dpopt_noise::SubsetKey;
use dpopt_privacy::Event;

/// Which batch, of which curator, and how it was drawn; made by [`Curator::poisson_sample`](crate::Curator::poisson_sample) and
/// [`Curator::fixed_sample`](crate::Curator::fixed_sample). A sample
/// is secret once: two curators that release on the same one would each account it as a fresh one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchId {
    pub(crate) curator: u64,
    pub(crate) number: u64,
    pub(crate) sampling: Sampling,
}

/// How a batch was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Sampling {
    /// Full batch: every record of the block, or of the run, is included.
    All,
    Poisson {
        probability: f64,
    },
    WithoutReplacement {
        records: u64,
        size: u64,
    },
}

impl Sampling {
    /// `event` on such a batch.
    pub(crate) fn of(self, event: Event) -> Event {
        match self {
            Self::All => event,
            Self::Poisson { probability } => event.poisson_sampled(probability),
            Self::WithoutReplacement { records, size } => event.sampled_without_replacement(records, size),
        }
    }
}

/// A uniformly random set of records of public size, in uniformly random order: a part of it that is chosen by position is
/// a uniformly random part. Neither cloneable nor readable.
pub struct FixedBatch {
    pub(crate) id: BatchId,
    pub(crate) records: Vec<u64>,
}

impl FixedBatch {
    /// The number that ties sums over this batch to it.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// Indices of the records, in random order.
    pub(crate) fn records(&self) -> &[u64] {
        &self.records
    }

    /// The batch as sums take it, which ask for no order: what is released of it still is of a sample without replacement.
    pub fn unordered(mut self) -> Batch {
        self.records.sort_unstable();
        Batch::of(self.id, self.records)
    }
}

/// A sample of the records for one sum: each is in it with probability q, independently and secretly, unless it was made of a [`FixedBatch`] or of all.
/// Neither cloneable nor readable; whatever is computed on it carries its id, and with it how it was drawn.
pub struct Batch {
    pub(crate) id: BatchId,
    pub(crate) records: Vec<u64>,
    pub(crate) drawn_here: bool,
    /// For remote records: the key by which those who hold them find out which ones are in the batch, and the number of all records.
    pub(crate) key: Option<(SubsetKey, u64)>,
}

impl Batch {
    /// A batch of these records, drawn in this process.
    pub(crate) fn of(id: BatchId, records: Vec<u64>) -> Self {
        Self { id, records, drawn_here: true, key: None }
    }

    /// The number that ties sums over this batch to it.
    pub fn id(&self) -> BatchId {
        self.id
    }

    /// False if the caller drew the sample and its records are not known here.
    pub(crate) fn drawn_here(&self) -> bool {
        self.drawn_here
    }

    /// For remote records: the key that decides which ones are in the batch, q, and the number of all records.
    pub(crate) fn told(&self) -> Option<(&SubsetKey, f64, u64)> {
        match (&self.key, self.id.sampling) {
            (Some((key, records)), Sampling::Poisson { probability }) => Some((key, probability, *records)),
            _ => None,
        }
    }

    /// Indices of the sampled records, increasing; empty for remote records.
    pub(crate) fn records(&self) -> &[u64] {
        &self.records
    }
}
