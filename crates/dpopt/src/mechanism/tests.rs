//! The curator refuses what the plan does not foresee; sums are exact; noise has the planned size.

use super::*;
use crate::loss::Loss;
use crate::optimize::synthetic::table;
use crate::records::{Examples, Rows};
use crate::{Sensitive, optimize::synthetic::Lcg};
use dpopt_noise::{Grid, NoiseSource};
use dpopt_privacy::Event;

const LOSS: Loss = Loss::Logistic { shift: 0.0 };

fn gradient(clip: f64) -> ClippedGradient {
    ClippedGradient::new(LOSS, clip, Grid::new(-30)).unwrap()
}

fn gaussian(multiplier: f64, clip: f64, dimension: usize) -> Gaussian {
    Gaussian::new(multiplier, clip, Grid::new(-30), dimension, "gradient sum")
}

fn curator(event: Event) -> Curator {
    Curator::for_event(&event, NoiseSource::insecure(1))
}

#[test]
fn only_planned_releases_pass_and_only_as_often_as_planned() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mut curator = curator(Event::gaussian(2.0).self_composed(2));
    let sum = gradient(0.5).sum(&examples, &weights);
    assert!(matches!(curator.release(&gaussian(1.9, 0.5, 7), &sum), Err(CuratorError::Unforeseen { .. })));
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
    assert!(matches!(curator.release(&gaussian(2.0, 0.5, 7), &sum), Err(CuratorError::Unforeseen { .. })));
    assert_eq!(curator.records()[0].count, 2);
}

