//! How steep the way down is that a noisy release leaves, and what its noise does.

use super::{ADAGRAD, CLIP_NORM, Clip, DELTA, ELLIPSOID, OTHER_WAY, PER_WEIGHT, WORDS_ALIKE, Workshop, fresh, scales};
use crate::entries::adaptive::language_model::Material;
use crate::entries::adaptive::language_model::moments::Learnt;
use crate::entries::adaptive::language_model::network::Network;
use crate::entries::adaptive::language_model::plain::{PlainMeans, clipped};
use crate::entries::adaptive::language_model::training::{self, FREQUENT, Means, PrivateMeans, Steps, views};
use crate::{Failure, Trial};
use dpopt::noise::{NoiseSource, Purpose};
use serde::{Deserialize, Serialize};

/// Root mean square of the noise whose damage is measured.
pub(super) const SHAKEN: f64 = 0.1;
/// Steps of the training whose points are looked at.
const RATE: f64 = 0.1;
/// Shapes of clip and noise whose geometry is looked at.
pub(super) const SHAPES: [Clip; 6] = [Clip::Ball, ELLIPSOID, Clip::Fresh, PER_WEIGHT, WORDS_ALIKE, OTHER_WAY];

/// One point of a training.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) round: u64,
    /// Slopes of each shape, in the order of [`SHAPES`].
    pub(super) slopes: Vec<Slopes>,
    /// Nats that noise of root mean square [`SHAKEN`] adds to the loss, in the shape of [`SHAPES`]; the ball's is that of
    /// AdaGrad's steps in any shape.
    pub(super) damage: Vec<f64>,
}

/// Words that a weight belongs to.
#[derive(Clone, Copy)]
enum Owner {
    Frequent,
    Other,
    /// Weights that all words share.
    Shared,
}

fn owners(network: Network) -> Vec<Owner> {
    let of = |word: usize| if word < FREQUENT as usize { Owner::Frequent } else { Owner::Other };
    let mut owners = Vec::with_capacity(network.parameters());
    for (at, block) in network.blocks().into_iter().enumerate() {
        for row in 0..block.rows {
            owners.extend((0..block.columns).map(|column| match (at, block.columns == network.words) {
                (0, _) => of(row),
                (_, true) => of(column),
                _ => Owner::Shared,
            }));
        }
    }
    owners
}

/// Points along a training without noise, in a ball, with AdaGrad's steps: after the rounds `at`.
pub(super) fn places(
    workshop: &Workshop,
    (Material { network, corpus, .. }, learnt): &(Material, Learnt),
    epsilon: f64,
    at: &[u64],
    trial: Trial,
) -> Result<Vec<Place>, Failure> {
    let network = *network;
    let ball = || scales(network, learnt, Clip::Ball);
    let course = workshop.course(ADAGRAD, RATE);
    let private = PrivateMeans::new(network, &corpus.train, ball(), &course, (epsilon, DELTA), trial)?;
    let n = corpus.train.len() as f64;
    let expected = course.sampling_probability * n;
    let noise = private.noise_multiplier * CLIP_NORM / expected;
    let all = views(corpus.train.iter());
    let owners = owners(network);
    let mut means = PlainMeans::new(network, &corpus.train, ball(), CLIP_NORM, course.sampling_probability, trial);
    let mut weights = training::start(network, trial.shared_seed);
    let mut steps = Steps::new(true, RATE, weights.len());
    let loss = |weights: &[f32]| training::perplexities(network, weights, &corpus.test)[0].ln();
    let mut places = Vec::new();
    for round in 0..=at.iter().copied().max().unwrap_or(0) {
        if at.contains(&round) {
            let unclipped = clipped(network, &weights, &all, &network.ones(), f64::INFINITY);
            let gradient: Vec<f64> = unclipped.sum.iter().map(|g| g / n).collect();
            let before = loss(&weights);
            let mut place = Place { round, slopes: Vec::new(), damage: Vec::new() };
            for shape in SHAPES {
                let scales = match shape {
                    Clip::Fresh => fresh(network, &corpus.train, &weights),
                    _ => scales(network, learnt, shape),
                };
                let deviations: Vec<f64> = scales.inverse(noise).into_iter().map(f64::from).collect();
                let seen = clipped(network, &weights, &all, &scales, CLIP_NORM);
                let released: Vec<f64> = seen.sum.iter().map(|g| g / n).collect();
                // a Poisson batch over its expected size b has variance E g²/b
                let variance = seen.squares.iter().zip(&deviations).map(|(s, z)| s / (n * expected) + z * z);
                let variance: Vec<f64> = variance.collect();
                place.slopes.push(Slopes::of(&gradient, &released, &variance, &owners));
                place.damage.push(loss(&shaken(&weights, &deviations, SHAKEN, trial.seed)) - before);
            }
            places.push(place);
        }
        let mean = means.mean(&weights)?;
        steps.apply(&mut weights, &mean);
    }
    Ok(places)
}

