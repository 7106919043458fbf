//! Samples of fixed size: the symmetrised amplification of the replace-one profile, and the directed zero-out form
//! (Balle, Barthe, Gaboardi 2018; docs/proofs/accounting-pld.md).
//!
//! The slot of an absent record is filled by another record, so zero-out has the replace-one constants too.
//!
//! Covers: thesis theorem 1.6.3 (part: the same samples, by their loss distribution in place of this bound)

use super::atoms::Atoms;
use super::mixture::PublicMixture;
use super::pair::{Masses, Pair, PointLosses, U};
use super::poisson::{PoissonPair, base_loss};
use dpopt_event::special::{gaussian_ln_delta_upper, ln_binomial_mass};
use std::sync::Arc;

/// The pair whose profile is that of `half` for γ ≥ 1 and 1 − γ + γh(1/γ) below: losses l > 0 of `half`, their mirror
/// images with mass e^−l, and the rest at 0.
#[derive(Clone, Debug)]
pub(crate) struct Symmetrised<T>(pub T);

impl<T: Pair> Pair for Symmetrised<T> {
    fn masses(&self, borders: &[f64]) -> Masses {
        // cells of |L|
        let mut cuts: Vec<f64> = borders.iter().map(|e| e.abs()).collect();
        cuts.push(0.0);
        cuts.sort_by(f64::total_cmp);
        cuts.dedup();
        let half = self.0.masses(&cuts);
        let n = borders.len() + 1;
        let mut m = Masses { p: vec![0.0; n], q: vec![0.0; n], p_error: vec![0.0; n], q_error: vec![0.0; n] };
        let (mut p_total, mut q_total, mut error) = (0.0, 0.0, 0.0);
        for i in 1..half.p.len() {
            // cell (cuts[i-1], cuts[i]] of |L|; find it on both sides by its lower and upper end
            let low = cuts[i - 1];
            let above = borders.partition_point(|b| *b <= low);
            let below = borders.partition_point(|b| *b < -low);
            m.p[above] += half.p[i];
            m.q[above] += half.q[i];
            m.p_error[above] += half.p_error[i] + 2.0 * U * m.p[above];
            m.q_error[above] += half.q_error[i] + 2.0 * U * m.q[above];
            m.p[below] += half.q[i];
            m.q[below] += half.p[i];
            m.p_error[below] += half.q_error[i] + 2.0 * U * m.p[below];
            m.q_error[below] += half.p_error[i] + 2.0 * U * m.q[below];
            p_total += half.p[i];
            q_total += half.q[i];
            error += half.p_error[i] + half.q_error[i];
        }
        let rest = (1.0 - p_total - q_total).max(0.0);
        let zero = borders.partition_point(|b| *b < 0.0);
        m.p[zero] += rest;
        m.q[zero] += rest;
        let slack = error + 4.0 * U;
        m.p_error[zero] += slack;
        m.q_error[zero] += slack;
        m
    }

    fn atoms(&self) -> PointLosses {
        let half = self.0.atoms();
        let positive = half.losses.iter().copied().filter(|l| *l > 0.0);
        let losses = positive.flat_map(|l| [l, -l]).chain([0.0]).collect();
        PointLosses { losses, only: half.only }
    }
}

/// m of n without replacement: γ ≥ 1 amplifies like Poisson sampling, the rest is the mirror image.
pub(crate) fn without_replacement<T: Pair>(q: f64, base: T) -> Symmetrised<PoissonPair<T>> {
    Symmetrised(PoissonPair { probability: q, base })
}

/// m draws with replacement from n: `changed(j)` is the base's pair when j slots change, or `None` if its loss is unbounded.
pub(crate) fn with_replacement(
    n: u64,
    m: u64,
    changed: impl Fn(u64) -> Option<Arc<dyn Pair>>,
) -> Symmetrised<PoissonPair<PublicMixture>> {
    let none = m as f64 * (-1.0 / n as f64).ln_1p();
    // probability that the record is drawn at all
    let drawn = -none.exp_m1();
    let (mut parts, mut listed, mut lost): (Vec<(f64, Arc<dyn Pair>)>, f64, f64) = (vec![], 0.0, 0.0);
    let mut last = 0;
    let p = 1.0 / n as f64;
    for j in 1..=m {
        let weight = ln_binomial_mass(j, m, p, 1.0 - p).exp() / drawn;
        // beyond the mode the rest is below twice the first term left out
        if j as f64 > 2.0 * m as f64 * p + 2.0 && weight < 1e-60 || j > 2000 {
            break;
        }
        listed += weight;
        last = j;
        match changed(j) {
            Some(pair) => parts.push((weight * (1.0 + 1e-12), pair)),
            None => lost += weight * (1.0 + 1e-12),
        }
    }
    // after 2000 copies everything is set aside; before, a geometric tail below the cut
    let infinite = lost
        + if last >= m {
            0.0
        } else if last < 2000 {
            4e-60
        } else {
            (1.0 - listed).max(0.0) + 1e-12
        };
    Symmetrised(PoissonPair { probability: drawn.next_up().min(1.0), base: PublicMixture { parts, infinite } })
}

