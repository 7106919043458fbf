//! Rounded Gaussian noise round(N(0, σ²)/γ), exact up to 2^-110 in total variation per sample (spec 19 §1.6).
use crate::exact_normal::rounded_half_normal;
use crate::grid::{Grid, dyadic};
use crate::stream::Stream;

/// A noise scale that can't be sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoiseScaleError {
    /// Not a positive finite number.
    #[error("the noise standard deviation must be a positive finite number")]
    NotPositive,
    /// σ/γ < 1/4.
    #[error("the noise is below a quarter of a grid step; take a finer grid (`Grid::for_sum` picks one)")]
    GridTooCoarse,
    /// σ/γ > 2^57.
    #[error("the noise exceeds 2^57 grid steps; take a coarser grid (`Grid::for_sum` picks one)")]
    GridTooFine,
}

/// round(N(0, σ²)/γ) as an integer. Added to an integer sum of sensitivity C (in units of the value, C/γ in steps) this
/// is a post-processing of the continuous Gaussian mechanism: event `Gaussian(σ/C)`.
///
/// ```
/// use dpopt_noise::{Grid, NoiseSource, Purpose, RoundedGaussian};
/// let grid = Grid::new(-20);
/// let noise = RoundedGaussian::new(1.5, grid)?;
/// let mut stream = NoiseSource::insecure(1).stream(Purpose::Noise, 0);
/// let mut sum = vec![0i64; 100];
/// noise.add_to(&mut sum, &mut stream);
/// assert!(sum.iter().any(|&z| grid.to_f64(z).abs() > 0.1));
/// # Ok::<(), dpopt_noise::NoiseScaleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RoundedGaussian {
    noise_std: f64,
    grid: Grid,
    mantissa: u64,
    exponent: i32,
}

impl RoundedGaussian {
    /// Noise of standard deviation `noise_std` (of the sum, per coordinate) on `grid`.
    ///
    /// # Errors
    /// If `noise_std` is not positive and finite, or σ/γ is outside \[1/4, 2^57\].
    pub fn new(noise_std: f64, grid: Grid) -> Result<Self, NoiseScaleError> {
        if !(noise_std.is_finite() && noise_std > 0.0) {
            return Err(NoiseScaleError::NotPositive);
        }
        let (mantissa, exponent) = dyadic(noise_std);
        let exponent = exponent - grid.exponent();
        // s = σ/γ lies in [2^(top-1), 2^top)
        let top = exponent + 64 - mantissa.leading_zeros() as i32;
        if top < -1 {
            return Err(NoiseScaleError::GridTooCoarse);
        }
        if top > 57 {
            return Err(NoiseScaleError::GridTooFine);
        }
        Ok(Self { noise_std, grid, mantissa, exponent })
    }

    /// σ.
    pub fn noise_std(&self) -> f64 {
        self.noise_std
    }

    /// The grid γ·Z.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Upper bound on the total-variation distance of one sample from the exact law: 2^-110. With N samples (N a public
    /// bound, never the realised number) δ grows by (1 + e^ε)·N·2^-110.
    pub fn total_variation_per_sample(&self) -> f64 {
        2f64.powi(-110)
    }

    /// One sample.
    pub fn sample(&self, stream: &mut Stream) -> i64 {
        let size = rounded_half_normal(self.mantissa, self.exponent, stream) as i64;
        if stream.coin() { -size } else { size }
    }

    /// Adds independent samples to every cell, modulo 2^64.
    pub fn add_to(&self, sums: &mut [i64], stream: &mut Stream) {
        for cell in sums {
            *cell = cell.wrapping_add(self.sample(stream));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NoiseSource, Purpose};

    #[test]
    fn bad_scales_are_refused() {
        let new = |s, g| RoundedGaussian::new(s, Grid::new(g)).map(|_| ());
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert_eq!(new(bad, 0), Err(NoiseScaleError::NotPositive));
        }
        assert_eq!(new(0.2499, 0), Err(NoiseScaleError::GridTooCoarse));
        assert_eq!(new(0.25, 0), Ok(()));
        assert_eq!(new(1.0, -56), Ok(()));
        assert_eq!(new(1.0, -57), Err(NoiseScaleError::GridTooFine));
    }

    #[test]
    fn moments() {
        let noise = RoundedGaussian::new(3.3, Grid::new(0)).unwrap();
        let mut stream = NoiseSource::insecure(8).stream(Purpose::Audit, 0);
        let n = 100_000;
        let mut z = vec![0i64; n];
        noise.add_to(&mut z, &mut stream);
        let mean = z.iter().sum::<i64>() as f64 / n as f64;
        let variance = z.iter().map(|&z| (z * z) as f64).sum::<f64>() / n as f64;
        let exact = 3.3 * 3.3 + 1.0 / 12.0; // spec 19 §1.2
        let n = n as f64;
        assert!(mean.abs() < 5.0 * (exact / n).sqrt(), "mean {mean}, false alarm 6e-7");
        assert!((variance / exact - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "variance {variance}, false alarm 6e-7");
    }
}
