//! Counts of where records lie, of several columns on several scales at once (docs/proofs/histograms.md).
//!
//! A record is in at most one cell of each column, and so in one of each coarser scale: whatever it holds, it adds at most one to
//! one cell per column and scale, and moves all counts together by at most √(columns·scales) in l2 norm.

use dpopt_kernel::beside::grid_sum;
use dpopt_kernel::{GridSum, Sensitive};
use dpopt_noise::Grid;

/// Counts are whole numbers, and their noise a multiple of this: no noise is too small for it.
const GRID_EXPONENT: i32 = -20;

/// How many columns are counted, and on which scales: `branching` cells, that many within each of them, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramShape {
    /// Number of columns.
    pub columns: usize,
    /// Cells of the coarsest scale, and of each cell on the next one.
    pub branching: usize,
    /// Number of scales.
    pub scales: u32,
}

impl HistogramShape {
    /// Cells of a column on the finest scale.
    pub fn cells(self) -> usize {
        self.branching.pow(self.scales)
    }

    /// Number of counts.
    pub fn dimension(self) -> usize {
        self.columns * self.counts_of_a_column()
    }

    /// Number of counts of one column: of the coarsest scale first.
    pub fn counts_of_a_column(self) -> usize {
        (1..=self.scales).map(|scale| self.branching.pow(scale)).sum()
    }

    /// Bound on the l2 norm of what one record adds: exact where the root is, and rounded up.
    pub fn clip_norm(self) -> f64 {
        ((self.columns * self.scales as usize) as f64).sqrt().next_up()
    }

    /// What noise on the counts is a multiple of.
    pub fn grid(self) -> Grid {
        Grid::new(GRID_EXPONENT)
    }
}

/// Counts that are still being made.
#[derive(Clone, Debug)]
pub struct Histograms {
    shape: HistogramShape,
    /// Counts of the finest scale, column by column; as sensitive as the records.
    counts: Vec<i64>,
}

impl Histograms {
    /// Counts of no records yet, all 0.
    pub fn new(shape: HistogramShape) -> Self {
        Self { shape, counts: vec![0; shape.columns * shape.cells()] }
    }

    /// Counts one record, with the cell of each column where it has one. Cells of further columns, and beyond the last cell, count
    /// nowhere.
    pub fn count(&mut self, cells: impl IntoIterator<Item = Option<usize>>) {
        let width = self.shape.cells();
        for (column, cell) in self.counts.chunks_exact_mut(width).zip(cells) {
            if let Some(count) = cell.and_then(|cell| column.get_mut(cell)) {
                *count = count.wrapping_add(1);
            }
        }
    }

    /// All scales: of each column the coarsest first.
    pub fn finish(self) -> Sensitive<GridSum> {
        let Self { shape, counts } = self;
        let mut quanta = Vec::with_capacity(shape.dimension());
        for column in counts.chunks_exact(shape.cells()) {
            for scale in 1..=shape.scales {
                let within = shape.branching.pow(shape.scales - scale);
                let whole = |part: &[i64]| part.iter().fold(0i64, |sum, count| sum.wrapping_add(*count));
                quanta.extend(column.chunks_exact(within).map(|part| whole(part).wrapping_shl(-GRID_EXPONENT as u32)));
            }
        }
        grid_sum(quanta, shape.grid(), shape.clip_norm(), None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Gaussian;
    use dpopt_kernel::beside::{Expose, uncharged};
    use dpopt_noise::NoiseSource;
    use proptest::prelude::*;

    const SHAPE: HistogramShape = HistogramShape { columns: 3, branching: 2, scales: 3 };

    fn quanta(records: &[Vec<Option<usize>>]) -> Vec<i64> {
        let mut histograms = Histograms::new(SHAPE);
        records.iter().for_each(|cells| histograms.count(cells.iter().copied()));
        histograms.finish().expose().quanta().to_vec()
    }

    #[test]
    fn a_record_is_in_one_cell_of_each_column_and_scale() {
        let counted: Vec<i64> =
            quanta(&[vec![Some(5), None, Some(0)], vec![Some(4), Some(8), Some(7)]]).iter().map(|u| u >> 20).collect();
        assert_eq!(SHAPE.dimension(), 3 * 14);
        assert_eq!(counted[..14], [0, 2, 0, 0, 2, 0, 0, 0, 0, 0, 1, 1, 0, 0]);
        // missing, and beyond the last cell
        assert_eq!(counted[14..28], [0; 14]);
        assert_eq!(counted[28..], [1, 1, 1, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn noise_for_fewer_columns_or_another_shape_is_refused() {
        let noise = |clip, dimension| Gaussian::new(2.0, clip, SHAPE.grid(), dimension, "spread");
        let sum = Histograms::new(SHAPE).finish();
        let mut curator = uncharged(&dpopt_privacy::Event::gaussian(2.0).self_composed(3), NoiseSource::insecure(1));
        let fewer = HistogramShape { columns: 2, ..SHAPE };
        assert!(curator.release(&noise(fewer.clip_norm(), SHAPE.dimension()), &sum).is_err());
        assert!(curator.release(&noise(SHAPE.clip_norm(), fewer.dimension()), &sum).is_err());
        let released = curator.release(&noise(SHAPE.clip_norm(), SHAPE.dimension()), &sum).unwrap();
        assert_eq!(released.get().len(), SHAPE.dimension());
    }

    proptest! {
        #[test]
        fn what_one_record_moves_is_within_the_clip_norm(
            others in prop::collection::vec(prop::collection::vec(prop::option::of(0usize..20), 0..6), 0..5),
            record in prop::collection::vec(prop::option::of(0usize..20), 0..6),
        ) {
            let without = quanta(&others);
            let with = quanta(&others.into_iter().chain([record]).collect::<Vec<_>>());
            let step = SHAPE.grid().step();
            let square: f64 = with.iter().zip(&without).map(|(a, b)| ((a - b) as f64 * step).powi(2)).sum();
            prop_assert!(square.sqrt() <= SHAPE.clip_norm());
            prop_assert!(SHAPE.clip_norm() <= 3.0000000000000005);
        }
    }
}
