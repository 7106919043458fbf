//! Losses of a row's score that are not among the linear models': robust, count and phase regression. Not Lipschitz, some not convex: to be clipped.

use super::{Gradient, Objective, Point};
use crate::records::{RecordBuffer, Records, Row};
use serde::{Deserialize, Serialize};

/// φ as a function of the score s = ⟨x, a_i⟩ and the target y.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "loss", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ScoreLoss {
    /// ½r²/(1 + r²/c²) with r = s − y (Geman and McClure 1985): what is further off than some c counts as c²/2 at most.
    GemanMcClure {
        /// c > 0: errors far above it count as c²/2.
        scale: f64,
    },
    /// e^s − y·s: counts whose mean is e^s. A target below 0 has no likelihood and contributes nothing.
    Poisson,
    /// (y + 1/a)·ln(1 + a·e^s) − y·s: counts of mean e^s and variance e^s + a·e^(2s). A target below 0 contributes nothing.
    NegativeBinomial {
        /// a > 0: overdispersion of the counts.
        dispersion: f64,
    },
    /// ¼(s² − y)²: phase retrieval from squared amplitudes y; x and −x are the same.
    PhaseRetrieval,
}

impl ScoreLoss {
    /// Why the numbers in it can't be used, if they can't.
    pub fn check(self) -> Result<(), &'static str> {
        match self {
            Self::GemanMcClure { scale } if !(scale > 0.0 && scale.is_finite()) => {
                Err("the scale of a robust loss must be positive and finite")
            }
            Self::NegativeBinomial { dispersion } if !(dispersion > 0.0 && dispersion.is_finite()) => {
                Err("the dispersion must be positive and finite; for none take the Poisson loss")
            }
            _ => Ok(()),
        }
    }

    /// Whether a target is one that the loss has a value for.
    fn takes(self, y: f64) -> bool {
        match self {
            Self::Poisson | Self::NegativeBinomial { .. } => y >= 0.0 && y.is_finite(),
            Self::GemanMcClure { .. } | Self::PhaseRetrieval => y.is_finite(),
        }
    }

    /// Loss φ(s, y) of a score s and a target y.
    pub fn value(self, s: f64, y: f64) -> f64 {
        match self {
            Self::GemanMcClure { scale } => {
                let r = (s - y) / scale;
                0.5 * scale * scale * r * r / (1.0 + r * r)
            }
            Self::Poisson => s.exp() - y * s,
            Self::NegativeBinomial { dispersion } => (y + 1.0 / dispersion) * log_one_plus(dispersion.ln() + s) - y * s,
            Self::PhaseRetrieval => 0.25 * (s * s - y).powi(2),
        }
    }

    /// Slope ∂φ/∂s of the loss in the score.
    pub fn slope(self, s: f64, y: f64) -> f64 {
        match self {
            Self::GemanMcClure { scale } => {
                let r = (s - y) / scale;
                scale * r / (1.0 + r * r).powi(2)
            }
            Self::Poisson => s.exp() - y,
            // (y + 1/a)·σ(s + ln a) − y
            Self::NegativeBinomial { dispersion } => {
                (y + 1.0 / dispersion) / (1.0 + (-(s + dispersion.ln())).exp()) - y
            }
            Self::PhaseRetrieval => (s * s - y) * s,
        }
    }
}

/// ln(1 + e^t) without overflow.
fn log_one_plus(t: f64) -> f64 {
    t.max(0.0) + (-t.abs()).exp().ln_1p()
}

/// φ_i(x) = loss(⟨x, a_i⟩, y_i) for the rows a_i of a table.
///
/// ```
/// use dpopt_objective::objective::{Objective, ScoreLoss, Scored};
/// use dpopt_objective::records::{Examples, Rows};
/// let mut rows = Rows::new(2);
/// rows.push_clipped(&mut vec![(0, 1.0), (1, 2.0)], 10.0);
/// let examples = Examples { rows, targets: vec![3.0] };
/// let counts = Scored::new(ScoreLoss::Poisson, 2);
/// let mut sum = [0.0, 0.0];
/// counts.gradient(&mut &[0.0, 0.0][..], &examples, 0, &mut Default::default())?.add_to(&mut sum);
/// assert_eq!(sum, [-2.0, -4.0]); // (e⁰ − 3)·(1, 2)
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scored {
    loss: ScoreLoss,
    features: usize,
}

