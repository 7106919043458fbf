//! Many canaries in one run (Steinke, Nasr, Jagielski 2023), and the f-DP form (Mahloujifar, Melis, Chaudhuri 2024).
//!
//! m canaries enter by independent fair coins; from the output alone the auditor guesses exactly r of the coins, r
//! fixed beforehand, and is right v times. For (ε, δ)-DP with W ~ Binomial(r, e^ε/(1+e^ε)),
//! P(V ≥ v) ≤ P(W ≥ v) + 2mδ·max_i P(v−i ≤ W < v)/i. Proved for δ = 0; the term in δ is as published.
//! The f-DP form is **research grade**: conservative in every exact check, its proof is not reproduced here.

use super::binomial::ln_upper_tail;
use super::claim::normal_quantile;
use dpopt_privacy::special::{gaussian_epsilon, ln_binomial_mass, normal_cdf};

/// Canaries, guesses and right guesses of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guesses {
    /// m: number of all canaries.
    pub canaries: u64,
    /// r ≤ m: guesses made, fixed before anything was seen.
    pub guesses: u64,
    /// v ≤ r: right guesses.
    pub right: u64,
}

impl Guesses {
    /// Upper bound on the probability of so many right guesses under (ε, δ)-DP (unit: one canary).
    ///
    /// ```
    /// use dpopt_audit::statistics::one_run::Guesses;
    /// let run = Guesses { canaries: 100, guesses: 100, right: 75 };
    /// assert!((run.p_value(3.0_f64.ln(), 0.0) - 0.553471).abs() < 1e-6);
    /// ```
    pub fn p_value(self, epsilon: f64, delta: f64) -> f64 {
        let Self { canaries, guesses: r, right: v } = self;
        let p = 1.0 / (1.0 + (-epsilon).exp());
        let q = 1.0 / (1.0 + epsilon.exp());
        let beta = ln_upper_tail(v, r, p, q).exp();
        if delta == 0.0 {
            return beta;
        }
        let (mut below, mut largest) = (0.0, 0.0_f64);
        for i in 1..=v {
            below += ln_binomial_mass(v - i, r, p, q).exp();
            largest = largest.max(below / i as f64);
        }
        (beta + 2.0 * canaries as f64 * delta * largest).min(1.0)
    }

    /// The largest ε refuted at confidence 1 − `alpha`: (ε′, δ)-DP is impossible for every smaller ε′. 0 if none.
    pub fn epsilon_lower(self, delta: f64, alpha: f64) -> f64 {
        bisect_refuted(|epsilon| self.p_value(epsilon, delta) < alpha)
    }

    /// Whether a mechanism with Gaussian trade-off μ is refuted at confidence 1 − `alpha` (research grade).
    pub fn refutes_gaussian(self, mu: f64, alpha: f64) -> bool {
        let Self { canaries, guesses, right } = self;
        let (m, g, v) = (canaries as f64, guesses as f64, right as f64);
        let inverse = |x: f64| if x <= 0.0 { 0.0 } else { normal_cdf(normal_quantile(x) - mu) };
        let (mut r, mut h) = (alpha * v / m, alpha * (g - v) / m);
        for i in (0..right).rev() {
            let next = h.max(inverse(r));
            r = (r + i as f64 / (g - i as f64) * (next - h)).min(1.0);
            h = next;
        }
        r + h > g / m
    }

    /// Largest μ refuted (research grade; ε from μ only if the trade-off curve is Gaussian).
    pub fn mu_lower(self, alpha: f64) -> f64 {
        bisect_refuted(|mu| self.refutes_gaussian(mu, alpha))
    }

    /// ε at `delta` of [`mu_lower`](Self::mu_lower): under the Gaussian model, research grade.
    pub fn gaussian_epsilon_lower(self, delta: f64, alpha: f64) -> f64 {
        let mu = self.mu_lower(alpha);
        if mu > 0.0 { gaussian_epsilon(delta, mu) } else { 0.0 }
    }
}

/// Largest x with `refuted` on all of [0, x]; the low end of the bracket. A grid guards against a non-monotone test.
fn bisect_refuted(refuted: impl Fn(f64) -> bool) -> f64 {
    if !refuted(0.0) {
        return 0.0;
    }
    let mut high = 1.0;
    // no count of guesses refutes e^60
    while refuted(high) && high < 60.0 {
        high *= 2.0;
    }
    for i in 1..32 {
        let x = high * f64::from(i) / 32.0;
        if !refuted(x) {
            high = x;
            break;
        }
    }
    let mut low = (high - high / 16.0).max(0.0);
    if !refuted(low) {
        low = 0.0;
    }
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if refuted(middle) { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::Draws;

    fn run(canaries: u64, guesses: u64, right: u64) -> Guesses {
        Guesses { canaries, guesses, right }
    }

    #[test]
    fn published_values() {
        assert!((run(1000, 100, 75).p_value(1.0, 1e-4) - 0.400_555).abs() < 1e-6);
        for (guess, delta, epsilon) in [
            (run(1000, 100, 75), 1e-4, 0.672_985),
            (run(100, 100, 75), 0.0, 0.702_214),
            (run(1000, 1000, 900), 1e-5, 2.020_646),
        ] {
            let got = guess.epsilon_lower(delta, 0.05);
            assert!((got - epsilon).abs() < 1e-6, "{got} against {epsilon}");
        }
    }

    #[test]
    fn published_values_of_the_f_dp_form() {
        for (v, mu) in [(60, 0.0262), (75, 0.4043), (90, 0.8414)] {
            let got = run(100, 100, v).mu_lower(0.05);
            assert!((got - mu).abs() < 5e-5, "v={v}: {got} against {mu}");
        }
    }

    #[test]
    fn power_table() {
        // (m, r, v, lower bound on ε) at δ = 1e-5, α = .05
        for (m, r, v, epsilon) in [
            (1_000, 200, 128, 0.323),
            (100, 20, 18, 0.930),
            (10_000, 200, 189, 2.279),
            (1_000, 500, 499, 4.636),
            (100_000, 2_000, 1_387, 0.720),
        ] {
            let got = run(m, r, v).epsilon_lower(1e-5, 0.05);
            assert!((got - epsilon).abs() < 6e-4, "m={m}: {got} against {epsilon}");
        }
    }

    #[test]
    fn size_under_randomised_response() {
        // ε = 1, m = r = 1000: P(reject) exactly = P(W ≥ critical value) and at most α (.0455 in 4,000 simulated audits)
        let p = 1.0 / (1.0 + (-1f64).exp());
        let critical = (0..=1000).find(|&v| run(1000, 1000, v).p_value(1.0, 0.0) < 0.05).expect("some v rejects");
        let size = ln_upper_tail(critical, 1000, p, 1.0 - p).exp();
        assert!(size < 0.05 && size > 0.035, "{size}");
    }

    #[test]
    fn correct_gaussian_canaries_are_never_refuted() {
        // 200 runs with 100 orthogonal canaries of true μ = 1; at α = 1e-6 the false alarm over all is 2e-4
        let mut draws = Draws::new(13, 0);
        for _ in 0..200 {
            let mut right = 0;
            for _ in 0..100 {
                let present = draws.coin(0.5);
                let seen = draws.gaussian() + if present { 1.0 } else { 0.0 };
                right += u64::from((seen > 0.5) == present);
            }
            let guess = run(100, 100, right);
            assert!(guess.epsilon_lower(1e-5, 1e-6) <= 4.377_18);
            assert!(!guess.refutes_gaussian(1.0, 1e-6));
        }
        assert_eq!(run(100, 100, 40).epsilon_lower(0.0, 0.05), 0.0);
    }
}