#[test]
fn a_sum_of_another_clip_norm_grid_or_dimension_is_refused_and_not_charged() {
    let examples = Sensitive::new(table(1, 50, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mut curator = curator(Event::gaussian(2.0));
    let too_large = gradient(0.8).sum(&examples, &weights);
    let refused = curator.release(&gaussian(2.0, 0.5, 7), &too_large).unwrap_err();
    assert_eq!(refused, CuratorError::Sensitivity { input: 0.8, mechanism: 0.5 });
    let sum = gradient(0.5).sum(&examples, &weights);
    let other_grid = Gaussian::new(2.0, 0.5, Grid::new(-29), 7, "gradient sum");
    assert_eq!(curator.release(&other_grid, &sum).unwrap_err(), CuratorError::Shape);
    assert_eq!(curator.release(&gaussian(2.0, 0.5, 8), &sum).unwrap_err(), CuratorError::Shape);
    assert!(curator.release(&gaussian(2.0, 0.5, 7), &sum).is_ok());
}

#[test]
fn a_batch_serves_one_release_of_its_own_sampling_probability() {
    let examples = Sensitive::new(table(1, 200, 2, 3, 1.0, LOSS));
    let weights = vec![0.0; 7];
    let mechanism = gaussian(2.0, 0.5, 7);
    let mut curator = curator(Event::gaussian(2.0).poisson_sampled(0.1).self_composed(3));
    // the whole data set where a sample was planned
    let whole = gradient(0.5).sum(&examples, &weights);
    assert!(matches!(curator.release(&mechanism, &whole), Err(CuratorError::Unforeseen { .. })));
    // a larger sample than planned
    let batch = curator.poisson_sample(200, 0.2).unwrap();
    let sum = gradient(0.5).sum_batch(&examples, batch, &weights);
    assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
    // one sample, two releases
    let batch = curator.poisson_sample(200, 0.1).unwrap();
    let sum = gradient(0.5).sum_batch(&examples, batch, &weights);
    assert!(curator.release(&mechanism, &sum).is_ok());
    assert!(matches!(curator.release(&mechanism, &sum), Err(CuratorError::BatchUsed { .. })));
    // a sample where the whole data set was planned
    let mut full = Curator::for_event(&Event::gaussian(2.0), NoiseSource::insecure(1));
    let batch = full.poisson_sample(200, 0.1).unwrap();
    let sum = gradient(0.5).sum_batch(&examples, batch, &weights);
    assert!(matches!(full.release(&mechanism, &sum), Err(CuratorError::Unforeseen { .. })));
}

#[test]
fn a_batch_belongs_to_the_curator_that_drew_it() {
    let examples = Sensitive::new(table(1, 200, 5, 6, 1.0, LOSS));
    let mechanism = Gaussian::new(2.0, 0.5, Grid::new(-30), 31, "gradient sum");
    let event = Event::gaussian(2.0).poisson_sampled(0.1).self_composed(2);
    // both have a batch of the same number and probability open
    let mut curators = [1, 2].map(|seed| Curator::for_event(&event, NoiseSource::insecure(seed)));
    let batches = curators.each_mut().map(|c| c.poisson_sample(200, 0.1).unwrap());
    let weights = vec![0.0; 31];
    let [first, second] = batches.map(|batch| gradient(0.5).sum_batch(&examples, batch, &weights));
    let [one, two] = &mut curators;
    assert!(matches!(two.release(&mechanism, &first), Err(CuratorError::ForeignBatch { .. })));
    assert!(matches!(one.release(&mechanism, &second), Err(CuratorError::ForeignBatch { .. })));
    // nothing was charged and nobody's batch was used up
    assert!(one.records().is_empty() && two.records().is_empty());
    assert!(one.release(&mechanism, &first).is_ok() && two.release(&mechanism, &second).is_ok());
    // batches of fixed size carry the same mark
    let ids = curators.map(|mut c| c.fixed_sample(200, 20).unwrap().id());
    assert!(ids[0] != ids[1]);
}

#[test]
fn one_record_moves_the_sum_by_at_most_the_clip_norm_exactly() {
    let mut random = Lcg::new(4);
    for loss in [LOSS, Loss::Squared, Loss::Softmax { classes: 3 }, Loss::Hinge] {
        for clip in [0.3, 0.5, 1.0 / 3.0] {
            let grid = Grid::new(-30);
            let gradient = ClippedGradient::new(loss, clip, grid).unwrap();
            // floor((C/γ)²) from the exact value of C as mantissa·2^e
            let limit = (clip * 2f64.powi(30)).powi(2);
            for trial in 0..200 {
                let examples = table(trial, 1, 3, 4, 1.0, loss);
                let weights: Vec<f64> = (0..13 * loss.outputs()).map(|_| 30.0 * random.normal()).collect();
                let sum = gradient.sum(&Sensitive::new(examples), &weights);
                let exact: u128 = sum.expose().units.iter().map(|z| u128::from(z.unsigned_abs()).pow(2)).sum();
                assert!(exact as f64 <= limit, "{loss:?}");
            }
        }
    }
}

#[test]
fn unclipped_sums_are_the_gradient() {
    let examples = table(3, 400, 3, 4, 1.0, Loss::Softmax { classes: 3 });
    let loss = Loss::Softmax { classes: 3 };
    let weights: Vec<f64> = (0..39).map(|j| 0.1 * f64::from(j % 7)).collect();
    let gradient = ClippedGradient::new(loss, 2.0, Grid::new(-40)).unwrap();
    let sum = gradient.sum(&Sensitive::new(examples.clone()), &weights);
    for j in [0, 5, 20, 38] {
        let (mut up, mut down) = (weights.clone(), weights.clone());
        up[j] += 1e-5;
        down[j] -= 1e-5;
        let mean = |w: &[f64]| crate::optimize::synthetic::mean_loss(&examples, loss, w);
        let numeric = 400.0 * (mean(&up) - mean(&down)) / 2e-5;
        let exact = sum.expose().units[j] as f64 * 2f64.powi(-40);
        assert!((exact - numeric).abs() < 1e-5, "{j}: {exact} {numeric}");
    }
}

#[test]
fn integer_sums_do_not_depend_on_threads() {
    let examples = Sensitive::new(table(2, 5000, 5, 6, 1.0, LOSS));
    let weights: Vec<f64> = (0..31).map(|j| f64::from(j) * 0.1).collect();
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| gradient(0.5).sum(&examples, &weights).expose().units.clone())
    };
    assert_eq!(with(1), with(4));
}

