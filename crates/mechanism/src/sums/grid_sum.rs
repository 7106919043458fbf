//! A sum of clipped vectors in exact integers (spec 19 §1.3): what Gaussian noise is added to.

use crate::curator::batch::BatchId;
use dpopt_noise::Grid;

/// A sum of integer vectors, each of l2 norm at most `clip_norm` on `grid`; what [`Gaussian`](crate::Gaussian) reads.
///
/// It says on which Poisson batch it was computed, so that the curator can account it.
pub struct GridSum {
    pub(crate) units: Vec<i64>,
    pub(crate) grid: Grid,
    pub(crate) clip_norm: f64,
    pub(crate) batch: Option<BatchId>,
}

impl GridSum {
    /// C: bound on the l2 norm of one record's contribution.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Number of coordinates.
    pub fn dimension(&self) -> usize {
        self.units.len()
    }

    /// The sum in grid steps: as sensitive as the records.
    pub fn units(&self) -> &[i64] {
        &self.units
    }

    /// For quantities whose sensitivity is proved elsewhere (an approximate minimiser, a Newton step): `values` rounded
    /// to the nearest grid point. `sensitivity` must include the h√d of this rounding.
    pub fn of_query(values: impl Iterator<Item = f64>, grid: Grid, sensitivity: f64) -> Self {
        let units = values.map(|v| (v / grid.step()).round_ties_even() as i64).collect();
        Self { units, grid, clip_norm: sensitivity, batch: None }
    }
}
