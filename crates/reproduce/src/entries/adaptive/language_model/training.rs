//! DP-SGD, PASAN and PAGAN on per-sequence gradients, through the curator (spec 14 §2–4).

use super::moments::{Moments, Squares};
use super::network::{Network, Scales};
use crate::{Failure, Trial};
use dpopt::estimate::BatchSums;
use dpopt::mechanism::{ClippedVectors, Curator, Gaussian};
use dpopt::noise::{Grid, NoiseSource, Purpose};
use dpopt::privacy::{Budget, Neighbours, Relation};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Sequences that go through the recurrence together.
const TOGETHER: usize = 8;

/// What is compared: the shape of clip and noise, and whether each weight has its own step length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Method {
    /// A ball, one step length.
    DpSgd,
    /// C = σ^−1, one step length.
    Pasan,
    /// C = σ^−4/3, AdaGrad.
    Pagan,
}

impl Method {
    pub(super) const ALL: [Method; 3] = [Method::DpSgd, Method::Pasan, Method::Pagan];

    pub(super) fn name(self) -> &'static str {
        match self {
            Method::DpSgd => "DP-SGD",
            Method::Pasan => "PASAN",
            Method::Pagan => "PAGAN",
        }
    }

    fn exponent(self) -> f64 {
        match self {
            Method::DpSgd => 0.0,
            Method::Pasan => 0.5,
            Method::Pagan => 2.0 / 3.0,
        }
    }
}

/// Everything a run depends on besides the texts.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Setting {
    pub(super) method: Method,
    pub(super) epsilon: f64,
    /// Root mean square over the weights of the first step; α of PAGAN, α/√d of the others.
    pub(super) rate: f64,
    /// B, where public gradients have root mean square norm 1.
    pub(super) clip_norm: f64,
    pub(super) sampling_probability: f64,
    pub(super) rounds: u64,
    /// Perplexity is taken so often.
    pub(super) looks: u64,
}

/// What a run gives.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Trace {
    pub(super) noise_multiplier: f64,
    /// Round, perplexity on the watched points.
    pub(super) curve: Vec<(u64, f64)>,
    pub(super) test: f64,
}

/// Points of words; each begins with the end of a line.
pub(super) struct Corpus {
    pub(super) train: Vec<Vec<u32>>,
    /// What the curve is taken on; no curve if empty.
    pub(super) watched: Vec<Vec<u32>>,
    pub(super) test: Vec<Vec<u32>>,
}

/// A run that diverged shows this: JSON has no infinity.
const DIVERGED: f64 = 1e30;

fn perplexity(network: Network, weights: &[f32], points: &[Vec<u32>]) -> f64 {
    let words: usize = points.iter().map(|p| p.len() - 1).sum();
    let loss: Vec<f64> = points.par_chunks(TOGETHER).map(|part| network.loss(weights, &views(part.iter()))).collect();
    (loss.iter().sum::<f64>() / words as f64).exp().min(DIVERGED)
}

fn views<'a>(points: impl Iterator<Item = &'a Vec<u32>>) -> Vec<&'a [u32]> {
    points.map(Vec::as_slice).collect()
}

