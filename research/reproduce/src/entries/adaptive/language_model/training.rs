//! DP-SGD, PASAN and PAGAN on per-sequence gradients, through the curator (Asi et al. 2021, Algorithms 1 and 2).

use super::moments::{Learnt, Moments, Squares};
use super::network::Network;
use super::scales::Scales;
use crate::{Failure, Trial};
use dpopt::estimate::BatchSums;
use dpopt::mechanism::{ClippedVectors, Curator, Gaussian};
use dpopt::noise::{Grid, NoiseSource, Purpose};
use dpopt::privacy::{Budget, Neighbours, Relation};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Sequences that go through the recurrence together.
pub(super) const TOGETHER: usize = 8;

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

    pub(super) fn exponent(self) -> f64 {
        match self {
            Method::DpSgd => 0.0,
            Method::Pasan => 0.5,
            Method::Pagan => 2.0 / 3.0,
        }
    }
}

/// A run of [`Method`] on moments that are given.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Setting {
    pub(super) method: Method,
    pub(super) epsilon: f64,
    #[serde(flatten)]
    pub(super) course: Course,
}

/// Steps, and what they are taken on.
#[derive(Clone, Copy, Serialize)]
pub(super) struct Course {
    /// AdaGrad's step for each weight, or one for all.
    pub(super) diagonal: bool,
    /// Root mean square over the weights of the first step; α of AdaGrad, α/√d with one length.
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
    /// Noise over the clip norm; 0 without noise.
    pub(super) noise_multiplier: f64,
    /// Round, perplexity on the watched points.
    pub(super) curve: Vec<(u64, f64)>,
    /// Perplexity on the test points.
    pub(super) test: f64,
    /// Perplexity on the test points of the [`FREQUENT`] first words of the vocabulary, and of all others.
    pub(super) parts: [f64; 2],
}

/// Words are numbered by how often they occur.
pub(super) const FREQUENT: u32 = 1000;

/// Points of words; each begins with the end of a line.
pub(super) struct Corpus {
    pub(super) train: Vec<Vec<u32>>,
    /// What the curve is taken on; no curve if empty.
    pub(super) watched: Vec<Vec<u32>>,
    pub(super) test: Vec<Vec<u32>>,
}

/// A run that diverged shows this: JSON has no infinity.
const DIVERGED: f64 = 1e30;

/// Over all words, the frequent ones, and the others.
pub(super) fn perplexities(network: Network, weights: &[f32], points: &[Vec<u32>]) -> [f64; 3] {
    let part = |part: &[Vec<u32>]| {
        let mut sums = [(0.0, 0u64); 2];
        network.losses(weights, &views(part.iter()), |word, loss| {
            let (total, count) = &mut sums[usize::from(word >= FREQUENT)];
            *total += loss;
            *count += 1;
        });
        sums
    };
    let of: Vec<[(f64, u64); 2]> = points.par_chunks(TOGETHER).map(part).collect();
    let sum = |which: usize| of.iter().fold((0.0, 0), |(total, count), s| (total + s[which].0, count + s[which].1));
    let (frequent, others) = (sum(0), sum(1));
    [(frequent.0 + others.0, frequent.1 + others.1), frequent, others]
        .map(|(total, count)| (total / count.max(1) as f64).exp().min(DIVERGED))
}

pub(super) fn views<'a>(points: impl Iterator<Item = &'a Vec<u32>>) -> Vec<&'a [u32]> {
    points.map(Vec::as_slice).collect()
}

