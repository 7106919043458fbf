//! Per-record losses of linear models and the facts that privacy and planning rest on.
//!
//! A model has weights θ (outputs × features) and scores s = θx; a loss maps (scores, target) to a number. The
//! gradient in θ is `slope ⊗ x`, so its l2 norm is exactly ‖slope‖·‖x‖: clipping needs no materialised gradient.

pub mod embedding;

use dpopt_privacy::event::GlmLink;
use serde::{Deserialize, Serialize};

/// A loss of one record.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Loss {
    /// ln(1 + exp(shift - y·s)), y in {-1, 1}. `shift` 0 is the logistic loss; a positive shift moves its elbow out
    /// like a hinge while keeping the free determinant of objective perturbation (docs/proofs/objective-perturbation.md).
    Logistic {
        /// m0 ≥ 0: shift of the margin.
        shift: f64,
    },
    /// ln Σ exp(s_k) - s_y, y in 0..classes.
    Softmax {
        /// Number of classes, at least 2.
        classes: u32,
    },
    /// (s - y)²/2. Its slope is unbounded: methods clip it, which makes it Huber's loss.
    Squared,
    /// Absolute error |s - y| of a score s.
    Absolute,
    /// (s - y)²/2 within `threshold`, linear beyond.
    Huber {
        /// Where the loss becomes linear, > 0; also its slope bound.
        threshold: f64,
    },
    /// max(0, 1 - y·s), y in {-1, 1}.
    Hinge,
    /// The hinge with its corner replaced by a parabola over margins in [1 - width, 1 + width].
    SmoothedHinge {
        /// Half width > 0.
        width: f64,
    },
    /// 1/(1 + exp(y·s)), y in {-1, 1}: smooth and bounded, *not convex*. For methods that need no convexity.
    Sigmoid,
    /// Half the Poisson deviance of a count, in units of a usual count m: with t = count/m and the mean μ(s) = min(eˢ, `top`),
    /// μ(s) − t·s − (t − t·ln t) below s = ln `top`, and the same continued along a straight line above it. The target is the
    /// count, from 0 to `top`·m, scaled to [-1, 1], as every number is: −1 for none, 1 for `top`·m or more.
    Poisson {
        /// The largest count that is told from larger ones, over the usual one, > 1; usually [`Loss::USUAL_TOP`].
        top: f64,
    },
    /// The pinball loss of r = s − y, (1 − `level`)·r above 0 and −`level`·r below, with its corner replaced by a parabola over
    /// [−`width`, `width`]: |r|/2 becomes r²/(4·`width`) + `width`/4, which is its mean over shifts of r that are uniform there. Least where a share
    /// `level` of targets lies below the score (Koenker and Bassett 1978; smoothed: Fernandes, Guerre and Horta 2021).
    Quantile {
        /// Share of targets that lie below, between 0 and 1.
        level: f64,
        /// Half width > 0 of the parabola, targets being scaled to [-1, 1]; usually [`Loss::USUAL_WIDTH`].
        width: f64,
    },
}

/// What holds for every score and target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossFacts {
    /// Upper bound on the l2 norm of the slope in the scores; `None` if there is none that methods should rest on: the slope is clipped.
    pub lipschitz: Option<f64>,
    /// Upper bound on the curvature (largest eigenvalue of the Hessian in the scores); `None` if it has jumps.
    pub smoothness: Option<f64>,
    /// Whether the loss is convex in the scores.
    pub convex: bool,
    /// What objective perturbation may rely on, if anything.
    pub link: Option<GlmLink>,
}

impl Loss {
    /// The largest count over the usual one: of most counts the largest that occurs is four to ten times their mean.
    pub const USUAL_TOP: f64 = 8.0;
    /// Half width of a quantile's parabola, in halves of the target's range: a tenth of what residuals usually vary by.
    pub const USUAL_WIDTH: f64 = 0.02;

