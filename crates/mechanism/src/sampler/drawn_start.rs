//! How far an alternating sampler is from its target when its start is a random point (docs/proofs/value-sampler.md), and the
//! rounds and the step of a chain whose inner step asks for values only.
//!
//! Forward step y ~ e^(⟨x, y⟩ − φ(y) − ψ(x)) with ψ the log-Laplace transform of φ, backward step the exact conditional law
//! of x. If the target is e^(−F − ημψ) with F convex on a convex set, the chain of x has a spectral gap of at least
//! ημ/(1 + ημ): for u(x) = E(h(y)|x), Brascamp and Lieb give ημ·Var u ≤ E ∇uᵀ(∇²ψ)⁻¹∇u, which is at most E Var(h|x) because
//! ∇u = Cov(y, h|x) and ∇²ψ = Cov(y|x). It is sharp (F = 0), and holds in any norm. The proof in Liu 2024 (Lemma 5.3.7) rescales φ, which
//! is then no longer self-concordant; a slab of the uniform law smoothed by a Gaussian breaks its lemma (test).
//!
//! In the Euclidean case, φ = η‖y‖²/2, the divergence of Kullback and Leibler falls by (1 + ημ)² per round too, and enters by
//! its logarithm only.
//!
//! Covers: thesis proposition 5.4.11, theorem 5.4.12 (part: with constants and another proof, for exact inner draws; no method draws so)

use super::certificate::MAX_STEPS;
use super::oracle::series::{self, Products};

/// Bound on the divergence of the start's law from the target's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// KL(start‖target) is at most this. Contracts for Euclidean chains; for others that is not known.
    KullbackLeibler(f64),
    /// ln(1 + χ²(start‖target)) is at most this, for any φ.
    LnChiSquared(f64),
}

impl Start {
    /// An exact draw from e^(−regulariser) on the target's set, in the Euclidean norm: KL ≤ G²/(2m) for a G-Lipschitz F.
    pub fn euclidean(lipschitz: f64, strong_convexity: f64) -> Self {
        Self::KullbackLeibler(0.5 * lipschitz * lipschitz / strong_convexity * (1.0 + 4.0 * f64::EPSILON))
    }

    /// An exact draw from e^(−regulariser) on the target's set, in any norm: ln(1 + χ²) ≤ min(G·D, G²/m), D the diameter of the set.
    pub fn any_norm(lipschitz: f64, strong_convexity: f64, diameter: f64) -> Self {
        let tilt = if strong_convexity > 0.0 { lipschitz * lipschitz / strong_convexity } else { f64::INFINITY };
        Self::LnChiSquared(tilt.min(lipschitz * diameter) * (1.0 + 4.0 * f64::EPSILON))
    }

    /// ln of the distance before the first round: of √(KL/2) or of ½√χ².
    fn ln_distance(self) -> f64 {
        let ln = match self {
            Self::KullbackLeibler(divergence) => 0.5 * (0.5 * divergence).ln(),
            Self::LnChiSquared(ln) => 0.5 * ln - std::f64::consts::LN_2,
        };
        ln + 1e-12
    }
}

/// A chain from a random start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DrawnStart {
    /// ημ: the potential is ημ-strongly convex relative to ψ. Euclidean: η times its modulus.
    pub relative_convexity: f64,
    /// The law of the first point, by its distance from the target.
    pub start: Start,
}

impl DrawnStart {
    fn rate(&self) -> f64 {
        self.relative_convexity.ln_1p() * (1.0 - 8.0 * f64::EPSILON)
    }

    /// Upper bound on the total-variation distance after `steps` exact rounds.
    ///
    /// ```
    /// use dpopt_mechanism::sampler::{DrawnStart, Start};
    /// let chain = DrawnStart { relative_convexity: 0.1, start: Start::LnChiSquared(2.0) };
    /// assert!((chain.total_variation(10) - 0.5 * 1f64.exp() / 1.1f64.powi(10)).abs() < 1e-9);
    /// ```
    pub fn total_variation(&self, steps: u64) -> f64 {
        if !(self.relative_convexity > 0.0) {
            return f64::INFINITY;
        }
        (self.start.ln_distance() - steps as f64 * self.rate()).exp()
    }

    /// Smallest T ≥ 1 with a bound of at most `total_variation`; `None` without strong convexity, or beyond [`MAX_STEPS`].
    pub fn steps(&self, total_variation: f64) -> Option<u64> {
        let rate = self.rate();
        if !(rate > 0.0 && total_variation > 0.0) || self.start.ln_distance().is_nan() {
            return None;
        }
        let rounds = ((self.start.ln_distance() - total_variation.ln()) / rate).ceil().max(1.0);
        if rounds >= MAX_STEPS as f64 {
            return None;
        }
        let mut steps = rounds as u64;
        while self.total_variation(steps) > total_variation {
            steps += 1;
        }
        Some(steps)
    }
}

