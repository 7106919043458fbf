//! What a mechanism claims, as a whole trade-off curve: the largest true-positive rate at each false-positive rate.
//!
//! An accountant claims δ(ε) for every ε, so the curve is tested, not one point of it: catching μ = 2
//! against a claim of μ = 1 takes 211 runs per world on the curve and more than 1e5 at the point δ = 1e-5.

use dpopt_privacy::accountant::{self, AccountingError};
use dpopt_privacy::special::{gaussian_epsilon, gaussian_ln_delta_upper, normal_cdf};
use dpopt_privacy::{Event, Relation};
use serde::Serialize;

/// Relative upward rounding of the curve: covers the error of Φ and Φ⁻¹ (some 1e-14).
const CURVE_SLACK: f64 = 1e-12;

/// A claimed guarantee, valid for both orders of the two worlds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// μ-GDP: no easier to tell apart than N(0,1) and N(μ,1).
    Gaussian {
        /// The claimed μ.
        mu: f64,
    },
    /// One point (ε, δ); δ = 0 is a pure claim.
    ApproxDp {
        /// The claimed ε.
        epsilon: f64,
        /// The claimed δ.
        delta: f64,
    },
    /// Points (ε, δ(ε)) with ε ≥ 0, all claimed at once.
    Profile {
        /// The points, in ascending order of ε.
        points: Vec<(f64, f64)>,
    },
}

impl Claim {
    /// The claim of μ-Gaussian differential privacy.
    pub fn gaussian(mu: f64) -> Self {
        Self::Gaussian { mu }
    }

    /// The claim of pure ε-differential privacy.
    pub fn pure(epsilon: f64) -> Self {
        Self::ApproxDp { epsilon, delta: 0.0 }
    }

    /// What the accountants certify for `event`: δ(ε) at `points` values of ε from 0 to where δ reaches `smallest_delta`.
    ///
    /// # Errors
    /// Those of the accountants: no accountant supports the event under this relation.
    pub fn of_event(
        event: &Event,
        relation: Relation,
        points: usize,
        smallest_delta: f64,
    ) -> Result<Self, AccountingError> {
        let last = accountant::epsilon(event, relation, smallest_delta)?.upper;
        let mut curve = Vec::with_capacity(points + 1);
        for i in 0..=points {
            let epsilon = last * i as f64 / points.max(1) as f64;
            curve.push((epsilon, accountant::delta(event, relation, epsilon)?.upper));
        }
        Ok(Self::Profile { points: curve })
    }

    /// The curve of `event` as audits use it: 41 points down to δ = 1e-7 (counting sees no smaller δ), or to the least of 1e-6, 1e-5 and `delta` that
    /// an event with a δ of its own has an ε at; and the point at `delta`, where the bound is reported.
    ///
    /// # Errors
    /// No accountant knows the event.
    pub fn reported(event: &Event, relation: Relation, delta: f64) -> Result<Self, AccountingError> {
        let mut curve = Self::of_event(event, relation, 40, 1e-7);
        for least in [1e-6, 1e-5, delta] {
            if matches!(curve, Err(AccountingError::Unreachable(_))) {
                curve = Self::of_event(event, relation, 40, least);
            }
        }
        let mut claim = curve?;
        if let Self::Profile { points } = &mut claim {
            points.push((accountant::epsilon(event, relation, delta)?.upper, delta));
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        Ok(claim)
    }

    /// U(x): the largest true-positive rate that the claim allows at a false-positive rate of x; never rounded down.
    ///
    /// Each (ε, δ) allows min(e^ε x + δ, 1 − e^−ε(1 − δ − x)); the second line is the first for the complement event
    /// with the two worlds exchanged.
    ///
    /// ```
    /// use dpopt_audit::statistics::Claim;
    /// let claim = Claim::ApproxDp { epsilon: 2.0_f64.ln(), delta: 0.1 };
    /// assert!((claim.largest_tpr(0.2) - 0.5).abs() < 1e-9);
    /// assert!((claim.largest_tpr(0.6) - 0.85).abs() < 1e-9);
    /// ```
    pub fn largest_tpr(&self, fpr: f64) -> f64 {
        let raw = match self {
            Self::Gaussian { mu } => {
                if fpr <= 0.0 {
                    0.0
                } else if fpr >= 1.0 {
                    1.0
                } else {
                    normal_cdf(normal_quantile(fpr) + mu)
                }
            }
            Self::ApproxDp { epsilon, delta } => point(*epsilon, *delta, fpr),
            Self::Profile { points } => points.iter().map(|&(e, d)| point(e, d, fpr)).fold(1.0, f64::min),
        };
        (raw * (1.0 + CURVE_SLACK)).clamp(0.0, 1.0)
    }

    /// The claimed ε at `delta`: ∞ where the claim says nothing.
    pub fn epsilon(&self, delta: f64) -> f64 {
        match self {
            Self::Gaussian { mu } if *mu == 0.0 => 0.0,
            Self::Gaussian { mu } => gaussian_epsilon(delta, *mu),
            Self::ApproxDp { epsilon, delta: claimed } => {
                if delta >= *claimed {
                    *epsilon
                } else {
                    f64::INFINITY
                }
            }
            Self::Profile { points } => {
                points.iter().filter(|p| p.1 <= delta).map(|p| p.0).fold(f64::INFINITY, f64::min)
            }
        }
    }

    /// Points (ε, δ) of the claim, ε ≥ 0, for tests that need one: all of a profile, 41 on a Gaussian curve.
    pub fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Gaussian { mu } => gaussian_points(*mu),
            Self::ApproxDp { epsilon, delta } => vec![(*epsilon, *delta)],
            Self::Profile { points } => points.clone(),
        }
    }

    /// Checks the numbers; the message says what to do.
    pub fn check(&self) -> Result<(), String> {
        let ok = |e: f64, d: f64| e >= 0.0 && e.is_finite() && (0.0..1.0).contains(&d);
        match self {
            Self::Gaussian { mu } if !(*mu >= 0.0 && mu.is_finite()) => {
                Err(format!("the claimed mu is {mu}; give a finite number >= 0"))
            }
            Self::ApproxDp { epsilon, delta } if !ok(*epsilon, *delta) => {
                Err(format!("the claim is epsilon {epsilon}, delta {delta}; give epsilon >= 0 and delta in [0, 1)"))
            }
            Self::Profile { points }
                if points.is_empty() || points.iter().any(|&(e, d)| !(e >= 0.0 && (0.0..=1.0).contains(&d))) =>
            {
                Err("the claimed profile needs at least one point with epsilon >= 0 and delta in [0, 1]".into())
            }
            _ => Ok(()),
        }
    }
}

