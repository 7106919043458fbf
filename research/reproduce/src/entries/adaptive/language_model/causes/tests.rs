//! The pieces by which the causes are distinguished.

use super::super::plain::clipped;
use super::super::tests::COURSE;
use super::*;

const EVERY: [Clip; 6] = [Clip::Unclipped, Clip::Ball, ELLIPSOID, PER_WEIGHT, WORDS_ALIKE, OTHER_WAY];

fn workshop() -> Workshop {
    let material = generated(1);
    let learnt = training::public_moments(material.network, &material.public, 0.1, 20, 7);
    Workshop { places: vec![(material, learnt)], probability: 0.1, rounds: 60 }
}

#[test]
fn inverse_scales_undo_scales_in_every_shape() {
    let Workshop { places, .. } = workshop();
    let (Material { network, corpus, .. }, learnt) = &places[0];
    let weights = training::start(*network, 7);
    let some = views(corpus.train[..20].iter());
    let plain = clipped(*network, &weights, &some, &network.ones(), f64::INFINITY);
    for shape in EVERY {
        let scaled = clipped(*network, &weights, &some, &scales(*network, learnt, shape), f64::INFINITY);
        for (a, b) in scaled.sum.iter().zip(&plain.sum).chain(scaled.squares.iter().zip(&plain.squares)) {
            // products of f32, and sums of gradients that cancel
            assert!((a - b).abs() <= 1e-4 * b.abs() + 1e-7, "{shape:?}: {a} for {b}");
        }
    }
}

#[test]
fn every_ellipsoid_has_unit_mean_squared_norm_on_what_it_was_learnt_from() {
    let material = generated(1);
    let learnt = training::public_moments(material.network, &material.public, 0.0, 50, 7);
    let weights = training::start(material.network, 7);
    for shape in EVERY {
        if shape == Clip::Unclipped {
            continue;
        }
        let scales = scales(material.network, &learnt, shape);
        let (mut total, mut count) = (0.0, 0);
        for few in views(material.public.iter()).chunks(8) {
            material.network.gradients(&weights, few, &scales, |pieces| {
                total += pieces.iter().flat_map(|p| p.1).map(|g| f64::from(*g).powi(2)).sum::<f64>();
                count += 1;
            });
        }
        let mean = total / f64::from(count);
        // exact with a moment per weight; words that nothing distinguishes, and rows and columns, miss some
        let room = if matches!(shape, PER_WEIGHT | Clip::Ball) { 1e-4 } else { 0.05 };
        assert!((mean - 1.0).abs() < room, "{shape:?}: {mean}");
    }
}

#[test]
fn private_means_are_plain_ones_and_noise_of_the_shape() {
    let workshop = workshop();
    let (Material { network, corpus, .. }, learnt) = &workshop.places[0];
    let course = Course { sampling_probability: 1.0, rounds: 1, ..COURSE };
    let trial = Trial { repeat: 0, seed: 1, shared_seed: 2 };
    let weights = training::start(*network, 2);
    let n = corpus.train.len() as f64;
    for shape in [Clip::Ball, ELLIPSOID, PER_WEIGHT] {
        let of = || scales(*network, learnt, shape);
        let mut private =
            PrivateMeans::new(*network, &corpus.train, of(), &course, (100.0, DELTA), trial).expect("a budget");
        let released = private.mean(&weights).expect("a release");
        let mut plain = PlainMeans::new(*network, &corpus.train, of(), course.clip_norm, 1.0, trial);
        let mean = plain.mean(&weights).expect("a mean");
        // 1,832 squares of normal variables, in units of their variance: 3.3 %
        let deviations = of().inverse(private.noise_multiplier * course.clip_norm / n);
        let squares = released.iter().zip(&mean).zip(&deviations).map(|((a, b), s)| ((a - b) / f64::from(*s)).powi(2));
        let mean_square = squares.sum::<f64>() / released.len() as f64;
        assert!((mean_square - 1.0).abs() < 0.17, "{shape:?}: {mean_square}");
    }
}

#[test]
fn runs_without_noise_have_none() {
    // whole batches: nothing else is drawn
    let workshop = Workshop { probability: 1.0, rounds: 5, ..workshop() };
    let network = workshop.places[0].0.network;
    let test = |epsilon, seed| {
        let cell = Cell { words: network.words, width: network.width, way: PAGAN, epsilon, rate: 0.1 };
        workshop.train(&cell, Trial { repeat: 0, seed, shared_seed: 2 }).expect("a run").test
    };
    assert!(test(None, 1) == test(None, 2));
    assert!(test(Some(1.0), 1) != test(Some(1.0), 2));
}
