//! A number on a public range as a linear term and linear B-splines (docs/decisions/0003-numeric-columns-line-and-splines.md, docs/proofs/encoder.md).

use super::spread::{Spread, cell};
use crate::declared::Bounds;

/// A map from a value to [0, 1].
#[derive(Clone, Debug)]
pub(super) struct NumericScale {
    lower: f64,
    upper: f64,
    /// ln(1+lower) and ln(1+upper) on a logarithmic scale.
    logarithms: Option<(f64, f64)>,
    /// The private quantile transform, under which values lie evenly.
    spread: Option<Spread>,
}

impl NumericScale {
    /// On a checked range; `log` needs `lower >= 0`.
    pub(super) fn new(bounds: Bounds, log: bool, spread: Option<Spread>) -> Self {
        let (lower, upper) = (bounds.lower(), bounds.upper());
        // libm and not the system's library, so that every machine encodes a record in the same way
        Self { lower, upper, logarithms: log.then(|| (libm::log1p(lower), libm::log1p(upper))), spread }
    }

    /// Position of `value`, in [0, 1]: within the bounds, or among the values where they are spread.
    #[inline]
    pub(super) fn unit(&self, value: f64) -> f64 {
        let plain = self.plain(value);
        self.spread.as_ref().map_or(plain, |spread| spread.rank(plain))
    }

    /// The ends of the range.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.lower, self.upper)
    }

    /// Whether a position is a share of the range.
    pub(super) fn is_linear(&self) -> bool {
        self.logarithms.is_none() && self.spread.is_none()
    }

    /// The cell in which `value` is counted.
    pub(super) fn cell(&self, value: f64) -> usize {
        cell(self.plain(value))
    }

    /// Position of `value` within the bounds, clipped to [0, 1].
    #[inline]
    fn plain(&self, value: f64) -> f64 {
        let v = value.clamp(self.lower, self.upper);
        let u = match self.logarithms {
            Some((low, high)) => (libm::log1p(v) - low) / (high - low),
            None => (v - self.lower) / (self.upper - self.lower),
        };
        u.clamp(0.0, 1.0) // rounding of the quotient
    }

    /// As [`value`](Self::value), where a finest cell at an end of the range is that end: values that many rows have are given more room than there are other values.
    pub(super) fn shown_value(&self, unit: f64) -> f64 {
        const END: f64 = 1e-5;
        match &self.spread {
            Some(spread) if spread.unit(unit) < END => self.value(0.0),
            Some(spread) if spread.unit(unit) > 1.0 - END => self.value(1.0),
            _ => self.value(unit),
        }
    }

    /// Whether the range is that of a truth value, and what was released says that hardly anything lies within it.
    pub(super) fn is_zero_or_one(&self) -> bool {
        const NEAR: f64 = 1.0 / 64.0;
        const MAX_WITHIN: f64 = 0.25;
        let within = |spread: &Spread| spread.rank(1.0 - NEAR) - spread.rank(NEAR);
        (self.lower, self.upper) == (0.0, 1.0)
            && self.logarithms.is_none()
            && self.spread.as_ref().is_some_and(|spread| within(spread) <= MAX_WITHIN)
    }

    /// The value at a position: the inverse of [`unit`](Self::unit).
    pub(super) fn value(&self, unit: f64) -> f64 {
        let unit = self.spread.as_ref().map_or(unit, |spread| spread.unit(unit));
        match self.logarithms {
            Some((low, high)) => libm::expm1(low + unit * (high - low)),
            None => self.lower + unit * (self.upper - self.lower),
        }
    }
}

/// Features of the line that every numeric block begins with: `2u - 1` around 0, or else `1 - u` and `u`, the linear B-splines of two knots.
pub(super) const fn line(centred: bool) -> u32 {
    if centred { 1 } else { 2 }
}

/// The line at a position: what stands in its one feature and 0, or in its two.
#[inline]
pub(super) fn ends(unit: f64, centred: bool) -> (f64, f64) {
    if centred { (2.0 * unit - 1.0, 0.0) } else { (1.0 - unit, unit) }
}

/// The two linear B-splines that are not zero at `unit`: the first one's index, and its and the next one's value.
#[inline]
pub(super) fn splines(unit: f64, knots: u32) -> (u32, f64, f64) {
    let t = unit * f64::from(knots - 1);
    // toward 0, which is down: a position is never below 0
    let i = (t as u32).min(knots - 2);
    let f = t - f64::from(i);
    (i, 1.0 - f, f)
}
