//! Gaussian noise behind a public random scale X ~ χ²_m: shift μ√(X/m) (docs/proofs/l1-recovery.md).
//!
//! For every γ the Gaussian profile H_γ(μ) is a convex function of its own value at γ = 1, v = 2Φ(μ/2) − 1, since
//! ∂H_γ/∂μ = φ(μ/2 − ε/μ) and so dH_γ/dv = e^(ε/2 − ε²/(2μ²)) grows with μ. Moving the mass of a short interval of X to its
//! ends with the mean of v kept therefore raises the profile of the mixture at every γ: a bound of second order.

use super::mixture::PublicMixture;
use super::pair::{GaussianPair, Pair, U};
use dpopt_event::special::gauss_legendre_nodes;
use libm::erf;
use std::sync::Arc;

/// Deviations of R = √(X/m), in units of 1/√(2m), that are resolved finely and at all: P{|R−1| beyond} < 1e-70.
const FINE: f64 = 9.0;
/// Length of a fine interval as a part of R, and in deviations at least and at most: the bound is of second order in the former,
/// the quadrature good up to the latter.
const SHORT: (f64, f64, f64) = (0.002, 0.08, 1.0);
const REACH: f64 = 26.0;
/// Enlargement of all masses: quadrature (10-point Gauss–Legendre, observed below 1e-12).
const INFLATION: f64 = 1e-10;

/// `mu`: the shift at X = m under the relation in use.
pub(crate) fn pair(degrees_of_freedom: u64, mu: f64) -> PublicMixture {
    let m = degrees_of_freedom as f64;
    let unit = 1.0 / (2.0 * m).sqrt();
    let fine = (SHORT.0 / unit).clamp(SHORT.1, SHORT.2);
    let mut ends: Vec<f64> = vec![];
    let mut t = -REACH;
    while t < REACH {
        ends.push(1.0 + t * unit);
        t += if t.abs() < FINE { fine } else { fine.max(0.5) };
    }
    ends.push(1.0 + REACH * unit);
    // R is positive
    let first = ends.partition_point(|r| *r <= 0.0);
    if first > 0 {
        ends.drain(..first - 1);
        ends[0] = 0.0;
    }
    // density of R up to a factor, r^(m−1)e^(−m r²/2) relative to its value at 1: the masses are divided by their sum
    let density = |r: f64| {
        // by the distance from 1, where both terms are huge and nearly equal
        let d = r - 1.0;
        ((m - 1.0) * d.ln_1p() - 0.5 * m * d * (d + 2.0)).exp()
    };
    let value = |r: f64| erf(mu * r * (0.5 * std::f64::consts::FRAC_1_SQRT_2));
    let mut weight = vec![0.0; ends.len()];
    let mut sum = 0.0;
    for i in 0..ends.len() - 1 {
        let (low, high) = (ends[i], ends[i + 1]);
        let (v0, v1) = (value(low), value(high));
        for (r, w) in gauss_legendre_nodes(low, high - low) {
            let mass = w * density(r);
            // rounded toward the larger end
            let share = ((value(r) - v0 + 4.0 * U) / (v1 - v0)).min(1.0);
            let share = if share.is_nan() { 1.0 } else { share };
            weight[i + 1] += mass * share;
            weight[i] += mass * (1.0 - share);
            sum += mass;
        }
    }
    let parts: Vec<(f64, Arc<dyn Pair>)> = weight
        .iter()
        .zip(&ends)
        .filter(|(w, _)| **w > 0.0)
        .map(|(w, r)| {
            let pair: Arc<dyn Pair> = Arc::new(GaussianPair { mu: (mu * r * (1.0 + 4.0 * U)).max(1e-12) });
            (w / sum * (1.0 + INFLATION), pair)
        })
        .collect();
    // nothing is known where all masses underflow
    let infinite = if parts.is_empty() { 1.0 } else { 1e-70 };
    PublicMixture { parts, infinite }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference value for m = 50 and μ0 = 1/4.5391.
    #[test]
    fn one_step_profile() {
        let m = pair(50, 1.0 / 4.5391).masses(&[1.0]);
        let delta = m.p[1] - 1f64.exp() * m.q[1];
        let exact = 1.00006179123e-6;
        assert!(delta >= exact && delta < exact * 1.002, "{delta:e}");
    }

    /// With very many degrees of freedom the scale is 1; with one it is |N(0, 1)|, where E v has a closed form.
    /// Many degrees of freedom take wide intervals: still above the mixture, and hardly.
    #[test]
    fn wide_intervals_are_above_the_mixture_and_near_it() {
        for (m, mu) in [(8_000u64, 0.5), (56_338, 1e-4), (60_000, 3.0)] {
            for epsilon in [0.0, 0.5 * mu, 3.0 * mu] {
                let own = pair(m, mu).masses(&[epsilon]);
                let own = own.p[1] - epsilon.exp() * own.q[1];
                // the law of R by a rule of its own: a thousand points of a Gaussian would miss its skewness
                let d = m as f64;
                let unit = 1.0 / (2.0 * d).sqrt();
                let (mut sum, mut whole) = (0.0, 0.0);
                for i in -4000..=4000 {
                    let r = 1.0 + f64::from(i) * 0.0025 * unit;
                    let weight = ((d - 1.0) * r.ln() - 0.5 * d * (r - 1.0) * (r + 1.0)).exp();
                    let one = GaussianPair { mu: mu * r }.masses(&[epsilon]);
                    sum += weight * (one.p[1] - epsilon.exp() * one.q[1]);
                    whole += weight;
                }
                let truth = sum / whole;
                assert!(
                    own >= truth * (1.0 - 1e-9) && own <= truth * (1.0 + 1e-4),
                    "{m} {mu} {epsilon}: {own} {truth}"
                );
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        let gaussian = GaussianPair { mu: 0.7 }.masses(&[0.9]);
        let exact = gaussian.p[1] - 0.9f64.exp() * gaussian.q[1];
        for (degrees, off) in [(1_000_000, 1e-4), (1_675_083_697_750_748_160, 1e-7), (u64::MAX, 1e-7)] {
            let m = pair(degrees, 0.7).masses(&[0.9]);
            let got = m.p[1] - 0.9f64.exp() * m.q[1];
            assert!(got > exact * (1.0 - 1e-12) && got < exact * (1.0 + off), "{degrees}: {got} {exact}");
        }
        // δ(0) = E(2Φ(μ|Z|/2) − 1) = (2/π)·atan(μ/2)
        let m = pair(1, 1.5).masses(&[0.0]);
        let (got, exact) = (m.p[1] - m.q[1], std::f64::consts::FRAC_2_PI * 0.75f64.atan());
        assert!(got >= exact * (1.0 - 1e-12) && got < exact * (1.0 + 1e-9), "{got} {exact}");
    }
}