/// What a Euclidean chain with [`Oracle::Series`](super::Oracle::Series) is planned from: public numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueFacts {
    /// G_2: Lipschitz constant, in l_2, of each of the terms whose mean is F.
    pub lipschitz: f64,
    /// m: modulus of the quadratic.
    pub strong_convexity: f64,
    /// γ: wanted distance of the last point from the target.
    pub total_variation: f64,
    /// What floating point adds to the distance, per round: the caller's number, 0 or more. Nothing here bounds it.
    pub error_per_round: f64,
    /// Which products the series has.
    pub products: Products,
}

/// Rounds and step of such a chain.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ValueChain {
    /// Number T of rounds.
    pub steps: u64,
    /// √η: standard deviation of the forward step.
    pub step_std: f64,
}

impl ValueChain {
    /// Upper bound on the distance of x_T from its target: half of γ for mixing, half for T inner steps. Evaluated from T and
    /// √η alone, however they were chosen; the start must be an exact draw from the regulariser's law. The target is the one on the chain's domain:
    /// what all of space has beyond its radius is not counted.
    pub fn distance(&self, facts: &ValueFacts) -> f64 {
        if !(facts.error_per_round >= 0.0) {
            return f64::INFINITY;
        }
        let eta = self.step_std * self.step_std;
        let mixed = DrawnStart {
            relative_convexity: eta * facts.strong_convexity,
            start: Start::euclidean(facts.lipschitz, facts.strong_convexity),
        };
        let v = eta * facts.lipschitz * facts.lipschitz * (1.0 + 8.0 * f64::EPSILON);
        let inner = series::total_variation(v, facts.products) + facts.error_per_round;
        (mixed.total_variation(self.steps) + self.steps as f64 * inner) * (1.0 + 8.0 * f64::EPSILON)
    }

    /// Values of single terms that the chain asks for, in the mean: two proposals a round, 2(e − 1) values each (2e with fresh
    /// products).
    pub fn expected_values(&self, products: Products) -> f64 {
        let e = std::f64::consts::E;
        2.0 * self.steps as f64
            * match products {
                Products::Prefix => 2.0 * (e - 1.0),
                Products::Fresh => 2.0 * e,
            }
    }
}

