//! Sums of ready-made vectors, one per record: rows for a mean, per-sample gradients of a model trained elsewhere
//! (spec 19 §1.3, docs/proofs/gaussian-sum.md).
//!
//! Each vector is clipped and truncated toward zero to a public grid with a proof that its norm is at most C, and summed
//! in wrapping integers: the sensitivity is exact and the order of summation does not matter.

use super::curator::{CuratorError, Mechanism, PoissonBatch, sealed};
use super::gradient::GridSum;
use crate::Sensitive;
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedLaplace};
use dpopt_privacy::Event;
use rayon::prelude::*;

/// Clips vectors to l2 norm `clip_norm` on a grid; what [`Gaussian`](super::Gaussian) adds noise to.
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
        let units = add_up(&self.quantizer, records, dimension, vector);
        Sensitive::new(GridSum { units, grid: self.quantizer.grid(), clip_norm: self.quantizer.clip_norm(), batch: None })
    }

    /// The same with one vector per record of a Poisson batch, which is used up.
    ///
    /// # Errors
    /// If there are more vectors than records in a batch that the curator drew: some record would count twice.
    pub fn sum_batch(
        &self,
        batch: PoissonBatch,
        vectors: usize,
        dimension: usize,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<GridSum>, CuratorError> {
        if batch.drawn_here() && vectors > batch.records().len() {
            return Err(CuratorError::Shape);
        }
        let units = add_up(&self.quantizer, vectors, dimension, vector);
        let (grid, clip_norm) = (self.quantizer.grid(), self.quantizer.clip_norm());
        Ok(Sensitive::new(GridSum { units, grid, clip_norm, batch: Some(batch.id()) }))
    }
}

fn quantizer(norm: Norm, clip_norm: f64, grid: Grid) -> Result<Quantizer, CuratorError> {
    Quantizer::new(norm, clip_norm, grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

/// Integers commute: one part per thread, in any order, gives the same bits.
fn add_up(
    quantizer: &Quantizer,
    records: usize,
    dimension: usize,
    vector: impl Fn(usize, &mut Vec<f64>) + Sync,
) -> Vec<i64> {
    let part = records.div_ceil(rayon::current_num_threads().max(1)).max(64);
    (0..records.div_ceil(part))
        .into_par_iter()
        .map(|c| {
            let mut sum = vec![0i64; dimension];
            let (mut values, mut units) = (Vec::with_capacity(dimension), Vec::new());
            for i in c * part..((c + 1) * part).min(records) {
                values.clear();
                vector(i, &mut values);
                // a longer vector is cut, so that what was clipped is what is summed
                values.truncate(dimension);
                quantizer.quantize(&mut values, &mut units);
                sum.iter_mut().zip(&units).for_each(|(s, u)| *s = s.wrapping_add(*u));
            }
            sum
        })
        .reduce(
            || vec![0i64; dimension],
            |mut a, b| {
                a.iter_mut().zip(b).for_each(|(x, y)| *x = x.wrapping_add(y));
                a
            },
        )
}

/// A sum of integer vectors, each of *l1* norm at most C; what [`Laplace`] adds noise to.
pub struct L1Sum {
    units: Vec<i64>,
    grid: Grid,
    clip_norm: f64,
}

impl L1Sum {
    /// Σ over `records` vectors of `dimension` entries, each clipped to l1 norm `clip_norm` on `grid`; `vector` as in
    /// [`ClippedVectors::sum`].
    pub fn of(
        records: usize,
        dimension: usize,
        clip_norm: f64,
        grid: Grid,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<Self>, CuratorError> {
        let units = add_up(&quantizer(Norm::L1, clip_norm, grid)?, records, dimension, vector);
        Ok(Sensitive::new(Self { units, grid, clip_norm }))
    }

    /// For a quantity whose l1 sensitivity is proved elsewhere (a minimiser): `values` rounded to the nearest grid point.
    /// `sensitivity` must include the h·d of this rounding.
    pub(crate) fn of_query(values: impl Iterator<Item = f64>, grid: Grid, sensitivity: f64) -> Self {
        let units = values.map(|v| (v / grid.step()).round_ties_even() as i64).collect();
        Self { units, grid, clip_norm: sensitivity }
    }
}

/// Adds Laplace noise of scale b·C, rounded to the grid, to every coordinate of an [`L1Sum`]. Event: `Laplace(b)`.
#[derive(Clone, Debug)]
pub struct Laplace {
    noise_multiplier: f64,
    clip_norm: f64,
    grid: Grid,
    dimension: usize,
    label: &'static str,
}

impl Laplace {
    /// Noise scale `noise_multiplier`·`clip_norm` per coordinate of a sum on `grid`.
    pub fn new(noise_multiplier: f64, clip_norm: f64, grid: Grid, dimension: usize) -> Self {
        Self { noise_multiplier, clip_norm, grid, dimension, label: "clipped sum" }
    }

    /// The same under another name in the ledger table.
    pub(crate) fn labelled(self, label: &'static str) -> Self {
        Self { label, ..self }
    }
}

impl sealed::Sealed for Laplace {}

impl Mechanism for Laplace {
    type Input = L1Sum;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::Laplace { noise_multiplier: self.noise_multiplier }
    }

    fn label(&self) -> &'static str {
        self.label
    }

    fn check(&self, input: &L1Sum) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        if input.grid != self.grid || input.units.len() != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &L1Sum, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        // the product b·C was rounded once: next_up makes the noise at least what was accounted
        let scale = (self.noise_multiplier * self.clip_norm).next_up();
        let sampler = RoundedLaplace::new(scale, self.grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        let mut units = input.units.clone();
        sampler.add_to(&mut units, &mut noise.stream(Purpose::Noise, 0));
        Ok(units.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mechanism::{Curator, Gaussian};

    const GRID: i32 = -30;

    fn rows(data: &[[f64; 2]]) -> impl Fn(usize, &mut Vec<f64>) + Sync + '_ {
        |i, out| out.extend(data[i])
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
    fn l1_sums_get_laplace_noise_once_and_of_the_planned_norm_only() {
        let sum = L1Sum::of(2, 2, 1.0, Grid::new(GRID), rows(&[[3.0, 1.0], [0.2, 0.2]])).unwrap();
        let mut curator = Curator::for_event(&Event::Laplace { noise_multiplier: 1e-4 }, NoiseSource::insecure(1));
        let small = Laplace::new(1e-4, 0.5, Grid::new(GRID), 2);
        assert!(matches!(curator.release(&small, &sum), Err(CuratorError::Sensitivity { .. })));
        let mechanism = Laplace::new(1e-4, 1.0, Grid::new(GRID), 2);
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        assert!((out[0] - 0.95).abs() < 0.01 && (out[1] - 0.45).abs() < 0.01, "{out:?}");
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
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
        let elsewhere = curator.sampled_elsewhere(0.4);
        let sum = clipped.sum_batch(elsewhere, 3, 1, one).unwrap();
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
        let elsewhere = curator.sampled_elsewhere(0.5);
        let sum = clipped.sum_batch(elsewhere, 3, 1, one).unwrap();
        assert!(curator.release(&mechanism, &sum).is_ok());
        assert!(curator.is_spent());
    }
}
