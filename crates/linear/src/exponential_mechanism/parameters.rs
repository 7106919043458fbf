//! Temperature and regularisation of Gibbs measures from public facts: empirical risk, population risk, strongly convex
//! losses, bounded sets (Liu 2024, chapters 3 and 4).
//!
//! Everything depends on the temperature k and the modulus μ (of the *mean* objective F + (μ/2)‖x‖²) only through
//! s = G_Δ√k/(n√μ), the Gaussian-DP parameter of one exact draw, and through the risk. The published closed forms for s are
//! loose at small ε and wrong at large ε; s comes from the exact curve.
//!
//! In another norm the quadratic is a 1-strongly convex r, G_Δ is measured in the dual norm, and Θ, the range of r, stands where R²/2
//! stands: the same formulas at R = √(2Θ), which [`norm_radius`] gives.
//!
//! Covers: thesis theorem 3.1.6, theorem 3.2.2, theorem 3.6.7, theorem 3.6.8, theorem 3.6.9 (part: temperature and bound for the population risk; the method plans for the training risk)
//! Covers: thesis theorem 4.4.2 (certified: temperature and bound, 2G for a replaced record)
//! Covers: thesis theorem 4.4.6 (part: temperature and bound for the population risk; the method plans for the training risk)
//! Covers: thesis theorem 4.5.2, theorem 4.5.3 (part: temperature and bound; draws have a regulariser)
//! Covers: thesis corollary 4.4.10, corollary 4.4.11, corollary 4.4.12 (part: l_p, no matrices; the number of queries is not that of the source)

use dpopt_mechanism::sampler::{NormSquare, best_exponent};
use dpopt_privacy::{Budget, special};
use serde::Serialize;

/// Share of δ that pays for the sampler's total-variation error.
pub const SAMPLER_SHARE: f64 = 0.1;

/// A budget divided between the exact law and the sampler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shares {
    /// s of the exact draw (of all draws together).
    pub mu: f64,
    /// τ of the sampler (of all draws together).
    pub total_variation: f64,
}

/// τ = δ/10/(1 + e^ε) and the largest s with δ_s(ε) ≤ δ − (1 + e^ε)τ.
///
/// ```
/// use dpopt_linear::gibbs_parameters::shares;
/// use dpopt_privacy::Budget;
/// let shares = shares(Budget::new(0.09, 1e-6)?);
/// assert!((shares.mu - 0.0247980).abs() < 1e-7 && (shares.total_variation - 4.775e-8).abs() < 1e-11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shares(budget: Budget) -> Shares {
    let (epsilon, delta) = (budget.epsilon(), budget.delta());
    let total_variation = SAMPLER_SHARE * delta / (1.0 + epsilon.exp());
    // a hair below the rest, for the rounding of the sum
    let rest = (1.0 - SAMPLER_SHARE) * delta * (1.0 - 1e-12);
    Shares { mu: special::gaussian_mu(epsilon, rest), total_variation }
}

/// k, μ and what they promise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Temperature {
    /// k: the density is ∝ e^(−k(F + (μ/2)‖x − x_c‖²)).
    pub temperature: f64,
    /// μ: modulus of strong convexity of the regulariser.
    pub modulus: f64,
    /// Upper bound on the expected excess risk if ‖x* − x_c‖ ≤ R.
    pub risk: f64,
}

/// Public facts of a problem: n, d, R, and the Lipschitz constants of the differences (privacy) and of replacing one record
/// (generalisation; at least the former).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RiskFacts {
    /// n: number of records.
    pub rows: f64,
    /// d: number of weights.
    pub dimension: f64,
    /// R: guess of ‖x* − x_c‖, for utility only.
    pub radius: f64,
    /// G_Δ: Lipschitz constant of the difference of two neighbours' sums.
    pub difference_lipschitz: f64,
}

/// √(2Θ) for weights within `radius` of the centre in the l_p norm, p from 1 on: what stands for R in [`RiskFacts`].
///
/// ```
/// use dpopt_linear::gibbs_parameters::{RiskFacts, empirical, norm_radius};
/// // l_1.5 in the plane, Θ = R²/(2(p − 1)) at q = p; another q does better
/// assert!(norm_radius(1.5, 2, 1.0) < 2f64.sqrt() && norm_radius(1.5, 100, 1.0) >= 2f64.sqrt());
/// assert!((norm_radius(3.0, 2, 0.7) - 0.7 * 2f64.powf(1.0 / 6.0)).abs() < 1e-12); // the Euclidean radius of the ball
/// ```
pub fn norm_radius(p: f64, dimension: usize, radius: f64) -> f64 {
    let d = dimension as f64;
    if p >= 2.0 {
        return radius * d.powf(0.5 - 1.0 / p);
    }
    let norm = NormSquare::new(p, best_exponent(p, dimension), dimension);
    radius * norm.map_or(f64::INFINITY, |norm| norm.coefficient.sqrt())
}

