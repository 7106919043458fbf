//! Mean gradients without noise.

use super::network::Network;
use super::scales::Scales;
use super::training::{Means, add, over_gradients, views};
use crate::{Failure, Trial};
use dpopt::noise::{Purpose, Stream};

/// First and second moments of clipped gradients: of each weight its sum, and its sum of squares.
pub(super) struct Clipped {
    pub(super) sum: Vec<f64>,
    pub(super) squares: Vec<f64>,
}

/// Σ of the gradients that are clipped to norm `bound` after they were scaled, in the units of the weights.
pub(super) fn clipped(network: Network, weights: &[f32], points: &[&[u32]], scales: &Scales, bound: f64) -> Clipped {
    let d = weights.len();
    let unscale = scales.inverse(1.0);
    let mut all = over_gradients(
        network,
        weights,
        points,
        scales,
        || Clipped { sum: vec![0.0; d], squares: vec![0.0; d] },
        |all, pieces| {
            let norm = pieces.iter().flat_map(|p| p.1).map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            let factor = if norm > bound { bound / norm } else { 1.0 };
            add(&mut all.sum, pieces, factor);
            for (at, piece) in pieces {
                all.squares[*at..].iter_mut().zip(*piece).for_each(|(s, g)| *s += (factor * f64::from(*g)).powi(2));
            }
        },
        |mut a, b| {
            a.sum.iter_mut().zip(b.sum).for_each(|(x, y)| *x += y);
            a.squares.iter_mut().zip(b.squares).for_each(|(x, y)| *x += y);
            a
        },
    );
    for ((sum, square), u) in all.sum.iter_mut().zip(&mut all.squares).zip(&unscale) {
        *sum *= f64::from(*u);
        *square *= f64::from(*u).powi(2);
    }
    all
}

/// Poisson batches, clipped and without noise.
pub(super) struct PlainMeans<'a> {
    network: Network,
    train: &'a [Vec<u32>],
    scales: Scales,
    bound: f64,
    sampling_probability: f64,
    stream: Stream,
}

impl<'a> PlainMeans<'a> {
    /// `bound` may be infinite.
    pub(super) fn new(
        network: Network,
        train: &'a [Vec<u32>],
        scales: Scales,
        bound: f64,
        sampling_probability: f64,
        trial: Trial,
    ) -> Self {
        let stream = trial.source().stream(Purpose::Other(3), 0);
        Self { network, train, scales, bound, sampling_probability, stream }
    }
}

impl Means for PlainMeans<'_> {
    fn mean(&mut self, weights: &[f32]) -> Result<Vec<f64>, Failure> {
        let taken = (self.sampling_probability * (1u64 << 53) as f64) as u64;
        let batch: Vec<&[u32]> =
            views(self.train.iter()).into_iter().filter(|_| self.stream.below(1 << 53) < taken).collect();
        let expected = self.sampling_probability * self.train.len() as f64;
        let mut mean = clipped(self.network, weights, &batch, &self.scales, self.bound).sum;
        mean.iter_mut().for_each(|g| *g /= expected);
        Ok(mean)
    }
}
