//! Sums of clipped per-record vectors in exact integers: gradients of linear models (spec 19 §1.3, spec 17 §5).
//!
//! A record's gradient is `slope ⊗ x`, so it is clipped through the scalar ‖slope‖·‖x‖ and never materialised. Each
//! record's clipped vector is truncated toward zero to a public grid with a proof that its norm is at most C, and summed
//! in wrapping integers: the sensitivity is exact and the order of summation (so the number of threads) does not matter.

use super::batch::{BatchId, PoissonBatch};
use super::contributions::add_up;
use crate::Sensitive;
use crate::loss::Loss;
use crate::records::{Examples, RecordBuffer, Records};
use crate::refused::CuratorError;
use dpopt_noise::{Grid, Norm, Quantizer};

/// A sum of integer vectors, each of l2 norm at most `clip_norm` on `grid`; what [`Gaussian`](super::Gaussian) reads.
///
/// It says on which Poisson batch it was computed, so that the curator can account it.
pub struct GridSum {
    pub(super) units: Vec<i64>,
    pub(super) grid: Grid,
    pub(super) clip_norm: f64,
    pub(super) batch: Option<BatchId>,
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
    pub(crate) fn units(&self) -> &[i64] {
        &self.units
    }

    /// For quantities whose sensitivity is proved elsewhere (an approximate minimiser, a Newton step): `values` rounded
    /// to the nearest grid point. `sensitivity` must include the h√d of this rounding.
    pub(crate) fn of_query(values: impl Iterator<Item = f64>, grid: Grid, sensitivity: f64) -> Self {
        let units = values.map(|v| (v / grid.step()).round_ties_even() as i64).collect();
        Self { units, grid, clip_norm: sensitivity, batch: None }
    }
}

/// How per-record gradients of a linear model are summed: the loss, the clip norm and the grid.
#[derive(Clone, Copy, Debug)]
pub struct ClippedGradient {
    loss: Loss,
    clip_norm: f64,
    quantizer: Quantizer,
}

impl ClippedGradient {
    /// Gradients of `loss` clipped to l2 norm `clip_norm` on `grid`.
    pub fn new(loss: Loss, clip_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        Ok(Self { loss, clip_norm, quantizer })
    }

    /// Σ clip(∇φ_i(θ)) over all records; `weights` is outputs × features, row-major.
    pub fn sum(&self, examples: &Sensitive<Examples>, weights: &[f64]) -> Sensitive<GridSum> {
        let examples = examples.expose();
        let Ok(units) = self.accumulate(examples, weights, examples.rows.len(), |i| i);
        Sensitive::new(GridSum { units, grid: self.quantizer.grid(), clip_norm: self.clip_norm, batch: None })
    }

    /// The same over a Poisson batch, which is used up.
    pub fn sum_batch(
        &self,
        examples: &Sensitive<Examples>,
        batch: PoissonBatch,
        weights: &[f64],
    ) -> Sensitive<GridSum> {
        let Ok(sum) = self.sum_batch_of(examples, batch, weights);
        sum
    }

    /// The same for records that may be on disk.
    pub(crate) fn sum_batch_of<R: Records>(
        &self,
        examples: &Sensitive<R>,
        batch: PoissonBatch,
        weights: &[f64],
    ) -> Result<Sensitive<GridSum>, R::Error> {
        let records = batch.records();
        let units = self.accumulate(examples.expose(), weights, records.len(), |i| records[i] as usize)?;
        Ok(Sensitive::new(GridSum {
            units,
            grid: self.quantizer.grid(),
            clip_norm: self.clip_norm,
            batch: Some(batch.id()),
        }))
    }

    /// The integer sum over the records of a range of positions.
    pub(super) fn sum_range<R: Records>(
        &self,
        examples: &Sensitive<R>,
        range: std::ops::Range<usize>,
        weights: &[f64],
    ) -> Result<Vec<i64>, R::Error> {
        self.accumulate(examples.expose(), weights, range.len(), |i| range.start + i)
    }

    /// The loss whose gradients are summed.
    pub(super) fn loss(&self) -> Loss {
        self.loss
    }

    /// What clips and truncates.
    pub(super) fn quantizer(&self) -> &Quantizer {
        &self.quantizer
    }

    /// The grid of the sums.
    pub(super) fn grid(&self) -> Grid {
        self.quantizer.grid()
    }

    /// The integer sum over `count` records, the i-th of which is `record(i)`.
    pub(super) fn accumulate<R: Records>(
        &self,
        examples: &R,
        weights: &[f64],
        count: usize,
        record: impl Fn(usize) -> usize + Sync,
    ) -> Result<Vec<i64>, R::Error> {
        add_up(count, weights.len(), 256, |range| {
            let sum = vec![0i64; weights.len()];
            let mut dense = DenseWeights { weights, sum, features: examples.columns() };
            let mut scratch = self.scratch();
            for i in range {
                self.add_record(examples, record(i), &mut dense, &mut scratch)?;
            }
            Ok(dense.sum)
        })
    }

    pub(super) fn scratch(&self) -> Scratch {
        let k = self.loss.outputs();
        Scratch { scores: vec![0.0; k], slope: vec![0.0; k], buffer: RecordBuffer::default() }
    }

    /// C.
    pub(super) fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// Number of scores per record.
    pub(super) fn outputs(&self) -> usize {
        self.loss.outputs()
    }