    /// Number of scores per record: 1, or the number of classes.
    #[inline]
    pub fn outputs(&self) -> usize {
        match self {
            Self::Softmax { classes } => *classes as usize,
            _ => 1,
        }
    }

    /// Lipschitz and smoothness constants in the scores.
    pub fn facts(&self) -> LossFacts {
        let (lipschitz, smoothness, link) = match *self {
            Self::Logistic { .. } => (Some(1.0), Some(0.25), Some(GlmLink::Monotone)),
            Self::Softmax { classes } => (Some(2f64.sqrt()), Some(0.5), Some(GlmLink::Softmax { classes })),
            Self::Squared => (None, Some(1.0), None),
            Self::Absolute | Self::Hinge => (Some(1.0), None, None),
            Self::Huber { threshold } => {
                (Some(threshold), Some(1.0), Some(GlmLink::Smooth { smoothness: 1.0 / threshold }))
            }
            Self::SmoothedHinge { width } => {
                let smoothness = 0.5 / width;
                (Some(1.0), Some(smoothness), Some(GlmLink::Smooth { smoothness }))
            }
            // σ' ≤ 1/4, |σ''| ≤ 1/(6√3)
            Self::Sigmoid => (Some(0.25), Some(1.0 / (6.0 * 3f64.sqrt())), None),
            // slopes stay within ±top, ten times what most records have: a clip follows them, and nothing is promised of minimisers
            Self::Poisson { top } => (None, Some(top), None),
            Self::Quantile { level, width } => {
                let (slope, smoothness) = (level.max(1.0 - level), 0.5 / width);
                (Some(slope), Some(smoothness), Some(GlmLink::Smooth { smoothness: smoothness / slope }))
            }
        };
        LossFacts { lipschitz, smoothness, convex: *self != Self::Sigmoid, link }
    }

    /// Upper bound on the norm of order `s`, from 2 to ∞, of the slope in the scores; `None` if there is none. Softmax has p − e_y: an
    /// entry of size 1 − p_y ≤ 1, and others whose sum that is.
    ///
    /// ```
    /// use dpopt_objective::loss::Loss;
    /// assert_eq!(Loss::Softmax { classes: 3 }.slope_norm(f64::INFINITY), Some(1.0));
    /// assert_eq!(Loss::Hinge.slope_norm(3.0), Some(1.0));
    /// ```
    pub fn slope_norm(&self, s: f64) -> Option<f64> {
        let lipschitz = self.facts().lipschitz;
        match self {
            Self::Softmax { .. } if s == f64::INFINITY => Some(1.0),
            Self::Softmax { .. } => lipschitz.map(|l| l.min(2f64.powf(1.0 / s) * (1.0 + 4.0 * f64::EPSILON))),
            _ => lipschitz,
        }
    }

    /// The loss of a record whose scores are all 0, at most: what a model that says nothing has.
    ///
    /// ```
    /// use dpopt_objective::loss::Loss;
    /// assert!((Loss::Softmax { classes: 3 }.at_zero() - 3f64.ln()).abs() < 1e-15);
    /// assert_eq!(Loss::Squared.at_zero(), 0.5);
    /// ```
    pub fn at_zero(&self) -> f64 {
        match self {
            // of no count at all; of one that is many times the usual one it is more
            Self::Poisson { .. } => 1.0,
            // of a target at the end of its range that costs more
            Self::Quantile { level, .. } => self.scalar_value(0.0, if *level < 0.5 { -1.0 } else { 1.0 }),
            _ => self.value(&vec![0.0; self.outputs()], 1.0),
        }
    }

    /// What a score says of a number, scaled to [-1, 1] as targets are: the score itself, or of counts their mean.
    ///
    /// ```
    /// use dpopt_objective::loss::Loss;
    /// assert_eq!(Loss::Squared.prediction(1.7), 1.0);
    /// // a mean of the usual count, of which the largest one is four times as large
    /// assert_eq!(Loss::Poisson { top: 4.0 }.prediction(0.0), -0.5);
    /// ```
    #[inline]
    pub fn prediction(&self, score: f64) -> f64 {
        match *self {
            Self::Poisson { top } => (2.0 * expected_count(score, top) / top - 1.0).clamp(-1.0, 1.0),
            _ => score.clamp(-1.0, 1.0),
        }
    }

