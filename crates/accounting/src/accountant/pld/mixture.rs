//! Gaussian pairs with mixtures: presence as a mixture of shifts, Poisson sampling under replace-one, public mixtures
//! (docs/proofs/accounting-pld.md, "Pairs").

use super::pair::{Masses, Pair, PointLosses, U, normal_cells};
use std::sync::Arc;

/// Present: Σ p_j N(c_j, 1), absent: N(0, 1), with c_j ≥ 0 in units of the noise. Wrap in `Reversed` for the other order.
#[derive(Clone, Debug)]
pub(crate) struct ShiftMixturePair {
    /// (c_j, ln p_j) with p_j > 0.
    pub shifts: Vec<(f64, f64)>,
}

impl ShiftMixturePair {
    /// ln Σ p_j e^(c_j z − c_j²/2) and its derivative: increasing and convex in z.
    fn loss(&self, z: f64) -> (f64, f64) {
        let top = self.shifts.iter().map(|(c, l)| l + c * (z - 0.5 * c)).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut slope) = (0.0, 0.0);
        for (c, l) in &self.shifts {
            let w = (l + c * (z - 0.5 * c) - top).exp();
            sum += w;
            slope += w * c;
        }
        (top + sum.ln(), slope / sum)
    }

    /// z with the given loss, starting from a z at or above it.
    fn position(&self, loss: f64, start: f64) -> f64 {
        let mut z = start;
        for _ in 0..200 {
            let (value, slope) = self.loss(z);
            if !(slope > 0.0) {
                return f64::NEG_INFINITY;
            }
            // convex and increasing: Newton from above never crosses the root
            let next = z - (value - loss) / slope;
            if !(next < z - 1e-15 * (1.0 + z.abs())) {
                return z;
            }
            z = next;
            if z < -1e3 * (1.0 + loss.abs()) {
                return f64::NEG_INFINITY;
            }
        }
        z
    }
}

/// Shifts beyond that are seen for sure: their losses, above 1e7, count as infinite.
const LARGEST_SHIFT: f64 = 1e4;

impl Pair for ShiftMixturePair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let (near, far): (Vec<_>, Vec<_>) = self.shifts.iter().copied().partition(|(c, _)| *c <= LARGEST_SHIFT);
        if !far.is_empty() {
            let mut m = ShiftMixturePair { shifts: near }.masses(borders);
            let last = m.p.len() - 1;
            m.p[last] += far.iter().map(|(_, l)| l.exp() * (1.0 + 8.0 * U)).sum::<f64>();
            return m;
        }
        // least loss: ln of the weight of shift 0
        let floor = self.shifts.iter().find(|(c, _)| *c == 0.0).map_or(f64::NEG_INFINITY, |(_, l)| *l);
        let mut z = vec![f64::NEG_INFINITY; borders.len()];
        // from the right, each root is a start for the next one
        let mut start = f64::INFINITY;
        // without a shift the loss does not exceed its floor
        let constant = self.shifts.iter().all(|(c, _)| *c == 0.0);
        for i in (0..borders.len()).rev() {
            if borders[i] == f64::INFINITY || constant && borders[i] >= floor {
                z[i] = f64::INFINITY;
                continue;
            }
            if !(borders[i] > floor) {
                break;
            }
            if start == f64::INFINITY {
                start = 1.0;
                while self.loss(start).0 < borders[i] && start < 1e300 {
                    start *= 2.0;
                }
            }
            start = self.position(borders[i], start);
            z[i] = start;
            if start == f64::NEG_INFINITY {
                break;
            }
        }
        let (q, q_error) = normal_cells(z.iter().copied());
        let n = q.len();
        let (mut p, mut p_error) = (vec![0.0; n], vec![0.0; n]);
        for (c, ln_weight) in &self.shifts {
            let weight = ln_weight.exp();
            let (mass, error) = normal_cells(z.iter().map(|z| z - c));
            for i in 0..n {
                p[i] += weight * mass[i];
                p_error[i] += weight * (error[i] + 8.0 * U * mass[i]);
            }
        }
        Masses { p, q, p_error, q_error }
    }
}

/// Poisson-sampled Gaussian under replace-one: (1−q)N(0,1) + qN(μ,1) against (1−q)N(0,1) + qN(−μ,1), μ = C over
/// noise. The same in both orders.
#[derive(Clone, Debug)]
pub(crate) struct PoissonReplacePair {
    pub probability: f64,
    pub mu: f64,
}

