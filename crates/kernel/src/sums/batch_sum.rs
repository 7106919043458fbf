//! The sum over one Poisson batch whose vectors come in parts (docs/proofs/gaussian-sum.md).

use super::clip::add_up_vectors;
use super::contributions::merge;
use super::grid_sum::GridSum;
use super::pieces::{PieceSum, add_up_pieces};
use crate::Sensitive;
use crate::curator::batch::{Batch, BatchId, Sampling};
use crate::refused::CuratorError;
use dpopt_noise::Quantizer;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The sum over one Poisson batch while its vectors are still coming; made by [`ClippedVectors::in_parts`](crate::ClippedVectors::in_parts). Each vector is clipped
/// when it comes, and nothing but their sum is kept, in integers: how the batch was divided changes no bit of it.
///
/// ```
/// use dpopt_kernel::{ClippedVectors, Curator, Gaussian, SamplerError};
/// use dpopt_noise::{Grid, NoiseSource};
/// use dpopt_privacy::{Budget, Event, Neighbours, Relation, certify};
///
/// let drawn = SamplerError::rounded(1.0) + SamplerError::subset(100);
/// let event = drawn.on(Event::gaussian(2.0).poisson_sampled(0.5));
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(3.0, 1e-6)?);
/// let certificate = certify(&event, terms)?;
/// let mut curator = Curator::new(&certificate, NoiseSource::insecure(1));
/// let grid = Grid::new(-20);
/// let (batch, records) = curator.sample_for_loader(100, 0.5)?;
/// let mut sum = ClippedVectors::new(1.0, grid)?.in_parts(batch, 1);
/// for part in records.chunks(16) {
///     sum.add(part.len(), |_, out| out.push(1.0))?;
/// }
/// let released = curator.release(&Gaussian::new(2.0, 1.0, grid, 1, "sum"), &sum.finish())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BatchSum {
    quantizer: Quantizer,
    batch: Batch,
    given: usize,
    /// As sensitive as the records.
    quanta: Vec<i64>,
}

impl BatchSum {
    /// Begins a sum over `batch`, without any vector yet.
    pub(crate) fn new(quantizer: &Quantizer, batch: Batch, dimension: usize) -> Self {
        Self { quantizer: *quantizer, batch, given: 0, quanta: vec![0; dimension] }
    }

    /// The sums so far: as sensitive as the records.
    pub(crate) fn sums(&self) -> &[i64] {
        &self.quanta
    }

