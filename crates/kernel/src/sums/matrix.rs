//! Symmetric matrices under one Gaussian: Σ w·x xᵀ in coordinates that are isometric within .03 % (docs/proofs/gaussian-sum.md).
//!
//! The coordinates (M_jj, √2·M_jk for j > k) have the Frobenius norm of M as their l2 norm, so i.i.d. noise on them is one
//! Gaussian mechanism of sensitivity w‖x‖². On the matrix it has variance s² on the diagonal and s²/2 off it; equal
//! variances would waste a factor √2, and s²/2 on the diagonal too would not be private enough.
//!
//! A record becomes a row q of whole numbers, and its square q qᵀ is summed as it is: a product of integer matrices, whose bits depend on no order. So that
//! coordinates are whole too, 41/29 takes the place of √2, from below: (29·q_j², 41·q_j·q_k).

use super::aggregate_query::AggregateQuery;
use super::contributions::add_up;
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_lanes::gram::{Gram, Whole};
use dpopt_lanes::squared_norm;
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::records::{RecordBuffer, Records};
use dpopt_process::stop::paced;

/// Steps of the grid for each unit of q_j² and of q_j·q_k: a little less than √2 times as many, so that the coordinates of q qᵀ have norm at most 29·Σq².
const ON: i64 = 29;
const BESIDE: i64 = 41;
const _: () = assert!(BESIDE * BESIDE < 2 * ON * ON);

/// How Σ weight·x xᵀ is summed: the weight, the row norm and the grid.
///
/// The entries of a row are rounded to whole multiples of R·√(29γ/C), C = weight·R²: [`Grid::for_products`] is as fine as a sum allows.
#[derive(Clone, Copy, Debug)]
pub struct SecondMoment {
    weight: f64,
    row_norm: f64,
    quantizer: Quantizer,
}

impl SecondMoment {
    /// What an entry beside the diagonal is multiplied by to be a coordinate: less than √2.
    pub const BESIDE: f64 = BESIDE as f64 / ON as f64;

    /// Terms weight·x xᵀ of Frobenius norm at most weight·R².
    pub fn new(weight: f64, row_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, weight * row_norm * row_norm, grid)
            .map_err(|e| CuratorError::Noise(e.to_string()))?;
        Ok(Self { weight, row_norm, quantizer })
    }

    /// Number of coordinates of a d × d symmetric matrix.
    pub fn coordinates(d: usize) -> usize {
        d * (d + 1) / 2
    }

    /// Σ weight·x_i x_iᵀ in coordinates; entry (j, k), k ≤ j, is at j(j+1)/2 + k.
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

    /// Σ w_i·x_i x_iᵀ in integers, `weight` giving each record's own w_i: whatever it is, the term is clipped to the planned weight·R². A record whose weight is not
    /// positive contributes nothing, nor does one with entries that are no numbers.
    pub(crate) fn add_up_weighted<R: Records>(
        &self,
        records: &R,
        weight: impl Fn(&[u32], &[f32], f32) -> f64 + Sync,
    ) -> Result<Vec<i64>, R::Error> {
        let width = Self::coordinates(records.columns());
        let most = self.quantizer.max_units() / ON as u64;
        let mut sum = add_up(records.len(), width, 256, |range| {
            let mut squares = Gram::new(records.columns(), most);
            let mut buffer = RecordBuffer::default();
            for i in paced(range) {
                let (indices, entries, target) = records.record(i, &mut buffer)?;
                self.add(weight(indices, entries, target), most, indices, entries, &mut squares);
            }
            Ok(squares.finish())
        })?;
        let mut cells = sum.iter_mut();
        for j in 0..records.columns() {
            cells.by_ref().take(j).for_each(|cell| *cell = cell.wrapping_mul(BESIDE));
            cells.by_ref().take(1).for_each(|cell| *cell = cell.wrapping_mul(ON));
        }
        Ok(sum)
    }

    /// Adds q qᵀ with q the nearest to √weight·x in steps, of Σq² at most `most`: which the integers themselves tell.
    #[inline]
    fn add(&self, weight: f64, most: u64, indices: &[u32], entries: &[f32], squares: &mut Gram) {
        if weight.is_nan() || weight <= 0.0 {
            return;
        }
        let steps = (weight / (ON as f64 * self.grid().step())).sqrt();
        if !squares.add(indices, entries, steps, Whole::Nearest) {
            // a row at the bound may be rounded beyond it: a step shorter, or else no entry is rounded up
            let longest = (most as f64).sqrt();
            let factor = steps.min(longest / squared_norm(entries).sqrt());
            let _ = squares.add(indices, entries, factor * (1.0 - 1.0 / longest), Whole::Nearest)
                || squares.add(indices, entries, factor * (1.0 - 1e-9), Whole::Truncated);
        }
    }
}

