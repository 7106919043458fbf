//! Moments of columns whose numbers have no known range: how fast the tails fall, and where to clip for that.

use dpopt_optimize::clip_bias::{balanced_clip, clip_bias};
use dpopt_optimize::plan::NotApplicable;
use dpopt_privacy::Shown;
use serde::Serialize;
use std::str::FromStr;

/// (E|X − a|^k)^(1/k) ≤ m: a public fact about the law of a column's numbers. Privacy does not rest on it, the confidence interval does.
///
/// ```
/// use dpopt::estimate::Moment;
/// let income: Moment = "4:60000@45000".parse()?;
/// assert_eq!((income.order, income.root, income.about), (4.0, Some(60000.0), 45000.0));
/// // the order alone: centre and scale are released first
/// assert_eq!("2.5".parse::<Moment>()?.root, None);
/// // what a clip at 10 takes from the mean of a column with E|X|^3 ≤ 2^3, at most
/// assert!(("3:2".parse::<Moment>()?.clip_bias(10.0, 2.0) - 4.0 / 27.0 * 8.0 / 100.0).abs() < 1e-12);
/// # Ok::<(), dpopt::plan::NotApplicable>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// k, above 1 and at most 64; any real number.
    pub order: f64,
    /// m. `None`: not known; centre and scale are released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<f64>,
    /// a: the public number about which the moment is, 0 unless said.
    pub about: f64,
}

/// Largest k: beyond it the numbers are as good as bounded.
pub(crate) const MAX_ORDER: f64 = 64.0;
/// Roots and centres whose sums over records stay in the range of floating-point numbers.
const SIZES: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

impl Moment {
    /// Returns the moment if its order, root and centre are within their ranges.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn checked(self) -> Result<Self, NotApplicable> {
        let refuse = |text: String| Err(NotApplicable::Option(text.into()));
        if !(self.order > 1.0 && self.order <= MAX_ORDER) {
            return refuse(format!(
                "the order of the moment is {}; give a number above 1 and at most {MAX_ORDER}, for example 2 where the variance is finite",
                Shown(self.order)
            ));
        }
        if self.root.is_some_and(|root| !SIZES.contains(&root)) {
            return refuse(
                "the bound m of a moment is out of range; give a number from 1e-60 to 1e60 in the unit of the \
                 column, with (E|X|^k)^(1/k) ≤ m"
                    .into(),
            );
        }
        if !(self.about == 0.0 || SIZES.contains(&self.about.abs())) {
            return refuse(
                "the centre a of a moment is out of range; give 0, or a number from 1e-60 to 1e60 in size".into(),
            );
        }
        Ok(self)
    }

    /// A bound on |E clip(Y, −C, C) − E Y| for E|Y|^k ≤ m^k.
    pub fn clip_bias(&self, threshold: f64, root: f64) -> f64 {
        clip_bias(self.order, root, threshold)
    }
}

impl FromStr for Moment {
    type Err = NotApplicable;

    /// `k`, `k:m` or `k:m@a`.
    fn from_str(text: &str) -> Result<Self, NotApplicable> {
        let number = |text: &str| {
            text.trim().parse::<f64>().map_err(|_| {
                NotApplicable::Option(
                    "this is no moment; write k, k:m or k:m@a: the order k, a bound m with (E|X - a|^k)^(1/k) ≤ m, \
                     and a centre a, for example 4:2.5"
                        .into(),
                )
            })
        };
        let (order, rest) = text.split_once(':').map_or((text, None), |(order, rest)| (order, Some(rest)));
        let (root, about) = match rest.map(|rest| rest.split_once('@').unwrap_or((rest, "0"))) {
            Some((root, about)) => (Some(number(root)?), number(about)?),
            None => (None, 0.0),
        };
        Self { order: number(order)?, root, about }.checked()
    }
}

/// Where a regression target of which a moment is known is clipped (docs/decisions/0022-heavy-tailed-targets.md). All numbers are public, in the unit
/// of the target.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TargetClip {
    /// What is known of the target.
    pub moment: Moment,
    /// C: numbers further than this from the moment's centre are clipped to that distance.
    pub threshold: f64,
    /// Bound on |E clip(y) − E y|, and so on what clipping takes from the mean of predictions.
    pub clip_bias: f64,
    /// Root mean square that noise is expected to move predictions by.
    pub expected_error: f64,
}

/// Larger C/m serve nobody: the bias is below what a target's numbers resolve.
const MAX_CLIP: f64 = 1e6;

