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
use dpopt_lanes::add_truncated;
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
            let mut buffer = RecordBuffer::default();
            for i in paced(range) {
                let (indices, entries, target) = records.record(i, &mut buffer)?;
                let weight = weight(indices, entries, target);
                match self.quantizer.square_factor(weight, entries) {
                    Some(factor) => add_square(factor, self.quantizer.bound(), indices, entries, &mut sum),
                    None => self.add_as_vector(weight, indices, entries, &mut sum),
                }
            }
            Ok(sum)
        })
    }

    /// Adds clip(weight·x xᵀ) entry by entry, its norm checked in integers.
    fn add_as_vector(&self, weight: f64, indices: &[u32], entries: &[f32], sum: &mut [i64]) {
        let (mut values, mut at, mut quanta) = (Vec::new(), Vec::new(), Vec::new());
        for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
            let scaled = weight * f64::from(x);
            let line = Self::coordinates(j as usize);
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
}

/// Adds trunc(factor·x_j·x_k), √2 of it beside the diagonal, of a row with increasing columns. A line whose columns are all there is added as a whole.
fn add_square(factor: f64, bound: f64, indices: &[u32], entries: &[f32], sum: &mut [i64]) {
    let beside = std::f64::consts::SQRT_2 * factor;
    for (a, (&j, &x)) in indices.iter().zip(entries).enumerate() {
        let (j, x) = (j as usize, f64::from(x));
        let line = &mut sum[SecondMoment::coordinates(j)..][..=j];
        if a == j {
            add_truncated(&entries[..a], beside * x, bound, &mut line[..j]);
        } else {
            for (&k, &y) in indices[..a].iter().zip(&entries[..a]) {
                let cell = &mut line[k as usize];
                *cell = cell.wrapping_add((beside * x * f64::from(y)) as i64);
            }
        }
        line[j] = line[j].wrapping_add((factor * x * x) as i64);
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

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::{Examples, Rows};
    use proptest::prelude::*;

    fn sum(moment: &SecondMoment, columns: usize, entries: &[(u32, f32)]) -> Vec<i64> {
        let mut rows = Rows::new(columns);
        rows.push_clipped(&mut entries.to_vec(), 1e30);
        let Ok(sum) = moment.add_up(&Examples { rows, targets: vec![0.0] });
        sum
    }

    /// Exactly: Σ z² in u128 against (C/γ)².
    fn squared(quanta: &[i64]) -> u128 {
        quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum()
    }

    proptest! {
        #[test]
        fn a_square_moves_the_sum_by_its_clip_norm_at_most(
            values in prop::collection::vec(prop_oneof![6 => -3.0..3.0f32, 2 => Just(0.0), 1 => -1e15..1e15f32, 1 => -1e-30..1e-30f32], 1..40),
            weight in prop_oneof![3 => 0.001..100.0f64, 1 => Just(1e-200), 1 => Just(1e200)],
            row_norm in 0.1..10.0f64,
        ) {
            let (d, grid) = (values.len(), Grid::new((row_norm * row_norm).log2().ceil() as i32 - 30));
            let moment = SecondMoment::new(1.0, row_norm, grid).unwrap();
            let entries: Vec<(u32, f32)> = (0..).zip(values.iter().copied()).collect();
            let mut rows = Rows::new(d);
            rows.push_clipped(&mut entries.clone(), 1e30);
            let Ok(quanta) = moment.add_up_weighted(&Examples { rows, targets: vec![0.0] }, |_, _, _| weight);
            let limit = row_norm * row_norm / grid.step();
            prop_assert!(squared(&quanta) as f64 <= limit * limit * (1.0 + 4.0 * f64::EPSILON));
            // the same entries among columns that are not there
            let apart: Vec<(u32, f32)> = entries.iter().map(|&(j, x)| (2 * j + 1, x)).collect();
            let mut rows = Rows::new(2 * d + 1);
            rows.push_clipped(&mut apart.clone(), 1e30);
            let Ok(wide) = moment.add_up_weighted(&Examples { rows, targets: vec![0.0] }, |_, _, _| weight);
            for j in 0..d {
                for k in 0..=j {
                    let (here, there) = (SecondMoment::coordinates(j) + k, SecondMoment::coordinates(2 * j + 1) + 2 * k + 1);
                    prop_assert_eq!(quanta[here], wide[there]);
                }
            }
        }

        #[test]
        fn what_needs_no_clip_is_the_square(values in prop::collection::vec(-1.0..1.0f32, 1..30)) {
            let d = values.len();
            let moment = SecondMoment::new(1.0, 10.0, Grid::new(-30)).unwrap();
            let entries: Vec<(u32, f32)> = (0..).zip(values.iter().copied()).collect();
            let matrix = symmetric_matrix(d, &sum(&moment, d, &entries).iter().map(|&z| Grid::new(-30).to_f64(z)).collect::<Vec<_>>());
            for (j, &x) in values.iter().enumerate() {
                for (k, &y) in values.iter().enumerate() {
                    prop_assert!((matrix[j * d + k] - f64::from(x) * f64::from(y)).abs() < 2f64.powi(-29));
                }
            }
        }
    }

    /// Rows whose stored entries are all zeros, with weights that make the factor of an empty row infinite.
    #[test]
    fn a_row_of_zeros_adds_nothing_whatever_its_weight() {
        let zeros = |weight: f64, row_norm: f64, grid: i32| {
            let moment = SecondMoment::new(1.0, row_norm, Grid::new(grid)).unwrap();
            let rows = Rows::moved(20, &[20], (0..20).collect(), vec![0.0; 20], 1.0).expect("a row");
            assert_eq!(rows.row(0).0.len(), 20, "zeros that are stored");
            let Ok(sum) = moment.add_up_weighted(&Examples { rows, targets: vec![0.0] }, |_, _, _| weight);
            sum
        };
        // the third: √2 of its factor is no number
        for weight in [0.0, 1.0, 1.3e308 / 2f64.powi(27), 1e290, f64::MAX, f64::INFINITY, f64::NAN] {
            assert!(zeros(weight, 1.0, -27).iter().all(|z| *z == 0), "{weight}");
        }
    }

    #[test]
    fn both_ways_to_a_square_give_the_same_integers_but_the_last() {
        let moment = SecondMoment::new(0.5, 1.0, Grid::new(-30)).unwrap();
        let entries: Vec<f32> = (0..20).map(|j| ((j * 7 % 11) as f32 - 5.0) / 20.0).collect();
        let indices: Vec<u32> = (0..20).collect();
        let mut as_vector = vec![0; SecondMoment::coordinates(20)];
        moment.add_as_vector(0.5, &indices, &entries, &mut as_vector);
        let factor = moment.quantizer.square_factor(0.5, &entries).expect("a usual row");
        let mut by_lines = vec![0; as_vector.len()];
        add_square(factor, moment.quantizer.bound(), &indices, &entries, &mut by_lines);
        assert!(as_vector.iter().any(|z| *z != 0));
        assert!(as_vector.iter().zip(&by_lines).all(|(a, b)| a.abs_diff(*b) <= 1), "{as_vector:?} {by_lines:?}");
    }
}