/// Weights that all runs with `seed` start from.
pub(super) fn start(network: Network, seed: u64) -> Vec<f32> {
    let mut source = NoiseSource::insecure(seed);
    let (mut normal, mut uniform) = (source.stream(Purpose::Other(0), 0), source.stream(Purpose::Other(0), 1));
    let unit = |stream: &mut dpopt::noise::Stream| (stream.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
    let gaussian = || (-2.0 * unit(&mut normal).ln()).sqrt() * (std::f64::consts::TAU * unit(&mut normal)).cos();
    network.start(gaussian, || unit(&mut uniform))
}

/// Steps α/√Σĝ² for each weight, or α/√Σ‖ĝ‖² for all.
pub(super) struct Steps {
    diagonal: bool,
    rate: f64,
    squares: Vec<f64>,
}

impl Steps {
    pub(super) fn new(diagonal: bool, rate: f64, weights: usize) -> Self {
        let (rate, count) = if diagonal { (rate, weights) } else { (rate * (weights as f64).sqrt(), 1) };
        Self { diagonal, rate, squares: vec![0.0; count] }
    }

    pub(super) fn apply(&mut self, weights: &mut [f32], gradient: &[f64]) {
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

/// Over all `points`: what `each` adds up of their scaled gradients.
pub(super) fn over_gradients<S: Send>(
    network: Network,
    weights: &[f32],
    points: &[&[u32]],
    scales: &Scales,
    empty: impl Fn() -> S + Sync,
    each: impl Fn(&mut S, &[(usize, &[f32])]) + Sync,
    join: impl Fn(S, S) -> S,
) -> S {
    let part = points.len().div_ceil(rayon::current_num_threads()).next_multiple_of(TOGETHER).max(TOGETHER);
    let sum = |points: &[&[u32]]| {
        let mut sum = empty();
        for few in points.chunks(TOGETHER) {
            network.gradients(weights, few, scales, |pieces| each(&mut sum, pieces));
        }
        sum
    };
    // added up in their order: the same sum each time
    let parts: Vec<S> = points.par_chunks(part).map(sum).collect();
    parts.into_iter().reduce(join).unwrap_or_else(&empty)
}

/// The squares of all gradients at `weights`.
pub(super) fn squares(network: Network, weights: &[f32], points: &[&[u32]]) -> Squares {
    let ones = network.ones();
    over_gradients(network, weights, points, &ones, || Squares::new(network), Squares::add, Squares::merged)
}

/// How often each word occurs as one to be predicted.
pub(super) fn counts(network: Network, points: &[Vec<u32>]) -> Vec<u64> {
    let mut counts = vec![0; network.words];
    points.iter().flat_map(|p| &p[1..]).for_each(|&word| counts[word as usize] += 1);
    counts
}

/// One epoch of AdaGrad without privacy over a *public* text; what stays of it are the squares of the gradients.
pub(super) fn public_moments(network: Network, points: &[Vec<u32>], rate: f64, batch: usize, seed: u64) -> Learnt {
    let mut weights = start(network, seed);
    let mut steps = Steps::new(true, rate, weights.len());
    let ones = network.ones();
    let mut all = Squares::new(network);
    for part in points.chunks(batch) {
        let (sum, seen) = over_gradients(
            network,
            &weights,
            &views(part.iter()),
            &ones,
            || (vec![0.0f64; weights.len()], Squares::new(network)),
            |(sum, seen), pieces| {
                seen.add(pieces);
                add(sum, pieces, 1.0);
            },
            |(mut a, seen), (b, also)| {
                a.iter_mut().zip(b).for_each(|(x, y)| *x += y);
                (a, seen.merged(also))
            },
        );
        all = all.merged(seen);
        steps.apply(&mut weights, &sum);
    }
    all.learnt(counts(network, points))
}

/// `sum` and a gradient in pieces, times `factor`.
pub(super) fn add(sum: &mut [f64], pieces: &[(usize, &[f32])], factor: f64) {
    for (at, piece) in pieces {
        sum[*at..].iter_mut().zip(*piece).for_each(|(s, g)| *s += factor * f64::from(*g));
    }
}

/// Where the mean gradients of the rounds come from.
pub(super) trait Means {
    /// Mean gradient of the next batch at `weights`.
    fn mean(&mut self, weights: &[f32]) -> Result<Vec<f64>, Failure>;
}

/// Poisson batches; each sequence's gradient clipped to the ellipsoid by the library; noise of its shape.
/// (ε, δ) for adding or removing one sequence.
pub(super) struct PrivateMeans<'a> {
    network: Network,
    train: &'a [Vec<u32>],
    scales: Scales,
    unscale: Vec<f32>,
    sampling_probability: f64,
    clipped: ClippedVectors,
    mechanism: Gaussian,
    pub(super) noise_multiplier: f64,
    curator: Curator,
}

impl<'a> PrivateMeans<'a> {
    /// Prepares the releases of a course's rounds.
    pub(super) fn new(
        network: Network,
        train: &'a [Vec<u32>],
        scales: Scales,
        course: &Course,
        (epsilon, delta): (f64, f64),
        trial: Trial,
    ) -> Result<Self, Failure> {
        let (n, d) = (train.len(), network.parameters());
        let sums = BatchSums {
            records: n as u64,
            sampling_probability: course.sampling_probability,
            steps: course.rounds,
            dimension: d as u64,
        };
        let budget = Budget::new(epsilon, delta).map_err(Failure::of)?;
        let (z, certificate) =
            sums.least(Neighbours::of_records(Relation::AddOrRemove).within(budget)).map_err(Failure::of)?;
        let curator = Curator::new(&certificate, trial.source());
        let b = course.clip_norm;
        let expected = course.sampling_probability * n as f64;
        let grid = Grid::for_sum(b, z * b, (2.0 * expected).ceil() as u64, d);
        let clipped = ClippedVectors::new(b, grid).map_err(Failure::of)?;
        let mechanism = Gaussian::new(z, b, grid, d, "gradients of sequences");
        Ok(Self {
            network,
            train,
            unscale: scales.inverse(1.0 / expected),
            scales,
            sampling_probability: course.sampling_probability,
            clipped,
            mechanism,
            noise_multiplier: z,
            curator,
        })
    }

    /// Another ellipsoid from the next round on: it must not depend on the records but through what was released.
    pub(super) fn rescale(&mut self, scales: Scales) {
        self.unscale = scales.inverse(1.0 / (self.sampling_probability * self.train.len() as f64));
        self.scales = scales;
    }
}

impl Means for PrivateMeans<'_> {
    fn mean(&mut self, weights: &[f32]) -> Result<Vec<f64>, Failure> {
        let (network, train, scales) = (self.network, self.train, &self.scales);
        let (batch, records) =
            self.curator.sample_for_loader(train.len(), self.sampling_probability).map_err(Failure::of)?;
        let sum = self.clipped.sum_batch_in_chunks(batch, records.len(), weights.len(), TOGETHER, |range, sum| {
            let points = views(records[range].iter().map(|&i| &train[i as usize]));
            network.gradients(weights, &points, scales, |pieces| sum.add(pieces));
        });
        let noisy = self.curator.release(&self.mechanism, &sum.map_err(Failure::of)?).map_err(Failure::of)?;
        let mut gradient = noisy.into_inner();
        gradient.iter_mut().zip(&self.unscale).for_each(|(g, u)| *g *= f64::from(*u));
        Ok(gradient)
    }
}

/// The course from the start that all runs of a repeat share.
pub(super) fn descend(
    network: Network,
    corpus: &Corpus,
    course: &Course,
    means: &mut dyn Means,
    seed: u64,
) -> Result<Trace, Failure> {
    let mut weights = start(network, seed);
    let mut steps = Steps::new(course.diagonal, course.rate, weights.len());
    let every = course.rounds.div_ceil(course.looks);
    let mut curve = Vec::new();
    let mut look = |round: u64, weights: &[f32]| {
        if !corpus.watched.is_empty() && (round.is_multiple_of(every) || round == course.rounds) {
            curve.push((round, perplexities(network, weights, &corpus.watched)[0]));
        }
    };
    look(0, &weights);
    for round in 1..=course.rounds {
        let gradient = means.mean(&weights)?;
        steps.apply(&mut weights, &gradient);
        look(round, &weights);
    }
    let [test, frequent, others] = perplexities(network, &weights, &corpus.test);
    Ok(Trace { noise_multiplier: 0.0, curve, test, parts: [frequent, others] })
}

/// One of the source's methods: (ε, `delta`) for adding or removing one sequence.
pub(super) fn train(
    network: Network,
    corpus: &Corpus,
    moments: &Moments,
    s: &Setting,
    delta: f64,
    trial: Trial,
) -> Result<Trace, Failure> {
    let scales = moments.scales(s.method.exponent());
    let mut means = PrivateMeans::new(network, &corpus.train, scales, &s.course, (s.epsilon, delta), trial)?;
    let trace = descend(network, corpus, &s.course, &mut means, trial.shared_seed)?;
    Ok(Trace { noise_multiplier: means.noise_multiplier, ..trace })
}