/// Empirical risk: k = s²n²μ/G², μ = G√(2d)/(snR), excess at most GR√(2d)/(sn).
///
/// ```
/// use dpopt_linear::gibbs_parameters::{RiskFacts, empirical};
/// let t = empirical(RiskFacts { rows: 1000.0, dimension: 10.0, radius: 2.0, difference_lipschitz: 1.0 }, 0.0247980);
/// assert!((t.modulus - 0.0901714).abs() < 1e-6 && (t.temperature - 55.4500).abs() < 1e-3 && (t.risk - 0.360686).abs() < 1e-5);
/// ```
pub fn empirical(facts: RiskFacts, mu: f64) -> Temperature {
    let RiskFacts { rows, dimension, radius, difference_lipschitz } = facts;
    let modulus = difference_lipschitz * (2.0 * dimension).sqrt() / (mu * rows * radius);
    Temperature {
        temperature: (mu * rows / difference_lipschitz).powi(2) * modulus,
        modulus,
        risk: difference_lipschitz * radius * (2.0 * dimension).sqrt() / (mu * rows),
    }
}

/// Population risk: the same density with C = G_r²/n + dG²/Q, Q = min(s²n², 2nd), μ = √(2C)/R, excess at most R√(2C).
/// `replaced_lipschitz` G_r is the constant of replacing one record, also where privacy is for zero-out.
///
/// ```
/// use dpopt_linear::gibbs_parameters::{RiskFacts, population};
/// let facts = RiskFacts { rows: 1000.0, dimension: 10.0, radius: 2.0, difference_lipschitz: 1.0 };
/// let t = population(facts, 1.0, 0.0247980);
/// assert!((t.modulus - 0.0929025).abs() < 1e-6 && (t.temperature - 57.1294).abs() < 1e-3 && (t.risk - 0.371610).abs() < 1e-5);
/// ```
pub fn population(facts: RiskFacts, replaced_lipschitz: f64, mu: f64) -> Temperature {
    let RiskFacts { rows, dimension, radius, difference_lipschitz } = facts;
    let queries = (mu * rows).powi(2).min(2.0 * rows * dimension);
    let c = replaced_lipschitz.powi(2) / rows + dimension * difference_lipschitz.powi(2) / queries;
    let modulus = (2.0 * c).sqrt() / radius;
    Temperature {
        temperature: modulus * queries / difference_lipschitz.powi(2),
        modulus,
        risk: radius * (2.0 * c).sqrt(),
    }
}

/// Losses that are each μ-strongly convex need no regulariser: k = μ(sn/G)², excess at most d/k. Not for losses whose
/// *average* happens to be strongly convex: the neighbour's need not be, and the constant would be data.
pub fn strongly_convex(facts: RiskFacts, modulus: f64, mu: f64) -> Temperature {
    let temperature = modulus * (mu * facts.rows / facts.difference_lipschitz).powi(2);
    Temperature { temperature, modulus, risk: facts.dimension / temperature }
}

