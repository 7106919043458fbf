//! Randomness that is safe to publish.
//!
//! Sums are integers on a public [`Grid`]; each record is clipped by a [`Quantizer`] whose bound holds exactly; noise is
//! drawn from a [`NoiseSource`] and rounded to the same grid ([`RoundedGaussian`], …). Rounding the exact continuous
//! law is post-processing, so the accounting of the continuous mechanism holds; what the samplers err (2^-110 in total
//! variation per sample) is stated and goes into δ.
//!
//! ```
//! use dpopt_noise::{Grid, Norm, NoiseSource, Purpose, Quantizer, RoundedGaussian};
//!
//! let (clip_norm, noise_std, records) = (1.0, 4.0, [[0.3, 0.1], [2.0, -1.0]]);
//! let grid = Grid::for_sum(clip_norm, noise_std, records.len() as u64, 2);
//! let quantizer = Quantizer::new(Norm::L2, clip_norm, grid)?;
//! let noise = RoundedGaussian::new(noise_std, grid)?;
//!
//! let mut sum = vec![0i64; 2];
//! let mut integers = Vec::new();
//! for mut record in records {
//!     quantizer.quantize(&mut record, &mut integers);
//!     for (cell, z) in sum.iter_mut().zip(&integers) {
//!         *cell = cell.wrapping_add(*z);
//!     }
//! }
//! let mut source = NoiseSource::secure()?;
//! noise.add_to(&mut sum, &mut source.stream(Purpose::Noise, 0));
//! let released: Vec<f64> = sum.iter().map(|&z| grid.to_f64(z)).collect();
//! # assert_eq!(released.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod chacha;
mod continuous;
pub mod correlated;
#[cfg(test)]
mod exact_normal;
mod fixed;
mod gaussian;
mod gaussian_block;
mod geometric;
mod grid;
mod laplace;
mod lazy_uniform;
mod levels;
mod poisson;
mod quantize;
mod source;
mod stream;
#[cfg(test)]
mod tail_cells;
#[cfg(test)]
mod tests;
mod wide_normal;
mod ziggurat;

pub use gaussian::{NoiseScaleError, RoundedGaussian};
pub use geometric::{Geometric, ScaleError};
pub use grid::Grid;
pub use laplace::{DiscreteLaplace, RoundedLaplace};
pub use poisson::{PoissonSkips, ProbabilityError, SubsetKey};
pub use quantize::{Norm, QuantizeError, Quantizer};
pub use source::{EntropyError, NoiseSource, Purpose};
pub use stream::{Parts, Stream};

/// What exact samplers are made of: for those of `dpopt-draws`.
pub mod parts {
    pub use crate::fixed::{Fixed, Interval};
    pub use crate::geometric::{L, exp_minus, inverse};
    pub use crate::grid::{dyadic, floor_log2, power_of_two};
    pub use crate::lazy_uniform::LazyUniform;
    pub use crate::levels::{LEVELS, PER_SIGMA, tail_probabilities};
    pub use crate::wide_normal::{FRACTION_BITS, WideNormal};
}
