//! The network against its definition in f64, written a second time without matrices, and the training loop.

use super::network::Network;
use super::scales::Scales;
use super::training::{self, Method, Setting};
use super::*;
use crate::Trial;

pub(super) const COURSE: Course =
    Course { diagonal: true, rate: 0.1, clip_norm: 1.0, sampling_probability: 0.1, rounds: 60, looks: 2 };

const SMALL: Network = Network { words: 7, width: 3 };

#[test]
fn the_model_has_the_published_size() {
    assert_eq!(Network { words: WORDS, width: WIDTH }.parameters(), 2_160_320);
}

/// Mean of −ln p over the words of one sequence.
fn loss(network: Network, weights: &[f64], sequence: &[u32]) -> f64 {
    let (v, w) = (network.words, network.width);
    let blocks = network.blocks();
    let entry =
        |block: usize, row: usize, column: usize| weights[blocks[block].start + row * blocks[block].columns + column];
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let (mut hidden, mut cells) = (vec![vec![0.0; w]; 2], vec![vec![0.0; w]; 2]);
    let mut total = 0.0;
    for pair in sequence.windows(2) {
        let mut input: Vec<f64> = (0..w).map(|j| entry(0, pair[0] as usize, j)).collect();
        for layer in 0..2 {
            let first = 1 + 4 * layer;
            let gate = |at: usize, input: &[f64], hidden: &[f64]| {
                let sums = (0..w).map(|i| input[i] * entry(first, i, at) + hidden[i] * entry(first + 1, i, at));
                sums.sum::<f64>() + entry(first + 2, 0, at) + entry(first + 3, 0, at)
            };
            let z: Vec<f64> = (0..4 * w).map(|at| gate(at, &input, &hidden[layer])).collect();
            for j in 0..w {
                cells[layer][j] = sigmoid(z[w + j]) * cells[layer][j] + sigmoid(z[j]) * z[2 * w + j].tanh();
                hidden[layer][j] = sigmoid(z[3 * w + j]) * cells[layer][j].tanh();
            }
            input = hidden[layer].clone();
        }
        let scores: Vec<f64> =
            (0..v).map(|k| entry(10, 0, k) + (0..w).map(|i| input[i] * entry(9, i, k)).sum::<f64>()).collect();
        total += scores.iter().map(|s| s.exp()).sum::<f64>().ln() - scores[pair[1] as usize];
    }
    total / (sequence.len() - 1) as f64
}

fn weights(network: Network) -> Vec<f32> {
    let mut stream = NoiseSource::insecure(3).stream(Purpose::Other(0), 0);
    (0..network.parameters()).map(|_| (stream.below(2001) as f32 - 1000.0) * 1e-3).collect()
}

fn whole(network: Network, pieces: &[(usize, &[f32])]) -> Vec<f32> {
    let mut all = vec![0.0; network.parameters()];
    pieces.iter().for_each(|(at, piece)| all[*at..at + piece.len()].copy_from_slice(piece));
    all
}

/// Words come twice, and the last word of one sequence is an input of none.
const SEQUENCES: [&[u32]; 3] = [&[1, 4, 4, 2, 4, 6], &[1, 0, 3, 5, 0, 2], &[1, 1, 1, 1, 1, 1]];

#[test]
fn losses_and_gradients_of_each_sequence_are_those_of_the_definition() {
    let weights = weights(SMALL);
    let exact: Vec<f64> = weights.iter().map(|w| f64::from(*w)).collect();
    let total: f64 = SEQUENCES.iter().map(|s| 5.0 * loss(SMALL, &exact, s)).sum();
    let (mut sum, mut words) = (0.0, Vec::new());
    SMALL.losses(&weights, &SEQUENCES, |word, loss| {
        sum += loss;
        words.push(word);
    });
    assert!((sum / total - 1.0).abs() < 1e-5);
    assert_eq!(words, SEQUENCES.map(|s| &s[1..]).concat());
    let mut which = 0;
    SMALL.gradients(&weights, &SEQUENCES, &SMALL.ones(), |pieces| {
        for (at, g) in whole(SMALL, pieces).into_iter().enumerate() {
            let moved = |by: f64| {
                let mut w = exact.clone();
                w[at] += by;
                loss(SMALL, &w, SEQUENCES[which])
            };
            // central differences in f64 err by 1e-10; sums of f32 products by a few units of 6e-8
            let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            assert!((f64::from(g) - difference).abs() < 2e-6, "sequence {which}, weight {at}: {g} for {difference}");
        }
        which += 1;
    });
    assert_eq!(which, 3);
}

