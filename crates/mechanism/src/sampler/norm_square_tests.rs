//! Regularisers in general norms: convexity, the published numbers, roundings, and a law on a grid below the Gaussian curve.

use super::*;
use crate::sampler::wide::Wide;
use dpopt_objective::synthetic::Lcg;
use dpopt_privacy::{gibbs, special::gaussian_ln_delta};

fn lp(v: &[f64], p: f64) -> f64 {
    v.iter().map(|x| x.abs().powf(p)).sum::<f64>().powf(1.0 / p)
}

#[test]
fn the_best_exponents_have_the_published_constants() {
    for (d, q, c) in
        [(10, 1.46788, 9.2759), (100, 1.14147, 22.135), (1000, 1.08525, 34.724), (1_000_000, 1.03907, 72.338)]
    {
        let best = best_exponent(1.0, d);
        let norm = NormSquare::new(1.0, best, d).unwrap();
        assert!((best - q).abs() < 1e-5 && (norm.coefficient / c - 1.0).abs() < 1e-4, "{d}: {best} {norm:?}");
    }
    for p in [1.0, 1.02, 1.1, 1.3, 1.5, 1.9, 2.0] {
        for d in [1, 2, 7, 8, 50, 1000, 100_000] {
            let coefficient = |q: f64| NormSquare::new(p, q, d).map_or(f64::INFINITY, |norm| norm.coefficient);
            let best = coefficient(best_exponent(p, d));
            // no other q does better, the usual choice q = p among them
            let searched = (1..=2000).map(|i| coefficient(p + (2.0 - p) * f64::from(i) / 2000.0));
            assert!(best <= searched.fold(coefficient(p), f64::min) * (1.0 + 1e-9), "{p} {d}");
        }
    }
    assert_eq!(NormSquare::new(2.0, 2.0, 9).map(|norm| (norm.coefficient - 1.0) < 2e-12), Some(true));
    for (p, q) in [(0.9, 1.5), (1.5, 1.4), (1.0, 1.0), (1.5, 2.1), (f64::NAN, 2.0), (1.5, f64::NAN)] {
        assert_eq!(NormSquare::new(p, q, 3), None);
    }
}

/// Pairs that are random, sparse, of opposite signs, nearly parallel.
fn pairs(d: usize, random: &mut Lcg) -> Vec<(Vec<f64>, Vec<f64>)> {
    let mut all = Vec::new();
    for _ in 0..200 {
        let x: Vec<f64> = (0..d).map(|_| random.normal()).collect();
        let y: Vec<f64> = (0..d).map(|_| random.normal()).collect();
        let sparse: Vec<f64> = y.iter().enumerate().map(|(j, y)| if j % 5 == 0 { *y } else { 0.0 }).collect();
        let flipped: Vec<f64> = x.iter().map(|x| if random.uniform() < 0.5 { *x } else { -x }).collect();
        let near: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 1.1 * x + 1e-3 * y).collect();
        all.extend([y, sparse, flipped, near].map(|other| (x.clone(), other)));
    }
    all
}

#[test]
fn the_regulariser_is_1_strongly_convex_in_its_norm_and_its_rest_is_convex() {
    let mut random = Lcg::new(41);
    for d in [1, 2, 3, 50] {
        for (p, q) in [1.0, 1.1, 1.5, 2.0].into_iter().flat_map(|p| [(p, best_exponent(p, d)), (p, p.max(1.05))]) {
            let norm = NormSquare::new(p, q, d).unwrap();
            for (x, y) in pairs(d, &mut random) {
                let middle: Vec<f64> = x.iter().zip(&y).map(|(x, y)| 0.5 * (x + y)).collect();
                let apart: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x - y).collect();
                let mean = 0.5 * (norm.value(&x) + norm.value(&y));
                let slack = 1e-11 * mean;
                assert!(norm.value(&middle) <= mean - lp(&apart, p).powi(2) / 8.0 + slack, "{p} {q} {d}");
                let rest = |v: &[f64]| norm.beyond_quadratic(v);
                assert!(rest(&middle) <= 0.5 * (rest(&x) + rest(&y)) + slack, "{p} {q} {d}");
                // and the slope is that of the rest
                let mut slope = vec![0.0; d];
                norm.add_slope(&x, 1.0, &mut slope);
                let tangent: f64 = slope.iter().zip(&apart).map(|(g, a)| g * -a).sum();
                assert!(rest(&y) >= rest(&x) + tangent - slack, "{p} {q} {d}");
                let (size, steep) = (lp(&x, 2.0), lp(&slope, 2.0));
                let term = PublicTerm { norm, weight: 1.0, scale: 1.0 };
                assert!(
                    steep <= term.lipschitz(size)
                        && norm.value(&x) <= 0.51 * norm.coefficient * norm.stretch() * size * size
                );
            }
        }
    }
    // without d^(2(1 − 1/q)) the inequality fails at vectors of equal entries
    let d = 3;
    let q = 1.0 + 1.0 / (d as f64).ln();
    let plain = NormSquare { coefficient: 1.0 / (q - 1.0), ..NormSquare::new(1.0, q, d).unwrap() };
    let ones = vec![1.0; d];
    let opposite = vec![-1.0; d];
    assert!(0.0 > 0.5 * (plain.value(&ones) + plain.value(&opposite)) - lp(&[2.0; 3], 1.0).powi(2) / 8.0);
}