/// Descent of the loss in nats, to first order, by steps whose root mean square over the weights is 1.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(super) struct Slopes {
    /// Descent by a step of one length: √d·Σ m·m̃/√Σ(m̃² + v).
    pub(super) one: f64,
    /// Descent by AdaGrad's step: Σ m·m̃/√(m̃² + v), over the weights of frequent words, of other words, and of all words.
    pub(super) parts: [f64; 3],
}

impl Slopes {
    /// Along releases with mean m̃ and variance v of noise and batches, on a loss with gradient m.
    fn of(gradient: &[f64], released: &[f64], variance: &[f64], owners: &[Owner]) -> Self {
        let (mut along, mut size, mut parts) = (0.0, 0.0, [0.0; 3]);
        for (((m, r), v), owner) in gradient.iter().zip(released).zip(variance).zip(owners) {
            along += m * r;
            size += r * r + v;
            if m * r != 0.0 {
                parts[*owner as usize] += m * r / (r * r + v).sqrt();
            }
        }
        Self { one: along / (size / gradient.len() as f64).sqrt(), parts }
    }

    /// Descent by AdaGrad's step, over all weights.
    pub(super) fn each(&self) -> f64 {
        self.parts.iter().sum()
    }
}

/// `weights` with independent normal noise of root mean square `size`, in the shape of `deviations`.
fn shaken(weights: &[f32], deviations: &[f64], size: f64, seed: u64) -> Vec<f32> {
    let mut source = NoiseSource::insecure(seed);
    let mut stream = source.stream(Purpose::Other(4), 0);
    let mut unit = || (stream.below(1 << 53) as f64 + 0.5) / (1u64 << 53) as f64;
    let root = (deviations.iter().map(|s| s * s).sum::<f64>() / deviations.len() as f64).sqrt();
    let mut moved = |(w, s): (&f32, &f64)| {
        let normal = (-2.0 * unit().ln()).sqrt() * (std::f64::consts::TAU * unit()).cos();
        (f64::from(*w) + size * s / root * normal) as f32
    };
    weights.iter().zip(deviations).map(&mut moved).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_their_definition() {
        const OWNERS: [Owner; 2] = [Owner::Frequent, Owner::Shared];
        // a release without variance: AdaGrad goes along the signs, one length along the gradient
        let s = Slopes::of(&[3.0, -4.0], &[0.3, -0.4], &[0.0, 0.0], &OWNERS);
        assert!((s.each() - 7.0).abs() < 1e-12 && (s.one - 5.0 * 2f64.sqrt()).abs() < 1e-12);
        assert!((s.parts[0] - 3.0).abs() < 1e-12 && s.parts[1] == 0.0);
        // a weight that gets three times its mean as noise keeps 1/√10 of AdaGrad's step
        let s = Slopes::of(&[1.0, 0.0], &[1.0, 0.0], &[9.0, 1.0], &OWNERS);
        assert!((s.each() - 0.1f64.sqrt()).abs() < 1e-12 && (s.one - 1.0 / 5.5f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn shaken_weights_are_off_by_the_size_in_the_shape() {
        let weights = vec![1.0f32; 20_000];
        let deviations: Vec<f64> = (0..weights.len()).map(|i| if i % 2 == 0 { 3.0 } else { 1.0 }).collect();
        let moved = shaken(&weights, &deviations, 0.1, 5);
        let mean_square =
            |from: usize| moved.iter().skip(from).step_by(2).map(|w| f64::from(w - 1.0).powi(2)).sum::<f64>() / 1e4;
        let (wide, narrow) = (mean_square(0), mean_square(1));
        // 10,000 squares: 1.4 % each
        assert!(((wide + narrow) / 0.02 - 1.0).abs() < 0.06 && (wide / narrow / 9.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn every_weight_has_its_owner() {
        let network = Network { words: 1100, width: 2 };
        let owners = owners(network);
        let count = |of: fn(&Owner) -> bool| owners.iter().filter(|o| of(o)).count();
        // two numbers in, two and a bias out for every word
        assert_eq!(count(|o| matches!(o, Owner::Frequent)), 1000 * 5);
        assert_eq!(count(|o| matches!(o, Owner::Other)), 100 * 5);
        assert_eq!(owners.len(), network.parameters());
        // the first word, the last, a weight of the first layer, and biases at the end
        assert!(matches!(owners[0], Owner::Frequent) && matches!(owners[2 * 1100 - 1], Owner::Other));
        assert!(matches!(owners[2 * 1100], Owner::Shared));
        assert!(matches!(owners[network.parameters() - 1100], Owner::Frequent));
    }
}