/// Rounds T and step √η whose two conditions both hold: the chain has mixed to γ/2 after T rounds of this η, and T inner steps
/// of this η are together within γ/2. Goes upwards from T = 1, so that it ends. `None` if nothing is strongly convex, if
/// floating point alone exceeds γ/2, or beyond [`MAX_STEPS`].
///
/// ```
/// use dpopt_mechanism::sampler::{ValueFacts, certified_value_chain, series::Products};
/// // a draw of 100 records at ε = 1, δ = 1e-5: G²/m = (nt/2)² = 179.6, γ = 1e-6/(1 + e)
/// let facts = ValueFacts {
///     lipschitz: 1.0, strong_convexity: 1.0 / 179.6, total_variation: 2.69e-7, error_per_round: 0.0,
///     products: Products::Prefix,
/// };
/// let chain = certified_value_chain(&facts).unwrap();
/// assert!(chain.distance(&facts) <= 2.69e-7);
/// // 8.4 million values of single losses
/// assert!((8.2e6..8.6e6).contains(&chain.expected_values(Products::Prefix)));
/// ```
pub fn certified_value_chain(facts: &ValueFacts) -> Option<ValueChain> {
    let half = 0.5 * facts.total_variation;
    let mut steps = 1;
    while steps < MAX_STEPS {
        let inner = half / steps as f64 * (1.0 - 8.0 * f64::EPSILON) - facts.error_per_round;
        if !(facts.error_per_round >= 0.0 && inner > 0.0 && facts.lipschitz > 0.0 && facts.strong_convexity > 0.0) {
            return None;
        }
        let v = series::largest_step(inner, facts.products);
        // ηm ≤ 1 is enough everywhere
        let eta = (v / (facts.lipschitz * facts.lipschitz)).min(1.0 / facts.strong_convexity);
        let step_std = eta.sqrt() * (1.0 - 8.0 * f64::EPSILON);
        let mixed = DrawnStart {
            relative_convexity: step_std * step_std * facts.strong_convexity,
            start: Start::euclidean(facts.lipschitz, facts.strong_convexity),
        };
        let needed = mixed.steps(half * (1.0 - 8.0 * f64::EPSILON))?;
        let chain = ValueChain { steps, step_std };
        if needed <= steps {
            return (chain.distance(facts) <= facts.total_variation).then_some(chain);
        }
        steps = needed;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(lipschitz: f64, strong_convexity: f64) -> ValueFacts {
        ValueFacts {
            lipschitz,
            strong_convexity,
            total_variation: 1e-6,
            error_per_round: 0.0,
            products: Products::Prefix,
        }
    }

    #[test]
    fn both_conditions_hold_and_a_hundredth_less_fails() {
        for (g, m) in [(1.0, 1.0), (30.0, 0.2), (0.1, 5.0), (4.0, 1e-3)] {
            for products in [Products::Prefix, Products::Fresh] {
                let facts = ValueFacts { products, ..facts(g, m) };
                let chain = certified_value_chain(&facts).unwrap();
                assert!(chain.distance(&facts) <= facts.total_variation);
                let eta = chain.step_std * chain.step_std;
                assert!(eta * m <= 1.0);
                assert!(series::total_variation(eta * g * g, products) * chain.steps as f64 <= 0.5e-6);
                // a longer step, or fewer rounds
                let longer = ValueChain { step_std: 1.02 * chain.step_std, ..chain };
                let fewer = ValueChain { steps: chain.steps * 9 / 10, ..chain };
                assert!(eta * m > 0.9 || longer.distance(&facts) > facts.total_variation, "{g} {m}");
                assert!(fewer.distance(&facts) > facts.total_variation, "{g} {m}");
            }
        }
    }

    #[test]
    fn what_cannot_be_certified_is_refused() {
        assert_eq!(certified_value_chain(&facts(1.0, 0.0)), None);
        assert_eq!(certified_value_chain(&facts(f64::NAN, 1.0)), None);
        assert_eq!(certified_value_chain(&ValueFacts { error_per_round: -1e-9, ..facts(1.0, 1.0) }), None);
        // next to no slope: one round, soon
        for lipschitz in [1e-12, 7e-13, 1e-30] {
            assert_eq!(certified_value_chain(&facts(lipschitz, 1.0)).map(|chain| chain.steps), Some(1), "{lipschitz}");
        }
        assert_eq!(Start::any_norm(1.0, -1.0, 5.0), Start::LnChiSquared(5.0 * (1.0 + 4.0 * f64::EPSILON)));
        assert_eq!(certified_value_chain(&ValueFacts { total_variation: 0.0, ..facts(1.0, 1.0) }), None);
        // thousands of rounds of 1e-9 are more than 5e-7
        assert_eq!(certified_value_chain(&ValueFacts { error_per_round: 1e-9, ..facts(1.0, 1.0) }), None);
        assert!(certified_value_chain(&ValueFacts { error_per_round: 1e-12, ..facts(1.0, 1.0) }).is_some());
        let flat = DrawnStart { relative_convexity: 0.0, start: Start::LnChiSquared(1.0) };
        assert_eq!((flat.steps(1e-3), flat.total_variation(9)), (None, f64::INFINITY));
    }

    /// Expected numbers of queries, estimated by hand for δ = 1e-5 and γ = 1e-6/(1 + e^ε): the chain needs these to 11 %.
    #[test]
    fn table_of_costs() {
        for (n, epsilon, values) in
            [(100.0, 1.0f64, 8.34e6), (100.0, 0.1, 8.38e4), (1e3, 1.0, 1.12e9), (1e3, 0.1, 1.19e7), (1e4, 1.0, 1.44e11)]
        {
            let t = dpopt_privacy::special::gaussian_mu(epsilon, 1e-5);
            let ratio = n * t * n * t / 4.0;
            let facts = ValueFacts { total_variation: 1e-6 / (1.0 + epsilon.exp()), ..facts(1.0, 1.0 / ratio) };
            let chain = certified_value_chain(&facts).unwrap();
            let share = chain.expected_values(Products::Prefix) / values;
            assert!((0.89..1.11).contains(&share), "{n} {epsilon}: {share}");
        }
    }

    #[test]
    fn steps_are_the_smallest_that_suffice() {
        for start in [Start::KullbackLeibler(50.0), Start::LnChiSquared(179.6), Start::any_norm(3.0, 2.0, 1.0)] {
            for relative_convexity in [1e-4, 0.03, 1.0] {
                let chain = DrawnStart { relative_convexity, start };
                let t = chain.steps(1e-7).unwrap();
                assert!(chain.total_variation(t) <= 1e-7 && chain.total_variation(t - 1) > 1e-7);
            }
        }
        // G·D is the smaller one here
        assert_eq!(Start::any_norm(3.0, 2.0, 1.0), Start::LnChiSquared(3.0 * (1.0 + 4.0 * f64::EPSILON)));
    }
}
