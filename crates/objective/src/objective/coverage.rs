//! Which rows an interval around a released linear model's prediction holds, less the share of them that it is to hold: sums for a search of its width.

use super::linear::LinearScratch;
use super::{Gradient, Interval, Linear, Objective, ObjectiveSpec, Point};
use crate::loss::Loss;
use crate::records::{Records, Row};

/// What a row contributes to the search of an interval's width, at the model's weights: 1 − L if its target is at most t away from the prediction, −L if not.
/// The sum over rows is 0 where the share L is held, and below 0 where fewer are.
///
/// It is no gradient of anything. The row of zeros contributes nothing, and so does a row without a target; every other one at most max(L, 1 − L).
#[derive(Clone, Debug)]
pub struct Coverage {
    of: Linear,
    interval: Interval,
}

/// Targets that are this near to an end of [−1, 1] are at it: cut numbers are rounded.
const END: f64 = 1.0 - 1e-6;

impl Coverage {
    /// Sums for a linear model of a number; `None` for another loss, and for a width or a level that is none.
    pub fn new(of: Linear, interval: Interval) -> Option<Self> {
        let number = matches!(of.loss(), Loss::Squared | Loss::Absolute | Loss::Huber { .. });
        let sized = interval.half_width >= 0.0 && interval.half_width.is_finite();
        let level = interval.level > 0.0 && interval.level < 1.0;
        (number && sized && level).then_some(Self { of, interval })
    }

    /// The most that a row contributes.
    pub fn most(level: f64) -> f64 {
        level.max(1.0 - level)
    }
}

/// Buffers of one row.
#[derive(Default)]
pub struct CoverageScratch {
    linear: LinearScratch,
    value: [f64; 1],
}

impl<R: Records> Objective<R> for Coverage {
    type Scratch = CoverageScratch;

    fn dimension(&self) -> usize {
        self.of.weights()
    }

    fn describes(&self, records: &R) -> bool {
        Objective::describes(&self.of, records)
    }

    fn spec(&self) -> Option<ObjectiveSpec> {
        let of = Objective::<R>::spec(&self.of)?;
        Some(ObjectiveSpec { interval: Some(self.interval), ..of })
    }

    /// Always 0: sums of gradients are all that is asked for.
    fn value(&self, _: &[f64], _: &R, _: usize, _: &mut Self::Scratch) -> Result<f64, R::Error> {
        Ok(0.0)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let CoverageScratch { linear, value } = scratch;
        let (columns, entries, target) = records.record(i, &mut linear.buffer)?;
        // the row that contributes nothing is one of zeros
        if entries.iter().all(|entry| *entry == 0.0) {
            return Ok(Gradient::Zero);
        }
        let row = Row::increasing(columns, entries);
        let Some(target) = self.of.usable(row, target) else { return Ok(Gradient::Zero) };
        let mut score = [0.0];
        x.scores(&mut score, self.of.features(), row);
        let Interval { half_width, level, ends } = self.interval;
        let target = target.clamp(-1.0, 1.0);
        // what is not a number holds nothing
        let near = (target - self.of.loss().prediction(score[0])).abs() <= half_width;
        let held = near && (ends || target.abs() < END);
        value[0] = f64::from(u8::from(held)) - level;
        Ok(Gradient::Entries { places: &[0], values: value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Examples, Rows};

    const INTERVAL: Interval = Interval { half_width: 0.25, level: 0.9, ends: true };

    fn sum(interval: Interval, loss: Loss, row: &mut [(u32, f32)], target: f32, weights: &[f64; 2]) -> Vec<f64> {
        let mut rows = Rows::new(2);
        rows.push_clipped(row, 1.0);
        let records = Examples { rows, targets: vec![target] };
        let coverage = Coverage::new(Linear::new(loss, 2, 1.0), interval).unwrap();
        let mut sum = vec![0.0; 2];
        coverage.gradient(&mut &weights[..], &records, 0, &mut Default::default()).unwrap().add_to(&mut sum);
        assert_eq!(sum[1], 0.0);
        sum
    }

    /// Under zero-out the neighbour's record is the row of zeros: it may move nothing, whatever its target is.
    #[test]
    fn the_row_that_contributes_nothing_moves_no_sum() {
        for loss in [Loss::Squared, Loss::Absolute, Loss::Huber { threshold: 0.1 }] {
            for target in [0.0, 1.0, f32::INFINITY, f32::NAN] {
                for row in [&mut [][..], &mut [(0, 0.0), (1, 0.0)][..]] {
                    assert_eq!(sum(INTERVAL, loss, row, target, &[0.3, 0.1]), [0.0, 0.0], "{loss:?} {target}");
                }
            }
            assert_eq!(sum(INTERVAL, loss, &mut [(0, 0.5)], f32::NAN, &[0.3, 0.1]), [0.0, 0.0]);
        }
    }

    /// One record moves the sum by at most what the noise is for.
    #[test]
    fn a_row_is_held_or_it_is_not() {
        for level in [0.5, 0.9, 0.99] {
            let interval = Interval { level, ..INTERVAL };
            let of =
                |target: f32, weights: &[f64; 2]| sum(interval, Loss::Squared, &mut [(0, 0.5)], target, weights)[0];
            let (held, missed) = (1.0 - level, 0.0 - level);
            // the prediction is .2
            assert_eq!(of(0.44, &[0.4, 0.0]), held);
            assert_eq!(of(0.46, &[0.4, 0.0]), missed);
            assert_eq!(of(-0.06, &[0.4, 0.0]), missed);
            // predictions and targets are cut to the range
            assert_eq!(of(0.8, &[40.0, 0.0]), held);
            assert_eq!(of(7.0, &[40.0, 0.0]), held);
            assert_eq!(of(0.0, &[f64::NAN, 0.0]), missed);
            for target in [0.44, 0.46, 7.0, f32::MAX, f32::INFINITY, f32::NEG_INFINITY] {
                for weight in [0.0, 1e300, -1e300, f64::INFINITY, f64::NAN] {
                    assert!(of(target, &[weight, 0.0]).abs() <= Coverage::most(level));
                }
            }
        }
    }

    #[test]
    fn a_target_that_may_have_been_cut_is_not_said_to_be_held() {
        for (ends, expected) in [(true, 1.0 - 0.9), (false, 0.0 - 0.9)] {
            let interval = Interval { ends, half_width: 3.0, ..INTERVAL };
            for target in [1.0, -1.0, 5.0] {
                assert_eq!(sum(interval, Loss::Squared, &mut [(0, 0.5)], target, &[0.4, 0.0])[0], expected);
            }
            assert_eq!(sum(interval, Loss::Squared, &mut [(0, 0.5)], 0.99, &[0.4, 0.0])[0], 1.0 - 0.9);
        }
    }

    #[test]
    fn other_losses_and_numbers_that_are_none_have_no_interval() {
        let of = |loss, interval| Coverage::new(Linear::new(loss, 2, 1.0), interval).is_some();
        assert!(of(Loss::Squared, INTERVAL));
        assert!(!of(Loss::Logistic { shift: 0.0 }, INTERVAL) && !of(Loss::Poisson { top: 8.0 }, INTERVAL));
        for half_width in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(!of(Loss::Squared, Interval { half_width, ..INTERVAL }));
        }
        for level in [0.0, 1.0, f64::NAN] {
            assert!(!of(Loss::Squared, Interval { level, ..INTERVAL }));
        }
    }
}
