//! Certified lower bound of the same composition: merging outcomes is post-processing (spec 18 §3.6).
//!
//! Cells are chosen so that the merged loss ln(P/Q) of each is just above a lattice point, to which it is rounded down.
//! It says how much of an upper bound is numerical slack; it is never a claim.

use super::compose::Draws;
use super::grid::{Widths, coarse_borders, step_for, window};
use super::lattice::Lattice;
use super::pair::{Pair, U};
use super::spectrum::{Part, Spectrum, fast_size};
use super::tilt::{Target, View, solve, total};

/// Merged cells of the pair at the lattice points `index`; losses and masses rounded down.
fn merged(pair: &dyn Pair, step: f64, index: &[i64]) -> Lattice {
    let at = |i: usize| index[i] as f64 * step;
    let mut lattice = Lattice { step, index: vec![], mass: vec![], infinite: 0.0, loss_error: 0.0 };
    // from the middle of the first two points, so that cells reach as far above their point as below
    let mut low = if index.len() > 1 { 0.5 * (at(0) + at(1)) } else { at(0) };
    for i in 1..index.len() {
        let target = at(i);
        // a border that already lies past this point leaves it out
        if target - low < 0.25 * (target - at(i - 1)) {
            continue;
        }
        // certified merged loss of (low, t] minus the target, and its certified mass
        let cell = |t: f64| {
            let m = pair.masses(&[low, t]);
            let (p, q) = (m.p[1] - m.p_error[1], m.q[1] + m.q_error[1]);
            let loss = if p > 0.0 { (p / q).ln() - 8.0 * U * (1.0 + t.abs()) } else { f64::NEG_INFINITY };
            (loss - target, p)
        };
        let width = target - low;
        let mut high = target + width;
        let (mut excess, mut mass) = cell(high);
        // the merged loss rises about half as fast as the upper border
        for _ in 0..8 {
            if (0.0..0.02 * width).contains(&excess) {
                break;
            }
            let change = if excess.is_finite() { 2.0 * excess - 0.01 * width } else { -width };
            high = (high - change).clamp(target, target + 4.0 * width);
            (excess, mass) = cell(high);
        }
        if excess >= 0.0 && mass > 0.0 {
            lattice.index.push(index[i]);
            lattice.mass.push(mass);
            low = high;
        }
    }
    // what is left has losses above the last border
    let m = pair.masses(&[low]);
    let rest = m.p[1] - m.p_error[1];
    let last = (low / step * (1.0 - 4.0 * U)).floor() as i64 - 1;
    if rest > 0.0 && lattice.index.last().is_none_or(|k| *k < last) {
        lattice.index.push(last);
        lattice.mass.push(rest);
    }
    lattice
}

/// A value that ε(δ) of the composition is certainly not below; 0 if nothing better is found.
pub(crate) fn epsilon(draws: &Draws, delta: f64, tolerance: f64) -> f64 {
    let count: f64 = draws.iter().map(|d| d.1 as f64).sum();
    let tail_mass = (1e-5 * delta / count).max(1e-300);
    let negligible = 1e-9 / count;
    let mut views: Vec<(View, u64)> =
        draws.iter().map(|(pair, t)| (View::new(pair, &coarse_borders(pair, tail_mass)), *t)).collect();
    let mut lambda = solve(&views, Target::Delta(delta), 10.0);
    for (view, (pair, _)) in views.iter_mut().zip(draws) {
        view.0 = View::new(pair, &Widths::new(&view.0, lambda, negligible).refined(500));
    }
    lambda = solve(&views, Target::Delta(delta), lambda);
    let sum = total(&views, lambda);
    let chernoff = ((sum.value - lambda.ln_1p() - delta.ln()) / lambda).max(1e-4);
    let cumulants: Vec<_> = views.iter().map(|(v, t)| (v.cumulants(lambda), *t)).collect();
    let mut step = step_for(tolerance * chernoff, lambda, &cumulants);
    let (length, fold_tilt) = window(&views, lambda, chernoff, -delta.ln());
    const MOST_POINTS: f64 = 262_144.0;
    step = step.max(length / MOST_POINTS);
    let points = fast_size((length / step).ceil() as usize + 2);
    let parts: Vec<Part> = views
        .iter()
        .zip(draws)
        .map(|((view, _), (pair, t))| (merged(pair, step, &Widths::new(view, lambda, negligible).lattice(step)), *t))
        .collect();
    if parts.iter().any(|(lattice, _)| lattice.index.is_empty()) {
        return 0.0;
    }
    let spectrum = Spectrum::new(&parts, fold_tilt, points);
    // copies of the window on the right, by Chernoff at orders above the folding tilt
    let copies: Vec<(f64, f64)> = [1.0, 1.1, 1.2, 1.35, 1.7, 2.2, 3.0]
        .iter()
        .map(|factor| (factor * lambda, parts.iter().map(|(l, t)| *t as f64 * ln_moment(l, factor * lambda)).sum()))
        .collect();
    let width = points as f64 * step;
    let certain = |j: i64| {
        let at = j as f64 * step;
        let left = 1.0 / (fold_tilt * width).exp_m1();
        let right = copies
            .iter()
            .map(|(theta, k): &(f64, f64)| (k - theta * at).exp() / ((theta - fold_tilt) * width).exp_m1())
            .fold(f64::INFINITY, f64::min);
        spectrum.delta_lower(j) - (left + right) * (1.0 + 1e-9)
    };
    // far below the target the alias bound is useless: look downward from an ε that is certainly too large
    let top = ((chernoff / step) as i64 + 2).max(2);
    const LOOKS: i64 = 64;
    let look = |i: i64| (top as i128 * i128::from(i) / i128::from(LOOKS)) as i64;
    let Some(found) = (0..LOOKS).rev().find(|i| certain(look(*i)) > delta) else { return 0.0 };
    let (mut low, mut high) = (look(found), look(found + 1));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if certain(middle) > delta { low = middle } else { high = middle }
    }
    low as f64 * step * (1.0 - 4.0 * U)
}

/// ln Σ p e^(θ loss), rounded up.
fn ln_moment(lattice: &Lattice, theta: f64) -> f64 {
    let exponent = |i: usize| theta * lattice.index[i] as f64 * lattice.step + lattice.mass[i].ln();
    let top = (0..lattice.mass.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = (0..lattice.mass.len()).map(|i| (exponent(i) - top).exp()).sum();
    top + sum.ln() + 16.0 * U * (1.0 + top.abs()) + lattice.mass.len() as f64 * U
}