/// On a bounded set of diameter D: the log-ratio has range k·G_ΔD/n, so k = εn/(G_ΔD) gives ε-DP for exact draws
/// ((ε, (1 + e^ε)τ) for a sampler within τ). The public regulariser μ = d/(5k·R_K²), R_K the largest distance from x_c, cancels
/// in the difference and makes the density strongly log-concave: without it no sampler here has a certificate. Excess at
/// most 1.1·d/k.
///
/// ```
/// use dpopt_linear::gibbs_parameters::{RiskFacts, bounded};
/// let facts = RiskFacts { rows: 1000.0, dimension: 4.0, radius: 1.0, difference_lipschitz: 1.0 };
/// let t = bounded(facts, 2.0, 1.0);
/// assert_eq!((t.temperature, t.modulus, t.risk), (500.0, 4.0 / 2500.0, 1.1 * 4.0 / 500.0));
/// ```
pub fn bounded(facts: RiskFacts, diameter: f64, epsilon: f64) -> Temperature {
    let temperature = epsilon * facts.rows / (facts.difference_lipschitz * diameter);
    let modulus = facts.dimension / (5.0 * temperature * facts.radius * facts.radius);
    Temperature { temperature, modulus, risk: 1.1 * facts.dimension / temperature }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORKED: RiskFacts = RiskFacts { rows: 1000.0, dimension: 10.0, radius: 2.0, difference_lipschitz: 1.0 };

    #[test]
    fn the_sources_parameters_are_worse() {
        // A = √(ℓ+ε) − √ℓ, k = 2μn²A²/G², μ = G√d/(nDA)
        let ell = (0.75e6f64).ln();
        let a = (ell + 0.09).sqrt() - ell.sqrt();
        assert!((a - 0.0122146).abs() < 1e-7);
        let modulus = 10f64.sqrt() / (1000.0 * 2.0 * a);
        let k = 2.0 * modulus * 1e6 * a * a;
        assert!((modulus - 0.129447).abs() < 1e-6 && (k - 38.6258).abs() < 1e-3);
        let risk = 10.0 / k + 0.5 * modulus * 4.0;
        assert!((risk - 0.517788).abs() < 1e-5);
        let tight = empirical(WORKED, shares(Budget::new(0.09, 1e-6).unwrap()).mu);
        assert!(tight.risk < 0.7 * risk);
    }

    #[test]
    fn parameters_keep_the_privacy_they_promise() {
        for mu in [0.01, 0.3, 3.0] {
            for (t, promised) in [
                (empirical(WORKED, mu), mu),
                (strongly_convex(WORKED, 0.3, mu), mu),
                (population(WORKED, 1.0, mu), mu.min((2.0 * 10.0 / 1000.0f64).sqrt())),
            ] {
                let k = t.temperature;
                let s = dpopt_privacy::gibbs::mu(k * WORKED.difference_lipschitz / WORKED.rows, k * t.modulus);
                assert!((s / promised - 1.0).abs() < 1e-12, "{t:?}");
            }
        }
    }

    #[test]
    fn population_parameters_of_the_general_norms_chapter() {
        // Liu 2024, Theorem 4.4.6: n=100, d=10, Θ=1/2 (R=1), G=1 replace-one (G_Δ=2), ε=1, δ=1e-5, exact sampling: t = .2680511232.
        // There the gap constant is 2G²/n = G_Δ²/(2n): R√(2C) with G_r² = G_Δ²/2
        let facts = RiskFacts { rows: 100.0, dimension: 10.0, radius: 1.0, difference_lipschitz: 2.0 };
        let t = population(facts, 2f64.sqrt(), 0.2680511232);
        assert!((t.modulus - 0.389026).abs() < 1e-6 && (t.temperature - 69.8801).abs() < 1e-3, "{t:?}");
    }

    /// Liu 2024, Theorem 4.4.2 with corrected constants: ε = 1, δ = 1e-5, n = 100, d = 1, Θ = 1/2, G = 1, records replaced. The formulas of the dissertation take G where
    /// the difference of two losses has 2G, and a closed form for t.
    #[test]
    fn the_printed_parameters_are_not_private() {
        let (n, epsilon, delta) = (100.0, 1.0, 1e-5f64);
        let t = special::gaussian_mu(epsilon, delta);
        assert!((t - 0.268_051_123_2).abs() < 1e-9);
        let facts = RiskFacts { rows: n, dimension: 1.0, radius: 1.0, difference_lipschitz: 2.0 };
        let ours = empirical(facts, t);
        assert!((ours.temperature / ours.modulus - 179.628_512).abs() < 1e-5);
        assert!((ours.modulus - 0.105_518_197).abs() < 1e-8 && (ours.temperature - 18.954_076_7).abs() < 1e-6);
        assert!((ours.risk - 0.105_518_197).abs() < 1e-8);
        let log = (0.5 / delta).ln();
        let printed = (n * epsilon / log.sqrt(), log.sqrt() * 2.0 / (n * epsilon));
        assert!((printed.0 - 30.401_206_5).abs() < 1e-6 && (printed.1 - 0.065_786_862_8).abs() < 1e-9);
        // the laws of s·x + μx²/2 at s = ±1 are Gaussians: the curve at their distance is the truth
        let truth = |k: f64, modulus: f64| {
            let shift = dpopt_privacy::gibbs::mu(k * 2.0 / n, k * modulus);
            special::gaussian_ln_delta(epsilon, shift).exp()
        };
        assert!((truth(ours.temperature, ours.modulus) / delta - 1.0).abs() < 1e-6);
        assert!((truth(printed.0, printed.1) - 2.36e-3).abs() < 5e-6);
    }

    #[test]
    fn the_range_of_a_regulariser_stands_for_the_radius() {
        // the least factor c* for l_1 (Liu 2024, Corollary 4.4.11, takes e²·ln d)
        for (d, c) in [(10, 9.2759f64), (100, 22.135), (1000, 34.724), (2, 2.0), (1, 1.0)] {
            assert!((norm_radius(1.0, d, 3.0) / (3.0 * c.sqrt()) - 1.0).abs() < 1e-4, "{d}");
        }
        // q = p where d is large enough: Θ = R²/(2(p − 1))
        assert!((norm_radius(1.5, 50, 1.0) - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(norm_radius(2.0, 50, 1.0), 1.0);
    }
}
