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
mod discrete_gaussian;
mod ellipsoid;
#[cfg(test)]
mod exact_normal;
mod exceedances;
mod fixed;
mod gaussian;
mod gaussian_block;
mod geometric;
mod grid;
mod intersection;
mod laplace;
mod laplace_maximum;
mod lazy;
mod lazy_uniform;
mod leveled_choice;
mod order_statistics;
mod poisson;
mod quantize;
mod repetitions;
mod selection;
mod sketch;
mod source;
mod stream;
#[cfg(test)]
mod tail_cells;
mod wide_normal;
mod ziggurat;

pub use discrete_gaussian::DiscreteGaussian;
pub use ellipsoid::EllipsoidQuantizer;
pub use exceedances::Exceedances;
pub use gaussian::{NoiseScaleError, RoundedGaussian};
pub use geometric::{Geometric, ScaleError};
pub use grid::Grid;
pub use intersection::{project_l1_l2, project_l1_l2_dense};
pub use laplace::{DiscreteLaplace, RoundedLaplace};
pub use laplace_maximum::LaplaceMaximum;
pub use lazy::{LazyIterate, LazyNoiseError, LazyOptions, Phase, RowSeats, StepRule, Work};
pub use leveled_choice::{Chosen, LeveledChoice, unnamed_index};
pub use order_statistics::{Descending, hard_threshold, project_l1};
pub use poisson::{PoissonSkips, ProbabilityError, SubsetKey};
pub use quantize::{Norm, QuantizeError, Quantizer, quantize_l1, quantize_l2, quantize_linf};
pub use repetitions::{Repetitions, RepetitionsError};
pub use selection::{ExponentialChoice, NoisyMax};
pub use sketch::{SKETCH_EXPONENT, Sketch};
pub use source::{EntropyError, NoiseSource, Purpose};
pub use stream::{Parts, Stream};

#[cfg(test)]
mod tests {
    /// Pearson's test of cell counts against probabilities; cells expected below 10 are pooled. The limit is that of
    /// Laurent and Massart (2000): false alarm below e^-15.2 = 2.5e-7 (up to the multinomial's own approximation).
    pub(crate) fn assert_multinomial(counts: &[f64], probability: impl Fn(usize) -> f64) {
        let n: f64 = counts.iter().sum();
        let (mut chi2, mut cells, mut pooled, mut pooled_expected) = (0.0, 0.0, 0.0, 0.0);
        let mut cell = |seen: f64, expected: f64| {
            chi2 += (seen - expected) * (seen - expected) / expected;
            cells += 1.0;
        };
        let mut total = 0.0;
        for (k, &seen) in counts.iter().enumerate() {
            let p = probability(k);
            total += p;
            if n * p < 10.0 {
                pooled += seen;
                pooled_expected += n * p;
            } else {
                cell(seen, n * p);
            }
        }
        assert!((total - 1.0).abs() < 1e-4, "the probabilities sum to {total}");
        if pooled_expected > 1.0 {
            cell(pooled, pooled_expected);
        }
        let freedom: f64 = cells - 1.0;
        let limit = freedom + 2.0 * (15.2 * freedom).sqrt() + 30.4;
        assert!(chi2 < limit, "chi-square {chi2} with {freedom} degrees of freedom: {counts:?}");
    }
}
