//! Calibration of scores, by itself and after methods.

use crate::choose;
use crate::tests::{LOGISTIC, budget, facts};
use dpopt_mechanism::progress::Silent;
use dpopt_mechanism::{Curator, Sensitive};
use dpopt_noise::NoiseSource;
use dpopt_objective::loss::Loss;
use dpopt_objective::records::Examples;
use dpopt_objective::synthetic::{mean_loss, table};
use dpopt_optimize::calibration::*;
use dpopt_optimize::plan::Problem;
use dpopt_optimize::plan::RecordUnit;
use dpopt_optimize::{MethodOptions, Prepared, Run, Solution};
use dpopt_privacy::{Budget, Relation, certify};

const ROWS: usize = 6000;

fn calibrated(examples: &Examples, loss: Loss, epsilon: f64) -> Problem {
    let constant = (0, 1.0 / 3f64.sqrt());
    facts(examples, loss).with_calibration(budget(epsilon), 0.05, Some(constant))
}

/// Calibrates given weights, as if a method had released them.
fn after(examples: &Examples, problem: &Problem, weights: Vec<f64>, own: Loss, seed: u64) -> Vec<f64> {
    let noise = problem.calibration_noise(problem.calibrated.as_ref().unwrap());
    let event = problem.whole(dpopt_privacy::Event::gaussian(1e6));
    let certificate = certify(&event, problem.neighbours.within(Budget::new(1e3, 1e-5).unwrap())).unwrap();
    assert!(noise > 0.0);
    let mut curator = Curator::new(&certificate, NoiseSource::insecure(seed));
    let examples = Sensitive::new(examples.clone());
    let solution = curator.postprocess(Solution::from(weights));
    let run = Run::new(problem, &examples, &mut curator, &Silent).unwrap();
    calibrate(solution, &Ended { loss: own, usual_scale: 1.0, weight_noise: None }, run).unwrap().into_inner().weights
}

fn minimiser(examples: &Examples, loss: Loss) -> Vec<f64> {
    let mut weights = vec![0.0; examples.rows.columns() * loss.outputs()];
    // plain gradient descent: exact enough for a mean loss to three digits
    for _ in 0..400 {
        let gradient = gradient(examples, loss, &weights);
        weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= 3.0 * g / ROWS as f64);
    }
    weights
}

fn gradient(examples: &Examples, loss: Loss, weights: &[f64]) -> Vec<f64> {
    let (d, k) = (examples.rows.columns(), loss.outputs());
    let (mut sum, mut scores, mut slope) = (vec![0.0; d * k], vec![0.0; k], vec![0.0; k]);
    for (i, target) in examples.targets.iter().enumerate() {
        let (columns, values) = examples.rows.row(i);
        for (c, score) in scores.iter_mut().enumerate() {
            *score = columns.iter().zip(values).map(|(&j, &x)| f64::from(x) * weights[c * d + j as usize]).sum();
        }
        loss.slope(&scores, f64::from(*target), &mut slope);
        for (c, slope) in slope.iter().enumerate() {
            columns.iter().zip(values).for_each(|(&j, &x)| sum[c * d + j as usize] += slope * f64::from(x));
        }
    }
    sum
}

/// Scores that are twice or a third as large as they should be, and an offset that is wrong by one: what they lost comes back.
#[test]
fn a_wrong_scale_and_a_wrong_offset_are_found() {
    for (loss, signal) in [(LOGISTIC, 3.0), (Loss::Softmax { classes: 3 }, 2.0), (Loss::Squared, 1.0)] {
        let examples = table(3, ROWS, 2, 4, signal, loss);
        let problem = calibrated(&examples, loss, 2.0);
        let best = minimiser(&examples, loss);
        let least = mean_loss(&examples, loss, &best);
        for factor in [2.0, 0.35] {
            let mut wrong: Vec<f64> = best.iter().map(|w| factor * w).collect();
            wrong[0] += if loss == Loss::Squared { 0.2 } else { 1.5 };
            let lost = mean_loss(&examples, loss, &wrong) - least;
            let left = mean_loss(&examples, loss, &after(&examples, &problem, wrong, loss, 5)) - least;
            assert!(lost > 0.01 && left < 0.15 * lost, "{loss:?} {factor}: {lost} before, {left} after");
        }
    }
}

/// Where everybody is given a probability near 0, derivatives say nothing, and the way back is found all the same.
#[test]
fn probabilities_that_are_all_near_zero_come_back() {
    let examples = table(4, ROWS, 2, 4, 1.0, LOGISTIC);
    let problem = calibrated(&examples, LOGISTIC, 2.0);
    let mut far = minimiser(&examples, LOGISTIC);
    let least = mean_loss(&examples, LOGISTIC, &far);
    far[0] -= 5.0 * 3f64.sqrt();
    let lost = mean_loss(&examples, LOGISTIC, &far) - least;
    let left = mean_loss(&examples, LOGISTIC, &after(&examples, &problem, far, LOGISTIC, 6)) - least;
    assert!(lost > 1.0 && left < 0.2, "{lost} before, {left} after");
}

