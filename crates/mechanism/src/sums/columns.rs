//! Sums of columns, each number clipped around a public or released centre (docs/proofs/heavy-tailed-mean.md).
//!
//! In column j a record gives w·clip((x − c_j)/C_j, −1, 1), a number that is missing gives 0, and w is so small that D of them have norm at most 1 together.
//! Whether rounding left it there is not taken for granted: the quantizer enforces norm 1 in exact integers.

use super::laplace::L1Sum;
use dpopt_kernel::beside::{Expose, Members, add_up_vectors, grid_sum};
use dpopt_kernel::{Batch, CuratorError, GridSum, Sensitive};
use dpopt_noise::{Grid, Norm, Quantizer};
use dpopt_objective::records::ColumnValues;

/// Factor below 1 that leaves a margin for the roundings of a norm: nothing is shrunk because of them.
const ROOM: f64 = 1.0 - 9.094_947_017_729_282e-13; // 1 − 2^-40

/// Where each column is clipped, in which norm, and on which grid the sum lives.
#[derive(Clone, Debug)]
pub struct ColumnClip {
    /// c and C of each column.
    columns: Vec<(f64, f64)>,
    /// Whether one more coordinate counts the records.
    counted: bool,
    quantizer: Quantizer,
}

impl ColumnClip {
    /// Columns clipped to `half_widths` around `centres`; with `counted` a last coordinate in which every record gives w. Records have `norm` at most 1.
    ///
    /// # Errors
    /// If there is not one centre and one positive finite half width for each column, or the grid is too fine.
    pub fn new(
        centres: &[f64],
        half_widths: &[f64],
        counted: bool,
        norm: Norm,
        grid: Grid,
    ) -> Result<Self, CuratorError> {
        let usable = centres.iter().all(|c| c.is_finite()) && half_widths.iter().all(|w| *w > 0.0 && w.is_finite());
        if centres.is_empty() || centres.len() != half_widths.len() || !usable {
            return Err(CuratorError::Shape);
        }
        let quantizer = Quantizer::new(norm, 1.0, grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let columns = centres.iter().copied().zip(half_widths.iter().copied()).collect();
        Ok(Self { columns, counted, quantizer })
    }

    /// w for `coordinates` coordinates: the share of norm 1 that each has.
    pub fn weight(norm: Norm, coordinates: usize) -> f64 {
        let d = coordinates.max(1) as f64;
        ROOM * match norm {
            Norm::L1 => 1.0 / d,
            Norm::L2 => 1.0 / d.sqrt(),
            Norm::LInfinity => 1.0,
        }
    }

    fn coordinates(&self) -> usize {
        self.columns.len() + usize::from(self.counted)
    }

    fn quanta<R: ColumnValues>(&self, norm: Norm, records: &R, batch: Option<&Batch>) -> Vec<i64> {
        let weight = Self::weight(norm, self.coordinates());
        let chosen = batch.map(Members::records);
        let count = chosen.map_or(records.len(), <[u64]>::len);
        add_up_vectors(&self.quantizer, count, self.coordinates(), |i, out| {
            let record = chosen.map_or(i, |chosen| chosen[i] as usize);
            out.resize(self.columns.len(), f64::NAN);
            // a record that is not there gives nothing
            if record < records.len() {
                records.values(record, out);
            }
            for (x, &(centre, half_width)) in out.iter_mut().zip(&self.columns) {
                let clipped = ((*x - centre) / half_width).clamp(-1.0, 1.0);
                *x = if clipped.is_nan() { 0.0 } else { weight * clipped };
            }
            if self.counted {
                out.push(weight);
            }
        })
    }

    fn check<R: ColumnValues>(&self, records: &R) -> Result<(), CuratorError> {
        if records.width() == self.columns.len() { Ok(()) } else { Err(CuratorError::Shape) }
    }

    /// Σ over the records of `batch`, or over all, for noise that is calibrated in l2 norm.
    ///
    /// # Errors
    /// If the records have other columns.
    pub fn sum<R: ColumnValues>(
        &self,
        records: &Sensitive<R>,
        batch: Option<Batch>,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        self.check(records.expose())?;
        let quanta = self.quanta(Norm::L2, records.expose(), batch.as_ref());
        Ok(grid_sum(quanta, self.quantizer.grid(), self.quantizer.clip_norm(), batch.map(|b| b.id())))
    }

    /// Σ over the records of `batch`, or over all, for noise that is calibrated in l1 norm.
    ///
    /// # Errors
    /// As [`sum`](Self::sum).
    pub fn l1_sum<R: ColumnValues>(
        &self,
        records: &Sensitive<R>,
        batch: Option<Batch>,
    ) -> Result<Sensitive<L1Sum>, CuratorError> {
        self.check(records.expose())?;
        let quanta = self.quanta(Norm::L1, records.expose(), batch.as_ref());
        Ok(Sensitive::new(L1Sum::of_quanta(quanta, &self.quantizer, batch.map(|b| b.id()))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_objective::records::Columns;
    use proptest::prelude::*;

    fn rows(rows: &[Vec<f64>], width: usize) -> Sensitive<Columns> {
        let mut all = Columns::new(width);
        rows.iter().for_each(|row| all.push(row));
        Sensitive::new(all)
    }

    fn any_number() -> impl Strategy<Value = f64> {
        prop_oneof![
            Just(f64::NAN),
            Just(f64::INFINITY),
            Just(f64::NEG_INFINITY),
            Just(f64::MAX),
            Just(-f64::MAX),
            -1e3..1e3f64,
        ]
    }

    proptest! {
        #[test]
        fn a_record_moves_the_sum_by_norm_one_at_most_whatever_it_holds(
            record in prop::collection::vec(any_number(), 3),
            others in prop::collection::vec(prop::collection::vec(any_number(), 3), 0..4),
            counted in any::<bool>(),
        ) {
            let grid = Grid::new(-30);
            for norm in [Norm::L2, Norm::L1] {
                let clip = ColumnClip::new(&[0.0, 5.0, -1e200], &[1.0, 1e-3, 1e3], counted, norm, grid).unwrap();
                let quanta = |all: &[Vec<f64>]| clip.quanta(norm, rows(all, 3).expose(), None);
                let with: Vec<Vec<f64>> = others.iter().cloned().chain([record.clone()]).collect();
                let moved: Vec<i128> = quanta(&with).iter().zip(quanta(&others)).map(|(a, b)| i128::from(*a) - i128::from(b)).collect();
                let one = 1i128 << 30;
                match norm {
                    Norm::L1 => prop_assert!(moved.iter().map(|m| m.abs()).sum::<i128>() <= one),
                    _ => prop_assert!(moved.iter().map(|m| m * m).sum::<i128>() <= one * one),
                }
            }
        }
    }

    #[test]
    fn numbers_are_clipped_around_their_centres_and_missing_ones_give_nothing() {
        let grid = Grid::new(-30);
        let clip = ColumnClip::new(&[10.0, 0.0], &[2.0, 4.0], true, Norm::L2, grid).unwrap();
        let data = rows(&[vec![11.0, -100.0], vec![f64::NAN, 2.0], vec![1e300, f64::NAN]], 2);
        let sum = clip.sum(&data, None).unwrap();
        let weight = ColumnClip::weight(Norm::L2, 3);
        for (unit, expected) in sum.expose().quanta().iter().zip([1.5, -0.5, 3.0]) {
            assert!((grid.to_f64(*unit) - weight * expected).abs() < 1e-8);
        }
        assert!(clip.sum(&rows(&[vec![1.0]], 1), None).is_err());
        assert!(ColumnClip::new(&[0.0], &[f64::INFINITY], false, Norm::L2, grid).is_err());
        assert!(ColumnClip::new(&[0.0], &[0.0], false, Norm::L2, grid).is_err());
        assert!(ColumnClip::new(&[f64::NAN], &[1.0], false, Norm::L2, grid).is_err());
    }
}
