//! The Gaussian mechanism: rounded Gaussian noise on an integer sum (docs/proofs/gaussian-sum.md).

use super::grid_sum::GridSum;
use crate::curator::batch::BatchId;
use crate::curator::mechanism::{Mechanism, sealed};
use crate::refused::CuratorError;
use crate::sampler_error::SamplerError;
use dpopt_noise::{Grid, NoiseSource, Norm, Purpose, Quantizer, RoundedGaussian};
use dpopt_privacy::Event;

/// Adds N(0, (z·C)²) rounded to the grid to every coordinate of a [`GridSum`].
///
/// Event: `Gaussian(z)`. Refuses a sum whose clip norm, grid or dimension is not the one it was made for.
#[derive(Clone, Debug)]
pub struct Gaussian {
    noise_multiplier: f64,
    clip_norm: f64,
    grid: Grid,
    dimension: usize,
    label: &'static str,
}

impl Gaussian {
    /// Noise standard deviation `noise_multiplier`·`clip_norm` per coordinate of a sum on `grid`.
    pub fn new(noise_multiplier: f64, clip_norm: f64, grid: Grid, dimension: usize, label: &'static str) -> Self {
        Self { noise_multiplier, clip_norm, grid, dimension, label }
    }

    /// The l2 clip norm C that the noise is made for.
    pub fn clip_norm(&self) -> f64 {
        self.clip_norm
    }

    /// What the noisy sum is a multiple of.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Standard deviation of the noise of the sum, per coordinate.
    pub fn standard_deviation(&self) -> f64 {
        self.noise_multiplier * self.clip_norm
    }
}

impl sealed::Sealed for Gaussian {}

impl Mechanism for Gaussian {
    type Input = GridSum;
    type Output = Vec<f64>;

    fn event(&self) -> Event {
        Event::gaussian(self.noise_multiplier)
    }

    fn sampler_error(&self, _input: &GridSum) -> f64 {
        SamplerError::rounded(self.dimension as f64).total_variation()
    }

    fn label(&self) -> &'static str {
        self.label
    }

    fn can_draw(&self) -> Result<(), CuratorError> {
        Quantizer::new(Norm::L2, self.clip_norm, self.grid).map_err(|e| CuratorError::Noise(e.to_string()))?;
        rounded_gaussian(self.standard_deviation(), self.grid).map(drop)
    }

    fn check(&self, input: &GridSum) -> Result<(), CuratorError> {
        if input.clip_norm > self.clip_norm {
            return Err(CuratorError::Sensitivity { input: input.clip_norm, mechanism: self.clip_norm });
        }
        if input.grid != self.grid || input.quanta.len() != self.dimension {
            return Err(CuratorError::Shape);
        }
        Ok(())
    }

    fn batch(&self, input: &GridSum) -> Option<BatchId> {
        input.batch
    }

    fn numbers(output: &Vec<f64>) -> Option<&[f64]> {
        Some(output)
    }

    fn apply(&self, input: &GridSum, noise: &mut NoiseSource) -> Result<Vec<f64>, CuratorError> {
        let gaussian = rounded_gaussian(self.standard_deviation(), self.grid)?;
        Ok(gaussian.noisy(&input.quanta, self.grid, &mut noise.stream(Purpose::Noise, 0)))
    }
}

/// What draws noise of standard deviation at least `standard_deviation` on `grid`.
pub fn rounded_gaussian(standard_deviation: f64, grid: Grid) -> Result<RoundedGaussian, CuratorError> {
    // the product z·C was rounded once: next_up makes the noise at least what was accounted
    RoundedGaussian::new(standard_deviation.next_up(), grid).map_err(|e| CuratorError::Noise(e.to_string()))
}

/// Adds noise of standard deviation at least `standard_deviation` on `grid`; wrapping, so that overflow costs accuracy
/// only.
pub fn add_rounded_gaussian(
    quanta: &mut [i64],
    standard_deviation: f64,
    grid: Grid,
    noise: &mut NoiseSource,
) -> Result<(), CuratorError> {
    rounded_gaussian(standard_deviation, grid)?.add_to(quanta, &mut noise.stream(Purpose::Noise, 0));
    Ok(())
}
