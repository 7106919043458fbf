//! Sums of ready-made vectors, one per record: rows for a mean, per-sample gradients of a model trained elsewhere
//! (docs/proofs/gaussian-sum.md).
//!
//! Each vector is clipped and truncated toward zero to a public grid with a proof that its norm is at most C, and summed
//! in wrapping integers: the sensitivity is exact and the order of summation does not matter.

use super::batch_sum::BatchSum;
use super::clip::{add_up_slices, add_up_vectors, quantizer};
use super::grid_sum::GridSum;
use super::pieces::PieceSum;
use crate::Sensitive;
use crate::curator::batch::Batch;
use crate::refused::CuratorError;
use dpopt_noise::{Grid, Norm, Quantizer};
use std::ops::Range;

/// Clips vectors to l2 norm `clip_norm` on a grid; what [`Gaussian`](crate::Gaussian) adds noise to.
#[derive(Clone, Copy, Debug)]
pub struct ClippedVectors {
    quantizer: Quantizer,
}

impl ClippedVectors {
    /// C and the public grid.
    pub fn new(clip_norm: f64, grid: Grid) -> Result<Self, CuratorError> {
        Ok(Self { quantizer: quantizer(Norm::L2, clip_norm, grid)? })
    }

    /// Σ clip(v_i) over `records` vectors of `dimension` entries; `vector(i, out)` appends the entries of v_i to the empty
    /// `out`. Non-finite entries count as 0.
    pub fn sum(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Sensitive<GridSum> {
        let quanta = add_up_vectors(&self.quantizer, records, dimension, vector);
        Sensitive::new(GridSum {
            quanta,
            grid: self.quantizer.grid(),
            clip_norm: self.quantizer.clip_norm(),
            batch: None,
        })
    }

    /// [`sum`](Self::sum) of vectors that lie in memory: `vector(i)` is v_i, of which entries beyond `dimension` count as none.
    pub fn sum_slices<'a>(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize) -> &'a [f64] + Sync,
    ) -> Sensitive<GridSum> {
        let quanta = add_up_slices(&self.quantizer, records, dimension, vector);
        Sensitive::new(GridSum {
            quanta,
            grid: self.quantizer.grid(),
            clip_norm: self.quantizer.clip_norm(),
            batch: None,
        })
    }

    /// The l2 clip norm C.
    pub(super) fn clip_norm(&self) -> f64 {
        self.quantizer.clip_norm()
    }

    /// What the integers are multiples of.
    pub(super) fn grid(&self) -> Grid {
        self.quantizer.grid()
    }

    /// [`sum`](Self::sum) as integers.
    pub(super) fn add_up(
        &self,
        records: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Vec<i64> {
        add_up_vectors(&self.quantizer, records, dimension, vector)
    }

    /// Sums clipped vectors, one for each record of `batch`; consumes the batch.
    ///
    /// # Errors
    /// If there are more vectors than records in a batch that the curator drew: some record would count twice.
    pub fn sum_batch(
        &self,
        batch: Batch,
        vectors: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        let mut sum = self.in_parts(batch, dimension);
        sum.add(vectors, vector)?;
        Ok(sum.finish())
    }

    /// Begins a sum over `batch` whose vectors come in several calls, because memory holds a part of them only.
    pub fn in_parts(&self, batch: Batch, dimension: usize) -> BatchSum {
        BatchSum::new(&self.quantizer, batch, dimension)
    }

    /// Sums clipped vectors, one for each set of records (all that a user or a client has), over a batch of the sets or over all of them.
    pub(crate) fn sum_of_sets<R: Sync>(
        &self,
        sets: &[Sensitive<R>],
        batch: Option<Batch>,
        dimension: usize,
        vector: impl Fn(&R, &mut Vec<f64>) + Sync,
    ) -> Sensitive<GridSum> {
        let of = |i: usize, out: &mut Vec<f64>| vector(sets[i].expose(), out);
        let quanta = match &batch {
            Some(batch) => {
                let chosen: Vec<u64> = batch.records().iter().copied().filter(|&i| i < sets.len() as u64).collect();
                let each = |i: usize, out: &mut Vec<f64>| of(chosen[i] as usize, out);
                add_up_vectors(&self.quantizer, chosen.len(), dimension, each)
            }
            None => add_up_vectors(&self.quantizer, sets.len(), dimension, of),
        };
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Sensitive::new(GridSum { quanta, grid, clip_norm, batch: batch.map(|b| b.id()) })
    }

    /// Sums clipped f32 vectors, one for each record of `batch`, for gradients of a neural network: wide, zero in many places, and made
    /// several at a time. `make` gets ranges of at most `chunk` vectors and adds each vector of its range once, in any order.
    ///
    /// # Errors
    /// As [`sum_batch`](Self::sum_batch); and if the grid is finer than 2^-24 of the clip norm, which f32 entries cannot fill
    /// ([`Grid::for_sum`] is coarser for noise multipliers above a half, fewer than 2^16 records and fewer than 2^26 entries).
    pub fn sum_batch_in_chunks(
        &self,
        batch: Batch,
        vectors: usize,
        dimension: usize,
        chunk: usize,
        make: impl Fn(Range<usize>, &mut PieceSum) + Sync,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        let mut sum = self.in_parts(batch, dimension);
        sum.add_in_chunks(vectors, chunk, make)?;
        Ok(sum.finish())
    }

    /// Whether the grid is one that f32 entries can fill: what [`sum_batch_in_chunks`](Self::sum_batch_in_chunks) asks for.
    pub fn fits_f32(&self, dimension: usize) -> bool {
        PieceSum::fits(&self.quantizer, dimension)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Curator, Gaussian};

    use dpopt_noise::NoiseSource;
    use dpopt_privacy::Event;

    const GRID: i32 = -30;

    fn rows(data: &[[f64; 2]]) -> impl Fn(usize, &mut Vec<f64>) + Sync + '_ {
        |i, out| out.extend(data[i])
    }

