//! Certified lower bound of a composition: merging outcomes is post-processing (docs/proofs/accounting-pld.md, "Lower bound").
//!
//! Cells are bundled so that the merged loss ln(P/Q) of each bundle is a lattice point: what is lost is of second order.
//! It says how much of an upper bound is numerical slack; it is never a claim.

use super::alias::Copies;
use super::attained::single_delta;
use super::grid::LARGEST_LOSS;
use super::lattice::Lattice;
use super::pair::{Pair, PointLosses, U};
use super::setting::{Draws, Setting};
use super::spectrum::Spectrum;
use super::tilt::Target;

/// A bundle of outcomes: a P-mass known from below and a Q-mass known from above.
#[derive(Clone, Copy, Default)]
struct Bundle {
    p: f64,
    q: f64,
}

impl Bundle {
    fn loss(self) -> f64 {
        if self.q > 0.0 { (self.p / self.q).ln() } else { f64::INFINITY }
    }

    /// `self` with the share `f` of `other`.
    fn with(self, other: Self, f: f64) -> Self {
        Self { p: (self.p + f * other.p) * (1.0 - 4.0 * U), q: (self.q + f * other.q) * (1.0 + 4.0 * U) }
    }

    fn share(self, f: f64) -> Self {
        Self::default().with(self, f)
    }

    /// How much of `other` lifts the loss of both to `target`; above 1 if all of it does not.
    fn lifts(self, other: Self, target: f64) -> f64 {
        let e = target.exp();
        let (missing, brought) = (e * self.q - self.p, other.p - e * other.q);
        if missing <= 0.0 {
            0.0
        } else if brought > 0.0 {
            missing / brought
        } else {
            f64::INFINITY
        }
    }
}

/// Merged outcomes of the pair with losses at lattice points, walking from left to right: bundles of neighbouring cells,
/// of which one is split at random so that the bundle's loss is the lattice point. Masses and losses are rounded down;
/// the returned losses may exceed the true ones by `loss_error`.
fn merged(pair: &dyn Pair, step: f64, index: &[i64], atoms: &PointLosses) -> Lattice {
    let at = |i: usize| index[i] as f64 * step;
    let n = index.len();
    let (lowest, highest) = (at(0), at(n - 1));
    // a point loss sits on its lattice point up to rounding only
    let tolerance = 512.0 * U * (1.0 + lowest.abs().max(highest.abs()));
    let mut borders: Vec<f64> = (0..n).map(at).collect();
    // a point loss gets a cell of its own
    let points: Vec<f64> = atoms.losses.iter().copied().filter(|l| *l >= lowest && *l <= highest + step).collect();
    borders.extend(points.iter().flat_map(|l| [l - 0.2 * tolerance, l + 0.2 * tolerance]));
    borders.sort_by(f64::total_cmp);
    let m = pair.masses(&borders);
    let is_point = |i: usize| {
        i > 0
            && i < borders.len()
            && points.iter().any(|l| borders[i - 1] <= *l && *l <= borders[i])
            && borders[i] - borders[i - 1] <= tolerance
    };
    let mut lattice = Lattice { step, index: vec![], mass: vec![], infinite: 0.0, loss_error: tolerance };
    let emit = |lattice: &mut Lattice, k: i64, mass: f64| match lattice.mass.last_mut() {
        Some(last) if lattice.index.last() == Some(&k) => *last += mass * (1.0 - 4.0 * U),
        _ if mass > 0.0 => {
            lattice.index.push(k);
            lattice.mass.push(mass);
        }
        _ => {}
    };
    let (mut held, mut next) = (Bundle::default(), 0);
    for i in 0..=borders.len() {
        let mut cell = Bundle { p: (m.p[i] - m.p_error[i]).max(0.0), q: (m.q[i] + m.q_error[i]) * (1.0 + 4.0 * U) };
        if cell.p == 0.0 {
            continue;
        }
        // nothing below it shall pull a point loss down
        if is_point(i) && held.p > 0.0 {
            let down = ((held.loss().min(highest) + 0.5 * tolerance) / step).floor();
            if down > -4e15 && lattice.index.last().is_none_or(|k| *k <= down as i64) {
                emit(&mut lattice, down as i64, held.p);
            }
            held = Bundle::default();
        }
        loop {
            // the first lattice point that the held bundle does not reach alone
            let loss = held.loss();
            while held.p > 0.0 && next < n && at(next) + tolerance < loss {
                next += 1;
            }
            let lifts = if next < n { held.lifts(cell, at(next) - 0.5 * tolerance) } else { f64::INFINITY };
            if held.p == 0.0 || lifts > 1.0 {
                held = held.with(cell, 1.0);
                break;
            }
            let done = held.with(cell, lifts);
            if done.loss() < at(next) - tolerance {
                held = held.with(cell, 1.0);
                break;
            }
            emit(&mut lattice, index[next], done.p);
            cell = cell.share(1.0 - lifts);
            held = Bundle::default();
            if cell.p == 0.0 {
                break;
            }
        }
    }
    // what is left, rounded down
    if held.p > 0.0 {
        let last = ((held.loss().min(highest) + 0.5 * tolerance) / step).floor();
        // rounding may put it below the one before: then it is left out
        if last > -4e15 && lattice.index.last().is_none_or(|k| *k <= last as i64) {
            emit(&mut lattice, last as i64, held.p);
        }
    }
    lattice
}