    /// Reads the weights of record i's features, and adds its clipped integer gradient.
    #[inline]
    pub(super) fn add_record<R: Records, W: Weights>(
        &self,
        examples: &R,
        i: usize,
        weights: &mut W,
        scratch: &mut Scratch,
    ) -> Result<(), R::Error> {
        let Scratch { scores, slope, buffer } = scratch;
        let (indices, values, target) = examples.record(i, buffer)?;
        let Some(target) = self.loss.usable_target(f64::from(target), f64::MAX) else {
            return Ok(());
        };
        for (out, score) in scores.iter_mut().enumerate() {
            *score = weights.score(out, indices, values);
        }
        self.loss.slope(scores, target, slope);
        if slope.iter().any(|c| !c.is_finite()) {
            return Ok(()); // counts as a zero contribution: never an error, which would be an output
        }
        if let [c] = slope[..] {
            self.add_scaled(c, indices, values, weights);
        } else {
            self.add_outer(slope, indices, values, weights);
        }
        Ok(())
    }

    /// clip(c·x): rows have increasing columns, so the factor's proof applies (see [`Quantizer::row_factor`]).
    #[inline]
    fn add_scaled<W: Weights>(&self, c: f64, indices: &[u32], values: &[f32], weights: &mut W) {
        if let Some(factor) = self.quantizer.row_factor(c, values) {
            weights.add_scaled(0, indices, values, factor);
            return;
        }
        let mut entries: Vec<(u32, f64)> = indices.iter().zip(values).map(|(&j, &x)| (j, c * f64::from(x))).collect();
        let (mut merged, mut units) = (Vec::new(), Vec::new());
        self.quantizer.quantize_sparse(&mut entries, &mut merged, &mut units);
        merged.iter().zip(units).for_each(|(&j, z)| weights.add(0, j, z));
    }

    /// slope ⊗ x with ‖slope‖·‖x‖ ≤ C. The factor leaves room for every rounding below (each product errs by at most
    /// three relative roundings, the two norms by (entries + 4)·2^-53 each), and truncation only shrinks.
    fn add_outer<W: Weights>(&self, slope: &[f64], indices: &[u32], values: &[f32], weights: &mut W) {
        let row = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
        let size = slope.iter().map(|c| c * c).sum::<f64>().sqrt();
        let room = 1.0 - (values.len() + slope.len() + 16) as f64 * f64::EPSILON;
        let norm = row * size;
        if norm.is_nan() || norm == f64::INFINITY {
            return;
        }
        let factor = if norm > self.clip_norm * room { self.clip_norm * room / norm } else { 1.0 };
        let per_unit = 1.0 / self.quantizer.grid().step();
        for (out, &c) in slope.iter().enumerate() {
            weights.add_scaled(out, indices, values, c * factor * per_unit);
        }
    }
}

/// Weights as a record sees them: those of its features are read, then its gradient is added.
pub(super) trait Weights {
    /// Score of a row for output `out`.
    fn score(&mut self, out: usize, columns: &[u32], values: &[f32]) -> f64;
    /// Adds trunc(`scale`·value) to the integer gradient sum, per column.
    fn add_scaled(&mut self, out: usize, columns: &[u32], values: &[f32], scale: f64);
    /// Adds to one coordinate of it.
    fn add(&mut self, out: usize, column: u32, units: i64);
}

/// Buffers of one record's scores.
pub(crate) struct Scratch {
    scores: Vec<f64>,
    slope: Vec<f64>,
    buffer: RecordBuffer,
}

/// All weights and a sum of all coordinates, outputs × features.
struct DenseWeights<'a> {
    weights: &'a [f64],
    sum: Vec<i64>,
    features: usize,
}

impl Weights for DenseWeights<'_> {
    #[inline]
    fn score(&mut self, out: usize, columns: &[u32], values: &[f32]) -> f64 {
        let line = &self.weights[out * self.features..(out + 1) * self.features];
        columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * line[j as usize]).sum()
    }

    #[inline]
    fn add_scaled(&mut self, out: usize, columns: &[u32], values: &[f32], scale: f64) {
        let line = &mut self.sum[out * self.features..(out + 1) * self.features];
        for (&j, &x) in columns.iter().zip(values) {
            let cell = &mut line[j as usize];
            *cell = cell.wrapping_add((scale * f64::from(x)) as i64);
        }
    }

    #[inline]
    fn add(&mut self, out: usize, column: u32, units: i64) {
        let cell = &mut self.sum[out * self.features + column as usize];
        *cell = cell.wrapping_add(units);
    }
}

/// Σ y·x with |y| clamped to `target_bound` and ‖x‖ ≤ `row_norm`, on `grid`: the second sufficient statistic of least
/// squares.
pub fn target_moment(
    examples: &Sensitive<Examples>,
    target_bound: f64,
    row_norm: f64,
    grid: Grid,
) -> Result<Sensitive<GridSum>, CuratorError> {
    let clip_norm = target_bound * row_norm;
    let quantizer = Quantizer::new(Norm::L2, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
    let examples = examples.expose();
    let mut units = vec![0i64; examples.rows.columns()];
    for (i, &y) in examples.targets.iter().enumerate() {
        let y = f64::from(y).clamp(-target_bound, target_bound);
        if !y.is_nan() {
            let (indices, values) = examples.rows.row(i);
            quantizer.add_scaled_row(y, indices, values, &mut units);
        }
    }
    Ok(Sensitive::new(GridSum { units, grid, clip_norm, batch: None }))
}