/// Zero-out under m of n without replacement, Gaussian base with `mu` = C over noise: (with → without, without → with).
///
/// For γ ≥ 1, γ′ = 1 + (γ−1)/q, β = γ/γ′: h→(γ) ≤ q[(1−β)h₂(γ′) + βh₁(γ′)], h←(γ) ≤ q·h₁(γ′) with h₁, h₂ the profiles of
/// shifts C and 2C; below 1 each reflects the *other* one. Then the convex hull.
pub(crate) fn directed(q: f64, mu: f64) -> (Atoms, Atoms) {
    let mut epsilon = vec![];
    // fine where the bulk of the loss is, then geometric
    let finest = (q * mu).min(mu * mu).min(0.02) / 64.0;
    let mut e = 0.0f64;
    let delta1 = |e: f64| q * gaussian_ln_delta_upper(base_loss(e, q), mu).exp();
    let delta = |e: f64| {
        let inner = base_loss(e, q);
        let (h1, h2) = (gaussian_ln_delta_upper(inner, mu).exp(), gaussian_ln_delta_upper(inner, 2.0 * mu).exp());
        let beta = (e - inner).exp();
        q * ((1.0 - beta).max(0.0) * h2 + beta.min(1.0) * h1)
    };
    while e < super::grid::LARGEST_LOSS {
        epsilon.push(e);
        if delta(e) < 1e-80 {
            break;
        }
        e += finest.max(0.012 * e);
    }
    let up = |x: f64| (x * (1.0 + 32.0 * U)).min(1.0);
    let forward: Vec<f64> = epsilon.iter().map(|&e| up(delta(e))).collect();
    let backward: Vec<f64> = epsilon.iter().map(|&e| up(delta1(e))).collect();
    let reflect = |own: &[f64], other: &[f64]| {
        let mut points: Vec<(f64, f64)> = vec![];
        for (e, d) in epsilon.iter().zip(other).skip(1).rev() {
            // 1 − γ + γ·h(1/γ) at γ = e^−e
            points.push((-e, -(-e).exp_m1() + (-e).exp() * d));
        }
        points.extend(epsilon.iter().copied().zip(own.iter().copied()));
        Atoms::hull(&points)
    };
    (reflect(&forward, &backward), reflect(&backward, &forward))
}

#[cfg(test)]
mod tests {
    use super::super::pair::{GaussianPair, Reversed};
    use super::*;

    fn profile(pair: &dyn Pair, epsilon: f64) -> f64 {
        let m = pair.masses(&[epsilon]);
        m.p[1] - epsilon.exp() * m.q[1]
    }

    /// Reference values in high precision (mpmath); σ is per replace-one sensitivity.
    #[test]
    fn one_step_profiles() {
        for (q, sigma, e, value) in [(0.01, 0.5, 0.5, 7.193618314043e-4), (0.3, 1.0, -0.4, 0.3562965013601)] {
            let pair = without_replacement(q, GaussianPair { mu: 1.0 / sigma });
            assert!((profile(&pair, e) / value - 1.0).abs() < 1e-9, "{}", profile(&pair, e));
            assert!((profile(&Reversed(pair), e) / value - 1.0).abs() < 1e-9);
        }
        for (n, m, mu, e, value) in
            [(1000, 100, 0.25, 0.5, 3.650480382211e-7), (10_000, 512, 1.0, 0.5, 5.135212156051e-4)]
        {
            let pair = with_replacement(n, m, |j| Some(Arc::new(GaussianPair { mu: j as f64 * mu })));
            assert!((profile(&pair, e) / value - 1.0).abs() < 1e-8, "{}", profile(&pair, e));
        }
    }

    /// The directed form lies between the Poisson pair and the symmetrised one.
    #[test]
    fn directed_form_is_between() {
        let (q, mu) = (0.1, 0.4);
        let (forward, backward) = directed(q, mu);
        let poisson = PoissonPair { probability: q, base: GaussianPair { mu } };
        let symmetric = without_replacement(q, GaussianPair { mu: 2.0 * mu });
        for e in [-0.3, -0.05, 0.0, 0.02, 0.2, 0.6] {
            let (f, b) = (profile(&forward, e), profile(&backward, e));
            let s = profile(&symmetric, e);
            assert!(f <= s * (1.0 + 1e-3) && b <= s * (1.0 + 1e-3), "{e}: {f} {b} {s}");
            if e >= 0.0 {
                assert!(f >= profile(&poisson, e) * (1.0 - 1e-9));
            }
        }
    }
}