/// The point of the curve of μ-GDP at ε, δ never rounded down.
fn gaussian_point(mu: f64, epsilon: f64) -> (f64, f64) {
    if mu == 0.0 {
        return (epsilon, 0.0);
    }
    (epsilon, (gaussian_ln_delta_upper(epsilon, mu).exp() * (1.0 + CURVE_SLACK)).min(1.0))
}

/// 41 points of the curve of μ-GDP, from ε = 0 to where δ is some 1e-9.
fn gaussian_points(mu: f64) -> Vec<(f64, f64)> {
    // the loss is N(μ²/2, μ²): six standard deviations above its mean
    let last = 0.5 * mu * mu + 6.0 * mu;
    (0..=40).map(|i| gaussian_point(mu, last * f64::from(i) / 40.0)).collect()
}

/// Points of the curve of μ-GDP that exclude most at a false-positive rate: the tangent's, half of its ε, and ε = 0.
pub(crate) fn gaussian_points_near(mu: f64, fpr: f64) -> [(f64, f64); 3] {
    // e^ε is the slope of Φ(Φ⁻¹(x) + μ) at x
    let tangent = (-mu * normal_quantile(fpr) - 0.5 * mu * mu).clamp(0.0, 50.0);
    [tangent, 0.5 * tangent, 0.0].map(|epsilon| gaussian_point(mu, epsilon))
}

fn point(epsilon: f64, delta: f64, fpr: f64) -> f64 {
    (epsilon.exp() * fpr + delta).min(1.0 - (-epsilon).exp() * (1.0 - delta - fpr)).min(1.0)
}

/// Φ⁻¹(p): bisection on Φ, absolute error below 1e-14 times the size of the result.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p <= 0.0 {
        return f64::NEG_INFINITY;
    }
    if p >= 1.0 {
        return f64::INFINITY;
    }
    if p > 0.5 {
        return -normal_quantile(1.0 - p);
    }
    let (mut low, mut high) = (-39.0, 0.0);
    for _ in 0..62 {
        let middle = 0.5 * (low + high);
        if normal_cdf(middle) < p { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaussian_curve_is_the_definition_of_gdp() {
        let claim = Claim::gaussian(1.0);
        // Φ(Φ⁻¹(0.05) + 1), mpmath
        assert!((claim.largest_tpr(0.05) - 0.259_511_022_841_441_9).abs() < 1e-11);
        assert_eq!(claim.largest_tpr(0.0), 0.0);
        assert_eq!(claim.largest_tpr(1.0), 1.0);
        assert!((claim.epsilon(1e-5) - 4.377_18).abs() < 1e-5);
        assert_eq!(Claim::pure(1.0).epsilon(1e-5), 1.0);
        assert_eq!(Claim::ApproxDp { epsilon: 1.0, delta: 0.1 }.epsilon(1e-5), f64::INFINITY);
    }

    #[test]
    fn impossible_claims_are_refused() {
        for claim in [
            Claim::gaussian(f64::NAN),
            Claim::gaussian(-1.0),
            Claim::ApproxDp { epsilon: 1.0, delta: 1.0 },
            Claim::ApproxDp { epsilon: f64::NAN, delta: 0.0 },
            Claim::Profile { points: vec![] },
        ] {
            assert!(claim.check().is_err());
        }
        assert!(Claim::pure(0.0).check().is_ok());
    }

    proptest! {
        #[test]
        fn a_profile_of_a_gaussian_never_allows_less_than_the_gaussian(mu in 0.1..4.0f64, fpr in 1e-9..1.0f64) {
            let points = (0..200).map(|i| {
                let epsilon = 0.1 * f64::from(i);
                (epsilon, dpopt_privacy::special::gaussian_ln_delta_upper(epsilon, mu).exp())
            }).collect();
            let profile = Claim::Profile { points };
            prop_assert!(profile.largest_tpr(fpr) >= Claim::gaussian(mu).largest_tpr(fpr) - 1e-11);
        }

        #[test]
        fn quantile_inverts(p in 1e-300..1.0f64) {
            let x = normal_quantile(p);
            // of a p that near 1 the tail errs by less than 1e-19, which rounds away: Φ gives p itself back
            prop_assert!((normal_cdf(x) - p).abs() <= 1e-11 * p.min(1.0 - p).max(1e-16 / 1e-11));
        }
    }
}