/// With twenty rows there is nothing to see: on average over seeds hardly anything is changed.
#[test]
fn where_noise_is_all_there_is_weights_stay() {
    let examples = table(5, 20, 2, 4, 1.0, LOGISTIC);
    let problem = calibrated(&examples, LOGISTIC, 0.5);
    let before = vec![0.5; 9];
    for seed in 0..20 {
        let after = after(&examples, &problem, before.clone(), LOGISTIC, seed);
        let moved = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(moved < 0.25, "{seed}: {after:?}");
    }
}

#[test]
fn the_sums_are_paid_for_with_the_method() {
    let examples = table(6, ROWS, 2, 4, 1.0, LOGISTIC);
    for relation in [Relation::ZeroOut, Relation::ReplaceOne, Relation::AddOrRemove] {
        let of = |share: f64| {
            let mut problem = facts(&examples, LOGISTIC);
            problem.neighbours.relation = relation;
            let problem = problem.with_calibration(budget(1.0), share, Some((0, 0.5)));
            choose(&problem, budget(1.0), &MethodOptions::of("noisy-gradient-descent")).unwrap()
        };
        let (with, without): (Box<dyn Prepared>, _) = (of(0.05), of(0.0));
        assert!(without.problem().calibrated.is_none());
        for plan in [&with, &without] {
            let certificate = &plan.summary().certificate;
            assert!(certificate.bound().upper <= 1.0 && certificate.bound().upper > 0.99, "{relation:?}");
        }
        // a twentieth of μ²: noise larger by 1/√.95
        let ratio = with.summary().noise_multiplier / without.summary().noise_multiplier;
        assert!((ratio - 0.95f64.sqrt().recip()).abs() < 1e-4, "{relation:?} {ratio}");
        let text = with.summary().certificate.event().to_json().unwrap();
        assert!(text.len() > without.summary().certificate.event().to_json().unwrap().len());
        assert_eq!(with.summary().loss, LOGISTIC);
    }
}

#[test]
fn rows_of_a_unit_share_the_noise_of_a_group() {
    let examples = table(7, 500, 2, 4, 1.0, LOGISTIC);
    let problem = calibrated(&examples, LOGISTIC, 1.0);
    let most = std::num::NonZeroU64::new(4).unwrap();
    let group = Problem { record: RecordUnit::UnitsRow { most }, ..problem.clone() };
    let noise = |problem: &Problem| problem.calibration_noise(problem.calibrated.as_ref().unwrap());
    assert!((noise(&group) / noise(&problem) - 4.0).abs() < 1e-12);
}

#[test]
fn pure_budgets_and_other_losses_have_none() {
    let examples = table(8, 500, 2, 4, 1.0, LOGISTIC);
    let pure = Budget::new(1.0, 0.0).unwrap();
    assert!(facts(&examples, LOGISTIC).with_calibration(pure, 0.05, None).calibrated.is_none());
    for loss in [Loss::Hinge, Loss::Absolute, Loss::Huber { threshold: 0.1 }, Loss::Sigmoid] {
        assert!(facts(&examples, loss).with_calibration(budget(1.0), 0.05, None).calibrated.is_none());
    }
}

/// A model of counts whose means are 40 % too small, as a clip on one side leaves them, has the right mean afterwards.
#[test]
fn counts_get_their_mean_back() {
    let loss = Loss::Poisson { top: Loss::USUAL_TOP };
    let examples = table(7, ROWS, 2, 4, 1.0, loss);
    let problem = calibrated(&examples, loss, 4.0);
    let mut weights = vec![0.0; examples.rows.columns()];
    for _ in 0..400 {
        let gradient = gradient(&examples, loss, &weights);
        weights.iter_mut().zip(&gradient).for_each(|(w, g)| *w -= 0.5 * g / ROWS as f64);
    }
    let mean_count = |weights: &[f64]| {
        let of = |i: usize| {
            let (columns, values) = examples.rows.row(i);
            loss.prediction(columns.iter().zip(values).map(|(&j, &x)| weights[j as usize] * f64::from(x)).sum()) + 1.0
        };
        (0..ROWS).map(of).sum::<f64>()
    };
    let truth: f64 = examples.targets.iter().map(|t| f64::from(*t) + 1.0).sum();
    assert!((mean_count(&weights) / truth - 1.0).abs() < 0.01);
    weights[0] -= 0.5 * 3f64.sqrt();
    assert!(mean_count(&weights) / truth < 0.65);
    for seed in 0..3 {
        let after = after(&examples, &problem, weights.clone(), loss, seed);
        let ratio = mean_count(&after) / truth;
        assert!((ratio - 1.0).abs() < 0.05, "{ratio}");
    }
}
