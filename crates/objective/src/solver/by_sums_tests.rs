//! The minimiser by sums of integers: its certificate on ugly records, the same bits however they are divided, and how many passes are seen.

use super::tests::{LOSSES, plain_gradient_norm};
use super::*;
use crate::loss::Loss;
use crate::objective::Linear;
use crate::records::{Examples, Rows};
use crate::synthetic::{Lcg, table};
use std::convert::Infallible;

fn is_smooth(loss: Loss) -> bool {
    matches!(loss, Loss::Logistic { .. } | Loss::Softmax { .. })
}

/// Minimises records that are cut at `ends`; the minimiser, τ and the number of passes.
fn asked(examples: &Examples, (loss, lambda): (Loss, f64), linear: &[f64], ends: &[usize]) -> (Minimiser, f64, u64) {
    let most_rows = examples.rows.len() as u64;
    let sums = IntegerSums::new(&Linear::new(loss, examples.rows.columns(), 1.0), most_rows, 1.0);
    let scale = Scale {
        rows: most_rows,
        row_norm: 1.0,
        loss,
        regularization: lambda,
        linear_norm: norm(linear),
        target_bound: 1.0,
        grid_error: sums.grid_error(),
    };
    let accuracy = scale.accuracy().unwrap();
    let mut passes = 0;
    let Ok(found) = minimise_by_sums(&AskedSum { sums, regularization: lambda, linear }, accuracy, |sums, theta| {
        passes += 1;
        assert!(sums.describes(examples));
        let mut total = vec![0i64; sums.width()];
        let starts = std::iter::once(0).chain(ends.iter().copied());
        for (start, &end) in starts.zip(ends) {
            let part = sums.over(examples, start..end, theta);
            total.iter_mut().zip(&part).for_each(|(a, b)| *a = a.wrapping_add(*b));
        }
        Ok::<_, Infallible>(total)
    });
    (found, accuracy.tolerance, passes)
}

fn whole(examples: &Examples, facts: (Loss, f64), linear: &[f64]) -> (Minimiser, f64, u64) {
    asked(examples, facts, linear, &[examples.rows.len()])
}

#[test]
fn the_certificate_is_true_for_every_loss_and_the_passes_are_as_many() {
    let mut random = Lcg::new(3);
    for loss in LOSSES {
        for (n, groups, levels) in [(1, 1, 2), (300, 3, 4), (3000, 8, 10)] {
            let examples = table(7, n, groups, levels, 2.0, loss);
            for lambda in [0.2, 10.0] {
                let d = examples.rows.columns() * loss.outputs();
                let linear: Vec<f64> = (0..d).map(|_| 5.0 * random.normal()).collect();
                let (found, tau, passes) = whole(&examples, (loss, lambda), &linear);
                let plain = plain_gradient_norm(&examples, loss, lambda, &linear, &found.theta.rounded());
                assert!(found.certified_norm <= tau && plain <= tau + 1e-9, "{loss:?} n={n} λ={lambda}: {plain}");
                // where the curvature of a loss jumps there is no such promise
                assert!(passes == USUAL_PASSES || !is_smooth(loss), "{loss:?} n={n} λ={lambda}: {passes}");
            }
        }
    }
}

#[test]
fn the_same_bits_however_records_are_divided() {
    for loss in LOSSES {
        let examples = table(5, 1000, 4, 3, 2.0, loss);
        let linear = vec![0.5; examples.rows.columns() * loss.outputs()];
        let one = whole(&examples, (loss, 0.7), &linear).0.theta.numbers();
        for ends in [vec![300, 1000], vec![0, 1, 2, 500, 500, 999, 1000]] {
            assert!(asked(&examples, (loss, 0.7), &linear, &ends).0.theta.numbers() == one, "{loss:?} {ends:?}");
        }
    }
}

/// Both are within τ/λ of the one minimiser.
#[test]
fn sums_of_floats_and_of_integers_find_the_same_point() {
    for loss in LOSSES {
        let examples = table(11, 2000, 5, 4, 2.0, loss);
        let linear = vec![-0.3; examples.rows.columns() * loss.outputs()];
        let lambda = 0.5;
        let (asked, tau, _) = whole(&examples, (loss, lambda), &linear);
        let sum = RegularizedSum {
            rows: &examples.rows,
            targets: &examples.targets,
            row_norm: 1.0,
            loss,
            regularization: lambda,
            linear: &linear,
            target_bound: 1.0,
        };
        let here = minimise(&sum, Accuracy { tolerance: tau, steps: 1 });
        assert!(here.certified_norm <= tau);
        let gap = norm(&asked.theta.minus(&here.theta));
        assert!(gap <= 2.0 * tau / lambda, "{loss:?} {gap}");
    }
}

