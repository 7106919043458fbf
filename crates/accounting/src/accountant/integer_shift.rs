//! How far one record moves integer sums under discrete Gaussian noise (Canonne, Kamath, Steinke 2020).
//!
//! The shift d is a vector of integers with |d|² ≤ C², C² rounded down to an integer; under replace-one it is the
//! difference of two such vectors, |d|² ≤ 4·⌊C²⌋. Unlike for the continuous Gaussian its direction matters, but for one sum.

use dpopt_event::Relation;

/// The largest shift d of integer sums that one record can cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct IntegerShift {
    /// Largest |d|², an integer.
    pub square: f64,
    /// The one shift that dominates all others, an integer, if the sums are one or can be.
    pub line: Option<f64>,
}

impl IntegerShift {
    pub fn new(sensitivity: f64, dimension: Option<u64>, relation: Relation) -> Self {
        // √3 is stored as a number whose square is below 3
        const STORED: f64 = 1.0 + 1e-12;
        let factor = relation.sum_sensitivity();
        let squares = |norm: f64| (norm * norm * STORED).floor() * factor * factor;
        if dimension == Some(1) {
            // shifts of one sum are ordered: a longer one tells more at every threshold
            let line = (sensitivity * STORED).floor() * factor;
            return Self { square: line * line, line: Some(line) };
        }
        let square = squares(sensitivity);
        Self { square, line: (square == 1.0).then_some(1.0) }
    }

    /// The largest shift of `records` records together: each moves the sums by integers of its own, so rounding comes first.
    pub fn of_users(sensitivity: f64, dimension: Option<u64>, relation: Relation, records: u64) -> Self {
        let (one, k) = (Self::new(sensitivity, dimension, relation), records as f64);
        match dimension {
            Some(1) => Self { square: one.square * k * k, line: one.line.map(|line| line * k) },
            // unit steps of several sums need not go along one of them
            _ => Self { square: one.square * k * k, line: one.line.filter(|_| records == 1) },
        }
    }

    /// Rényi divergence over order: |d|²/(2σ²) whatever the number of sums (their Theorem 4), rounded up.
    pub fn rho(self, sigma: f64) -> f64 {
        0.5 * (self.square / sigma / sigma) * (1.0 + 8.0 * f64::EPSILON)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shifts_are_integers() {
        let shift = |norm: f64, d| IntegerShift::new(norm, d, Relation::ZeroOut);
        assert_eq!(shift(1.9, Some(1)), IntegerShift { square: 1.0, line: Some(1.0) });
        assert_eq!(shift(1.9, None), IntegerShift { square: 3.0, line: None });
        // the norm of (1, 1, 1) and of (1, 1)
        assert_eq!(shift(3f64.sqrt(), None).square, 3.0);
        assert_eq!(shift(2f64.sqrt(), Some(5)).square, 2.0);
        assert_eq!(shift(1.0, None).line, Some(1.0));
        let replaced = IntegerShift::new(1.0, None, Relation::ReplaceOne);
        assert_eq!(replaced, IntegerShift { square: 4.0, line: None });
        assert_eq!(IntegerShift::new(2.5, Some(1), Relation::ReplaceOne).line, Some(4.0));
        // two records of 2 steps each are 4 steps, though 2·2.66 is above 5
        let users = |norm, d, k| IntegerShift::of_users(norm, d, Relation::ZeroOut, k);
        assert_eq!(users(2.66, Some(1), 2), IntegerShift { square: 16.0, line: Some(4.0) });
        assert_eq!(users(1.0, None, 2), IntegerShift { square: 4.0, line: None });
        assert_eq!(users(1.0, None, 1), shift(1.0, None));
    }
}