    #[test]
    fn a_vector_at_its_clip_norm_loses_nothing() {
        let clipped = ClippedVectors::new(5.0, Grid::new(-20)).unwrap();
        let sum = clipped.sum_slices(3, 2, |i| if i == 1 { &[-5.0, 0.0] } else { &[3.0, 4.0] });
        assert_eq!(sum.expose().quanta, [(3 + 3 - 5) << 20, (4 + 4) << 20]);
    }

    #[test]
    fn vectors_in_memory_are_summed_as_copies_are() {
        let clipped = ClippedVectors::new(1.5, Grid::new(-20)).unwrap();
        let rows: Vec<Vec<f64>> = (0..70)
            .map(|i| match i % 7 {
                0 => vec![0.0; 40],
                1 => vec![f64::NAN; 40],
                2 => vec![1e200; 40],
                3 => vec![1e-170; 40],
                // longer than the sum
                4 => (0..60).map(|j| f64::from(j - 30)).collect(),
                _ => (0..40).map(|j| f64::from(i * j % 11) / 50.0 - 0.1).collect(),
            })
            .collect();
        let copied = clipped.sum(70, 40, |i, out| out.extend(&rows[i]));
        let sliced = clipped.sum_slices(70, 40, |i| &rows[i]);
        assert_eq!(copied.expose().quanta, sliced.expose().quanta);
        for row in &rows {
            let alone = clipped.sum_slices(1, 40, |_| row);
            let squared: u128 = alone.expose().quanta.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
            assert!(squared <= clipped.quantizer.max_units().pow(2).into());
        }
    }
    #[test]
    fn vectors_are_clipped_whatever_they_hold_and_noise_comes_on_top() {
        let wild = [[1e300, 0.0], [f64::INFINITY, 1.0], [f64::NAN, 2.0], [3.0, 4.0]];
        let sum = ClippedVectors::new(1.0, Grid::new(GRID)).unwrap().sum(4, 2, rows(&wild));
        let mut curator = Curator::for_event(&Event::gaussian(1e-6), NoiseSource::insecure(1));
        let mechanism = Gaussian::new(1e-6, 1.0, Grid::new(GRID), 2, "clipped sum");
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        // (1, 0) + (0, 1) + (0, 1) + (0.6, 0.8)
        assert!((out[0] - 1.6).abs() < 1e-4 && (out[1] - 2.8).abs() < 1e-4, "{out:?}");
        assert!(curator.release(&mechanism, &sum).is_err());
    }

    #[test]
    fn a_batch_drawn_for_a_loader_has_at_most_one_vector_per_record() {
        let event = Event::gaussian(1.0).poisson_sampled(0.5).self_composed(2);
        let mut curator = Curator::for_event(&event, NoiseSource::insecure(1));
        let clipped = ClippedVectors::new(1.0, Grid::new(GRID)).unwrap();
        let mechanism = Gaussian::new(1.0, 1.0, Grid::new(GRID), 1, "batch gradient");
        let one = |_: usize, out: &mut Vec<f64>| out.push(1.0);
        let (batch, records) = curator.sample_for_loader(40, 0.5).unwrap();
        assert!(matches!(clipped.sum_batch(batch, records.len() + 1, 1, one), Err(CuratorError::Shape)));
        let (batch, records) = curator.sample_for_loader(40, 0.5).unwrap();
        let sum = clipped.sum_batch(batch, records.len(), 1, one).unwrap();
        assert!(curator.release(&mechanism, &sum).is_ok());
        let remote = curator.sampled_remotely(0.4);
        let sum = clipped.sum_batch(remote, 3, 1, one).unwrap();
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
        let remote = curator.sampled_remotely(0.5);
        let sum = clipped.sum_batch(remote, 3, 1, one).unwrap();
        assert!(curator.release(&mechanism, &sum).is_ok());
        assert!(curator.is_spent());
    }
}
