//! A number as a person wrote it or reads it, never with 300 digits.

use std::fmt::{Display, Formatter, Result};

/// Shows a number as it is, and very large or small ones in scientific form: `0.3`, `99999`, `1.7e308`. A precision (`{:.6}`) holds for
/// numbers that are written out.
///
/// ```
/// use dpopt_event::Shown;
/// assert_eq!(format!("{} {:.3} {}", Shown(0.3), Shown(2.0), Shown(-1.7e308)), "0.3 2.000 -1.7e308");
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown(pub f64);

impl Display for Shown {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let written_out = self.0 == 0.0 || !self.0.is_finite() || (1e-6..1e15).contains(&self.0.abs());
        if written_out || (f.precision().is_some() && self.0.abs() < 1.0) {
            Display::fmt(&self.0, f)
        } else {
            write!(f, "{:e}", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Shown;

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (-0.5, "-0.5"),
            (99999.0, "99999"),
            (1.7e308, "1.7e308"),
            (-1e-300, "-1e-300"),
            (f64::NAN, "NaN"),
        ] {
            assert_eq!(Shown(value).to_string(), text);
        }
        assert_eq!(format!("{:.6} {:.6}", Shown(1e300), Shown(1e-9)), "1e300 0.000000");
    }
}
