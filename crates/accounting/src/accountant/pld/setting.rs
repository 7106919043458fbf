//! Where a composition is looked at: truncation, tilt, lattice step and Fourier window. Upper and lower bounds share
//! it and differ in how a pair is put on the lattice.

use super::grid::{PER_DECADE, Widths, aligned_step, coarse_borders, step_for, window};
use super::lattice::Lattice;
use super::pair::{Pair, PointLosses};
use super::parallel;
use super::spectrum::{Part, fast_size};
use super::tilt::{Target, View, solve, total};
use std::sync::Arc;

/// Pairs of one direction with their multiplicities; not empty.
pub(crate) type Draws = [(Arc<dyn Pair>, u64)];

/// A δ below which rounding and far tails decide, so that the tilt is looked for more closely.
const DEEP: f64 = 1e-13;
/// Borders per decade of small losses at the first look at a pair, and cells of the second one.
const LOOKS: (f64, f64) = (10.0, 250.0);
const DEEP_LOOKS: (f64, f64) = (PER_DECADE, 500.0);
/// Largest λ·Δ that is folded with.
const STEEPEST_PER_POINT: f64 = 30.0;

/// Views of all pairs, and the lattice and window that they ask for.
pub(crate) struct Setting<'a> {
    draws: &'a Draws,
    views: Vec<(View, u64)>,
    atoms: Vec<(PointLosses, u64)>,
    /// The saddle point λ: where the Rényi bound of the composed loss is stationary.
    lambda: f64,
    /// A tilted mass that may be inflated without harm.
    negligible: f64,
    /// ε that is looked at: the target, or what Chernoff says of it.
    pub epsilon: f64,
    /// The lattice step Δ, in ε.
    pub step: f64,
    /// Number of lattice points of the Fourier window.
    pub points: usize,
    /// The tilt λ′ of the masses that are folded into the window.
    pub fold_tilt: f64,
}

impl<'a> Setting<'a> {
    /// Aims at a bias of `tolerance` of ε with at most `most_points`; `delta` is (a guess of) δ at the target. `None` if a
    /// draw's loss is beyond the grid for sure.
    pub fn new(draws: &'a Draws, target: Target, delta: f64, tolerance: f64, most_points: usize) -> Option<Self> {
        let count: f64 = draws.iter().map(|d| d.1 as f64).sum();
        // truncate before tilting (the far tail makes the tilted moments explode), at a hundred-thousandth of δ over all steps
        let tail_mass = (1e-5 * delta / count).max(1e-300);
        let negligible = 1e-9 / count;
        // what one view of many gets wrong about its part is lost in the sum
        let detail = (64.0 / draws.len() as f64).sqrt().clamp(0.1, 1.0);
        let hopeless = |views: &[(View, u64)]| views.iter().any(|(view, _)| view.loss.is_empty());
        let (small, refined) = if delta < DEEP { DEEP_LOOKS } else { LOOKS };
        let first = |pair: &dyn Pair| View::new(pair, &coarse_borders(pair, tail_mass, detail, small));
        let views = parallel::map(draws, |(pair, t)| (first(pair), *t));
        if hopeless(&views) {
            return None;
        }
        let lambda = solve(&views, target, 10.0);
        let coarse: Vec<_> = views.into_iter().zip(draws).collect();
        let views = parallel::map(&coarse, |((view, t), (pair, _))| {
            (View::new(pair, &Widths::new(view, lambda, negligible).refined((refined * detail) as usize)), *t)
        });
        if hopeless(&views) {
            return None;
        }
        let lambda = solve(&views, target, lambda);
        let epsilon = match target {
            Target::Epsilon(epsilon) => epsilon,
            Target::Delta(_) => chernoff_epsilon(total(&views, lambda).value, lambda, delta),
            Target::Range { middle, .. } => chernoff_epsilon(total(&views, lambda).value, lambda, middle),
        };
        // copies from the right weigh most at the least ε; δ there moves by λ of what ε does, λ being its own tilt, and by up to a few times that near ε = 0,
        // so that a bias of so many parts of ε + 1/(4λ) is about as many of δ there
        let (least_epsilon, fine) = match target {
            Target::Range { from, .. } => {
                let own = solve(&views, Target::Epsilon(from), lambda);
                (from, (from + 0.25 / own).min(epsilon.max(from)))
            }
            _ => (epsilon, epsilon),
        };
        let cumulants: Vec<_> = views.iter().map(|(v, t)| (v.cumulants(lambda), *t)).collect();
        let wanted = step_for(tolerance / detail * fine.max(1e-4), lambda, &cumulants);
        let range: f64 = views.iter().map(|(view, t)| *t as f64 * (view.high[view.high.len() - 1] - view.low[0])).sum();
        let (length, fold_tilt) = window(&views, lambda, least_epsilon, -delta.ln());
        let length = length.min(range * 1.01);
        // lattice indices stay exact integers
        let largest = views.iter().fold(0.0f64, |m, (v, _)| m.max(v.high[v.high.len() - 1]).max(-v.low[0]));
        let least = (length / most_points as f64).max(largest / 4e15);
        let atoms: Vec<_> = draws.iter().map(|(pair, t)| (pair.atoms(), *t)).collect();
        let step = aligned_step(wanted, least, &atoms);
        let points = fast_size(((length / step).ceil() as usize).saturating_add(2).min(most_points));
        // on a coarse lattice of point losses a steeper tilt has nothing to resolve and overflows
        let fold_tilt = fold_tilt.min(STEEPEST_PER_POINT / step);
        Some(Self { draws, views, atoms, lambda, negligible, epsilon, step, points, fold_tilt })
    }

    /// Every pair by `discretise`(pair, step, lattice points, point losses); `None` if one of them has no lattice.
    pub fn parts(
        &self,
        discretise: impl Fn(&dyn Pair, f64, Vec<i64>, &PointLosses) -> Option<Lattice> + Sync,
    ) -> Option<Vec<Part>> {
        let all: Vec<_> = self.draws.iter().zip(self.views.iter().zip(&self.atoms)).collect();
        let parts = parallel::map(&all, |((pair, t), ((view, _), (atoms, _)))| {
            let index = Widths::new(view, self.lambda, self.negligible).lattice(self.step, atoms);
            // a step that is no number has no points
            if index.is_empty() {
                return None;
            }
            Some((discretise(pair, self.step, index, atoms)?, *t))
        });
        parts.into_iter().collect()
    }
}

/// ε at δ by the Rényi bound of order λ + 1.
fn chernoff_epsilon(cumulant: f64, lambda: f64, delta: f64) -> f64 {
    (cumulant - lambda * (1.0 / lambda).ln_1p() - lambda.ln_1p() - delta.ln()) / lambda
}