/// The same start for all runs.
pub(super) fn start(network: Network, seed: u64) -> Vec<f32> {
    let mut source = NoiseSource::insecure(seed);
    let (mut normal, mut uniform) = (source.stream(Purpose::Other(0), 0), source.stream(Purpose::Other(0), 1));
    let unit = |stream: &mut dpopt::noise::Stream| (stream.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
    let gaussian = || (-2.0 * unit(&mut normal).ln()).sqrt() * (std::f64::consts::TAU * unit(&mut normal)).cos();
    network.start(gaussian, || unit(&mut uniform))
}

/// Steps α/√Σĝ² for each weight, or α/√Σ‖ĝ‖² for all.
struct Steps {
    diagonal: bool,
    rate: f64,
    squares: Vec<f64>,
}

impl Steps {
    fn new(diagonal: bool, rate: f64, weights: usize) -> Self {
        let (rate, count) = if diagonal { (rate, weights) } else { (rate * (weights as f64).sqrt(), 1) };
        Self { diagonal, rate, squares: vec![0.0; count] }
    }

    fn apply(&mut self, weights: &mut [f32], gradient: &[f64]) {
        if self.diagonal {
            for ((w, g), s) in weights.iter_mut().zip(gradient).zip(&mut self.squares) {
                *s += g * g;
                if *s > 0.0 {
                    *w -= (self.rate * g / s.sqrt()) as f32;
                }
            }
        } else {
            self.squares[0] += gradient.iter().map(|g| g * g).sum::<f64>();
            let length = self.rate / self.squares[0].max(f64::MIN_POSITIVE).sqrt();
            weights.iter_mut().zip(gradient).for_each(|(w, g)| *w -= (length * g) as f32);
        }
    }
}

/// One epoch of AdaGrad without privacy over a *public* text; what stays of it are the moments of the gradients.
pub(super) fn public_moments(network: Network, points: &[Vec<u32>], rate: f64, batch: usize, seed: u64) -> Moments {
    let mut weights = start(network, seed);
    let mut steps = Steps::new(true, rate, weights.len());
    let ones = network.ones();
    let mut squares = Squares::new(network);
    for part in points.chunks(batch) {
        let (sum, seen) = part
            .par_chunks(part.len().div_ceil(rayon::current_num_threads()).next_multiple_of(TOGETHER))
            .map(|part| {
                let (mut sum, mut seen) = (vec![0.0f64; weights.len()], Squares::new(network));
                for few in part.chunks(TOGETHER) {
                    network.gradients(&weights, &views(few.iter()), &ones, |pieces| {
                        seen.add(pieces);
                        for (at, piece) in pieces {
                            sum[*at..].iter_mut().zip(*piece).for_each(|(s, g)| *s += f64::from(*g));
                        }
                    });
                }
                (sum, seen)
            })
            .reduce_with(|(mut a, seen), (b, also)| {
                a.iter_mut().zip(b).for_each(|(x, y)| *x += y);
                (a, seen.merged(also))
            })
            .unwrap_or_else(|| (Vec::new(), Squares::new(network)));
        squares = squares.merged(seen);
        steps.apply(&mut weights, &sum);
    }
    let mut counts = vec![0; network.words];
    points.iter().flat_map(|p| &p[1..]).for_each(|&word| counts[word as usize] += 1);
    squares.moments(&counts)
}

/// Poisson batches; each sequence's gradient clipped to the ellipsoid by the library; noise of its shape; steps on what was
/// released. (ε, `delta`) for adding or removing one sequence.
pub(super) fn train(
    network: Network,
    corpus: &Corpus,
    moments: &Moments,
    s: &Setting,
    delta: f64,
    trial: Trial,
) -> Result<Trace, Failure> {
    let (n, d) = (corpus.train.len(), network.parameters());
    let sums = BatchSums {
        records: n as u64,
        sampling_probability: s.sampling_probability,
        steps: s.rounds,
        dimension: d as u64,
    };
    let budget = Budget::new(s.epsilon, delta).map_err(Failure::of)?;
    let (z, certificate) =
        sums.least(Neighbours::of_records(Relation::AddOrRemove).within(budget)).map_err(Failure::of)?;
    let mut curator = Curator::new(&certificate, trial.source());
    let expected = s.sampling_probability * n as f64;
    let grid = Grid::for_sum(s.clip_norm, z * s.clip_norm, (2.0 * expected).ceil() as u64, d);
    let clipped = ClippedVectors::new(s.clip_norm, grid).map_err(Failure::of)?;
    let mechanism = Gaussian::new(z, s.clip_norm, grid, d, "gradients of sequences");

    let scales = moments.scales(s.method.exponent());
    let unscale = inverse(network, &scales, expected);
    let mut weights = start(network, trial.shared_seed);
    let mut steps = Steps::new(s.method == Method::Pagan, s.rate, d);
    let every = s.rounds.div_ceil(s.looks);
    let mut curve = Vec::new();
    let mut look = |round: u64, weights: &[f32]| {
        if !corpus.watched.is_empty() && (round.is_multiple_of(every) || round == s.rounds) {
            curve.push((round, perplexity(network, weights, &corpus.watched)));
        }
    };
    look(0, &weights);
    for round in 1..=s.rounds {
        let (batch, records) = curator.sample_for_loader(n, s.sampling_probability).map_err(Failure::of)?;
        let sum = clipped.sum_batch_in_chunks(batch, records.len(), d, TOGETHER, |range, sum| {
            let points = views(records[range].iter().map(|&i| &corpus.train[i as usize]));
            network.gradients(&weights, &points, &scales, |pieces| sum.add(pieces));
        });
        let noisy = curator.release(&mechanism, &sum.map_err(Failure::of)?).map_err(Failure::of)?;
        let mut gradient = noisy.into_inner();
        gradient.iter_mut().zip(&unscale).for_each(|(g, u)| *g *= f64::from(*u));
        steps.apply(&mut weights, &gradient);
        look(round, &weights);
    }
    Ok(Trace { noise_multiplier: z, curve, test: perplexity(network, &weights, &corpus.test) })
}

/// 1/(√C_j·b) for every weight.
fn inverse(network: Network, scales: &Scales, batch: f64) -> Vec<f32> {
    let mut all = Vec::with_capacity(network.parameters());
    for [rows, columns] in &scales.0 {
        for r in rows {
            all.extend(columns.iter().map(|c| (1.0 / (f64::from(r * c) * batch)) as f32));
        }
    }
    all
}
