//! Sums of vectors clipped in l1 norm, and Laplace noise on them (docs/proofs/gaussian-sum.md).

use dpopt_kernel::beside::{Sealed, add_up_vectors, quantizer};
use dpopt_kernel::{BatchId, CuratorError, Mechanism, SamplerError, Sensitive};
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedLaplace};
use dpopt_privacy::Event;

/// A sum of integer vectors, each of *l1* norm at most C; what [`Laplace`] adds noise to.
pub struct L1Sum {
    quanta: Vec<i64>,
    grid: Grid,
    clip_norm: f64,
    batch: Option<BatchId>,
}

impl L1Sum {
    /// Integers of l1 norm at most the quantizer's bound for each record.
    pub(super) fn of_quanta(quanta: Vec<i64>, quantizer: &Quantizer, batch: Option<BatchId>) -> Self {
        Self { quanta, grid: quantizer.grid(), clip_norm: quantizer.clip_norm(), batch }
    }

    /// Σ over `records` vectors of `dimension` entries, each clipped to l1 norm `clip_norm` on `grid`; `vector` as in
    /// [`ClippedVectors::sum`](crate::ClippedVectors::sum).
    pub fn of(
        records: usize,
        dimension: usize,
        clip_norm: f64,
        grid: Grid,
        vector: impl Fn(usize, &mut Vec<f64>) + Sync,
    ) -> Result<Sensitive<Self>, CuratorError> {
        let quantizer = quantizer(Norm::L1, clip_norm, grid)?;
        let quanta = add_up_vectors(&quantizer, records, dimension, vector);
        Ok(Sensitive::new(Self::of_quanta(quanta, &quantizer, None)))
    }
}

/// Adds Laplace noise of scale b·C, rounded to the grid, to every coordinate of an [`L1Sum`]. Event: `Laplace(b)`.
#[derive(Clone, Debug)]
pub struct Laplace {
    noise_multiplier: f64,
    clip_norm: f64,
    grid: Grid,
    dimension: usize,
}

impl Laplace {
    /// Noise scale `noise_multiplier`·`clip_norm` per coordinate of a sum on `grid`.
    pub fn new(noise_multiplier: f64, clip_norm: f64, grid: Grid, dimension: usize) -> Self {
        Self { noise_multiplier, clip_norm, grid, dimension }
    }
}

/// What draws Laplace noise of at least that scale.
pub fn rounded_laplace(scale: f64, grid: Grid) -> Result<RoundedLaplace, CuratorError> {
    // the product b·C was rounded once: next_up makes the noise at least what was accounted
    RoundedLaplace::new(scale.next_up(), grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

impl Sealed for Laplace {}

impl Mechanism for Laplace {
    type Input = L1Sum;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::Laplace { noise_multiplier: self.noise_multiplier }
    }

    fn sampler_error(&self, _input: &L1Sum) -> f64 {
        SamplerError::fine(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        "clipped sum"
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        quantizer(Norm::L1, self.clip_norm, self.grid)?;
        rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid).map(drop)
    }

    fn check(&self, input: &L1Sum) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        if input.grid != self.grid || input.quanta.len() != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &L1Sum) -> Option<BatchId> {
        input.batch
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &L1Sum, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let sampler = rounded_laplace(self.noise_multiplier * self.clip_norm, self.grid)?;
        let mut quanta = input.quanta.clone();
        sampler.add_to(&mut quanta, &mut noise.stream(Purpose::Noise, 0));
        Ok(quanta.into_iter().map(|u| self.grid.to_f64(u)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_kernel::beside::uncharged;

    const GRID: i32 = -30;

    fn rows(data: &[[f64; 2]]) -> impl Fn(usize, &mut Vec<f64>) + Sync + '_ {
        |i, out| out.extend(data[i])
    }

    #[test]
    fn l1_sums_get_laplace_noise_once_and_of_the_planned_norm_only() {
        let sum = L1Sum::of(2, 2, 1.0, Grid::new(GRID), rows(&[[3.0, 1.0], [0.2, 0.2]])).unwrap();
        let mut curator = uncharged(&Event::Laplace { noise_multiplier: 1e-4 }, NoiseSource::insecure(1));
        let small = Laplace::new(1e-4, 0.5, Grid::new(GRID), 2);
        assert!(matches!(curator.release(&small, &sum), Err(CuratorError::Sensitivity { .. })));
        let mechanism = Laplace::new(1e-4, 1.0, Grid::new(GRID), 2);
        let out = curator.release(&mechanism, &sum).unwrap().into_inner();
        assert!((out[0] - 0.95).abs() < 0.01 && (out[1] - 0.45).abs() < 0.01, "{out:?}");
        assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
    }
}
