//! The certificate, the independence of threads and the hard cases of the solver.

use super::*;
use crate::data::{Examples, Rows};
use crate::loss::Loss;
use crate::optimize::synthetic::{Lcg, table};

fn solve(examples: &Examples, loss: Loss, lambda: f64, linear: &[f64]) -> (Minimiser, f64) {
    let objective = objective(examples, loss, lambda, linear);
    let tau = tolerance(examples.rows.len() as u64, 1.0, loss.facts().lipschitz.unwrap());
    (minimise(&objective, tau), tau)
}

fn objective<'a>(examples: &'a Examples, loss: Loss, lambda: f64, linear: &'a [f64]) -> Objective<'a> {
    let (rows, targets) = (&examples.rows, &examples.targets);
    Objective { rows, targets, loss, regularization: lambda, linear, target_bound: 1.0 }
}

/// ‖∇J‖ recomputed without anything of the solver, in plain f64.
fn plain_gradient_norm(examples: &Examples, loss: Loss, lambda: f64, linear: &[f64], theta: &[f64]) -> f64 {
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

const LOSSES: [Loss; 5] = [
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
    let c = iterate(&objective, tau).theta.rounded();
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
fn tolerance_is_public_and_far_above_the_rounding_error() {
    assert_eq!(tolerance(26_048, 1.0, 1.0), 1e-8);
    assert!((tolerance(10_000_000, 1.0, 1.0) - 1.110_223e-6).abs() < 1e-11);
    for n in [1u64, 1000, 1_000_000, 1 << 40] {
        let floor = 32.0 * UNIT * n as f64 * (1.0 + 0.25 * 3.0); // slope_error·n·R of the shifted logistic loss
        assert!(tolerance(n, 1.0, 1.0) > 15.0 * floor);
    }
}

#[test]
fn gradient_descent_alone_also_certifies() {
    let loss = Loss::SmoothedHinge { width: 0.5 };
    let examples = table(9, 60, 2, 3, 2.0, loss);
    let zero = vec![0.0; examples.rows.columns()];
    let objective = objective(&examples, loss, 5.0, &zero);
    let start = Split::zero(zero.len());
    let here = objective.evaluate(&start);
    assert!(descend(&objective, start, here, 1e-8).certified_norm <= 1e-8);
}