/// Where a coordinate changes its sign the slope changes most: the bounds hold there and are not idle.
#[test]
fn slopes_of_the_term_change_by_no_more_than_their_bound() {
    let mut random = Lcg::new(43);
    for (d, p) in [(8, 1.0), (20, 1.0), (8, 1.9), (100, 1.2)] {
        let norm = NormSquare::new(p, best_exponent(p, d), d).unwrap();
        let term = PublicTerm { norm, weight: 3.0, scale: 0.7 };
        let slope = |v: &[f64]| {
            let mut slope = vec![0.0; d];
            norm.add_slope(v, 2.1, &mut slope);
            slope
        };
        let mut most = 0.0f64;
        let opposite = |size: f64| (vec![size; d], vec![-size; d]);
        for (x, y) in pairs(d, &mut random).into_iter().chain([opposite(1.0), opposite(1e-9)]) {
            let difference = |x: &[f64], y: &[f64]| lp(&x.iter().zip(y).map(|(x, y)| x - y).collect::<Vec<_>>(), 2.0);
            let bound = term.slope_change(lp(&x, 2.0).max(lp(&y, 2.0)), difference(&x, &y));
            most = most.max(difference(&slope(&x), &slope(&y)) / bound);
        }
        assert!(most <= 1.0 && most > 0.05, "{d} {p}: {most}");
    }
}

/// Gaussian points around several references, most of all 0 and points with zeros, where the slope has corners.
#[test]
fn the_mean_gap_of_the_term_is_below_its_bound() {
    let mut random = Lcg::new(44);
    let gaussian =
        |random: &mut Lcg, d: usize, std: f64| -> Vec<f64> { (0..d).map(|_| std * random.normal()).collect() };
    for (d, p, weight) in [(8, 1.0, 1.0), (20, 1.0, 30.0), (8, 1.9, 5.0), (50, 1.3, 5.0)] {
        let norm = NormSquare::new(p, best_exponent(p, d), d).unwrap();
        let term = PublicTerm { norm, weight, scale: 0.3 };
        let mut most = 0.0f64;
        for (std, away, zeros) in
            [(0.1, 0.0, 1), (0.1, 0.3, 1), (0.01, 0.0, 2), (0.01, 0.2, 2), (0.3, 0.3, d + 1), (1e-4, 0.0, d + 1)]
        {
            let far = gaussian(&mut random, d, 0.5);
            // every point where `zeros` is 1 is the origin
            let w: Vec<f64> = far.iter().enumerate().map(|(j, x)| if j % zeros == 0 { 0.0 } else { *x }).collect();
            let w = if zeros > d { far } else { w };
            let direction = gaussian(&mut random, d, 1.0);
            let centre: Vec<f64> = w.iter().zip(&direction).map(|(w, u)| w + away * u / lp(&direction, 2.0)).collect();
            let mut slope = vec![0.0; d];
            norm.add_slope(&w, weight * term.scale, &mut slope);
            let at = |v: &[f64]| weight * term.scale * norm.beyond_quadratic(v);
            let (mut reach, mut sum) = (lp(&w, 2.0), 0.0);
            for _ in 0..400 {
                let x: Vec<f64> = centre.iter().map(|c| c + std * random.normal()).collect();
                let tangent: f64 = slope.iter().zip(&x).zip(&w).map(|((g, x), w)| g * (x - w)).sum();
                sum += at(&x) - at(&w) - tangent;
                reach = reach.max(lp(&x, 2.0));
            }
            let bound = term.mean_gap(reach, (std * std * d as f64 + away * away).sqrt());
            most = most.max(sum / 400.0 / bound);
        }
        assert!(most <= 1.0 && most > 0.05, "{d} {p}: {most}");
    }
}

/// q = 3/2, where r is made of square and cube roots: with twice the digits against the computed value.
#[test]
fn the_computed_term_stays_within_its_bound() {
    let cube_root = |s: Wide| {
        let mut y = Wide::from(s.rounded().cbrt());
        for _ in 0..3 {
            let square = y.times(y);
            y = y.minus(square.times(y).minus(s).times(square.times(3.0).inverse()));
        }
        y
    };
    let (d, reach) = (20, 4.0);
    let norm = NormSquare::new(1.5, 1.5, d).unwrap();
    let term = PublicTerm { norm, weight: 3.0, scale: 0.7 };
    let grid = term.grid(1e-12, reach);
    let bound = term.oscillation(grid, reach, 0.0);
    let mut random = Lcg::new(42);
    let mut worst = 0.0f64;
    for _ in 0..300 {
        let size = reach * random.uniform() / (d as f64).sqrt() * 0.7;
        let v: Vec<Wide> = (0..d).map(|_| Wide::from((size * random.normal(), 1e-18 * random.normal()))).collect();
        let cell: Vec<f64> = v.iter().map(|x| x.on_grid(grid)).collect();
        if lp(&cell, 2.0) > reach {
            continue;
        }
        let (mut sum, mut square) = (Wide::default(), Wide::default());
        for x in &v {
            let size = if x.rounded() < 0.0 { x.times(-1.0) } else { *x };
            sum = sum.plus(size.times(size.root()));
            square = square.plus(x.times(*x));
        }
        let r = sum.times(cube_root(sum)).times(0.5 * norm.coefficient);
        let exact = r.minus(square.times(0.5 * norm.convexity)).times(term.weight * term.scale);
        let computed = Wide::from(norm.beyond_quadratic(&cell)).times(term.weight * term.scale);
        worst = worst.max(exact.minus(computed).rounded().abs());
    }
    assert!(worst <= bound && worst > 1e-4 * bound && bound < 2e-12, "{worst} {bound}");
}