#[test]
fn nothing_that_records_may_be_takes_the_certificate_away() {
    let row = |entries: &[(u32, f32)], times: usize, target: f32| -> Vec<(Vec<(u32, f32)>, f32)> {
        vec![(entries.to_vec(), target); times]
    };
    let alternating = |entries: &[(u32, f32)], times: usize| -> Vec<(Vec<(u32, f32)>, f32)> {
        (0..times).map(|i| (entries.to_vec(), if i % 2 == 0 { 1.0 } else { -1.0 })).collect()
    };
    let tables = [
        ("one row", row(&[(0, 0.6), (1, -0.8)], 1, 1.0)),
        ("rows of zeros", row(&[], 500, 1.0)),
        ("duplicates", row(&[(0, 0.6), (1, 0.8)], 2000, 1.0)),
        ("collinear columns", [row(&[(0, 0.6), (1, 0.6)], 700, 1.0), row(&[(0, -0.3), (1, -0.3)], 700, -1.0)].concat()),
        (
            "contradictions, and one that pulls alone",
            [alternating(&[(0, 1.0), (1, 1e-4)], 500), row(&[(1, -1.0)], 1, 1.0)].concat(),
        ),
        ("separable", [row(&[(0, 1.0), (1, 1e-3)], 1000, 1.0), row(&[(0, -1.0), (1, 1e-3)], 1000, -1.0)].concat()),
        ("missing targets", row(&[(0, 0.7), (2, 0.1)], 300, f32::NAN)),
        (
            "targets of any size",
            [row(&[(0, 0.5)], 50, 1e30), row(&[(1, 0.5)], 50, -f32::MAX), row(&[(2, 0.5)], 9, f32::INFINITY)].concat(),
        ),
        ("tiny entries", [row(&[(0, 1e-30)], 50, 1.0), row(&[(1, f32::from_bits(1))], 50, -1.0)].concat()),
    ];
    for (name, records) in &tables {
        let mut examples = Examples { rows: Rows::new(3), targets: Vec::new() };
        for (entries, target) in records {
            examples.rows.push_clipped(&mut entries.clone(), 1.0);
            examples.targets.push(*target);
        }
        for loss in LOSSES {
            // the descent takes over where Newton's method circles, and takes long at a small λ
            let hard = if is_smooth(loss) { 4 } else { 2 };
            for (lambda, pull) in [(2.0, 1.0), (0.05, 0.0), (1e-3, 30.0), (1e-5, 0.0)].into_iter().take(hard) {
                let linear = vec![pull; 3 * loss.outputs()];
                let (found, tau, passes) = whole(&examples, (loss, lambda), &linear);
                assert!(found.certified_norm <= tau, "{name} {loss:?} λ={lambda}: {}", found.certified_norm);
                assert!(passes.is_power_of_two() && passes >= USUAL_PASSES);
                // a linear term 3·10⁴ times λ, which no plan makes, against two groups that are far apart takes Newton's method a hundred
                let most = if pull > 1.0 { 128 } else { USUAL_PASSES };
                assert!(passes <= most || !is_smooth(loss), "{name} {loss:?} λ={lambda}: {passes}");
            }
        }
    }
}

/// The descent that the promise rests on, without Newton's method.
#[test]
fn the_descent_alone_keeps_the_promise() {
    let loss = Loss::Logistic { shift: 2.0 };
    let examples = table(9, 700, 2, 3, 2.0, loss);
    let d = examples.rows.columns();
    let sums = IntegerSums::new(&Linear::new(loss, d, 1.0), 700, 1.0).flat();
    let linear = vec![1.0; d];
    let scale = Scale {
        rows: 700,
        row_norm: 1.0,
        loss,
        regularization: 1.0,
        linear_norm: norm(&linear),
        target_bound: 1.0,
        grid_error: sums.grid_error(),
    };
    let accuracy = scale.accuracy().unwrap();
    let smoothness = 700.0 * 0.25 + 1.0;
    let Ok((theta, certified)) = accelerated(Split::zero(d), (smoothness, 1.0), accuracy, |theta| {
        let quanta = sums.over(&examples, 0..700, theta);
        let gradient = sums::with_ridge(&sums.gradient(&quanta), theta, 1.0, &linear);
        let ridge = sums::Ridge { loss, row_norm: 1.0, regularization: 1.0, linear: &linear };
        let certified = ridge.certified_norm(&gradient, 700.0, theta) + sums.grid_error();
        Ok::<_, Infallible>((gradient, certified))
    });
    assert!(certified <= accuracy.tolerance);
    assert!(plain_gradient_norm(&examples, loss, 1.0, &linear, &theta.rounded()) <= accuracy.tolerance + 1e-9);
}

