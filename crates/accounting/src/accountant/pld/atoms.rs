//! Pairs with finitely many losses, and the symmetric pair of a privacy profile known at some points (docs/proofs/accounting-pld.md, "Hull").

use super::pair::{Masses, Pair, PointLosses, U};

/// Losses in increasing order with their P-masses; Q-masses are p·e^(−loss). The rest of P is at +∞.
#[derive(Clone, Debug, Default)]
pub(crate) struct Atoms {
    pub loss: Vec<f64>,
    pub p: Vec<f64>,
    pub infinite: f64,
    pub rest: Rest,
}

/// The mass of Q that has none of P: loss −∞.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Rest {
    /// What the listed masses leave: as uncertain as their sum. For pairs that are never sampled, which gives it a finite loss.
    #[default]
    Left,
    /// This mass, to a rounding of 1.
    Rounded(f64),
    /// Exactly this mass: rounding of the others must not add to it.
    Exactly(f64),
}

impl Pair for Atoms {
    fn masses(&self, borders: &[f64]) -> Masses {
        let cells = borders.len() + 1;
        let mut m =
            Masses { p: vec![0.0; cells], q: vec![0.0; cells], p_error: vec![0.0; cells], q_error: vec![0.0; cells] };
        let mut cell = 0;
        for (loss, p) in self.loss.iter().zip(&self.p) {
            while cell < borders.len() && *loss > borders[cell] {
                cell += 1;
            }
            m.p[cell] += p;
            m.q[cell] += p * (-loss).exp();
            m.p_error[cell] += 2.0 * U * m.p[cell];
            m.q_error[cell] += (4.0 + 2.0 * loss.abs()) * U * m.q[cell];
        }
        m.p[cells - 1] += self.infinite;
        // what is left of Q has no P-mass: loss −∞. Sampling the pair gives it a finite loss, so it must not be forgotten;
        // a border at −∞ stands for a sampled loss that nothing falls below
        let (rest, error) = match self.rest {
            Rest::Exactly(rest) => (rest, 0.0),
            Rest::Rounded(rest) => (rest, 4.0 * U),
            // the sum is off by what its terms are
            Rest::Left => (1.0 - m.q.iter().sum::<f64>(), m.q_error.iter().sum::<f64>() + 4.0 * U),
        };
        let lowest = borders.partition_point(|b| *b == f64::NEG_INFINITY);
        m.q[lowest] += rest.max(0.0);
        m.q_error[lowest] += error;
        m
    }

    fn compares_exactly(&self) -> bool {
        true
    }

    fn atoms(&self) -> PointLosses {
        // a long list is a curve in disguise
        const FEW: usize = 512;
        if self.loss.len() > FEW {
            return PointLosses::default();
        }
        let mut losses = self.loss.clone();
        // what only Q has; sampling makes it ln(1 − q)
        losses.push(f64::NEG_INFINITY);
        PointLosses { losses, only: true }
    }
}

impl Atoms {
    /// Losses that were worked out, each to 4u of itself, moved up so that none is below the exact one. More of P at a higher loss dominates.
    pub fn raised(mut self) -> Self {
        self.loss.iter_mut().for_each(|loss| *loss += 8.0 * U * loss.abs());
        self
    }

    /// Upper bounds (ε, δ) of one order's profile at any real ε, increasing: the pair whose profile is the lower convex
    /// hull, in γ = e^ε, of the points and (0, 1), constant beyond the last one.
    pub fn hull(points: &[(f64, f64)]) -> Self {
        let gap = |i: usize, j: usize| points[i].0.exp() * (points[j].0 - points[i].0).exp_m1();
        let mut hull: Vec<usize> = vec![];
        for i in 0..points.len() {
            while let Some(&b) = hull.last() {
                let before = match hull.len() {
                    1 => (points[b].1 - 1.0) / points[b].0.exp(),
                    n => (points[b].1 - points[hull[n - 2]].1) / gap(hull[n - 2], b),
                };
                if before < (points[i].1 - points[b].1) / gap(b, i) {
                    break;
                }
                hull.pop();
            }
            hull.push(i);
        }
        let last = hull[hull.len() - 1];
        let (mut height, mut slope) = (points[last].1, 0.0f64);
        let mut atoms = Self { infinite: height, ..Self::default() };
        for w in (0..hull.len()).rev() {
            let right = hull[w];
            let (wanted, width) = match w {
                0 => (1.0, points[right].0.exp()),
                _ => (points[hull[w - 1]].1, gap(hull[w - 1], right)),
            };
            // from the right the slope never falls and no point ends up above the profile
            let steeper = ((wanted - height) / width * (1.0 + 8.0 * U)).max(slope);
            atoms.loss.push(points[right].0);
            atoms.p.push((steeper - slope) * points[right].0.exp() * (1.0 + (4.0 + 2.0 * points[right].0.abs()) * U));
            slope = steeper;
            height += slope * width * (1.0 + 4.0 * U);
        }
        // the Q-masses of all losses add up to the last slope
        atoms.rest = Rest::Rounded((1.0 - slope).max(0.0));
        atoms.loss.reverse();
        atoms.p.reverse();
        let total: f64 = atoms.p.iter().sum::<f64>() + atoms.infinite;
        if total < 1.0 {
            atoms.p[0] += 1.0 - total;
        }
        atoms
    }

