//! The certificate, the independence of threads and the hard cases of the solver.

use super::*;
use crate::loss::Loss;
use crate::records::{Examples, Rows};
use crate::synthetic::{Lcg, table};

fn solve(examples: &Examples, loss: Loss, lambda: f64, linear: &[f64]) -> (Minimiser, f64) {
    let objective = objective(examples, loss, lambda, linear);
    let accuracy = promised(&objective);
    (minimise(&objective, accuracy), accuracy.tolerance)
}

/// What a plan for these facts promises.
fn promised(objective: &RegularizedSum<'_>) -> Accuracy {
    scale(objective.rows.len() as u64, objective.loss, objective.regularization, norm(objective.linear))
        .accuracy()
        .unwrap()
}

fn scale(rows: u64, loss: Loss, regularization: f64, linear_norm: f64) -> Scale {
    Scale { rows, row_norm: 1.0, loss, regularization, linear_norm, target_bound: 1.0, grid_error: 0.0 }
}

fn objective<'a>(examples: &'a Examples, loss: Loss, lambda: f64, linear: &'a [f64]) -> RegularizedSum<'a> {
    let (rows, targets) = (&examples.rows, &examples.targets);
    RegularizedSum { rows, targets, row_norm: 1.0, loss, regularization: lambda, linear, target_bound: 1.0 }
}

/// ‖∇J‖ recomputed without anything of the solver, in plain f64.
pub(super) fn plain_gradient_norm(examples: &Examples, loss: Loss, lambda: f64, linear: &[f64], theta: &[f64]) -> f64 {
    let (d, k) = (examples.rows.columns(), loss.outputs());
    let mut g: Vec<f64> = theta.iter().zip(linear).map(|(t, b)| lambda * t + b).collect();
    let mut slope = vec![0.0; k];
    for i in 0..examples.rows.len() {
        let (indices, values) = examples.rows.row(i);
        let scores: Vec<f64> = (0..k)
            .map(|out| indices.iter().zip(values).map(|(&j, &x)| f64::from(x) * theta[out * d + j as usize]).sum())
            .collect();
        loss.slope(&scores, f64::from(examples.targets[i]), &mut slope);
        for (out, c) in slope.iter().enumerate() {
            indices.iter().zip(values).for_each(|(&j, &x)| g[out * d + j as usize] += c * f64::from(x));
        }
    }
    norm(&g)
}

pub(super) const LOSSES: [Loss; 5] = [
    Loss::Logistic { shift: 0.0 },
    Loss::Logistic { shift: 2.0 },
    Loss::Huber { threshold: 0.3 },
    Loss::SmoothedHinge { width: 0.5 },
    Loss::Softmax { classes: 3 },
];

#[test]
fn the_certificate_is_true_for_every_loss() {
    let mut random = Lcg::new(3);
    for loss in LOSSES {
        for (n, groups, levels) in [(1, 1, 2), (300, 3, 4), (3000, 8, 10)] {
            let examples = table(7, n, groups, levels, 2.0, loss);
            for lambda in [0.2, 10.0] {
                let d = examples.rows.columns() * loss.outputs();
                let linear: Vec<f64> = (0..d).map(|_| 5.0 * random.normal()).collect();
                let (found, tau) = solve(&examples, loss, lambda, &linear);
                let plain = plain_gradient_norm(&examples, loss, lambda, &linear, &found.theta.rounded());
                // plain f64 sums err by about n·u·(‖θ‖ + 1) ≈ 1e-10 here
                assert!(found.certified_norm <= tau && plain <= tau + 1e-9, "{loss:?} n={n} λ={lambda}: {plain}");
            }
        }
    }
}

#[test]
fn dense_factorisation_and_conjugate_gradients_agree() {
    let loss = Loss::Logistic { shift: 0.0 };
    // the same records in a space with 700 further, empty columns: beyond the dense limit
    let small = table(11, 2000, 6, 8, 2.0, loss);
    let mut wide = Examples { rows: Rows::new(small.rows.columns() + 700), targets: small.targets.clone() };
    for i in 0..small.rows.len() {
        let (indices, values) = small.rows.row(i);
        let mut entries: Vec<(u32, f32)> = indices.iter().copied().zip(values.iter().copied()).collect();
        wide.rows.push_clipped(&mut entries, 1.0);
    }
    let zero = vec![0.0; wide.rows.columns()];
    let (a, tau) = solve(&small, loss, 1.0, &zero[..small.rows.columns()]);
    let (b, _) = solve(&wide, loss, 1.0, &zero);
    let (a, b) = (a.theta.rounded(), b.theta.rounded());
    let gap: f64 = a.iter().zip(&b).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
    assert!(gap <= 2.0 * tau, "{gap}"); // each is within τ/λ of the minimiser
    assert!(b[a.len()..].iter().all(|w| *w == 0.0)); // empty columns are solved in closed form
    // conjugate gradients themselves, without the detour around empty columns
    let objective = objective(&wide, loss, 1.0, &zero);
    let c = iterate(&objective, promised(&objective)).theta.rounded();
    let gap: f64 = a.iter().zip(&c).map(|(x, y)| (x - y).powi(2)).sum::<f64>().sqrt();
    assert!(gap <= 2.0 * tau, "{gap}");
}

