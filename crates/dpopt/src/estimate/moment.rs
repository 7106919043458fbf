//! What is said of a column whose numbers have no known range: how fast its tails fall.

use dpopt_optimize::clip_bias::clip_bias;
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
pub(super) const MOST_ORDER: f64 = 64.0;
/// Roots and centres whose sums over records stay in the range of floating-point numbers.
const SIZES: std::ops::RangeInclusive<f64> = 1e-60..=1e60;

impl Moment {
    /// The same, if it can be used.
    ///
    /// # Errors
    /// If a number is out of its range.
    pub fn checked(self) -> Result<Self, NotApplicable> {
        let refuse = |text: String| Err(NotApplicable::Option(text));
        if !(self.order > 1.0 && self.order <= MOST_ORDER) {
            return refuse(format!(
                "the order of the moment is {}; give a number above 1 and at most {MOST_ORDER}, for example 2 where the variance is finite",
                Shown(self.order)
            ));
        }
        if self.root.is_some_and(|root| !SIZES.contains(&root)) {
            return refuse(
                "the moment's root must be a number from 1e-60 to 1e60, in the unit of the column: (E|X|^k)^(1/k) is at most that".into(),
            );
        }
        if !(self.about == 0.0 || SIZES.contains(&self.about.abs())) {
            return refuse("the number that the moment is about must be from 1e-60 to 1e60 in size, or 0".into());
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
                    "a moment is k, k:m or k:m@a: the order, a bound on its root, and the number that it is about; for example 4:2.5".into(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_constants_of_the_bias() {
        // spec 12, finding C: .25, .148, .105 for k = 2, 3, 4
        for (order, factor) in [(2.0, 0.25), (3.0, 4.0 / 27.0), (4.0, 27.0 / 256.0)] {
            let moment = Moment { order, root: None, about: 0.0 };
            assert!((moment.clip_bias(10.0, 1.0) - factor / 10f64.powf(order - 1.0)).abs() < 1e-15);
            // it is attained, by r = kC/(k − 1) with the probability that the moment allows
            let (c, r) = (10.0, order * 10.0 / (order - 1.0));
            assert!(((r - c) * r.powf(-order) - moment.clip_bias(c, 1.0)).abs() < 1e-12);
        }
        // spec 12 §13: tail 3, x_m = 1, C = 5: E(X − C)_+ = .02; its second moment is 3
        let second = Moment { order: 2.0, root: None, about: 0.0 };
        assert!(second.clip_bias(5.0, 3f64.sqrt()) >= 0.02);
        assert_eq!(second.clip_bias(1e-3, 1.0), 1.0);
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