/// The exact density e^(−k(⟨s, x⟩ + μ‖x‖²)) on the unit ball of l_1.5 in the plane, one record of 50 turned around.
#[test]
fn a_law_in_the_plane_stays_below_the_curve() {
    let norm = NormSquare::new(1.5, 1.5, 2).unwrap();
    let (n, t, range) = (50.0f64, 0.268_051_123_2, 1.0f64);
    let kappa = (n * t / 2.0).powi(2);
    let mu = (2.0 / (kappa * range)).sqrt();
    let k = kappa * mu;
    assert!((kappa - 44.907_128).abs() < 1e-5 && (mu - 0.211_036_4).abs() < 1e-7 && (k - 9.477_037_8).abs() < 1e-6);
    assert!((gibbs::mu(k * 2.0 / n, k * mu) / t - 1.0).abs() < 1e-12);
    let cells = 1201;
    let at = |i: usize| -1.0 + 2.0 * (i as f64 + 0.5) / cells as f64;
    let points: Vec<[f64; 2]> = (0..cells * cells)
        .map(|i| [at(i / cells), at(i % cells)])
        .filter(|x| x[0].abs().powf(1.5) + x[1].abs().powf(1.5) <= 1.0)
        .collect();
    let law = |s: [f64; 2]| -> Vec<f64> {
        let raw: Vec<f64> =
            points.iter().map(|x| (-k * (s[0] * x[0] + s[1] * x[1] + mu * norm.value(x))).exp()).collect();
        let total: f64 = raw.iter().sum();
        raw.iter().map(|x| x / total).collect()
    };
    let (here, there) = (law([0.3, -0.2]), law([0.34, -0.2]));
    let mean = |j: usize| points.iter().zip(&here).map(|(x, p)| x[j] * p).sum::<f64>();
    assert!((mean(0) + 0.366_573).abs() < 5e-5 && (mean(1) - 0.232_955).abs() < 5e-5, "{} {}", mean(0), mean(1));
    let stick =
        |p: &[f64], q: &[f64], e: f64| -> f64 { p.iter().zip(q).map(|(p, q)| (p - e.exp() * q).max(0.0)).sum() };
    for (e, one, other, curve) in
        [(0.0, 0.050_948, 0.050_948, 0.106_617), (0.1, 0.018_329, 0.012_994, 0.067_305), (0.3, 8.5e-4, 0.0, 0.020_451)]
    {
        let both = [stick(&there, &here, e), stick(&here, &there, e)];
        let (most, least) = (both[0].max(both[1]), both[0].min(both[1]));
        assert!((most - one).abs() < 1e-5 && (e > 0.2 || (least - other).abs() < 1e-5), "{e}: {both:?}");
        let gaussian = gaussian_ln_delta(e, t).exp();
        assert!((gaussian - curve).abs() < 1e-6 && most < gaussian, "{e}: {gaussian}");
    }
}

#[test]
fn the_bound_on_gaps_is_nearly_attained_by_the_whole_regulariser() {
    // on an axis r is a square, and its gap the square of the distance: all but 1/q + (2 − q)/2 − 1/2 of the bound
    for (q, d) in [(1.9, 1), (1.99, 1), (1.99, 3)] {
        let norm = NormSquare::new(q, q, d).unwrap();
        let term = PublicTerm { norm, weight: 0.7, scale: 3.0 };
        let mut worst = 0.0f64;
        for (s, t) in (1..=10).flat_map(|s| (1..=10).map(move |t| (0.1 * f64::from(s), 0.1 * f64::from(t)))) {
            let (mut w, mut x) = (vec![0.0; d], vec![0.0; d]);
            (w[0], x[0]) = (-s, t);
            let mut slope: Vec<f64> = w.iter().map(|w| norm.convexity * w).collect();
            norm.add_slope(&w, 1.0, &mut slope);
            let along: f64 = slope.iter().zip(x.iter().zip(&w)).map(|(g, (x, w))| g * (x - w)).sum();
            let gap = term.scale * term.weight * (norm.value(&x) - norm.value(&w) - along);
            worst = worst.max(gap / term.mean_gap(1.0, s + t));
        }
        assert!(worst > 0.85 && worst <= 1.0, "{q} {d}: {worst}");
    }
}
