//! The (ε, δ) a user is willing to spend.
//!
//! Covers: thesis theorem 1.2.7, theorem 6.2.8 (certified)

use crate::Shown;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A checked pair: `0 < epsilon < ∞`, `0 <= delta < 1`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Unchecked", into = "Unchecked")]
pub struct Budget {
    epsilon: f64,
    delta: f64,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    epsilon: f64,
    delta: f64,
}

/// Why a pair is not a budget.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum BudgetError {
    /// ε must be a positive, finite number.
    #[error("epsilon is {}; give a positive, finite number, for example 1", shown(.0))]
    Epsilon(f64),
    /// δ must lie in [0, 1).
    #[error("delta is {}; give a number in [0, 1), usually below 1/rows, for example 1e-6", shown(.0))]
    Delta(f64),
}

fn shown(number: &f64) -> Shown {
    Shown(*number)
}

impl Budget {
    /// Checks and keeps the pair.
    ///
    /// ```
    /// use dpopt_event::Budget;
    /// assert!(Budget::new(1.0, 1e-6).is_ok());
    /// assert!(Budget::new(0.0, 1e-6).is_err());
    /// assert!(Budget::new(1.0, 1.0).is_err());
    /// ```
    pub fn new(epsilon: f64, delta: f64) -> Result<Self, BudgetError> {
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            return Err(BudgetError::Epsilon(epsilon));
        }
        if !(0.0..1.0).contains(&delta) {
            return Err(BudgetError::Delta(delta));
        }
        Ok(Self { epsilon, delta })
    }

    /// ε in nats.
    pub fn epsilon(self) -> f64 {
        self.epsilon
    }

    /// δ, a probability.
    pub fn delta(self) -> f64 {
        self.delta
    }

    /// Splits off `share` of ε and of δ (both in (0, 1)): the pair (part, rest) adds up to at most `self`
    /// by basic composition, which stays valid when the second part is planned from the first one's output.
    pub fn split(self, share: f64) -> Result<(Self, Self), BudgetError> {
        let part = Self::new(self.epsilon * share, self.delta * share)?;
        // next_down: the two rounded parts never add up to more than the whole
        let rest = Self::new(
            (self.epsilon - part.epsilon).next_down(),
            if self.delta == 0.0 { 0.0 } else { (self.delta - part.delta).next_down() },
        )?;
        Ok((part, rest))
    }
}

impl TryFrom<Unchecked> for Budget {
    type Error = BudgetError;
    fn try_from(b: Unchecked) -> Result<Self, BudgetError> {
        Self::new(b.epsilon, b.delta)
    }
}

impl From<Budget> for Unchecked {
    fn from(b: Budget) -> Self {
        Self { epsilon: b.epsilon, delta: b.delta }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_never_exceed_the_whole() {
        for (e, d, s) in [(1.0, 1e-5, 0.05), (0.1, 1e-6, 0.3), (4.0, 0.0, 0.1)] {
            let whole = Budget::new(e, d).unwrap();
            let (a, b) = whole.split(s).unwrap();
            assert!(a.epsilon() + b.epsilon() <= e && a.delta() + b.delta() <= d);
            assert!(a.epsilon() + b.epsilon() > e * (1.0 - 1e-12));
        }
        assert!(Budget::new(1.0, 1e-5).unwrap().split(1.0).is_err());
    }

    #[test]
    fn nan_and_bounds_are_refused() {
        for (e, d) in [(f64::NAN, 0.1), (1.0, f64::NAN), (-1.0, 0.1), (f64::INFINITY, 0.1), (1.0, -1e-9), (1.0, 1.0)] {
            assert!(Budget::new(e, d).is_err());
        }
        assert!(serde_json::from_str::<Budget>(r#"{"epsilon":0.0,"delta":0.1}"#).is_err());
    }
}