/// The symmetric d × d matrix (row-major) with the given coordinates, those of [`SecondMoment`].
pub fn symmetric_matrix(d: usize, coordinates: &[f64]) -> Vec<f64> {
    let mut matrix = vec![0.0; d * d];
    let mut next = coordinates.iter();
    for j in 0..d {
        for (k, &c) in (0..=j).zip(next.by_ref().take(j + 1)) {
            let entry = if j == k { c } else { c / SecondMoment::BESIDE };
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
        fn what_needs_no_clip_is_the_square(values in prop::collection::vec(-1.0..1.0f32, 1..30), weight in 0.01..1.0f64) {
            let d = values.len();
            let moment = SecondMoment::new(1.0, 10.0, Grid::for_products(100.0, 1.0, 1)).unwrap();
            let entries: Vec<(u32, f32)> = (0..).zip(values.iter().copied()).collect();
            let mut rows = Rows::new(d);
            rows.push_clipped(&mut entries.clone(), 10.0);
            let Ok(quanta) = moment.add_up_weighted(&Examples { rows, targets: vec![0.0] }, |_, _, _| weight);
            let matrix = symmetric_matrix(d, &quanta.iter().map(|&z| moment.grid().to_f64(z)).collect::<Vec<_>>());
            for (j, &x) in values.iter().enumerate() {
                for (k, &y) in values.iter().enumerate() {
                    let exact = weight * f64::from(x) * f64::from(y);
                    // half a step each way, of entries below 1
                    prop_assert!((matrix[j * d + k] - exact).abs() < 1.01 * step(&moment), "{} {exact}", matrix[j * d + k]);
                }
            }
        }

        /// Rows of norm R, which rounding takes beyond it as often as not.
        #[test]
        fn rows_at_the_bound_lose_few_steps(values in prop::collection::vec(0.1..1.0f32, 2..60), sign in any::<u64>()) {
            let norm = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>().sqrt();
            let entries: Vec<f32> =
                (0..).zip(&values).map(|(j, &x)| if sign >> j & 1 == 1 { -x } else { x }).collect();
            let moment = SecondMoment::new(1.0, norm, Grid::for_products(norm * norm, 1.0, 1000)).unwrap();
            let indices: Vec<u32> = (0..entries.len() as u32).collect();
            let most = moment.quantizer.max_units() / ON as u64;
            let mut squares = Gram::new(entries.len(), most);
            moment.add(1.0, most, &indices, &entries, &mut squares);
            let cells = squares.finish();
            let trace: i64 = (0..entries.len()).map(|j| cells[j * (j + 3) / 2]).sum();
            prop_assert!(trace as u64 <= most);
            prop_assert!((trace as f64).sqrt() > (most as f64).sqrt() - 2.0 - (entries.len() as f64).sqrt() / 2.0);
        }
    }

    /// What an entry of a row of weight 1 is rounded to multiples of.
    fn step(moment: &SecondMoment) -> f64 {
        (ON as f64 * moment.grid().step()).sqrt()
    }

    /// Rows whose stored entries are all zeros, with weights that make steps infinite; and entries and weights that are no numbers.
    #[test]
    fn what_is_nothing_adds_nothing() {
        let summed = |weight: f64, value: f32, row_norm: f64, grid: i32| {
            let moment = SecondMoment::new(1.0, row_norm, Grid::new(grid)).unwrap();
            let most = moment.quantizer.max_units() / ON as u64;
            let mut squares = Gram::new(20, most);
            moment.add(weight, most, &(0..20).collect::<Vec<_>>(), &[value; 20], &mut squares);
            squares.finish()
        };
        let weights = [0.0, 1.0, 1.3e308 / 2f64.powi(27), 1e290, f64::MAX, f64::INFINITY, f64::NAN, -1.0];
        for weight in weights {
            assert!(summed(weight, 0.0, 1.0, -27).iter().all(|z| *z == 0), "{weight}");
            for value in [f32::NAN, f32::INFINITY] {
                assert!(summed(weight, value, 1.0, -27).iter().all(|z| *z == 0), "{weight} {value}");
            }
        }
        for weight in [0.0, -1.0, f64::NAN] {
            assert!(summed(weight, 0.1, 1.0, -27).iter().all(|z| *z == 0), "{weight}");
        }
        // infinite weight is clipped as any other
        assert!(summed(f64::INFINITY, 0.1, 1.0, -27).iter().all(|z| *z > 0));
    }
}
