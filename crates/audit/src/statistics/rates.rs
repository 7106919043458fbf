//! Two error rates against a claim: the fixed-size test and the lower bound on ε.
//!
//! If M claims U, then for every event E and neighbours D, D′: P(M(D) ∈ E) ≤ U(P(M(D′) ∈ E)). Two Clopper–Pearson
//! bounds at α/2 fail with probability at most α together; U does not decrease; so a rejection is wrong with
//! probability at most α. The event must be fixed before the counts are taken.

use super::binomial::{lower_bound, upper_bound};
use super::claim::{Claim, normal_quantile};
use dpopt_privacy::special::gaussian_epsilon;
use serde::Serialize;

/// How often the event happened in independent runs on each world.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Runs with the event in the world where it should be likelier.
    pub true_positives: u64,
    /// All runs in that world.
    pub positives: u64,
    /// Runs with the event in the other world.
    pub false_positives: u64,
    /// All runs in the other world.
    pub negatives: u64,
}

/// Confidence bounds on the two rates of one event; both hold with probability 1 − α.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The event is at least this likely in the one world.
    pub tpr_low: f64,
    /// The event is at most this likely in the other world.
    pub fpr_high: f64,
}

impl Counts {
    /// Equal numbers of runs in both worlds.
    pub fn new(true_positives: u64, false_positives: u64, runs: u64) -> Self {
        Self { true_positives, positives: runs, false_positives, negatives: runs }
    }

    /// Counts of the complement event over these runs, with the worlds exchanged: E unlikely here means Eᶜ likely there.
    pub fn complement(self) -> Self {
        Self {
            true_positives: self.negatives - self.false_positives,
            positives: self.negatives,
            false_positives: self.positives - self.true_positives,
            negatives: self.positives,
        }
    }

    /// Clopper–Pearson bounds at α/2 each.
    pub fn rates(self, alpha: f64) -> Rates {
        Rates {
            tpr_low: lower_bound(self.true_positives, self.positives, 0.5 * alpha),
            fpr_high: upper_bound(self.false_positives, self.negatives, 0.5 * alpha),
        }
    }

    /// Adds the counts of further independent runs of the same event.
    pub fn merge(self, other: Self) -> Self {
        Self {
            true_positives: self.true_positives + other.true_positives,
            positives: self.positives + other.positives,
            false_positives: self.false_positives + other.false_positives,
            negatives: self.negatives + other.negatives,
        }
    }
}

impl Rates {
    /// Whether the claim is impossible at these rates.
    ///
    /// ```
    /// use dpopt_audit::statistics::{Claim, Counts};
    /// // 211 runs per world of N(2,1) against N(0,1) at the threshold 0.96: caught against μ = 1 at α = 1e-6
    /// let bug = Counts::new(180, 34, 211).rates(1e-6);
    /// assert!(bug.rejects(&Claim::gaussian(1.0)) && !bug.rejects(&Claim::gaussian(2.0)));
    /// ```
    pub fn rejects(self, claim: &Claim) -> bool {
        self.tpr_low > claim.largest_tpr(self.fpr_high)
    }

    /// The largest ε that the rates prove at `delta`: max(0, ln((TPR − δ)/FPR)).
    pub fn epsilon_lower(self, delta: f64) -> f64 {
        if self.tpr_low <= delta || self.fpr_high <= 0.0 {
            return 0.0;
        }
        ((self.tpr_low - delta) / self.fpr_high).ln().max(0.0)
    }

    /// μ below which no Gaussian trade-off curve allows the rates: Φ⁻¹(TPR) − Φ⁻¹(FPR), at least 0
    /// (Nasr et al. 2023). Refutes "μ-GDP" for any mechanism.
    pub fn mu_lower(self) -> f64 {
        let mu = normal_quantile(self.tpr_low) - normal_quantile(self.fpr_high);
        if mu.is_nan() { 0.0 } else { mu.max(0.0) }
    }

