//! Prediction intervals of a fitted model: as wide everywhere, found privately after the fit (docs/proofs/prediction-intervals.md).

use crate::report::number;
use dpopt_objective::objective::Interval;
use dpopt_privacy::Shown;
use serde::{Deserialize, Serialize};

/// How far around a prediction the target lies, for at least a share of rows like those of the fit.
///
/// ```
/// use dpopt::model::PredictionInterval;
/// let interval = PredictionInterval { level: 0.9, half_width: Some(20.0), within_range: true };
/// assert_eq!(interval.around(95.0, (0.0, 100.0)), (75.0, 100.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PredictionInterval {
    /// Share of rows whose target is held.
    pub level: f64,
    /// Half of the width, in the target's unit. `None`: no finite one was found to hold so many.
    pub half_width: Option<f64>,
    /// Whether the target's range was declared, so that no target is outside of it: ends keep to it.
    pub within_range: bool,
}

impl PredictionInterval {
    /// What a run found, in the unit of a target with this range.
    pub fn of(found: Interval, (lower, upper): (f64, f64)) -> Self {
        // a little wider than rounding moves sums of floats
        let half_width = found.half_width * (1.0 + 1e-9) * 0.5 * (upper - lower);
        let half_width = half_width.is_finite().then_some(half_width);
        Self { level: found.level, half_width, within_range: found.ends }
    }

    /// Lower and upper end around a prediction, for a target with this range.
    pub fn around(&self, prediction: f64, (lower, upper): (f64, f64)) -> (f64, f64) {
        let half_width = self.half_width.unwrap_or(f64::INFINITY);
        let ends = (prediction - half_width, prediction + half_width);
        if self.within_range { (ends.0.max(lower), ends.1.min(upper)) } else { ends }
    }

    /// What it says of the table's targets, for people.
    pub fn in_words(&self, target: &str) -> String {
        let level = Shown(100.0 * self.level);
        match self.half_width {
            Some(half) => {
                let cut = if self.within_range { ", as far as its declared range reaches" } else { "" };
                format!(
                    "Prediction intervals: the prediction ± {} is to hold {target} in at least {level} % of rows like these{cut}.",
                    number(half)
                )
            }
            None => format!(
                "Prediction intervals: no finite width was found to hold {target} in at least {level} % of rows. Too many targets lie at or beyond the ends of \
                 the range that was found: declare the range, or ask for a lower level."
            ),
        }
    }

    /// Refuses numbers that make no sense.
    pub(super) fn check(&self) -> Result<(), String> {
        let sized = self.half_width.is_none_or(|half| half >= 0.0 && half.is_finite());
        if self.level > 0.0 && self.level < 1.0 && sized {
            Ok(())
        } else {
            Err("the level or the width of its prediction intervals is out of range".into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_keep_to_a_declared_range_and_to_no_other() {
        let found = Interval { half_width: 0.5, level: 0.9, ends: true };
        let range = (10.0, 30.0);
        let declared = PredictionInterval::of(found, range);
        assert!((declared.half_width.unwrap() - 5.0).abs() < 1e-7);
        let (lower, upper) = declared.around(12.0, range);
        assert!(lower == 10.0 && (upper - 17.0).abs() < 1e-7);
        let of_found = PredictionInterval::of(Interval { ends: false, ..found }, range);
        assert!((of_found.around(12.0, range).0 - 7.0).abs() < 1e-7);
        let none = PredictionInterval::of(Interval { half_width: f64::INFINITY, ends: false, ..found }, range);
        assert_eq!(none.half_width, None);
        assert_eq!(none.around(12.0, range), (f64::NEG_INFINITY, f64::INFINITY));
        assert!(none.in_words("y").contains("declare the range") && declared.in_words("y").contains("± 5"));
        assert!(none.check().is_ok() && declared.check().is_ok());
        for (level, half_width) in [(0.0, Some(1.0)), (1.0, Some(1.0)), (0.9, Some(-1.0)), (f64::NAN, None)] {
            assert!(PredictionInterval { level, half_width, within_range: true }.check().is_err());
        }
    }
}