#[test]
fn empty_columns_get_their_exact_minimiser() {
    let loss = Loss::Softmax { classes: 3 };
    let small = table(8, 500, 2, 3, 1.0, loss);
    let mut wide = Examples { rows: Rows::new(20), targets: small.targets.clone() };
    for i in 0..small.rows.len() {
        let (indices, values) = small.rows.row(i);
        let mut entries: Vec<(u32, f32)> = indices.iter().map(|j| 2 * j + 1).zip(values.iter().copied()).collect();
        wide.rows.push_clipped(&mut entries, 1.0);
    }
    let linear: Vec<f64> = (0..60).map(|j| f64::from(j) * 1.7 - 40.0).collect();
    let (found, tau) = solve(&wide, loss, 3.0, &linear);
    let theta = found.theta.rounded();
    assert_eq!(theta[20], -linear[20] / 3.0);
    assert!(plain_gradient_norm(&wide, loss, 3.0, &linear, &theta) <= tau + 1e-10);
}

#[test]
fn the_same_bits_for_any_number_of_threads() {
    for loss in [Loss::Logistic { shift: 2.0 }, Loss::Softmax { classes: 3 }] {
        let examples = table(5, 5000, 5, 6, 2.0, loss);
        let linear = vec![0.5; examples.rows.columns() * loss.outputs()];
        let solve_with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| solve(&examples, loss, 0.7, &linear).0.theta.rounded())
        };
        assert_eq!(solve_with(1), solve_with(4));
    }
}

#[test]
fn separable_data_ugly_targets_and_a_huge_linear_term_are_no_obstacle() {
    let mut examples = Examples { rows: Rows::new(2), targets: Vec::new() };
    for i in 0..2000 {
        let sign = if i % 2 == 0 { 1.0f32 } else { -1.0 };
        examples.rows.push_clipped(&mut [(0, sign), (1, 1e-3)], 1.0);
        // labels outside ±1 and missing labels must not break the bound on the slope
        examples.targets.push(if i % 100 == 7 { f32::NAN } else { 7.0 * sign });
    }
    for (lambda, b) in [(1e-3, 0.0), (0.1, 1e3), (5.0, -2e4)] {
        let (found, tau) = solve(&examples, Loss::Logistic { shift: 2.0 }, lambda, &[b, 0.0]);
        assert!(found.certified_norm <= tau);
    }
}

#[test]
fn the_gradient_is_accurate_far_below_the_tolerance() {
    // scores near 640 and slopes that cancel: against exact rational arithmetic on dyadic inputs
    let mut rows = Rows::new(3);
    for _ in 0..1000 {
        rows.push_clipped(&mut [(0, 0.5), (1, 0.25), (2, 0.125)], 1.0);
    }
    let examples = Examples { rows, targets: vec![0.25; 1000] };
    let zero = [0.0; 3];
    let objective = objective(&examples, Loss::Huber { threshold: 1.0 }, 0.0, &zero);
    // score = 640 − 640 + 0.25 + 2^-40: residual 2^-40 exactly
    let theta = Split::zero(3).moved(1.0, &[1280.0, -2560.0, 2.0 + 8.0 * 2f64.powi(-40)]);
    let here = objective.evaluate(&theta);
    for (g, x) in here.gradient.iter().zip([0.5, 0.25, 0.125]) {
        let exact = 1000.0 * x * 2f64.powi(-40);
        assert!((g - exact).abs() <= 1e-12 * exact, "{g} {exact}");
    }
}