impl TargetClip {
    /// The C at which clip bias and the expected error by noise are least together, m at least: a target that is always m away loses nothing then.
    /// `excess_risk` is that of half the squared error of a target scaled to [-1, 1], which does not depend on C. `None` without a root.
    ///
    /// ```
    /// use dpopt::moment::TargetClip;
    /// let clip = TargetClip::balanced("3:45000@30000".parse()?, 2e-4).unwrap();
    /// // predictions move by .02·C; what is clipped takes 4/27·m³/C² at most, and half of the one is the other there
    /// assert!((clip.expected_error - 0.02 * clip.threshold).abs() < 1e-6);
    /// assert!((clip.clip_bias / clip.expected_error - 0.5).abs() < 1e-9);
    /// assert_eq!(clip.range(), (30000.0 - clip.threshold, 30000.0 + clip.threshold));
    /// # Ok::<(), dpopt::plan::NotApplicable>(())
    /// ```
    pub fn balanced(moment: Moment, excess_risk: f64) -> Option<Self> {
        let root = moment.root?;
        let per_threshold = (2.0 * excess_risk).sqrt();
        let best = balanced_clip(moment.order, root, per_threshold);
        // not a number, or infinite, where no risk is expected
        let threshold = if best.is_nan() { root } else { best.clamp(root, MAX_CLIP * root) };
        let clip_bias = moment.clip_bias(threshold, root);
        Some(Self { moment, threshold, clip_bias, expected_error: per_threshold * threshold })
    }

    /// Ends of the range that the target is clipped to.
    pub fn range(&self) -> (f64, f64) {
        (self.moment.about - self.threshold, self.moment.about + self.threshold)
    }

    /// A sentence about the clip for the report.
    pub fn in_words(&self) -> String {
        let (lower, upper) = self.range();
        let Moment { order, root, about } = self.moment;
        format!(
            "The target is clipped to {} to {}, because (E|y - {}|^{})^(1/{}) is at most {} (declared, not checked): \
             clipping moves its mean by at most {}, and noise is expected to move predictions by {}.",
            Shown(lower),
            Shown(upper),
            Shown(about),
            Shown(order),
            Shown(order),
            Shown(root.unwrap_or(f64::NAN)),
            Shown(self.clip_bias),
            Shown(self.expected_error)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_constants_of_the_bias() {
        // (k−1)^(k−1)/k^k, the exact factor of Liu 2024, Fact 12.2.8 (clip bias): .25, .148, .105 for k = 2, 3, 4
        for (order, factor) in [(2.0, 0.25), (3.0, 4.0 / 27.0), (4.0, 27.0 / 256.0)] {
            let moment = Moment { order, root: None, about: 0.0 };
            assert!((moment.clip_bias(10.0, 1.0) - factor / 10f64.powf(order - 1.0)).abs() < 1e-15);
            // it is attained, by r = kC/(k − 1) with the probability that the moment allows
            let (c, r) = (10.0, order * 10.0 / (order - 1.0));
            assert!(((r - c) * r.powf(-order) - moment.clip_bias(c, 1.0)).abs() < 1e-12);
        }
        // a Pareto law: tail 3, x_m = 1, C = 5: E(X − C)_+ = .02; its second moment is 3
        let second = Moment { order: 2.0, root: None, about: 0.0 };
        assert!(second.clip_bias(5.0, 3f64.sqrt()) >= 0.02);
        assert_eq!(second.clip_bias(1e-3, 1.0), 1.0);
    }

    #[test]
    fn a_target_is_clipped_where_bias_and_noise_balance() {
        let moment: Moment = "2:3".parse().unwrap();
        let at = |risk: f64| TargetClip::balanced(moment, risk).unwrap();
        let total = |threshold: f64, risk: f64| moment.clip_bias(threshold, 3.0) + (2.0 * risk).sqrt() * threshold;
        for risk in [1e-8, 1e-5, 1e-3] {
            let best = at(risk).threshold;
            for other in [0.5, 0.9, 1.1, 2.0] {
                assert!(total(best, risk) <= total(other * best, risk), "{risk} {other}");
            }
            assert!((at(risk).clip_bias + at(risk).expected_error - total(best, risk)).abs() < 1e-12);
        }
        // much noise: no closer than m; none, or no number: within the limits
        assert_eq!((at(10.0).threshold, at(f64::INFINITY).threshold, at(f64::NAN).threshold), (3.0, 3.0, 3.0));
        assert_eq!(at(0.0).threshold, 3e6);
        assert_eq!(TargetClip::balanced("2".parse().unwrap(), 1e-3), None);
        assert!(at(1e-3).in_words().contains("(E|y - 0|^2)^(1/2) is at most 3"));
    }

    #[test]
    fn what_cannot_be_read_is_said_without_the_text() {
        for text in ["", "x", "4:", "4:x", "4:2@", "1", "0.5", "65", "nan", "4:-1", "4:0", "4:inf", "4:1e61", "4:1@nan"]
        {
            let error = text.parse::<Moment>().unwrap_err().to_string();
            assert!(error.contains("moment"), "{text}: {error}");
        }
        assert_eq!("4 : 2.5 @ -1e3".parse::<Moment>().unwrap().about, -1e3);
    }
}