    /// The target that the facts above assume: ±1, a class index, or a number within ±`bound`. `None` if `target` is not
    /// usable: such a record counts as a zero loss, never as an error, which would be an output.
    ///
    /// ```
    /// use dpopt_objective::loss::Loss;
    /// assert_eq!(Loss::Hinge.usable_target(7.0, 1.0), Some(1.0));
    /// assert_eq!(Loss::Softmax { classes: 3 }.usable_target(3.0, 1.0), None);
    /// assert_eq!(Loss::Squared.usable_target(-2.5, 1.0), Some(-1.0));
    /// assert_eq!(Loss::Absolute.usable_target(f64::NAN, 1.0), None);
    /// ```
    #[inline]
    pub fn usable_target(&self, target: f64, bound: f64) -> Option<f64> {
        if target.is_nan() {
            return None;
        }
        match *self {
            Self::Logistic { .. } | Self::Hinge | Self::SmoothedHinge { .. } | Self::Sigmoid => {
                Some(if target > 0.0 { 1.0 } else { -1.0 })
            }
            Self::Softmax { classes } => (target >= 0.0 && target < f64::from(classes)).then_some(target.floor()),
            Self::Squared | Self::Absolute | Self::Huber { .. } | Self::Quantile { .. } => {
                Some(target.clamp(-bound, bound))
            }
            Self::Poisson { .. } => Some(target.clamp(-1.0, 1.0)),
        }
    }

    /// The loss at `scores` of a record with this target.
    #[inline]
    pub fn value(&self, scores: &[f64], target: f64) -> f64 {
        match *self {
            Self::Softmax { .. } => log_sum_exp(scores) - scores[target as usize],
            _ => self.scalar_value(scores[0], target),
        }
    }

    /// Writes the derivative in each score to `slope` (same length as `scores`).
    #[inline]
    pub fn slope(&self, scores: &[f64], target: f64, slope: &mut [f64]) {
        match *self {
            Self::Softmax { .. } => {
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let mut sum = 0.0;
                for (g, s) in slope.iter_mut().zip(scores) {
                    *g = (s - top).exp();
                    sum += *g;
                }
                // the largest is 1, so that the sum is at least that
                slope.iter_mut().for_each(|g| *g /= sum);
                slope[target as usize] -= 1.0;
            }
            _ => slope[0] = self.scalar_slope(scores[0], target),
        }
    }

    /// Loss of a single-score model.
    #[inline]
    pub fn scalar_value(&self, score: f64, target: f64) -> f64 {
        match *self {
            Self::Logistic { shift } => softplus(shift - target * score),
            Self::Softmax { .. } => f64::NAN,
            Self::Squared => 0.5 * (score - target).powi(2),
            Self::Absolute => (score - target).abs(),
            Self::Huber { threshold } => {
                let r = (score - target).abs();
                if r <= threshold { 0.5 * r * r } else { threshold * (r - 0.5 * threshold) }
            }
            Self::Poisson { top } => {
                let t = count_of(target, top);
                let above = (score - top.ln()).max(0.0);
                let least = if t > 0.0 { t - t * t.ln() } else { 0.0 };
                expected_count(score, top) + top * above - t * score - least
            }
            Self::Quantile { level, width } => {
                let r = score - target;
                let half = if r.abs() < width { 0.25 * (r * r / width + width) } else { 0.5 * r.abs() };
                half + (0.5 - level) * r
            }
            Self::Hinge => (1.0 - target * score).max(0.0),
            Self::Sigmoid => sigmoid(-target * score),
            Self::SmoothedHinge { width } => {
                let gap = 1.0 - target * score;
                if gap <= -width {
                    0.0
                } else if gap >= width {
                    gap
                } else {
                    (gap + width).powi(2) / (4.0 * width)
                }
            }
        }
    }

