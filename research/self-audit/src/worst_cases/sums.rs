//! Canaries in noisy sums: clipped, summed on the grid, released through the curator (docs/proofs/gaussian-sum.md).

use dpopt_audit::draws::Draws;
use dpopt_mechanism::{Clipped, CuratorError, Gaussian, GridSum, Mechanism, Sensitive, past_the_curator};
use dpopt_noise::{Grid, NoiseSource, Norm, Quantizer};
use dpopt_objective::loss::Loss;
use dpopt_objective::objective::Linear;
use dpopt_objective::records::{Examples, Rows};
use dpopt_privacy::Event;

/// Clip norm of the gradient rows: half of the loss's bound, so that the canary is always clipped.
pub(crate) const CLIP: f64 = 0.5;

/// `rows` rows of zeros but for the first ones, where row i is e_i with target `targets[i]` (0: absent).
pub(crate) fn canaries(rows: usize, features: usize, targets: &[f32]) -> Sensitive<Examples> {
    let mut table = Rows::new(features);
    for i in 0..rows {
        match targets.get(i) {
            Some(&t) if t != 0.0 => table.push_clipped(&mut [(i as u32, 1.0)], 1.0),
            _ => table.push_zero(),
        }
    }
    let targets = (0..rows).map(|i| targets.get(i).copied().unwrap_or(0.0)).collect();
    Sensitive::new(Examples { rows: table, targets })
}

/// Noisy sums of clipped gradients of the absolute loss at weight 0, in the canary's coordinate and in units of C.
///
/// `event` is what the curator is opened for; an injected fault may open it for another one than is claimed.
pub(crate) struct GradientSums {
    event: Event,
    rows: usize,
    gradient: Result<Clipped<Linear>, CuratorError>,
    mechanism: Gaussian,
}

impl GradientSums {
    pub(crate) fn new(event: Event, rows: usize, noise_multiplier: f64) -> Self {
        let grid = Grid::for_sum(CLIP, noise_multiplier * CLIP, rows as u64, 1);
        Self {
            event,
            rows,
            gradient: Clipped::new(Linear::new(Loss::Absolute, 1, 1.0), CLIP, grid),
            mechanism: Gaussian::new(noise_multiplier, CLIP, grid, 1, "gradient sum"),
        }
    }

    /// `steps` releases, of all records or of Poisson batches drawn by the curator.
    pub(crate) fn release(
        &self,
        examples: &Sensitive<Examples>,
        sampling_probability: Option<f64>,
        steps: u64,
        draws: &mut Draws,
    ) -> Result<Vec<f64>, CuratorError> {
        let gradient = self.gradient.as_ref().map_err(Clone::clone)?;
        let mut curator = past_the_curator::uncharged(&self.event, NoiseSource::insecure(draws.word()));
        (0..steps)
            .map(|_| {
                let sum = match sampling_probability {
                    None => gradient.sum(examples, &[0.0]),
                    Some(q) => gradient.sum_batch(examples, curator.poisson_sample(self.rows, q)?, &[0.0]),
                };
                // the slope of |s − 1| at 0 is −1
                curator.release(&self.mechanism, &sum).map(|noisy| -noisy.get()[0] / CLIP)
            })
            .collect()
    }
}

impl GradientSums {
    /// One Poisson batch and its release; an injected fault gives out 0 without noise when the batch is empty.
    pub(crate) fn batch(
        &self,
        examples: &Sensitive<Examples>,
        sampling_probability: f64,
        empty_is_silent: bool,
        draws: &mut Draws,
    ) -> Result<f64, CuratorError> {
        let gradient = self.gradient.as_ref().map_err(Clone::clone)?;
        let mut curator = past_the_curator::uncharged(&self.event, NoiseSource::insecure(draws.word()));
        let batch = curator.poisson_sample_of(examples, sampling_probability)?;
        if empty_is_silent && past_the_curator::sampled(&batch).is_empty() {
            return Ok(0.0);
        }
        let noisy = curator.release(&self.mechanism, &gradient.sum_batch(examples, batch, &[0.0]))?;
        Ok(-noisy.get()[0] / CLIP)
    }
}

/// A sum release as the library makes it, sensitivity 1: contributions clipped to integers on the grid, then the Gaussian
/// mechanism through the curator.
pub(crate) struct SumMechanism {
    quantizer: Quantizer,
    mechanism: Gaussian,
    event: Event,
    grid: Grid,
}

impl SumMechanism {
    /// Noise of standard deviation `noise_std` on sums in `dimension` coordinates whose terms are clipped to 1 in l2.
    pub(crate) fn new(noise_std: f64, dimension: usize) -> Self {
        Self::clipping(Norm::L2, noise_std, dimension)
    }

    /// Noise of standard deviation `noise_std` on sums in `dimension` coordinates whose terms are clipped to 1 in `norm`.
    pub(crate) fn clipping(norm: Norm, noise_std: f64, dimension: usize) -> Self {
        // fine against C = 1
        let grid = Grid::new(-20);
        let Ok(quantizer) = Quantizer::new(norm, 1.0, grid) else { unreachable!("1 on the grid 2^-20") };
        let mechanism = Gaussian::new(noise_std, 1.0, grid, dimension, "sum");
        Self { quantizer, event: mechanism.event(), mechanism, grid }
    }

    /// The grid of the sum.
    pub(crate) fn grid(&self) -> Grid {
        self.grid
    }

    /// Contribution of a record, clipped, on the grid.
    pub(crate) fn clipped(&self, record: &[f64]) -> Vec<i64> {
        let (mut values, mut out) = (record.to_vec(), Vec::new());
        self.quantizer.quantize(&mut values, &mut out);
        out
    }

    /// What a row given as (index, value) pairs may contribute, in all.
    pub(crate) fn clipped_sparse(&self, entries: &[(u32, f64)]) -> i64 {
        let (mut entries, mut indices, mut out) = (entries.to_vec(), Vec::new(), Vec::new());
        self.quantizer.quantize_sparse(&mut entries, &mut indices, &mut out);
        out.iter().sum()
    }

    /// The record on the grid without the clip: what a forgotten clip would add.
    pub(crate) fn unclipped(&self, record: &[f64]) -> Vec<i64> {
        record.iter().map(|v| (v / self.grid.step()) as i64).collect()
    }

    /// The noisy sum, in units of C; empty if the curator refuses.
    pub(crate) fn release(&self, units: &[i64], draws: &mut Draws) -> Vec<f64> {
        // integers below 2^53 survive the way through f64
        let sum = GridSum::of_query(units.iter().map(|&u| self.grid.to_f64(u)), self.grid, 1.0);
        let mut curator = past_the_curator::uncharged(&self.event, NoiseSource::insecure(draws.word()));
        curator.release(&self.mechanism, &Sensitive::new(sum)).map_or(Vec::new(), |r| r.get().clone())
    }
}