/// Against the sum in three floats, which is proved apart: both are within their bounds of the exact gradient.
#[test]
fn a_gradient_in_integers_is_within_its_bound_of_the_one_in_floats() {
    let mut random = Lcg::new(17);
    for loss in LOSSES {
        for n in [1usize, 700, 5000] {
            let examples = table(2, n, 4, 5, 3.0, loss);
            let w = examples.rows.columns() * loss.outputs();
            let theta = Split::zero(w).moved(1.0, &(0..w).map(|_| 20.0 * random.normal()).collect::<Vec<_>>());
            let zero = vec![0.0; w];
            let sum = RegularizedSum {
                rows: &examples.rows,
                targets: &examples.targets,
                row_norm: 1.0,
                loss,
                regularization: 1.0,
                linear: &zero,
                target_bound: 1.0,
            };
            let floats = sum.evaluate(&theta).gradient;
            let asked = IntegerSums::new(&Linear::new(loss, examples.rows.columns(), 1.0), n as u64, 1.0);
            let quanta = asked.over(&examples, 0..n, &theta);
            let integers = sums::with_ridge(&asked.gradient(&quanta), &theta, 1.0, &zero);
            let gap = norm(&floats.iter().zip(&integers).map(|(a, b)| a - b).collect::<Vec<_>>());
            let facts = loss.facts();
            let (lipschitz, smoothness) = (facts.lipschitz.unwrap(), facts.smoothness.unwrap());
            let n = n as f64;
            let bound = accuracy::rounding(n, n * smoothness + 1.0, n * lipschitz, 0.0, norm(&theta.rounded()));
            // and the last rounding to f64 of both
            let last = 16.0 * UNIT * norm(&floats);
            assert!(gap <= 2.0 * bound + asked.grid_error() + last, "{loss:?} n={n}: {gap:e}");
            assert!(asked.grid_error() <= 1e-17 * n * (w as f64).sqrt(), "{:e}", asked.grid_error());
        }
    }
}

/// The largest contributions that there can be, all alike: neither word overflows.
#[test]
fn words_hold_the_sum_of_as_many_records_as_they_are_made_for() {
    for rows in [1u64, 2, 1000, 1 << 20, (1 << 31) - 1, 1 << 40] {
        let sums = IntegerSums::new(&Linear::new(Loss::Logistic { shift: 0.0 }, 1, 1.0), rows, 1.0);
        let mut examples = Examples { rows: Rows::new(1), targets: vec![-1.0] };
        examples.rows.push_clipped(&mut [(0, 1.0)], 1.0);
        // far out the slope is 1, which is the most
        let theta = Split::zero(1).moved(1.0, &[1e6]);
        let quanta = sums.over(&examples, 0..1, &theta);
        let n = i64::try_from(rows).unwrap();
        let total: Vec<i64> = quanta.iter().map(|unit| unit.checked_mul(n).unwrap()).collect();
        let whole = sums.gradient(&total)[0];
        // norms are enforced from below
        let entry = f64::from(examples.rows.row(0).1[0]);
        assert!((whole[0] / rows as f64 - entry).abs() < 1e-12, "{rows}: {whole:?}");
        // at 0 the curvature is largest
        let quanta = sums.over(&examples, 0..1, &Split::zero(1));
        assert!(quanta.iter().all(|unit| unit.checked_mul(n).is_some()));
        let total: Vec<i64> = quanta.iter().map(|unit| unit * n).collect();
        assert!((sums.hessian(&total)[0] / rows as f64 - 0.25).abs() < 1e-5, "{rows}");
    }
    let many = IntegerSums::new(&Linear::new(Loss::Logistic { shift: 0.0 }, 1, 1.0), 1 << 50, 1.0);
    assert!(many.grid_error().is_infinite());
}

#[test]
fn curvature_is_the_derivative_of_the_gradient() {
    for loss in [Loss::Logistic { shift: 2.0 }, Loss::Softmax { classes: 3 }] {
        let examples = table(4, 200, 2, 3, 2.0, loss);
        let w = examples.rows.columns() * loss.outputs();
        let sums = IntegerSums::new(&Linear::new(loss, examples.rows.columns(), 1.0), 200, 1.0);
        let at = |theta: &[f64]| sums.over(&examples, 0..200, &Split::zero(w).moved(1.0, theta));
        let start: Vec<f64> = (0..w).map(|j| 0.3 * (j as f64).sin()).collect();
        let hessian = sums.hessian(&at(&start));
        for j in 0..w {
            let moved = |by: f64| {
                let mut theta = start.clone();
                theta[j] += by;
                sums.gradient(&at(&theta)).into_iter().map(|g| g[0]).collect::<Vec<_>>()
            };
            let (up, down) = (moved(1e-5), moved(-1e-5));
            for i in 0..w {
                let numeric = (up[i] - down[i]) / 2e-5;
                assert!((numeric - hessian[i * w + j]).abs() < 1e-6, "{loss:?} {i} {j}");
            }
        }
    }
}