/// The merged composition, ready to be read; `None` if nothing is left of a part.
struct PreparedPair {
    spectrum: Spectrum,
    copies: Copies,
    step: f64,
    /// Where the search starts: about the upper bound.
    epsilon: f64,
}

fn prepare(draws: &Draws, target: Target, delta: f64, tolerance: f64) -> Option<PreparedPair> {
    const MAX_POINTS: usize = 1 << 18;
    let setting = Setting::new(draws, target, delta, tolerance, MAX_POINTS)?;
    let parts = setting.parts(|pair, step, index, atoms| Some(merged(pair, step, &index, atoms)))?;
    if parts.iter().any(|(lattice, _)| lattice.index.is_empty()) {
        return None;
    }
    let Setting { step, points, fold_tilt, epsilon, .. } = setting;
    let copies = Copies::new(&parts, fold_tilt, points as f64 * step);
    Some(PreparedPair { spectrum: Spectrum::new(&parts, fold_tilt, points), copies, step, epsilon })
}

impl PreparedPair {
    /// Certified lower bound of the merged profile at a lattice point.
    fn certain(&self, j: i64) -> f64 {
        let lower = self.spectrum.delta_lower(j) - self.copies.bound(j as f64 * self.step);
        if lower.is_nan() { f64::NEG_INFINITY } else { lower }
    }
}

/// A value that ε(δ) of the composition is certainly not below; 0 if nothing better is found.
pub(crate) fn epsilon(draws: &Draws, delta: f64, tolerance: f64) -> f64 {
    if let [(pair, 1)] = draws {
        return single_epsilon(pair, delta);
    }
    let Some(merged) = prepare(draws, Target::Delta(delta), delta, tolerance) else { return 0.0 };
    // far below the target the alias bound is useless: look downward, in growing steps, from an ε that is certainly too large
    let top = ((merged.epsilon / merged.step) as i64).max(0) + 2;
    let mut high = top;
    let mut low = top - 1;
    while merged.certain(low) <= delta {
        if low <= 0 {
            return 0.0;
        }
        (high, low) = (low, (low - 1 - (top - low) / 4).max(0));
    }
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if merged.certain(middle) > delta { low = middle } else { high = middle }
    }
    // between its points a lattice profile is linear in e^ε
    let (above, below) = (merged.certain(low), merged.certain(high));
    // without a number at its right end nothing is known beyond the left one
    let share =
        if below.is_finite() { (above - delta) / (above - below) } else { 0.0 }.clamp(0.0, 1.0) * (1.0 - 16.0 * U);
    let at = low as f64 * merged.step + (share * merged.step.exp_m1()).ln_1p();
    (at * (1.0 - 8.0 * U) - merged.spectrum.loss_error).max(0.0)
}

/// A value that δ(ε) of the composition is certainly not below. `guess` is about what it is.
pub(crate) fn delta(draws: &Draws, epsilon: f64, guess: f64, tolerance: f64) -> f64 {
    if let [(pair, 1)] = draws {
        return single_delta(&**pair, epsilon);
    }
    let guess = guess.clamp(1e-290, 0.5);
    let Some(merged) = prepare(draws, Target::Epsilon(epsilon), guess, tolerance) else { return 0.0 };
    let position = (epsilon + merged.spectrum.loss_error) / merged.step * (1.0 + 4.0 * U);
    if position > 4e15 {
        return 0.0;
    }
    // between its points a lattice profile is linear in e^ε
    let low = position.floor() as i64;
    let (d0, d1) = (merged.certain(low), merged.certain(low + 1));
    if !(d0.is_finite() && d1.is_finite()) {
        return 0.0;
    }
    let share = ((position - low as f64) * merged.step).exp_m1() / merged.step.exp_m1();
    (d0 + (share * (1.0 + 16.0 * U)).min(1.0) * (d1 - d0)).max(0.0) * (1.0 - 8.0 * U)
}

fn single_epsilon(pair: &dyn Pair, delta: f64) -> f64 {
    let (mut low, mut high) = (0.0, LARGEST_LOSS);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if single_delta(pair, middle) > delta { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::super::closed::LaplacePair;
    use super::*;

    /// The two halves of a Laplace loss that are point losses stay where they are; the rest keeps its mean in e^−L.
    #[test]
    fn point_losses_are_not_pulled_down() {
        let pair = LaplacePair { shift: 0.05 };
        let step = 0.005;
        let index: Vec<i64> = (-11..=11).collect();
        let lattice = merged(&pair, step, &index, &pair.atoms());
        let at = |k: i64| lattice.index.iter().position(|i| *i == k).map_or(0.0, |i| lattice.mass[i]);
        assert!(at(10) >= 0.5 - 1e-12 && at(-10) >= 0.5 * (-0.05f64).exp() - 1e-12, "{lattice:?}");
        assert!(lattice.index.windows(2).all(|w| w[0] < w[1]));
        let sum: f64 = lattice.mass.iter().sum();
        assert!(sum <= 1.0 && sum > 1.0 - 1e-12);
        // below the profile everywhere
        for e in [-0.04, -0.012, 0.0, 0.013, 0.031, 0.0499] {
            let exact = pair.masses(&[e]);
            assert!(lattice.profile(e) <= exact.p[1] - f64::exp(e) * exact.q[1] + 1e-15);
        }
    }
}
