//! Sums of truncated squares of single features: private second moments (Asi et al. 2021, Algorithm 3; docs/proofs/adaptive-gradients.md).
//!
//! A record contributes min(x_j², ρ²) for each feature j that is asked for, clipped as one vector in l2 norm in exact integers.
//! Values in [0, ρ²] move the sum by √|S|·ρ² at most; rows of norm R by min(ρ, R)·R at most, whatever the number of features is.

use super::aggregate_query::AggregateQuery;
use super::contributions::add_up;
use super::grid_sum::GridSum;
use crate::Sensitive;
use crate::refused::CuratorError;
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::records::{RecordBuffer, Records};
use dpopt_process::stop::paced;

/// How Σ min(x_j², ρ²) is summed: features, truncation, clip norm and grid.
pub struct FeatureMoments {
    /// Place of a feature among those that are asked for.
    places: Vec<Option<u32>>,
    length: usize,
    truncation: f64,
    quantizer: Quantizer,
}

/// Bound on the l2 norm of (min(x_j², ρ²))_j over `count` features of a row of norm `row_norm`: Σ min(x², ρ²)² is at most
/// count·ρ⁴, and at most min(ρ, R)²·Σx².
pub fn moment_bound(count: usize, truncation: f64, row_norm: f64) -> f64 {
    let by_row = truncation.min(row_norm) * row_norm;
    by_row.min((count as f64).sqrt() * truncation * truncation)
}

impl FeatureMoments {
    /// Moments of `features` of `columns`, squares truncated at `truncation`², vectors clipped to `clip_norm`.
    pub fn new(
        features: &[u32],
        columns: usize,
        truncation: f64,
        clip_norm: f64,
        grid: Grid,
    ) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut places = vec![None; columns];
        for (place, &j) in (0u32..).zip(features) {
            *places.get_mut(j as usize).ok_or(CuratorError::Shape)? = Some(place);
        }
        Ok(Self { places, length: features.len(), truncation, quantizer })
    }

    /// The sum over all records. Rows have distinct columns, so the norm of a record's entries is that of its vector.
    pub fn sum<R: Records>(&self, examples: &Sensitive<R>) -> Result<Sensitive<GridSum>, R::Error> {
        let records = examples.expose();
        let cap = self.truncation * self.truncation;
        let quanta = add_up(records.len(), self.length, 256, |range| {
            let mut sum = vec![0i64; self.length];
            let (mut at, mut values, mut quanta) = (Vec::new(), Vec::new(), Vec::new());
            let mut buffer = RecordBuffer::default();
            for i in paced(range) {
                let (indices, entries, _) = records.record(i, &mut buffer)?;
                at.clear();
                values.clear();
                for (&j, &x) in indices.iter().zip(entries) {
                    if let Some(place) = self.places[j as usize]
                        && x.is_finite()
                    {
                        at.push(place as usize);
                        values.push((f64::from(x) * f64::from(x)).min(cap));
                    }
                }
                self.quantizer.quantize(&mut values, &mut quanta);
                for (&place, &unit) in at.iter().zip(&quanta) {
                    sum[place] = sum[place].wrapping_add(unit);
                }
            }
            Ok(sum)
        })?;
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Ok(Sensitive::new(GridSum { quanta, grid, clip_norm, batch: None }))
    }
}

/// How Σ y·x is summed, with |y| clamped to a bound and rows of norm at most R: the second sufficient statistic of least squares.
#[derive(Clone, Copy, Debug)]
pub struct TargetMoment {
    target_bound: f64,
    row_norm: f64,
    quantizer: Quantizer,
}

impl TargetMoment {
    /// Terms of norm at most `target_bound`·`row_norm`, on `grid`.
    ///
    /// # Errors
    /// If that is not positive and finite, or the grid too fine for it.
    pub fn new(target_bound: f64, row_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        let quantizer = Quantizer::new(Norm::L2, target_bound * row_norm, grid);
        Ok(Self { target_bound, row_norm, quantizer: quantizer.map_err(|e| CuratorError::Noise(e.to_string()))? })
    }

