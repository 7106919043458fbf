//! The ellipsoid of a step: which diagonal C, from public moments, released moments, or none (Asi, Duchi, Fallah, Javidbakht, Talwar 2021, Algorithms 1 and 2).

use super::moments::MomentRelease;
use dpopt_optimize::plan::{NotApplicable, Problem};
use serde::Serialize;

/// Which moments the plan settled on.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "from", rename_all = "kebab-case")]
pub enum MomentSchedule {
    /// No moments: the ellipsoid is a ball.
    None {
        /// Why, where another source was asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        because: Option<String>,
    },
    /// Public, as scales of the features.
    Public {
        /// √C_j: scale of feature j, which its gradient is multiplied with before the clip.
        #[serde(skip)]
        scales: Vec<f64>,
        /// Largest over smallest √C_j.
        spread: f64,
    },
    /// Released before the first step.
    Private {
        /// How the moments are released.
        release: MomentRelease,
        /// Share of μ² that it may spend.
        share: f64,
    },
    /// From the gradients of earlier steps, updated when their number has doubled.
    Running,
}

/// √C may spread over this factor: C itself over 10⁶ (f32 features keep their digits, and clipping its meaning).
const MAX_SPREAD: f64 = 1e3;

/// s_j = √C_j ∝ σ_j^−`exponent` from σ², floored so that no two differ by more than [`MAX_SPREAD`], and scaled so that the
/// features keep their mean squared norm: then a clip norm means for ‖·‖_C what it means for ‖·‖₂.
pub(crate) fn scales(squares: &[f64], exponent: f64) -> Vec<f64> {
    let squares: Vec<f64> = squares.iter().map(|v| if v.is_finite() { v.max(0.0) } else { 0.0 }).collect();
    let largest = squares.iter().copied().fold(0.0, f64::max);
    if largest <= 0.0 || exponent == 0.0 {
        return vec![1.0; squares.len()];
    }
    let least = (-2.0 / exponent * MAX_SPREAD.ln()).exp();
    let raw: Vec<f64> = squares.iter().map(|v| (v / largest).max(least).powf(-0.5 * exponent)).collect();
    let before: f64 = squares.iter().map(|v| v / largest).sum();
    let after: f64 = squares.iter().zip(&raw).map(|(v, s)| v / largest * s * s).sum();
    let unit = (before / after).sqrt();
    raw.into_iter().map(|s| s * unit).collect()
}

/// Refuses public moments that are not one finite number ≥ 0 per feature.
pub(super) fn public(spreads: &[f64], exponent: f64, problem: &Problem) -> Result<MomentSchedule, NotApplicable> {
    if spreads.len() != problem.features {
        return Err(NotApplicable::Option(format!(
            "{} public moments were given for {} encoded features; give one for each, in the order of the model's weights",
            spreads.len(),
            problem.features
        ).into()));
    }
    if let Some(at) = spreads.iter().position(|s| !(s.is_finite() && *s >= 0.0)) {
        return Err(NotApplicable::Option(
            format!("public moment {} is not a finite number of at least 0", at + 1).into(),
        ));
    }
    let squares: Vec<f64> = spreads.iter().map(|s| s * s).collect();
    let scales = scales(&squares, exponent);
    let (low, high) = scales.iter().fold((f64::INFINITY, 0.0f64), |(low, high), s| (low.min(*s), high.max(*s)));
    Ok(MomentSchedule::Public { scales, spread: high / low })
}

/// The current units of the weights, one scale per weight block of `features`.
pub(crate) struct Units {
    /// √C_j; empty for a ball.
    pub(crate) scales: Vec<f64>,
    /// The smallest so far, where the noise was largest.
    least: Vec<f64>,
    running: Option<RunningMoments>,
}

impl Units {
    pub(super) fn new(scales: Vec<f64>) -> Self {
        Self { least: scales.clone(), scales, running: None }
    }

    /// A ball to start with; `exponent` as in [`scales`].
    pub(super) fn running(features: usize, exponent: f64) -> Self {
        let running = RunningMoments { exponent, squares: vec![0.0; features], steps: 0, next: 16 };
        Self { scales: vec![1.0; features], least: vec![1.0; features], running: Some(running) }
    }

    /// Weights as the records in these units see them.
    pub(super) fn weights(&self, weights: &[f64]) -> Vec<f64> {
        self.divided(weights)
    }

    /// Back from a gradient in these units; `noise_std` is that of its entries.
    pub(crate) fn gradient(&mut self, gradient: Vec<f64>, noise_std: f64) -> Vec<f64> {
        let plain = self.divided(&gradient);
        if let Some(running) = &mut self.running {
            running.add(&plain, &self.scales, noise_std);
            if running.steps == running.next {
                running.next *= 2;
                self.scales = running.scales();
                self.least.iter_mut().zip(&self.scales).for_each(|(l, s)| *l = l.min(*s));
            }
        }
        plain
    }

    /// `factors` of unit noise in these units, as factors of plain gradients.
    pub(super) fn noise(&self, factors: impl Iterator<Item = f64>) -> Vec<f64> {
        if self.least.is_empty() {
            factors.collect()
        } else {
            factors.zip(self.least.iter().cycle()).map(|(f, s)| f / s).collect()
        }
    }