    /// Derivative of [`scalar_value`](Self::scalar_value) in the score (a subgradient at corners).
    #[inline]
    pub fn scalar_slope(&self, score: f64, target: f64) -> f64 {
        match *self {
            Self::Logistic { shift } => -target * sigmoid(shift - target * score),
            Self::Softmax { .. } => f64::NAN,
            Self::Squared => score - target,
            Self::Absolute => {
                if score == target {
                    0.0
                } else {
                    (score - target).signum()
                }
            }
            Self::Huber { threshold } => (score - target).clamp(-threshold, threshold),
            Self::Poisson { top } => expected_count(score, top) - count_of(target, top),
            Self::Quantile { level, width } => {
                let slope = 0.5 * ((score - target) / width).clamp(-1.0, 1.0) + (0.5 - level);
                // a sum that is rounded may lie beyond the bound by its last digit
                slope.clamp(-level, 1.0 - level)
            }
            Self::Hinge => {
                if target * score < 1.0 {
                    -target
                } else {
                    0.0
                }
            }
            Self::Sigmoid => {
                let p = sigmoid(-target * score);
                -target * p * (1.0 - p)
            }
            Self::SmoothedHinge { width } => {
                let gap = 1.0 - target * score;
                -target * ((gap + width) / (2.0 * width)).clamp(0.0, 1.0)
            }
        }
    }

    /// Second derivative of [`scalar_value`](Self::scalar_value) in the score (0 at jumps of the slope).
    #[inline]
    pub fn scalar_curvature(&self, score: f64, target: f64) -> f64 {
        match *self {
            Self::Logistic { shift } => {
                let c = sigmoid(shift - target * score);
                c * (1.0 - c)
            }
            Self::Softmax { .. } => f64::NAN,
            Self::Squared => 1.0,
            Self::Absolute | Self::Hinge => 0.0,
            // negative where the loss is flat above: it is not convex
            Self::Sigmoid => {
                let p = sigmoid(-target * score);
                p * (1.0 - p) * (1.0 - 2.0 * p)
            }
            Self::Huber { threshold } => f64::from((score - target).abs() <= threshold),
            Self::Poisson { top } => {
                if score < top.ln() {
                    expected_count(score, top)
                } else {
                    0.0
                }
            }
            Self::Quantile { width, .. } => {
                if (score - target).abs() < width {
                    0.5 / width
                } else {
                    0.0
                }
            }
            Self::SmoothedHinge { width } => {
                if (1.0 - target * score).abs() < width {
                    0.5 / width
                } else {
                    0.0
                }
            }
        }
    }
}

/// The mean of a count at a score, in usual counts: e^s, and no more than `top`.
#[inline]
pub fn expected_count(score: f64, top: f64) -> f64 {
    score.exp().min(top)
}

/// A count in usual counts, of a target in [-1, 1].
#[inline]
pub fn count_of(target: f64, top: f64) -> f64 {
    0.5 * top * (target + 1.0)
}

/// 1/(1 + e^{-x}) without overflow.
#[inline]
pub fn sigmoid(x: f64) -> f64 {
    if x >= 0.0 {
        1.0 / (1.0 + (-x).exp())
    } else {
        let e = x.exp();
        e / (1.0 + e)
    }
}

/// ln(1 + e^x) without overflow.
#[inline]
pub fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

