//! From a predicted excess risk to what privacy costs, by what was measured.
//!
//! The numbers below were chosen on odd splits of the panel of docs/benchmarks.md and hold there for fits by the method that is taken without being
//! asked for; even splits, which chose nothing, tell how often the band holds (`benches/utility/sizing.py`). They are an estimate and no guarantee.

use dpopt_objective::loss::Loss;
use dpopt_refusal::{Refusal, Remedy};
use serde::Serialize;

/// Share of tables for which the band is made to hold, at the least.
pub const COVERAGE: f64 = 0.8;

/// What an excess risk is turned into.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    /// Points of accuracy, for the log loss.
    Points {
        /// Number of classes.
        classes: u32,
    },
    /// The root of the mean square by which predictions get worse, for half the squared error in halves of the range.
    Error {
        /// Half of the target's range.
        half_range: f64,
        /// Whether the range is known; if not, errors are in halves of it.
        known: bool,
    },
}

/// An estimate with its band.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// Lower end of the band.
    pub low: f64,
    /// The estimate.
    pub middle: f64,
    /// Upper end of the band.
    pub high: f64,
}

impl Estimate {
    /// All that can be lost.
    pub(super) fn all(ceiling: f64) -> Self {
        Self { low: ceiling, middle: ceiling, high: ceiling }
    }
}

impl Scale {
    /// The scale of what is predicted by `loss`; `range` is that of the target, if it is a number and the range is known.
    ///
    /// # Errors
    /// If the loss is one whose predictions were not held against fits.
    pub fn of(loss: &Loss, range: Option<(f64, f64)>) -> Result<Self, Refusal> {
        match (*loss, range) {
            (Loss::Logistic { .. }, _) => Ok(Self::Points { classes: 2 }),
            (Loss::Softmax { classes }, _) => Ok(Self::Points { classes }),
            (Loss::Squared, Some((lower, upper))) => Ok(Self::Error { half_range: 0.5 * (upper - lower), known: true }),
            (Loss::Squared, None) => Ok(Self::Error { half_range: 1.0, known: false }),
            _ => Err(Refusal::of("what accuracy follows from a predicted excess risk was measured for the logistic and the squared loss only")
                .or(Remedy::LeaveOut("loss"))),
        }
    }

    /// Unit of what is lost.
    pub fn unit(&self) -> &'static str {
        match self {
            Self::Points { .. } => "points of accuracy",
            Self::Error { known: true, .. } => "root-mean-square error, in the unit of the target",
            Self::Error { known: false, .. } => "root-mean-square error, in halves of the target's range",
        }
    }

    /// What is lost to privacy where so large an excess risk is predicted, at most `ceiling`; `of_best`: whether that is what the best accuracy without
    /// privacy has over a guess. It grows with the excess.
    pub(super) fn lost(&self, excess: f64, ceiling: f64, of_best: bool) -> Estimate {
        let (share, unit, band) = match self {
            Self::Points { .. } if of_best => (excess, ceiling, &POINTS_OF_BEST),
            Self::Points { .. } => (excess, ceiling, &POINTS),
            Self::Error { half_range, .. } => ((2.0 * excess).sqrt(), *half_range, &ERROR),
        };
        let at = |end: &Curve| (unit * end.at(share.max(0.0))).min(ceiling);
        let middle = at(&band.middle);
        // beyond what was measured the ends may cross
        Estimate { low: at(&band.low).min(middle), middle, high: at(&band.high).max(middle) }
    }
}

/// floor + factor·x^power, at least 0.
struct Curve {
    floor: f64,
    factor: f64,
    power: f64,
}

impl Curve {
    fn at(&self, x: f64) -> f64 {
        (self.floor + self.factor * x.powf(self.power)).max(0.0)
    }
}

/// The ends of a band, and the middle.
struct Band {
    low: Curve,
    middle: Curve,
    high: Curve,
}

/// Of the excess log loss: the share that is lost of what the best accuracy without privacy has over a guess.
const POINTS_OF_BEST: Band = Band {
    low: Curve { floor: -0.02, factor: 0.671, power: 2.0 },
    middle: Curve { floor: 0.0, factor: 2.653, power: 1.5 },
    high: Curve { floor: 0.0, factor: 1.636, power: 0.75 },
};

/// Of the excess log loss: the share that is lost of what an accuracy of 1 has over a guess, where the best accuracy is not said.
const POINTS: Band = Band {
    low: Curve { floor: -0.03, factor: 0.419, power: 1.5 },
    middle: Curve { floor: 0.0, factor: 5.352, power: 2.0 },
    high: Curve { floor: 0.03, factor: 3.622, power: 1.5 },
};

/// Of √(2·excess), the error that the excess of half the squared error is: the error that is added, in halves of the range.
const ERROR: Band = Band {
    low: Curve { floor: -0.07, factor: 2.985, power: 2.0 },
    middle: Curve { floor: 0.0, factor: 0.476, power: 1.0 },
    high: Curve { floor: 0.06, factor: 2.743, power: 2.0 },
};
