//! Public numbers of a stream: how its batches lie, how its noise is correlated, and what follows for sensitivity and error.

use crate::refused::CuratorError;
use dpopt_noise::Grid;
use dpopt_noise::correlated::{CorrelatedNoise, Factor, Participation, tree_depth};
use serde::{Deserialize, Serialize};
use std::ops::Range;
/// How the noises of the steps are correlated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Correlation {
    /// Buffered linear Toeplitz with four buffers: near the best for one epoch, memory 4·d.
    #[default]
    Blt,
    /// Square root of the prefix-sum matrix, as many bands as an epoch has steps: best for several epochs, memory d per band.
    Banded,
    /// Binary tree, a fresh one for every epoch: the classic, memory d·log2(steps).
    Tree,
    /// Independent noise, for comparison.
    Independent,
}

/// Which batch a record is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Batching {
    /// Its position among all records says it: for records that stay where they are whatever others hold.
    #[default]
    Position,
    /// A secret coin of its own, thrown once: any batch is as likely as any other, whatever other records there are.
    Coin,
    /// Its place in a public random order: as [`Position`](Self::Position), for records whose order may say something of them.
    Shuffled,
    /// The one that it came with: records come batch by batch ([`GradientStream::next_arrived`]), one pass and no second.
    Arrival,
    /// The one that it came with, where a privacy unit has one record in each of at most so many batches, wherever these are.
    Arrivals(u64),
}

impl Batching {
    /// Whether records come batch by batch.
    pub(super) fn arrives(self) -> bool {
        matches!(self, Self::Arrival | Self::Arrivals(_))
    }
}

/// Public numbers of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StreamShape {
    /// Batches of an epoch.
    pub batches: usize,
    /// Number T of steps, over all epochs.
    pub steps: usize,
    /// How noises are correlated.
    pub correlation: Correlation,
}

impl StreamShape {
    /// Passes over the data, the last one possibly cut short.
    pub fn epochs(&self) -> usize {
        self.steps.div_ceil(self.batches)
    }

    /// The factor that correlates the noise of steps; `None` for a tree, which has its own.
    pub fn factor(&self) -> Result<Option<Factor>, CuratorError> {
        let factor = match self.correlation {
            Correlation::Blt => Factor::blt_default(4),
            Correlation::Banded => Factor::square_root(self.batches.min(self.steps)),
            Correlation::Independent => Ok(Factor::identity()),
            Correlation::Tree => return Ok(None),
        };
        factor.map(Some).map_err(|e| CuratorError::Noise(e.to_string()))
    }

    /// How many of `records` the batch of a step has, where batches go by position: whole and disjoint for every number of records and of batches.
    pub fn batch_size(&self, records: u64, step: usize) -> usize {
        positions(records, step % self.batches, self.batches).len()
    }

    /// l2 sensitivity of the whole stream per unit of the clip norm (zero-out; the accountant doubles it for replace-one).
    pub fn sensitivity(&self) -> Result<f64, CuratorError> {
        let participation = Participation::Separated { separation: self.batches, count: self.epochs() };
        Ok(match self.factor()? {
            Some(factor) => factor.sensitivity(self.steps, participation),
            None => (self.epochs() as f64 * f64::from(tree_depth(self.batches as u64))).sqrt() * (1.0 + 1e-12),
        })
    }

    /// l2 sensitivity of the whole stream, in clip norms, for privacy units with one record in each of at most `count` batches of a single pass, wherever these are.
    pub fn sensitivity_of_arrivals(&self, count: u64) -> Result<f64, CuratorError> {
        let count = count.min(self.steps as u64);
        match self.factor()? {
            Some(factor) if (self.steps as u64).saturating_mul(count) <= 1 << 32 => {
                Ok(factor.sensitivity(self.steps, Participation::Separated { separation: 1, count: count as usize }))
            }
            // each batch moves it by at most what one does
            _ => Ok(self.sensitivity()? * count as f64 * (1.0 + 1e-12)),
        }
    }

    /// Standard deviation of the noise of the sum of all steps, per unit of that of one normal variable.
    pub fn final_error(&self) -> Result<f64, CuratorError> {
        Ok(match self.factor()? {
            Some(factor) => factor.prefix_errors(self.steps).last().copied().unwrap_or(0.0),
            None => {
                let (whole, rest) = (self.steps / self.batches, self.steps % self.batches);
                ((whole as u32 * self.batches.count_ones() + rest.count_ones()) as f64).sqrt()
            }
        })
    }

    /// Bound on the total-variation distance of all noises of `dimension` coordinates from the exact law.
    pub fn total_variation(&self, noise_std: f64, grid: Grid, dimension: usize) -> Result<f64, CuratorError> {
        let samples = self.steps as f64 * dimension as f64;
        Ok(match self.factor()? {
            Some(factor) => {
                let one = CorrelatedNoise::new(factor, noise_std, grid, 1, self.steps)
                    .map_err(|e| CuratorError::Noise(e.to_string()))?;
                one.total_variation() * dimension as f64
            }
            None => samples * 2f64.powi(-110),
        })
    }
}

/// Positions of a batch: together the batches are all records, and disjoint, for every number of records and of batches.
pub(super) fn positions(records: u64, batch: usize, batches: usize) -> Range<usize> {
    let (n, m, batch) = (u128::from(records), batches as u128, batch as u128);
    (n * batch / m) as usize..(n * (batch + 1) / m) as usize
}