#[test]
fn noise_has_the_planned_standard_deviation() {
    let n = 40_000;
    let empty = Examples { rows: Rows::new(n), targets: Vec::new() };
    let sum = gradient(0.5).sum(&Sensitive::new(empty), &vec![0.0; n]);
    let noisy = curator(Event::gaussian(3.0)).release(&gaussian(3.0, 0.5, n), &sum).unwrap();
    let variance = noisy.get().iter().map(|x| x * x).sum::<f64>() / n as f64;
    // relative standard error √(2/n) = 0.7%; five of them: false alarm below 1e-6
    assert!((variance / 2.25 - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt(), "{variance}");
    let mean = noisy.get().iter().sum::<f64>() / n as f64;
    assert!(mean.abs() < 5.0 * 1.5 / (n as f64).sqrt());
}

#[test]
fn matrix_noise_is_isometric_and_its_sum_exact() {
    let d = 60;
    let coordinates = SecondMoment::coordinates(d);
    let examples = table(5, 300, 3, 19, 1.0, LOSS); // d = 58
    let d_rows = examples.rows.columns();
    let moment = SecondMoment::new(0.25, 1.0, Grid::new(-40)).unwrap();
    let sum = moment.sum(&Sensitive::new(examples.clone()));
    let exact: Vec<f64> = sum.expose().units.iter().map(|&u| u as f64 * 2f64.powi(-40)).collect();
    let matrix = symmetric_matrix(d_rows, &exact);
    let mut direct = vec![0.0; d_rows * d_rows];
    for i in 0..examples.rows.len() {
        let (indices, values) = examples.rows.row(i);
        for (&j, &x) in indices.iter().zip(values) {
            for (&k, &y) in indices.iter().zip(values) {
                direct[j as usize * d_rows + k as usize] += 0.25 * f64::from(x) * f64::from(y);
            }
        }
    }
    assert!(matrix.iter().zip(&direct).all(|(a, b)| (a - b).abs() < 1e-8));

    // pure noise: variance s² on the diagonal, s²/2 off it
    let empty = Sensitive::new(Examples { rows: Rows::new(d), targets: Vec::new() });
    let moment = SecondMoment::new(1.0, 1.0, Grid::new(-30)).unwrap();
    let release = Gaussian::new(2.0, 1.0, Grid::new(-30), coordinates, "second moment");
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for seed in 0..60 {
        let mut curator = Curator::for_event(&Event::gaussian(2.0), NoiseSource::insecure(seed));
        let matrix = symmetric_matrix(d, curator.release(&release, &moment.sum(&empty)).unwrap().get());
        for j in 0..d {
            on.push(matrix[j * d + j]);
            for k in 0..j {
                assert_eq!(matrix[j * d + k], matrix[k * d + j]);
                off.push(matrix[j * d + k]);
            }
        }
    }
    for (sample, variance) in [(on, 4.0), (off, 2.0)] {
        let n = sample.len() as f64;
        let found = sample.iter().map(|x| x * x).sum::<f64>() / n;
        assert!((found / variance - 1.0).abs() < 5.0 * (2.0 / n).sqrt(), "{found} against {variance}");
    }
}

#[test]
fn secure_noise_differs_between_runs() {
    let empty = Sensitive::new(Examples { rows: Rows::new(3), targets: Vec::new() });
    let run = || {
        let mut curator = Curator::for_event(&Event::gaussian(2.0), NoiseSource::secure().unwrap());
        let sum = gradient(0.5).sum(&empty, &[0.0; 3]);
        curator.release(&gaussian(2.0, 0.5, 3), &sum).unwrap().into_inner()
    };
    assert_ne!(run(), run());
}

#[test]
fn unusable_targets_contribute_nothing_and_stop_nothing() {
    let loss = Loss::Softmax { classes: 3 };
    let good = table(1, 20, 2, 3, 1.0, loss);
    let gradient = ClippedGradient::new(loss, 0.5, Grid::new(-30)).unwrap();
    let weights = vec![0.1; 21];
    let clean = gradient.sum(&Sensitive::new(good.clone()), &weights).expose().units.clone();
    let mut ugly = good.clone();
    for bad in [f32::NAN, -1.0, 3.0, f32::INFINITY] {
        ugly.rows.push_clipped(&mut [(0, 0.5)], 1.0);
        ugly.targets.push(bad);
    }
    assert_eq!(gradient.sum(&Sensitive::new(ugly), &weights).expose().units, clean);
}
