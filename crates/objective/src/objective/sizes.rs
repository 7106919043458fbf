//! How large the gradients of another objective are: a histogram of their norms, for clip norms that follow the data (Andrew,
//! Thakkar, McMahan, Ramaswamy 2021, with the whole distribution in place of one quantile).

use super::{Cells, Gradient, Objective, ObjectiveSpec, Point};
use crate::records::RecordSet;

/// What a record contributes is the cell that the l2 norm of its gradient lies in: a 1 there, so a sum over records is a histogram.
/// It is no gradient of anything; what matters is that one record moves the sum by a vector of norm 1.
///
/// Cell k < K − 1 holds norms up to `smallest`·`ratio`^k that are in no cell before it, the last one all others. A record without
/// a gradient, or whose gradient is 0, is in none: the record that contributes nothing is a row of zeros, and were it in the first
/// cell, another one in its place would move two cells and not one.
#[derive(Clone, Debug)]
pub struct GradientSizes<O> {
    objective: O,
    smallest: f64,
    ratio: f64,
    cells: usize,
}

impl<O> GradientSizes<O> {
    /// `cells` ≥ 1 cells, the first of which ends at `smallest` > 0; each of the next ends `ratio` > 1 times later.
    pub fn new(objective: O, smallest: f64, ratio: f64, cells: usize) -> Self {
        Self { objective, smallest, ratio, cells: cells.max(1) }
    }

    /// Number of cells. A sum has at least so many entries; any others are 0 before noise.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// The largest norm of cell k; of the last one as if it ended like the others.
    pub fn end(&self, cell: usize) -> f64 {
        self.smallest * self.ratio.powi(cell as i32)
    }

    /// The cell of a norm. What is no number, or beyond all cells, is in the last one.
    pub fn cell(&self, norm: f64) -> usize {
        (0..self.cells - 1).find(|&k| norm <= self.end(k)).unwrap_or(self.cells - 1)
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct SizesScratch<S> {
    inner: S,
    place: [usize; 1],
    one: [f64; 1],
}

impl<R: RecordSet, O: Objective<R>> Objective<R> for GradientSizes<O> {
    type Scratch = SizesScratch<O::Scratch>;

    fn dimension(&self) -> usize {
        self.objective.dimension().max(self.cells)
    }

    fn describes(&self, records: &R) -> bool {
        self.objective.describes(records)
    }

    fn spec(&self) -> Option<ObjectiveSpec> {
        let of =
            self.objective.spec().filter(|of| of.sizes.is_none() && of.scores.is_none() && of.interval.is_none())?;
        let Self { smallest, ratio, cells, .. } = *self;
        Some(ObjectiveSpec { sizes: Some(Cells { smallest, ratio, cells }), ..of })
    }

    /// Always 0: sums of gradients are all that is asked for.
    fn value(&self, _: &[f64], _: &R, _: usize, _: &mut Self::Scratch) -> Result<f64, R::Error> {
        Ok(0.0)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let SizesScratch { inner, place, one } = scratch;
        let square = |values: &[f64]| values.iter().map(|v| v * v).sum::<f64>();
        let norm = match self.objective.gradient(x, records, i, inner)? {
            Gradient::Zero => return Ok(Gradient::Zero),
            Gradient::Outer { slope, row, .. } => {
                let row: f64 = row.values().iter().map(|&v| f64::from(v).powi(2)).sum();
                // whatever the slope is, which may be no number
                if row == 0.0 {
                    return Ok(Gradient::Zero);
                }
                (square(slope) * row).sqrt()
            }
            Gradient::Entries { values, .. } => square(values).sqrt(),
            Gradient::Dense(values) => square(values).sqrt(),
        };
        if norm == 0.0 {
            return Ok(Gradient::Zero);
        }
        (place[0], one[0]) = (self.cell(norm), 1.0);
        Ok(Gradient::Entries { places: place, values: one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;
    use crate::objective::{Closures, Linear};
    use crate::records::{Examples, Rows};

    fn histogram<R: RecordSet, O: Objective<R>>(sizes: &GradientSizes<O>, records: &R, i: usize) -> Vec<f64>
    where
        R::Error: std::fmt::Debug,
    {
        let mut sum = vec![0.0; sizes.dimension()];
        let point = sum.clone();
        sizes.gradient(&mut &point[..], records, i, &mut Default::default()).unwrap().add_to(&mut sum);
        sum
    }

    /// Under zero-out the neighbour's record is the row of zeros with target 0: what another one in its place moves has norm 1.
    #[test]
    fn the_row_that_contributes_nothing_is_in_no_cell() {
        for loss in [Loss::Squared, Loss::Logistic { shift: 0.0 }, Loss::Softmax { classes: 3 }] {
            let mut rows = Rows::new(2);
            rows.push_zero();
            rows.push_clipped(&mut [(0, 0.5), (1, 0.5)], 1.0);
            let records = Examples { rows, targets: vec![0.0, 1.0] };
            let sizes = GradientSizes::new(Linear::new(loss, 2, 1.0), 0.02, 2.0, 9);
            let nothing = histogram(&sizes, &records, 0);
            assert!(nothing.iter().all(|count| *count == 0.0), "{loss:?}: {nothing:?}");
            assert_eq!(histogram(&sizes, &records, 1).iter().sum::<f64>(), 1.0, "{loss:?}");
        }
    }

    #[test]
    fn a_record_is_in_the_one_cell_that_its_gradient_lies_in() {
        let square = Closures::new(
            1,
            |x: &[f64], a: &f64| 0.5 * (x[0] - a).powi(2),
            |x: &[f64], a: &f64, g: &mut [f64]| g[0] = x[0] - a,
        );
        let sizes = GradientSizes::new(square, 0.5, 2.0, 4);
        assert_eq!(Objective::<Vec<f64>>::dimension(&sizes), 4);
        assert_eq!((0..4).map(|k| sizes.end(k)).collect::<Vec<_>>(), [0.5, 1.0, 2.0, 4.0]);
        let records = vec![0.5, -0.51, 1.0, 1.5, -2.0, 3.0, 1e300, f64::NAN];
        let expected = [0, 1, 1, 2, 2, 3, 3, 3];
        for (i, cell) in expected.into_iter().enumerate() {
            let mut one = vec![0.0; 4];
            one[cell] = 1.0;
            assert_eq!(histogram(&sizes, &records, i), one, "record {i}");
        }
        assert_eq!(histogram(&sizes, &vec![0.0], 0), [0.0; 4]);
    }
}