impl Scored {
    /// The objective of rows with `features` columns.
    pub fn new(loss: ScoreLoss, features: usize) -> Self {
        Self { loss, features }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct ScoredScratch {
    slope: [f64; 1],
    buffer: RecordBuffer,
}

impl<R: Records> Objective<R> for Scored {
    type Scratch = ScoredScratch;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        self.features
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut ScoredScratch) -> Result<f64, R::Error> {
        let (columns, values, target) = records.record(i, &mut scratch.buffer)?;
        let row = Row::increasing(columns, values);
        let y = f64::from(target);
        let mut x = x;
        Ok(if row.fits(self.features) && self.loss.takes(y) {
            self.loss.value(x.score(0, self.features, row), y)
        } else {
            0.0
        })
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut ScoredScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let ScoredScratch { slope, buffer } = scratch;
        let (columns, values, target) = records.record(i, buffer)?;
        let row = Row::increasing(columns, values);
        let y = f64::from(target);
        if !row.fits(self.features) || !self.loss.takes(y) {
            return Ok(Gradient::Zero);
        }
        slope[0] = self.loss.slope(x.score(0, self.features, row), y);
        if !slope[0].is_finite() {
            return Ok(Gradient::Zero);
        }
        Ok(Gradient::Outer { slope, width: self.features, row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn losses() -> impl Strategy<Value = ScoreLoss> {
        prop_oneof![
            (0.1..5.0f64).prop_map(|scale| ScoreLoss::GemanMcClure { scale }),
            Just(ScoreLoss::Poisson),
            (0.05..5.0f64).prop_map(|dispersion| ScoreLoss::NegativeBinomial { dispersion }),
            Just(ScoreLoss::PhaseRetrieval),
        ]
    }

    proptest! {
        #[test]
        fn slopes_are_those_of_the_values(loss in losses(), s in -4.0..4.0f64, y in 0.0..9.0f64) {
            let h = 1e-5;
            let difference = (loss.value(s + h, y) - loss.value(s - h, y)) / (2.0 * h);
            let slope = loss.slope(s, y);
            // h²/6 of third derivatives below 5,000 is 8e-8, and rounding of values below 700 is 8e-9
            prop_assert!((slope - difference).abs() <= 1e-6 * (1.0 + slope.abs() + s.exp()), "{loss:?} {slope} {difference}");
        }

        #[test]
        fn a_count_below_zero_contributes_nothing(s in -3.0..3.0f32, y in -5.0..-0.01f32) {
            let mut rows = crate::records::Rows::new(1);
            rows.push_clipped(&mut [(0, s)], 10.0);
            let examples = crate::records::Examples { rows, targets: vec![y] };
            for loss in [ScoreLoss::Poisson, ScoreLoss::NegativeBinomial { dispersion: 1.0 }] {
                let Ok(gradient) = Scored::new(loss, 1).gradient(&mut &[1.0][..], &examples, 0, &mut Default::default()).map(|g| matches!(g, Gradient::Zero));
                prop_assert!(gradient);
            }
        }
    }

    #[test]
    fn known_values() {
        // negative binomial with small dispersion is Poisson: (y + 1/a)ln(1 + a·e^s) → e^s
        let near = ScoreLoss::NegativeBinomial { dispersion: 1e-7 };
        assert!((near.slope(0.7, 2.0) - ScoreLoss::Poisson.slope(0.7, 2.0)).abs() < 1e-5);
        // its slope is 0 where the mean is the target
        assert!(ScoreLoss::NegativeBinomial { dispersion: 0.5 }.slope(3f64.ln(), 3.0).abs() < 1e-12);
        assert_eq!(ScoreLoss::PhaseRetrieval.slope(2.0, 1.0), 6.0);
        assert!(ScoreLoss::GemanMcClure { scale: 0.0 }.check().is_err());
    }
}