    /// ε at `delta` of the Gaussian curve through the rates. A lower bound on ε **under the Gaussian model** only:
    /// for mechanisms whose trade-off curve is not Gaussian it can exceed the truth.
    pub fn gaussian_epsilon_lower(self, delta: f64) -> f64 {
        let mu = self.mu_lower();
        if mu > 0.0 && mu.is_finite() { gaussian_epsilon(delta, mu) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::binomial::ln_upper_tail;
    use dpopt_privacy::special::normal_cdf;

    /// Expected counts of the event x > t for N(μ,1) against N(0,1).
    fn expected(mu: f64, t: f64, runs: u64) -> Counts {
        let n = runs as f64;
        Counts::new((n * normal_cdf(mu - t)).round() as u64, (n * normal_cdf(-t)).round() as u64, runs)
    }

    /// The oracle threshold: a fine grid.
    fn best(mu: f64, runs: u64, value: impl Fn(Rates) -> f64, alpha: f64) -> f64 {
        (-40..160).map(|i| value(expected(mu, 0.05 * f64::from(i), runs).rates(alpha))).fold(0.0, f64::max)
    }

    #[test]
    fn power_table_of_the_lower_bound() {
        // oracle threshold, α = 1e-3, δ = 1e-5: (μ, N, CP, GDP)
        for (mu, runs, cp, gdp) in [
            (0.3, 10_000, 0.332, 0.793),
            (1.0, 1_000, 1.062, 3.029),
            (1.0, 10_000, 1.872, 3.943),
            (1.0, 100_000, 2.547, 4.239),
            (1.0, 1_000_000, 3.126, 4.334),
            (3.0, 10_000, 5.448, 15.77),
            (3.0, 1_000, 3.734, 13.89),
            (3.0, 100_000, 6.995, 16.39),
        ] {
            let got = best(mu, runs, |r| r.epsilon_lower(1e-5), 1e-3);
            assert!((got - cp).abs() < 0.02 * cp + 0.005, "CP mu={mu} N={runs}: {got} against {cp}");
            let got = best(mu, runs, |r| r.gaussian_epsilon_lower(1e-5), 1e-3);
            assert!((got - gdp).abs() < 0.01 * gdp + 0.005, "GDP mu={mu} N={runs}: {got} against {gdp}");
        }
    }

    #[test]
    fn half_split_costs_half_the_runs() {
        // expected lower bound after giving half of N to the choice of the threshold
        for (runs, half) in [(10_000, 1.644), (100_000, 2.355), (1_000_000, 2.961)] {
            let got = best(1.0, runs / 2, |r| r.epsilon_lower(1e-5), 1e-3);
            assert!((got - half).abs() < 0.02 * half, "N={runs}: {got} against {half}");
        }
    }

    #[test]
    fn runs_needed_to_refute_a_gaussian_claim() {
        // expected counts on a grid of thresholds with step .05 give 209, 91, 3.67e3, 1.05e3
        for (claim, truth, low, high) in [
            (1.0, 2.0, 195, 215),
            (0.5, 2.0, 84, 96),
            (0.5, 0.5 * 2f64.sqrt(), 3500, 3800),
            (1.0, 2f64.sqrt(), 1000, 1080),
        ] {
            let claim = Claim::gaussian(claim);
            let rejects = |n| (-40..80).any(|i| expected(truth, 0.05 * f64::from(i), n).rates(1e-6).rejects(&claim));
            assert!(!rejects(low) && rejects(high), "claim {claim:?} truth {truth}");
        }
    }

    #[test]
    fn size_at_the_boundary() {
        // μ = μ_c = 1, N = 2000, α = .05, threshold .5: exact probability of rejecting a true claim
        let (n, claim) = (2000u64, Claim::gaussian(1.0));
        let (p1, p0) = (normal_cdf(0.5), normal_cdf(-0.5));
        let mut size = 0.0;
        for k0 in 540..700 {
            let mass = ln_upper_tail(k0, n, p0, 1.0 - p0).exp() - ln_upper_tail(k0 + 1, n, p0, 1.0 - p0).exp();
            let need = (1300..1500).find(|&k1| Counts::new(k1, k0, n).rates(0.05).rejects(&claim)).unwrap_or(n);
            size += mass * ln_upper_tail(need, n, p1, 1.0 - p1).exp();
        }
        assert!(size < 0.004 && size > 0.0005, "about .002 expected, got {size}");
    }

    #[test]
    fn complement_and_empty_counts() {
        let c = Counts::new(9, 2, 10);
        assert_eq!(c.complement(), Counts::new(8, 1, 10));
        let r = Counts::new(0, 0, 10).rates(0.05);
        assert_eq!((r.tpr_low, r.epsilon_lower(0.0), r.mu_lower()), (0.0, 0.0, 0.0));
        assert!(!r.rejects(&Claim::pure(0.0)));
        assert_eq!(Counts::default().rates(0.05).epsilon_lower(0.0), 0.0);
    }

    #[test]
    fn probability_zero_events() {
        // an event of probability 1 in one world and 0 in the other against μ = 1: 40 runs reject, 30 do not
        assert!(Counts::new(40, 0, 40).rates(1e-6).rejects(&Claim::gaussian(1.0)));
        assert!(!Counts::new(30, 0, 30).rates(1e-6).rejects(&Claim::gaussian(1.0)));
        // rows 11, 19–22, 39 at 1e5 runs, α = 1e-6 and δ = 1e-5: the cap ln(N/ln(2/α)) = 8.84
        assert!((Counts::new(100_000, 0, 100_000).rates(1e-6).epsilon_lower(1e-5) - 8.84).abs() < 0.01);
    }
}