#[test]
fn the_promise_is_public_and_far_above_the_rounding_error() {
    let logistic = Loss::Logistic { shift: 2.0 };
    let promise = scale(26_048, logistic, 1.2, 500.0).accuracy().unwrap();
    assert_eq!(promise.tolerance, 1e-8);
    assert!((1_000..20_000).contains(&promise.steps), "{promise:?}");
    // the cost in noise stays small for ten million records, at any slope bound and a λ of a millionth
    assert!(scale(10_000_000, logistic, 1.2, 500.0).accuracy().unwrap().tolerance < 1e-6);
    for (threshold, lambda) in [(0.01, 1.0), (1e-6, 1e-3), (100.0, 1.0), (0.5, 1e-6)] {
        let loss = Loss::Huber { threshold };
        assert!(
            scale(5_000, loss, lambda, 0.0).accuracy().unwrap().tolerance < 1e-4 * threshold,
            "{threshold} {lambda}"
        );
    }
    // no promise in reasonable time: refused while planning, with the way out
    let refusal = scale(5_000, logistic, 1e-9, 0.0).accuracy().unwrap_err().to_string();
    assert!(
        refusal.contains("too small for 5000 records") && refusal.contains("raise the regularization to"),
        "{refusal}"
    );
    for loss in [Loss::Sigmoid, Loss::Hinge, Loss::Absolute, Loss::Squared] {
        assert!(scale(100, loss, 1.0, 0.0).accuracy().is_err());
    }
    for (lambda, norm) in [(f64::NAN, 1.0), (-1.0, 1.0), (1.0, 0.0), (1.0, f64::INFINITY), (1e-80, 1.0)] {
        assert!(Scale { row_norm: norm, ..scale(100, logistic, lambda, 0.0) }.accuracy().is_err());
    }
}

/// What sums in three parts lose at worst: every rounding as large as it can be, in two chunks of half of the terms.
#[test]
fn the_rounding_of_long_sums_is_covered() {
    for k in 9..50 {
        let n = 2f64.powi(k);
        let chunk = (n / 2.0).max(512.0);
        let sums = 4.0 * (chunk * UNIT).powi(2) * (chunk * UNIT / 24.0 + 2f64.powi(-28) / 6.0);
        let last = 5.0 * UNIT * (2f64.powi(-28) + chunk * UNIT / 2.0);
        let products = 2f64.powi(-80) + 2f64.powi(-85);
        let bound = accuracy::rounding(n, 0.0, 1.0, 0.0, 0.0);
        assert!(bound >= 2.0 * (sums + last + products), "2^{k}: {bound:e} {:e}", sums + last + products);
    }
}

#[test]
fn the_descent_alone_keeps_the_promise() {
    let mut random = Lcg::new(41);
    for loss in LOSSES {
        for (n, lambda, pull) in [(60, 5.0, 0.0), (60, 0.05, 3.0), (700, 1.0, 0.0), (1, 1e-3, 100.0)] {
            let examples = table(9, n, 2, 3, 2.0, loss);
            let linear: Vec<f64> =
                (0..examples.rows.columns() * loss.outputs()).map(|_| pull * random.normal()).collect();
            let objective = objective(&examples, loss, lambda, &linear);
            let accuracy = promised(&objective);
            let found = descend(&objective, accuracy);
            assert!(found.certified_norm <= accuracy.tolerance, "{loss:?} n={n} λ={lambda}: {}", found.certified_norm);
        }
    }
    // records that contradict each other, and one that pulls alone
    let mut examples = Examples { rows: Rows::new(2), targets: Vec::new() };
    for i in 0..500 {
        examples.rows.push_clipped(&mut [(0, 1.0), (1, 1e-4)], 1.0);
        examples.targets.push(if i % 2 == 0 { 1.0 } else { -1.0 });
    }
    examples.rows.push_clipped(&mut [(1, -1.0)], 1.0);
    examples.targets.push(1.0);
    for loss in LOSSES {
        let zero = vec![0.0; 2 * loss.outputs()];
        let objective = objective(&examples, loss, 0.1, &zero);
        let accuracy = promised(&objective);
        assert!(descend(&objective, accuracy).certified_norm <= accuracy.tolerance, "{loss:?}");
    }
}

#[test]
fn neighbours_that_made_the_solver_hang_get_their_certificate() {
    // (records, slope bound, λ): a small slope bound, a small λ; all targets missing, all but one, none; all rows zero
    for (n, threshold, lambda) in
        [(40_000usize, 0.01, 0.03), (40_000, 0.5, 1.5), (5_000, 0.5, 1e-6), (4_999, 0.5, 1e-6)]
    {
        for world in 0..4 {
            let mut examples = Examples { rows: Rows::new(3), targets: Vec::new() };
            for i in 0..n {
                let x = (i as f32 * 0.618).fract() - 0.5;
                match world {
                    3 => examples.rows.push_zero(), // no row has a norm
                    _ => examples.rows.push_clipped(&mut [(0, x), (1, x * x), (2, 0.7)], 1.0),
                }
                examples.targets.push(match world {
                    0 => (3.0 * x).clamp(-1.0, 1.0),
                    1 if i == n / 2 => 0.7,
                    _ => f32::NAN,
                });
            }
            let (found, tau) = solve(&examples, Loss::Huber { threshold }, lambda, &[0.0; 3]);
            assert!(found.certified_norm <= tau, "n={n} {threshold} {lambda} world {world}: {}", found.certified_norm);
        }
    }
}