#[test]
fn scaled_gradients_are_gradients_times_scales() {
    let weights = weights(SMALL);
    let mut plain = Vec::new();
    SMALL.gradients(&weights, &SEQUENCES, &SMALL.ones(), |pieces| plain.push(whole(SMALL, pieces)));
    let factor = |i: usize| 0.5 + (i % 5) as f32;
    let list = |count: usize, from: usize| (0..count).map(|i| factor(i + from)).collect();
    let scales = Scales::by_row_and_column(
        SMALL.blocks().iter().enumerate().map(|(b, block)| [list(block.rows, b), list(block.columns, 2 * b)]).collect(),
    );
    let mut which = 0;
    SMALL.gradients(&weights, &SEQUENCES, &scales, |pieces| {
        let scaled = whole(SMALL, pieces);
        for (b, block) in SMALL.blocks().iter().enumerate() {
            for at in block.range() {
                let (row, column) = ((at - block.start) / block.columns, (at - block.start) % block.columns);
                let expected = plain[which][at] * factor(row + b) * factor(column + 2 * b);
                assert!((scaled[at] - expected).abs() <= 1e-5 * expected.abs() + 1e-6, "{b} {row} {column}");
            }
        }
        which += 1;
    });
}

#[test]
fn sequences_do_not_depend_on_the_company_they_keep() {
    let weights = weights(SMALL);
    let mut together = Vec::new();
    SMALL.gradients(&weights, &SEQUENCES, &SMALL.ones(), |pieces| together.push(whole(SMALL, pieces)));
    for (sequence, expected) in SEQUENCES.iter().zip(&together) {
        SMALL.gradients(&weights, &[sequence], &SMALL.ones(), |pieces| {
            let alone = whole(SMALL, pieces);
            assert!(alone.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6));
        });
    }
}

#[test]
fn moments_are_those_of_the_gradients_and_scales_make_their_mean_squared_norm_one() {
    let material = generated(1);
    // no step: the gradients are those at the start, and no word is rare
    let moments = training::public_moments(material.network, &material.public, 0.0, 50, 7)
        .moments(material.network, Kept::Factored);
    let weights = training::start(material.network, 7);
    for exponent in [0.0, 0.5, 2.0 / 3.0] {
        let scales = moments.scales(exponent);
        let (mut squares, mut count) = (0.0, 0);
        for point in &material.public {
            material.network.gradients(&weights, &[point], &scales, |pieces| {
                squares += pieces.iter().flat_map(|p| p.1).map(|g| f64::from(*g).powi(2)).sum::<f64>();
                count += 1;
            });
        }
        let mean = squares / f64::from(count);
        // exact for a ball; for an ellipsoid up to what rows and columns miss of a matrix
        let room = if exponent == 0.0 { 1e-4 } else { 0.02 };
        assert!((mean - 1.0).abs() < room, "{exponent}: {mean}");
    }
}

#[test]
fn all_methods_learn_when_there_is_hardly_any_noise() {
    let material = generated(1);
    let moments = training::public_moments(material.network, &material.public, 0.1, 20, 7)
        .moments(material.network, Kept::Factored);
    for method in Method::ALL {
        let setting = Setting { method, epsilon: 1e4, course: Course { diagonal: method == Method::Pagan, ..COURSE } };
        let trial = Trial { repeat: 0, seed: 1, shared_seed: 2 };
        let trace =
            training::train(material.network, &material.corpus, &moments, &setting, DELTA, trial).expect("a run");
        let (first, last) = (trace.curve[0].1, trace.test);
        assert!(first > 35.0 && last < 0.8 * first, "{method:?}: {:?}", trace.curve);
    }
}
