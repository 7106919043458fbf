//! Axes: what a position means, and which positions get a tick.

use crate::report::number;

/// How an axis maps numbers to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Equal steps are equal differences.
    Linear,
    /// Equal steps are equal ratios.
    Log,
}

/// One axis of a panel.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Label that stands beside the axis.
    pub label: String,
    /// How numbers are mapped.
    pub scale: Scale,
    /// Fixed ends; from the data otherwise.
    pub range: Option<(f64, f64)>,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Linear, range: None }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>) -> Self {
        Self { label: label.into(), scale: Scale::Log, range: None }
    }

    /// Fixes the two ends of the axis.
    pub fn from_to(mut self, low: f64, high: f64) -> Self {
        self.range = Some((low, high));
        self
    }

    /// Position of a value on the axis; `None` if it has none.
    pub(super) fn position(&self, value: f64) -> Option<f64> {
        match self.scale {
            Scale::Linear => value.is_finite().then_some(value),
            Scale::Log => (value > 0.0 && value.is_finite()).then(|| value.log10()),
        }
    }

    /// Ends of the axis in positions, from the positions of the data, with some room.
    pub(super) fn ends(&self, positions: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some((low, high)) = self.range
            && let (Some(low), Some(high)) = (self.position(low), self.position(high))
            && low < high
        {
            return (low, high);
        }
        let (low, high) = positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), p| (l.min(p), h.max(p)));
        if low > high {
            return (0.0, 1.0);
        }
        let room = 0.05 * (high - low);
        // nothing varies: a unit around it, so that there is a picture
        let room = if room > 0.0 { room } else { (0.1 * low.abs()).max(0.1) };
        (low - room, high + room)
    }

    /// Positions and texts of the ticks between two positions.
    pub(super) fn ticks(&self, (low, high): (f64, f64)) -> Vec<(f64, String)> {
        let values = match self.scale {
            Scale::Linear => steps(low, high, 6),
            Scale::Log if high - low < 0.9 => steps(10f64.powf(low), 10f64.powf(high), 6),
            Scale::Log => {
                let leads: &[f64] = if high - low < 1.7 {
                    &[1.0, 2.0, 5.0]
                } else if high - low < 3.2 {
                    &[1.0, 3.0]
                } else {
                    &[1.0]
                };
                let every = ((high - low) / 7.0).ceil().max(1.0) as i32;
                let decades = (low.floor() as i32)..=(high.ceil() as i32);
                decades
                    .filter(|k| k.rem_euclid(every) == 0)
                    .flat_map(|k| leads.iter().map(move |lead| lead * 10f64.powi(k)))
                    .collect()
            }
        };
        let slack = 1e-9 * (high - low);
        values
            .into_iter()
            .filter_map(|v| Some((self.position(v)?, number((v * 1e12).round() / 1e12))))
            .filter(|t| t.0 >= low - slack && t.0 <= high + slack)
            .collect()
    }
}

/// Multiples of 1, 2 or 5 times a power of ten, at most about `count` of them.
fn steps(low: f64, high: f64, count: usize) -> Vec<f64> {
    let raw = (high - low) / count as f64;
    if !(raw > 0.0 && raw.is_finite()) {
        return Vec::new();
    }
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= raw * (1.0 - 1e-9)).unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last.min(first + 4 * count as i64)).map(|i| i as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(axis: &Axis, low: f64, high: f64) -> Vec<String> {
        let (low, high) = (axis.position(low).unwrap(), axis.position(high).unwrap());
        axis.ticks((low, high)).into_iter().map(|t| t.1).collect()
    }

    #[test]
    fn ticks_are_round_numbers() {
        let log = Axis::log("x");
        assert_eq!(texts(&log, 20.0, 2000.0), ["30", "100", "300", "1000"]);
        assert_eq!(texts(&log, 1e-8, 1.0).len(), 5);
        assert_eq!(texts(&log, 10.0, 100.0), ["10", "20", "50", "100"]);
        assert_eq!(texts(&log, 2.4, 3.6), ["2.4", "2.6", "2.8", "3", "3.2", "3.4", "3.6"]);
        let linear = Axis::linear("y");
        assert_eq!(texts(&linear, 0.0, 1.0), ["0", "0.2", "0.4", "0.6", "0.8", "1"]);
        assert_eq!(texts(&linear, -3.0, 9.0), ["-2", "0", "2", "4", "6", "8"]);
    }
}
