//! Restricted Lipschitz continuity: when dimension does not hurt (Liu 2024, chapter 11).
//!
//! A function has coefficients G_0 ≥ G_1 ≥ … ≥ G_d = 0 if for every k one projector of rank k, the same for all points,
//! leaves at most G_k of every gradient. Plain private descent pays for √k directions and a term that shrinks with the G_j
//! beyond them, for the best k: isotropic noise adapts by itself. The coefficients shape the *utility* bound and the
//! parameters; privacy rests on the clip alone. They must therefore be public: see [`measure`].

mod bound;
mod descent;
pub mod measure;
#[cfg(test)]
mod tests;

pub use bound::{
    Bound, FormulaParameters, GradientNoise, Parameters, bound, formula_parameters, minimise_bound, smooth_bound,
};
pub use descent::{RegularizedDescent, RegularizedSchedule};

use dpopt_optimize::power_law::{Slope, log_log_slope};
use serde::{Deserialize, Serialize};

/// Restricted-Lipschitz coefficients of an *average* loss, as public knowledge.
///
/// ```
/// use dpopt_linear::restricted_lipschitz::Profile;
/// let profile = Profile::Decay { exponent: 1.0 };
/// assert_eq!(profile.coefficient(3, 100, 2.0), 0.5); // G_0·(k + 1)^-c
/// assert_eq!(profile.coefficient(100, 100, 2.0), 0.0); // G_d
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Profile {
    /// Nothing is known: G_k = G_0 for k < d.
    Flat,
    /// G_k = G_0·(k + 1)^−c.
    Decay {
        /// c ≥ 0; the rate does not depend on d if c > 1/2.
        exponent: f64,
    },
    /// G_k = G_0 for k < r and 0 from there on: gradients lie in a fixed subspace of dimension r.
    Rank {
        /// r ≥ 1: dimension of the subspace.
        rank: u64,
    },
    /// G_k/G_0 for k = 0, 1, …, not increasing; 0 beyond the last.
    Shares(Vec<f64>),
}

impl Profile {
    /// G_k for dimension `dimension` and G_0 = `g`.
    pub fn coefficient(&self, k: usize, dimension: usize, g: f64) -> f64 {
        if k >= dimension {
            return 0.0;
        }
        match self {
            Profile::Flat => g,
            Profile::Decay { exponent } => g * ((k + 1) as f64).powf(-exponent),
            Profile::Rank { rank } => {
                if (k as u64) < *rank {
                    g
                } else {
                    0.0
                }
            }
            Profile::Shares(shares) => g * shares.get(k).copied().unwrap_or(0.0),
        }
    }

    /// Λ(k) = √(Σ_{s=1..S} s²·2^s·G²_{2^{s−1}k}), S = ⌊log₂(d/k)⌋ + 1: what the directions beyond the first k cost.
    pub fn tail(&self, k: usize, dimension: usize, g: f64) -> f64 {
        if k == 0 || k > dimension {
            return if k == 0 { f64::INFINITY } else { 0.0 };
        }
        let levels = (dimension / k).ilog2() + 1;
        let sum: f64 = (1..=levels)
            .map(|s| {
                let coefficient = self.coefficient(k << (s - 1), dimension, g);
                f64::from(s * s) * f64::from(s).exp2() * coefficient * coefficient
            })
            .sum();
        sum.sqrt()
    }

    /// Why this is not a profile, if it is none.
    pub fn problem(&self) -> Option<String> {
        match self {
            Profile::Flat => None,
            Profile::Decay { exponent } if *exponent >= 0.0 && exponent.is_finite() => None,
            Profile::Decay { exponent } => Some(format!("the decay is {exponent}; give a number of at least 0")),
            Profile::Rank { rank: 0 } => Some("the rank is 0; give at least 1".into()),
            Profile::Rank { .. } => None,
            Profile::Shares(shares) => {
                let falling = shares.windows(2).all(|w| w[1] <= w[0]);
                let fits = shares.iter().all(|s| (0.0..=1.0).contains(s)) && falling && !shares.is_empty();
                (!fits).then(|| {
                    "the shares of a profile are out of order; give numbers from 1 down to 0 that do not \
                                 increase"
                        .into()
                })
            }
        }
    }
}

impl std::fmt::Display for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Profile::Flat => write!(f, "no decay known"),
            Profile::Decay { exponent } => write!(f, "gradients decay like k^-{exponent}"),
            Profile::Rank { rank } => write!(f, "gradients of rank {rank}"),
            Profile::Shares(shares) => write!(f, "{} stated coefficients", shares.len()),
        }
    }
}

/// How fast coefficients fall.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decay {
    /// c of the least-squares line log G_k = a − c·log(k + 1) over the positive coefficients, with its standard error.
    pub line: Slope,
    /// Whether c > 1/2: otherwise the theorem gives no rate free of the dimension.
    pub dimension_free: bool,
}

impl Decay {
    /// c: exponent of the decay G_k ∝ (k + 1)^−c.
    pub fn exponent(&self) -> f64 {
        -self.line.slope
    }
}

/// Fits G_k ∝ (k + 1)^−c to coefficients G_0, G_1, …; `None` with fewer than two positive ones.
pub fn fit_decay(coefficients: &[f64]) -> Option<Decay> {
    let line = log_log_slope(coefficients.iter().enumerate().map(|(k, g)| ((k + 1) as f64, *g)))?;
    Some(Decay { line, dimension_free: line.slope < -0.5 })
}