#[inline]
fn log_sum_exp(scores: &[f64]) -> f64 {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + scores.iter().map(|s| (s - top).exp()).sum::<f64>().ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCALAR: [Loss; 11] = [
        Loss::Quantile { level: 0.9, width: 0.4 },
        Loss::Quantile { level: 0.25, width: Loss::USUAL_WIDTH },
        Loss::Poisson { top: 3.0 },
        Loss::Sigmoid,
        Loss::Logistic { shift: 0.0 },
        Loss::Logistic { shift: 2.0 },
        Loss::Squared,
        Loss::Huber { threshold: 0.7 },
        Loss::SmoothedHinge { width: 0.5 },
        Loss::Absolute,
        Loss::Hinge,
    ];

    #[test]
    fn slopes_and_curvatures_are_derivatives_within_their_bounds() {
        let h = 1e-6;
        for loss in SCALAR {
            let facts = loss.facts();
            for k in -60..60 {
                let (s, y) = (0.0837 * f64::from(k), if k % 2 == 0 { 1.0 } else { -1.0 });
                let slope = loss.scalar_slope(s, y);
                let numeric = (loss.scalar_value(s + h, y) - loss.scalar_value(s - h, y)) / (2.0 * h);
                assert!((slope - numeric).abs() < 1e-5, "{loss:?} at {s}: {slope} {numeric}");
                assert!(facts.lipschitz.is_none_or(|l| slope.abs() <= l));
                let curvature = loss.scalar_curvature(s, y);
                assert!(!facts.convex || curvature >= 0.0);
                assert!(facts.smoothness.is_none_or(|b| curvature.abs() <= b));
            }
        }
    }

    /// A record of the Poisson loss: half the deviance where the mean is below the largest count, least (0) where it is the count, a line beyond.
    #[test]
    fn poisson_loss_is_half_the_deviance_of_counts_in_their_unit() {
        let (top, unit) = (8.0, 2.5);
        let loss = Loss::Poisson { top };
        for count in [0.0, 1.0, 3.0, 20.0] {
            let target = loss.usable_target(2.0 * count / (top * unit) - 1.0, f64::MAX).unwrap();
            for mean in [0.1f64, 1.0, 2.5, 15.0, 19.9] {
                let log = if count > 0.0 { count * (count / mean).ln() } else { 0.0 };
                let half_deviance = (log - (count - mean)) / unit;
                let score = (mean / unit).ln();
                assert!((loss.scalar_value(score, target) - half_deviance).abs() < 1e-12, "{count} {mean}");
                assert!((loss.scalar_slope(score, target) - (mean - count) / unit).abs() < 1e-12);
                assert!((loss.prediction(score) - (2.0 * mean / (top * unit) - 1.0)).abs() < 1e-12);
            }
            // beyond the largest mean slopes are within ±top and do not change
            for far in [top.ln(), 3.0, 50.0, 1e300] {
                let slope = loss.scalar_slope(far, target);
                // e to the power of a logarithm is rounded
                assert!((slope - (top - count / unit)).abs() < 1e-12 && (loss.prediction(far) - 1.0).abs() < 1e-12);
                assert!((-top..=top).contains(&slope));
            }
            for below in [-1.0, -800.0, -1e300] {
                assert!((-top..=top).contains(&loss.scalar_slope(below, target)));
            }
        }
        assert_eq!(loss.usable_target(f64::NAN, f64::MAX), None);
        assert_eq!(loss.usable_target(1e300, f64::MAX), Some(1.0));
        assert_eq!(loss.usable_target(f64::NEG_INFINITY, f64::MAX), Some(-1.0));
    }

    /// The pinball loss where a residual is larger than the width, at most a quarter of the width above it within; never negative.
    #[test]
    fn quantile_loss_is_the_pinball_loss_but_for_its_corner() {
        let width = 0.125;
        for level in [0.02, 0.1, 0.5, 0.9] {
            let loss = Loss::Quantile { level, width };
            let facts = loss.facts();
            assert_eq!((facts.lipschitz, facts.smoothness), (Some(f64::max(level, 1.0 - level)), Some(4.0)));
            for k in -40..=40 {
                let (score, target) = (f64::from(k) / 32.0, 0.25);
                let r = target - score;
                let pinball = f64::max(level * r, (level - 1.0) * r);
                let over = loss.scalar_value(score, target) - pinball;
                assert!(if r.abs() >= width { over.abs() < 1e-15 } else { (0.0..=width / 4.0).contains(&over) }, "{r}");
                let slope = loss.scalar_slope(score, target);
                assert!((-level..=1.0 - level).contains(&slope));
                if r.abs() >= width {
                    assert!((slope - if r > 0.0 { -level } else { 1.0 - level }).abs() < 1e-15);
                }
            }
            for target in [-1.0, 0.0, 1.0] {
                assert!(loss.scalar_value(0.0, target) <= loss.at_zero());
            }
        }
        let half = Loss::Quantile { level: 0.5, width };
        assert_eq!(half.scalar_value(0.75, 0.25), 0.5 * Loss::Absolute.scalar_value(0.75, 0.25));
    }

    /// Of targets spread evenly the slopes add up to 0 where the score has a share `level` of them below it.
    #[test]
    fn quantile_slopes_balance_at_the_level() {
        let loss = Loss::Quantile { level: 0.3, width: Loss::USUAL_WIDTH };
        let sum = |score: f64| (0..2000).map(|i| loss.scalar_slope(score, f64::from(i) / 1000.0 - 0.9995)).sum::<f64>();
        assert!(sum(-0.4).abs() < 1e-9, "{}", sum(-0.4));
        assert!(sum(-0.41) < -9.0 && sum(-0.39) > 9.0);
    }

    #[test]
    fn softmax_slope_is_the_derivative_and_stays_below_root_two() {
        let loss = Loss::Softmax { classes: 4 };
        let scores = [0.3, -2.0, 5.0, 1.1];
        let mut slope = [0.0; 4];
        for target in 0..4 {
            loss.slope(&scores, f64::from(target), &mut slope);
            for k in 0..4 {
                let (mut up, mut down) = (scores, scores);
                up[k] += 1e-6;
                down[k] -= 1e-6;
                let numeric = (loss.value(&up, f64::from(target)) - loss.value(&down, f64::from(target))) / 2e-6;
                assert!((slope[k] - numeric).abs() < 1e-8);
            }
            assert!(slope.iter().map(|g| g * g).sum::<f64>().sqrt() <= 2f64.sqrt());
        }
    }

    #[test]
    fn softmax_slopes_stay_below_their_bound_in_every_norm_and_reach_it() {
        let mut random = crate::synthetic::Lcg::new(3);
        for classes in [2usize, 3, 10] {
            let loss = Loss::Softmax { classes: classes as u32 };
            for s in [2.0, 2.1, 3.0, 10.0, f64::INFINITY] {
                let bound = loss.slope_norm(s).unwrap();
                let size = |slope: &[f64]| match s == f64::INFINITY {
                    true => slope.iter().fold(0.0f64, |most, x| most.max(x.abs())),
                    false => slope.iter().map(|x| x.abs().powf(s)).sum::<f64>().powf(1.0 / s),
                };
                let mut slope = vec![0.0; classes];
                for _ in 0..200 {
                    let scores: Vec<f64> = (0..classes).map(|_| 5.0 * random.normal()).collect();
                    loss.slope(&scores, 0.0, &mut slope);
                    assert!(size(&slope) <= bound, "{s}");
                }
                // sure of a class that is wrong
                let scores: Vec<f64> = (0..classes).map(|k| if k == 1 { 50.0 } else { 0.0 }).collect();
                loss.slope(&scores, 0.0, &mut slope);
                assert!((size(&slope) / bound - 1.0).abs() < 1e-12, "{s}");
            }
        }
    }

    #[test]
    fn extreme_scores_stay_finite() {
        for loss in SCALAR {
            for s in [-1e300, -800.0, 800.0, 1e300] {
                assert!(loss.scalar_slope(s, 1.0).is_finite());
                assert!(!loss.scalar_value(s, 1.0).is_nan());
            }
        }
    }
}