impl Pair for PoissonReplacePair {
    fn masses(&self, borders: &[f64]) -> Masses {
        let (q, mu) = (self.probability, self.mu);
        let r = 1.0 - q;
        // μz = ε/2 + asinh((1−q) sinh(ε/2)/(q e^(−μ²/2))): the closed inverse, odd in ε
        let ln_odds = r.ln() - q.ln();
        let position = |e: f64| {
            if e.is_infinite() || e == 0.0 {
                return e;
            }
            let half = 0.5 * e.abs();
            let ln_sinh = if half > 20.0 { half - std::f64::consts::LN_2 } else { half.sinh().ln() };
            let t = ln_sinh + ln_odds + 0.5 * mu * mu;
            // asinh(e^t) = t + ln 2 for large t; μ² may overflow, μ/2 does not
            let z = if t > 20.0 {
                (half + ln_sinh + ln_odds + std::f64::consts::LN_2) / mu + 0.5 * mu
            } else {
                (half + t.exp().asinh()) / mu
            };
            e.signum() * z
        };
        let z: Vec<f64> = borders.iter().map(|&e| position(e)).collect();
        let (middle, middle_error) = normal_cells(z.iter().copied());
        let (up, up_error) = normal_cells(z.iter().map(|z| z - mu));
        let (down, down_error) = normal_cells(z.iter().map(|z| z + mu));
        let mix = |a: &[f64], b: &[f64]| -> Vec<f64> { a.iter().zip(b).map(|(a, b)| r * a + q * b).collect() };
        let (p, q_mass) = (mix(&middle, &up), mix(&middle, &down));
        let rounded = |errors: Vec<f64>, masses: &[f64]| -> Vec<f64> {
            errors.iter().zip(masses).map(|(e, m)| e + 4.0 * U * m).collect()
        };
        Masses {
            p_error: rounded(mix(&middle_error, &up_error), &p),
            q_error: rounded(mix(&middle_error, &down_error), &q_mass),
            p,
            q: q_mass,
        }
    }
}

/// One of several pairs at random, the choice being visible.
#[derive(Clone, Debug)]
pub(crate) struct PublicMixture {
    /// The pairs, each with the public probability that it is drawn.
    pub parts: Vec<(f64, Arc<dyn Pair>)>,
    /// Probability of an infinite loss, set aside for what was left out.
    pub infinite: f64,
}

impl Pair for PublicMixture {
    fn masses(&self, borders: &[f64]) -> Masses {
        let n = borders.len() + 1;
        let mut sum = Masses { p: vec![0.0; n], q: vec![0.0; n], p_error: vec![0.0; n], q_error: vec![0.0; n] };
        for (weight, pair) in &self.parts {
            let m = pair.masses(borders);
            for i in 0..n {
                sum.p[i] += weight * m.p[i];
                sum.q[i] += weight * m.q[i];
                sum.p_error[i] += weight * (m.p_error[i] + 4.0 * U * m.p[i]);
                sum.q_error[i] += weight * (m.q_error[i] + 4.0 * U * m.q[i]);
            }
        }
        sum.p[n - 1] += self.infinite;
        sum
    }

    fn atoms(&self) -> PointLosses {
        self.parts.iter().fold(PointLosses { losses: vec![], only: true }, |mut all, (_, pair)| {
            let own = pair.atoms();
            all.only &= own.only;
            all.losses.extend(own.losses);
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::{GaussianPair, Reversed};
    use super::super::poisson::PoissonPair;
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    #[test]
    fn a_mixture_with_two_shifts_is_poisson_sampling() {
        let mixture = ShiftMixturePair { shifts: vec![(0.0, 0.99f64.ln()), (1.0, 0.01f64.ln())] };
        let poisson = PoissonPair { probability: 0.01, base: GaussianPair { mu: 1.0 } };
        for e in [-0.02, -0.009, -1e-4, 0.0, 0.1, 1.0, 4.0] {
            let (a, b) = (profile(&mixture, e), profile(&poisson, e));
            assert!((a - b).abs() <= 1e-9 * b + 1e-16, "{e}: {a} {b}");
            let (a, b) = (profile(&Reversed(mixture.clone()), e), profile(&Reversed(poisson.clone()), e));
            assert!((a - b).abs() <= 1e-9 * b + 1e-16, "{e}: {a} {b}");
        }
    }

    /// Reference values for a user of k = 4 records, q = .01, σ = 2.
    #[test]
    fn a_user_with_four_sampled_records() {
        let weight = |j: i32| [1.0, 4.0, 6.0, 4.0, 1.0][j as usize] * 0.01f64.powi(j) * 0.99f64.powi(4 - j);
        let pair = ShiftMixturePair { shifts: (0..=4).map(|j| (f64::from(j) / 2.0, weight(j).ln())).collect() };
        for (e, value) in [(0.2, 1.66578094435e-6), (1.0, 6.75496985e-14)] {
            assert!((profile(&pair, e) / value - 1.0).abs() < 1e-8, "{}", profile(&pair, e));
        }
    }

    /// One-step profiles under replace-one: reference values in high precision (mpmath).
    #[test]
    fn poisson_replace_one() {
        for (q, sigma, e, value) in [(0.01, 1.0, 0.5, 2.455648058485e-7), (0.3, 2.0, 0.4, 0.01457406359276)] {
            let pair = PoissonReplacePair { probability: q, mu: 1.0 / sigma };
            assert!((profile(&pair, e) / value - 1.0).abs() < 1e-9, "{}", profile(&pair, e));
            // symmetric
            let r = Reversed(pair.clone());
            assert!((profile(&r, e) / value - 1.0).abs() < 1e-9);
        }
    }
}