    /// The sum over all records; one whose target is not a number contributes nothing.
    ///
    /// # Errors
    /// If a record can't be read.
    pub fn sum<R: Records>(&self, examples: &Sensitive<R>) -> Result<Sensitive<GridSum>, R::Error> {
        let records = examples.expose();
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        let (target_bound, row_norm) = (self.target_bound, self.row_norm);
        let query = AggregateQuery::TargetMoment { target_bound, row_norm, grid: grid.exponent() };
        let quanta = match records.ask(&mut || query.at(&[]), records.columns()) {
            Some(told) => told?,
            None => self.add_up(records)?,
        };
        Ok(Sensitive::new(GridSum { quanta, grid, clip_norm, batch: None }))
    }

    /// [`sum`](Self::sum) in integers, as multiples of the grid's step.
    pub(crate) fn add_up<R: Records>(&self, records: &R) -> Result<Vec<i64>, R::Error> {
        add_up(records.len(), records.columns(), 256, |range| {
            let mut sum = vec![0i64; records.columns()];
            let mut buffer = RecordBuffer::default();
            for i in paced(range) {
                let (indices, values, y) = records.record(i, &mut buffer)?;
                let y = f64::from(y).clamp(-self.target_bound, self.target_bound);
                if !y.is_nan() {
                    self.quantizer.add_scaled_row(y, indices, values, &mut sum);
                }
            }
            Ok(sum)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::{Examples, Rows};
    use proptest::prelude::*;

    fn one(entries: &[(u32, f32)], columns: usize, row_norm: f64) -> Sensitive<Examples> {
        let mut rows = Rows::new(columns);
        rows.push_clipped(&mut entries.to_vec(), row_norm);
        Sensitive::new(Examples { rows, targets: vec![0.0] })
    }

    #[test]
    fn squares_are_truncated_and_put_in_place() {
        let grid = Grid::new(-30);
        let moments = FeatureMoments::new(&[3, 1], 5, 0.5, 10.0, grid).unwrap();
        let sum = moments.sum(&one(&[(0, 0.9), (1, -0.25), (3, 2.0)], 5, 4.0)).unwrap();
        let values: Vec<f64> = sum.expose().quanta.iter().map(|&u| grid.to_f64(u)).collect();
        assert!((values[0] - 0.25).abs() < 1e-8 && (values[1] - 0.0625).abs() < 1e-8, "{values:?}");
        assert!(FeatureMoments::new(&[5], 5, 1.0, 1.0, grid).is_err());
    }

    proptest! {
        #[test]
        fn one_record_moves_the_sum_by_the_bound_at_most(
            values in prop::collection::vec(-3.0..3.0f32, 1..30),
            truncation in 0.01..4.0f64,
            row_norm in 0.1..4.0f64,
        ) {
            let entries: Vec<(u32, f32)> = values.iter().enumerate().map(|(j, &x)| (j as u32, x)).collect();
            let features: Vec<u32> = (0..values.len() as u32).collect();
            let bound = moment_bound(features.len(), truncation, row_norm);
            let grid = Grid::for_sum(bound, bound, 1, features.len());
            let record = one(&entries, values.len(), row_norm);
            // the bound is a fact about rows: nothing needs to be clipped for it
            let free = FeatureMoments::new(&features, values.len(), truncation, 1e3 * bound, Grid::new(grid.exponent() + 10)).unwrap();
            let norm = |quanta: &[i64], grid: Grid| quanta.iter().map(|&u| grid.to_f64(u).powi(2)).sum::<f64>().sqrt();
            prop_assert!(norm(&free.sum(&record).unwrap().expose().quanta, Grid::new(grid.exponent() + 10)) <= bound * (1.0 + 1e-12));
            // and it is enforced all the same
            let clipped = FeatureMoments::new(&features, values.len(), truncation, 0.3 * bound, grid).unwrap();
            prop_assert!(norm(&clipped.sum(&record).unwrap().expose().quanta, grid) <= 0.3 * bound);
        }
    }
}
