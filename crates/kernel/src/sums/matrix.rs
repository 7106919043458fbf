//! Symmetric matrices under one Gaussian: Σ w·x xᵀ in isometric coordinates (docs/proofs/sufficient-statistics.md).
//!
//! The coordinates (M_jj, √2·M_jk for j > k) have the Frobenius norm of M as their l2 norm, so i.i.d. noise on them is one
//! Gaussian mechanism of sensitivity w‖x‖². On the matrix it has variance s² on the diagonal and s²/2 off it; equal
//! variances would waste a factor √2, and s²/2 on the diagonal too would not be private enough.

use super::aggregate_query::AggregateQuery;
use super::contributions::add_up;
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::records::{RecordBuffer, Records};
use dpopt_process::stop::paced;

/// How Σ weight·x xᵀ is summed: the weight, the row norm and the grid.
#[derive(Clone, Copy, Debug)]
pub struct SecondMoment {
    weight: f64,
    row_norm: f64,
    quantizer: Quantizer,
}

impl SecondMoment {
    /// Terms weight·x xᵀ of Frobenius norm at most weight·R².
    pub fn new(weight: f64, row_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, weight * row_norm * row_norm, grid)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        Ok(Self { weight, row_norm, quantizer })
    }

    /// Number of isometric coordinates of a d × d symmetric matrix.
    pub fn coordinates(d: usize) -> usize {
        d * (d + 1) / 2
    }

    /// Σ weight·x_i x_iᵀ in isometric coordinates; entry (j, k), k ≤ j, is at j(j+1)/2 + k.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn sum<R: Records>(&self, examples: &Sensitive<R>) -> Result<Sensitive<GridSum>, R::Error> {
        let records = examples.expose();
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        let (weight, row_norm) = (self.weight, self.row_norm);
        let query = AggregateQuery::SecondMoment { weight, row_norm, grid: grid.exponent() };
        let quanta = match records.ask(&mut || query.at(&[]), Self::coordinates(records.columns())) {
            Some(told) => told?,
            None => self.add_up(records)?,
        };
        Ok(Sensitive::new(GridSum { quanta, grid, clip_norm, batch: None }))
    }

    /// What the integers are multiples of.
    pub(crate) fn grid(&self) -> Grid {
        self.quantizer.grid()
    }

    /// [`sum`](Self::sum) in integers, as multiples of the grid's step.
    pub(crate) fn add_up<R: Records>(&self, records: &R) -> Result<Vec<i64>, R::Error> {
        self.add_up_weighted(records, |_, _, _| self.weight)
    }

    /// Σ w_i·x_i x_iᵀ in integers, `weight` giving each record's own w_i: whatever it is, the term is clipped to the planned weight·R².
    pub(crate) fn add_up_weighted<R: Records>(
        &self,
        records: &R,
        weight: impl Fn(&[u32], &[f32], f32) -> f64 + Sync,
    ) -> Result<Vec<i64>, R::Error> {
        let width = Self::coordinates(records.columns());
        add_up(records.len(), width, 256, |range| {
            let mut sum = vec![0i64; width];
            let (mut values, mut at, mut quanta) = (Vec::new(), Vec::new(), Vec::new());
            let mut buffer = RecordBuffer::default();
            for i in paced(range) {
                let (indices, entries, target) = records.record(i, &mut buffer)?;
                let weight = weight(indices, entries, target);
                values.clear();
                at.clear();
                for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
                    let scaled = weight * f64::from(x);
                    let line = j as usize * (j as usize + 1) / 2;
                    for (&k, &y) in indices[..a].iter().zip(&entries[..a]) {
                        values.push(std::f64::consts::SQRT_2 * scaled * f64::from(y));
                        at.push(line + k as usize);
                    }
                    values.push(scaled * f64::from(x));
                    at.push(line + j as usize);
                }
                self.quantizer.quantize(&mut values, &mut quanta);
                for (&slot, &unit) in at.iter().zip(&quanta) {
                    sum[slot] = sum[slot].wrapping_add(unit);
                }
            }
            Ok(sum)
        })
    }
}

/// The symmetric d × d matrix (row-major) with the given isometric coordinates.
pub fn symmetric_matrix(d: usize, coordinates: &[f64]) -> Vec<f64> {
    let mut matrix = vec![0.0; d * d];
    let mut next = coordinates.iter();
    for j in 0..d {
        for (k, &c) in (0..=j).zip(next.by_ref().take(j + 1)) {
            let entry = if j == k { c } else { c * std::f64::consts::FRAC_1_SQRT_2 };
            matrix[j * d + k] = entry;
            matrix[k * d + j] = entry;
        }
    }
    matrix
}