    /// Over the records at public positions: of a step of a stream, which releases it itself. No curator draws such a batch, so none releases on it, and no two
    /// calls give the same.
    pub(crate) fn of_positions(quantizer: &Quantizer, positions: Vec<u64>, dimension: usize) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let id = BatchId { curator: u64::MAX, number, sampling: Sampling::All };
        Self::new(quantizer, Batch::of(id, positions), dimension)
    }

    /// Which batch it is over.
    pub fn id(&self) -> BatchId {
        self.batch.id()
    }

    /// What was added, if it is [the sum](Self::of_positions) that has this id.
    pub(crate) fn into_units_of(self, id: BatchId) -> Option<Vec<i64>> {
        (self.id() == id).then_some(self.quanta)
    }

    /// Room for `vectors` more, or an error.
    fn take(&mut self, vectors: usize) -> Result<(), CuratorError> {
        let given = self.given.saturating_add(vectors);
        if self.batch.drawn_here() && given > self.batch.records().len() {
            return Err(CuratorError::Shape);
        }
        self.given = given;
        Ok(())
    }

    /// Adds `vectors` more, each clipped; `vector` as in [`ClippedVectors::sum`](crate::ClippedVectors::sum).
    ///
    /// # Errors
    /// If there are more vectors than records in a batch that the curator drew; then nothing is added.
    pub fn add(&mut self, vectors: usize, vector: impl Fn(usize, &mut Vec<f64>) + Sync) -> Result<(), CuratorError> {
        self.take(vectors)?;
        let quanta = add_up_vectors(&self.quantizer, vectors, self.quanta.len(), vector);
        merge(&mut self.quanta, &quanta);
        Ok(())
    }

    /// Adds `vectors` more, each clipped, of f32 and in pieces: `chunk` and `make` as in [`ClippedVectors::sum_batch_in_chunks`](crate::ClippedVectors::sum_batch_in_chunks).
    ///
    /// # Errors
    /// As there; then nothing is added.
    pub fn add_in_chunks(
        &mut self,
        vectors: usize,
        chunk: usize,
        make: impl Fn(Range<usize>, &mut PieceSum) + Sync,
    ) -> Result<(), CuratorError> {
        let dimension = self.quanta.len();
        // what is wrong with the grid is wrong without vectors too
        if !PieceSum::fits(&self.quantizer, dimension) {
            return Err(CuratorError::Noise(
                "the grid of a sum of f32 vectors is finer than 2^-24 of the clip norm, or out of their range".into(),
            ));
        }
        self.take(vectors)?;
        let quanta = add_up_pieces(&self.quantizer, vectors, dimension, chunk, make);
        merge(&mut self.quanta, &quanta);
        Ok(())
    }

    /// Whether its grid is one that f32 entries can fill: what [`add_in_chunks`](Self::add_in_chunks) asks for.
    pub fn fits_f32(&self) -> bool {
        PieceSum::fits(&self.quantizer, self.quanta.len())
    }

    /// How many entries a vector has.
    pub fn dimension(&self) -> usize {
        self.quanta.len()
    }

    /// The sum of what was added: what [`Gaussian`](crate::Gaussian) adds noise to. The batch is used up.
    pub fn finish(self) -> Sensitive<GridSum> {
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Sensitive::new(GridSum { quanta: self.quanta, grid, clip_norm, batch: Some(self.batch.id()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ClippedVectors, Curator, Gaussian};
    use dpopt_noise::{Grid, NoiseSource};
    use dpopt_privacy::Event;

    #[test]
    fn parts_of_a_batch_sum_to_its_whole_and_hold_no_more_than_its_records() {
        let event = Event::gaussian(1.0).poisson_sampled(0.5).self_composed(3);
        let released = |sizes: &[usize], wide: bool| {
            let mut curator = Curator::for_event(&event, NoiseSource::insecure(7));
            let (batch, records) = curator.sample_for_loader(200, 0.5).unwrap();
            let values: Vec<[f32; 3]> = records.iter().map(|&i| [i as f32 / 50.0, 0.3, -1.0]).collect();
            let mut sum = ClippedVectors::new(1.5, Grid::new(-20)).unwrap().in_parts(batch, 3);
            let mut at = 0;
            for size in sizes.iter().copied().chain([records.len()]) {
                let part = &values[at..(at + size).min(values.len())];
                if wide {
                    let make = |range: Range<usize>, sum: &mut PieceSum| {
                        range.for_each(|i| sum.add(&[(0, &part[i][..1]), (1, &part[i][1..])]));
                    };
                    sum.add_in_chunks(part.len(), 4, make).unwrap();
                    assert!(matches!(sum.add_in_chunks(201, 4, |_, _| {}), Err(CuratorError::Shape)));
                } else {
                    sum.add(part.len(), |i, out| out.extend(part[i].map(f64::from))).unwrap();
                    assert!(matches!(sum.add(201, |_, out| out.push(1.0)), Err(CuratorError::Shape)));
                }
                at += part.len();
            }
            assert_eq!(at, records.len());
            // full: not one more
            assert!(matches!(sum.add(1, |_, out| out.push(1.0)), Err(CuratorError::Shape)));
            curator.release(&Gaussian::new(1.0, 1.5, Grid::new(-20), 3, "batch gradient"), &sum.finish()).unwrap()
        };
        for wide in [false, true] {
            let whole = released(&[], wide);
            assert_eq!(whole, released(&[1, 0, 16, 30], wide));
            assert_eq!(whole, released(&[50, 50], wide));
        }
    }
}