    /// Upper bound of a mechanism's profile in *both* orders, given by upper bounds `delta[i]` at
    /// `epsilon[i]` ≥ 0 (increasing): the pair whose profile is the lower convex hull, in e^ε, of these points, their
    /// mirror images h(1/γ) = 1 − 1/γ + h(γ)/γ, and (0, 1). Beyond the last point the profile is constant.
    pub fn symmetric(epsilon: &[f64], delta: &[f64]) -> Self {
        // a chord between a point and its mirror image meets γ = 1 at (2δ + γ − 1)/(γ + 1); the lowest one is in the hull
        let middle = |i: usize| {
            // δ·(1 + e^−ε)... in terms of tanh: stable for ε near 0
            let half = (0.5 * epsilon[i]).tanh();
            half + delta[i] * (1.0 - half)
        };
        let first = (0..epsilon.len()).min_by(|&a, &b| middle(a).total_cmp(&middle(b))).unwrap_or(0);
        let gap = |i: usize, j: usize| epsilon[i].exp() * (epsilon[j] - epsilon[i]).exp_m1();
        // lower hull of the points from `first` on
        let mut hull: Vec<usize> = vec![];
        for i in first..epsilon.len() {
            while hull.len() >= 2 {
                let (a, b) = (hull[hull.len() - 2], hull[hull.len() - 1]);
                if (delta[b] - delta[a]) / gap(a, b) >= (delta[i] - delta[b]) / gap(b, i) {
                    hull.pop();
                } else {
                    break;
                }
            }
            hull.push(i);
        }
        // from the right: the slope never falls and the profile never gets below a point, so rounding is safe
        let last = hull[hull.len() - 1];
        let (mut height, mut slope) = (delta[last], 0.0f64);
        let infinite = height;
        let mut positive: Vec<(f64, f64)> = vec![]; // (loss, Q-mass), from the right
        for w in (1..hull.len()).rev() {
            let (left, right) = (hull[w - 1], hull[w]);
            let width = gap(left, right);
            let steeper = ((delta[left] - height) / width * (1.0 + 8.0 * U)).max(slope);
            positive.push((epsilon[right], steeper - slope));
            slope = steeper;
            height += slope * width * (1.0 + 4.0 * U);
        }
        let start = epsilon[hull[0]];
        let steepest = ((1.0 - height) / (1.0 + start.exp())).max(slope);
        positive.push((start, steepest - slope));
        // the mirror image of what P has alone
        let mut atoms = Self { infinite, rest: Rest::Exactly(infinite), ..Self::default() };
        // loss −l has P-mass e^−l times that of l, which is the Q-mass of l
        for &(l, q) in &positive {
            atoms.loss.push(-l);
            atoms.p.push(q * (1.0 + 4.0 * U));
        }
        for &(l, q) in positive.iter().rev() {
            atoms.loss.push(l);
            atoms.p.push(q * l.exp() * (1.0 + (4.0 + 2.0 * l) * U));
        }
        let total: f64 = atoms.p.iter().sum::<f64>() + infinite;
        // rounding must not lose mass
        if total < 1.0 {
            let at = positive.len();
            atoms.p[at] += 1.0 - total;
        }
        atoms
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::GaussianPair;
    use super::*;
    use dpopt_event::special::gaussian_ln_delta;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    #[test]
    fn one_point_is_the_pair_of_epsilon_delta() {
        let (e, d) = (0.7, 1e-3);
        let atoms = Atoms::symmetric(&[e], &[d]);
        assert_eq!(atoms.loss, [-e, e]);
        assert!((atoms.p[1] - (1.0 - d) / (1.0 + (-e).exp())).abs() < 1e-15);
        assert!((atoms.p[0] - (1.0 - d) / (1.0 + e.exp())).abs() < 1e-15);
        assert_eq!(atoms.infinite, d);
    }

    #[test]
    fn a_gaussian_profile_is_reproduced_at_its_points_and_mirrored() {
        let epsilon: Vec<f64> = (0..400).map(|i| i as f64 * 0.02).collect();
        let delta: Vec<f64> = epsilon.iter().map(|e| gaussian_ln_delta(*e, 1.0).exp()).collect();
        let atoms = Atoms::symmetric(&epsilon, &delta);
        for i in (0..400).step_by(7) {
            let got = profile(&atoms, epsilon[i]);
            assert!(got >= delta[i] * (1.0 - 1e-9) - 1e-16 && got <= delta[i] * (1.0 + 1e-9) + 1e-15, "{i} {got}");
            let mirrored = profile(&atoms, -epsilon[i]);
            let exact = -(-epsilon[i]).exp_m1() + (-epsilon[i]).exp() * delta[i];
            assert!((mirrored - exact).abs() < 1e-12);
        }
        // between the points above the truth, and everywhere above the exact pair
        let pair = GaussianPair { mu: 1.0 };
        for e in [-3.31, -0.01, 0.013, 1.111, 4.443] {
            assert!(profile(&atoms, e) >= profile(&pair, e));
        }
    }

    #[test]
    fn a_profile_with_a_flat_start_is_bridged() {
        // δ(0) = δ(1) = .1: the hull runs from the mirror image of ε = 1
        let atoms = Atoms::symmetric(&[0.0, 0.5, 1.0, 2.0], &[0.1, 0.1, 0.1, 0.0]);
        assert!(profile(&atoms, 0.0) <= 0.1 + 1e-15);
        let pure = Atoms::symmetric(&[0.0, 1.0], &[0.9, 0.0]);
        assert_eq!(pure.loss, [-1.0, 1.0]);
    }
}