    fn divided(&self, vector: &[f64]) -> Vec<f64> {
        if self.scales.is_empty() {
            return vector.to_vec();
        }
        vector.iter().zip(self.scales.iter().cycle()).map(|(v, s)| v / s).collect()
    }
}

/// Σ (ĝ_j² − noise variance): unbiased for the sum of squared batch gradients, and post-processing.
struct RunningMoments {
    exponent: f64,
    squares: Vec<f64>,
    steps: u64,
    next: u64,
}

impl RunningMoments {
    fn add(&mut self, gradient: &[f64], scales: &[f64], noise_std: f64) {
        let features = self.squares.len();
        for (at, g) in gradient.iter().enumerate() {
            self.squares[at % features] += g * g - (noise_std / scales[at % features]).powi(2);
        }
        self.steps += 1;
    }

    /// Estimates are floored at a hundredth of the largest: below, noise decides.
    fn scales(&self) -> Vec<f64> {
        let largest = self.squares.iter().copied().fold(0.0, f64::max);
        let floored: Vec<f64> = self.squares.iter().map(|v| v.max(0.01 * largest)).collect();
        scales(&floored, self.exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// √(ΣC_jσ_j²) and the noise's share of a bound: √ΣC_j^−1 for one rate, ΣC_j^−1/2 for one rate per weight.
    fn objectives(spreads: &[f64], scales: &[f64]) -> [f64; 2] {
        let size = spreads.iter().zip(scales).map(|(v, s)| (v * s).powi(2)).sum::<f64>().sqrt();
        [
            size * scales.iter().map(|s| s.powi(-2)).sum::<f64>().sqrt(),
            size * scales.iter().map(|s| 1.0 / s).sum::<f64>(),
        ]
    }

    proptest! {
        /// C = σ^−1 and σ^−4/3 are the minimisers: no perturbation does better.
        #[test]
        fn the_exponents_are_the_best_ones(
            entries in prop::collection::vec((0.01..1.0f64, -0.5..0.5f64), 1..20),
        ) {
            let spreads: Vec<f64> = entries.iter().map(|e| e.0).collect();
            let squares: Vec<f64> = spreads.iter().map(|s| s * s).collect();
            for (which, exponent) in [0.5, 2.0 / 3.0].into_iter().enumerate() {
                let best = scales(&squares, exponent);
                let other: Vec<f64> = best.iter().zip(&entries).map(|(s, e)| s * e.1.exp()).collect();
                prop_assert!(objectives(&spreads, &best)[which] <= objectives(&spreads, &other)[which] * (1.0 + 1e-12));
                let kept: f64 = best.iter().zip(&squares).map(|(s, v)| s * s * v).sum();
                prop_assert!((kept / squares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn the_source_s_profile_has_its_published_numbers() {
        let spreads: Vec<f64> = (1..=100).map(|j| f64::from(j).powf(-1.5)).collect();
        let squares: Vec<f64> = spreads.iter().map(|s| s * s).collect();
        let c: Vec<f64> = spreads.iter().map(|s| s.powf(-4.0 / 3.0)).collect();
        let size: f64 = c.iter().zip(&squares).map(|(c, v)| c * v).sum();
        assert!((size - 5.187).abs() < 1e-3, "{size}");
        let diagonal = objectives(&spreads, &scales(&squares, 2.0 / 3.0))[1];
        let isotropic = objectives(&spreads, &[1.0; 100])[1];
        assert!((diagonal - 11.8147).abs() < 1e-3 && (isotropic - 109.636).abs() < 1e-2, "{diagonal} {isotropic}");
        // one rate: the best of √ΣC⁻¹·√ΣCσ² is Σσ
        let scalar = objectives(&spreads, &scales(&squares, 0.5))[0];
        assert!((scalar - 2.41287).abs() < 1e-4, "{scalar}");
        assert!((10.0 * scalar - 24.1287).abs() < 1e-3);
    }

    #[test]
    fn odd_moments_keep_positive_finite_scales() {
        for squares in
            [vec![0.0, 0.0], vec![1e300, 1e-300, 0.0], vec![f64::NAN, 1.0], vec![f64::INFINITY, 1.0], vec![-1.0, 2.0]]
        {
            for exponent in [0.0, 0.5, 2.0 / 3.0] {
                let all = scales(&squares, exponent);
                let (low, high) = all.iter().fold((f64::INFINITY, 0.0f64), |(l, h), s| (l.min(*s), h.max(*s)));
                assert!(
                    low > 0.0 && high.is_finite() && high / low <= MAX_SPREAD * (1.0 + 1e-9),
                    "{squares:?} {all:?}"
                );
            }
        }
    }

    #[test]
    fn running_moments_follow_the_gradients_and_forget_the_noise() {
        let mut units = Units::running(2, 2.0 / 3.0);
        for _ in 0..16 {
            // noise variance 1 in both, signal 3² in the first only
            let back = units.gradient(vec![10f64.sqrt(), 1.0], 1.0);
            assert_eq!(back.len(), 2);
        }
        // 9 against the floor .09: √C ratio (√.01)^(−2/3)
        let ratio = units.scales[1] / units.scales[0];
        assert!((ratio - 0.1f64.powf(-2.0 / 3.0)).abs() < 1e-9, "{ratio}");
        let weights = units.weights(&[1.0, 1.0]);
        assert!((weights[0] * units.scales[0] - 1.0).abs() < 1e-15);
    }
}
