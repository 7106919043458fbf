//! Numbers of one pass: how large batches are, and when a sum begins anew (Liu 2024, Algorithm 21).

use super::spider_schedule::Escape;
use dpopt_optimize::plan::Assumption;
use serde::Serialize;

/// All numbers of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OnePassSchedule {
    /// L: leaves between two restarts, at most.
    pub leaves: u64,
    /// Most that a record adds to the mean of its batch, in l2 norm.
    pub leaf_clip: f64,
    /// b: records of a batch whose gradients begin a sum.
    pub first_batch: u64,
    /// Records of a batch of changes, over M times the way that x went.
    pub per_change: f64,
    /// M of that rule.
    pub difference_clip: f64,
    /// κ: Σ‖estimates‖ since the last restart after which there is another.
    pub path: f64,
    /// α: norm of the mean gradient that is aimed at.
    pub aim: f64,
    /// Extra noise of steps, where a saddle might be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escape: Option<Escape>,
}

impl OnePassSchedule {
    /// What a guarantee rests on besides the clip of gradients.
    pub(super) fn assumptions(&self) -> [Assumption; 2] {
        [
            Assumption::enforced(format!(
                "each record adds at most {} in l2 norm to the mean of its batch, as one vector, whatever the batch's size is: enforced in exact integers",
                self.leaf_clip
            )),
            Assumption::enforced(format!(
                "each record is in one batch, by its place in a random order that depends on no record; batches and restarts follow from what was released, a tree of \
                 noise has at most {} batches, and each restart a tree of its own: all of it is accounted as one release",
                self.leaves
            )),
        ]
    }

    /// What of a record's part in the mean of a batch stays: at most C, or L·way, over the size of the batch.
    pub(super) fn clip_of(&self, of_vector: f64, size: u64) -> f64 {
        self.leaf_clip.min(of_vector / size.max(1) as f64)
    }

    /// Records of a batch of changes after x went so far.
    pub(super) fn batch_after(&self, way: f64) -> u64 {
        let records = (self.difference_clip * way * self.per_change).ceil();
        if records.is_nan() { 1 } else { records.clamp(1.0, (1u64 << 62) as f64) as u64 }
    }
}
