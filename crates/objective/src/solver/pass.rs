//! One pass of clipped SGD over records, each used once, with a proved bound on what one record and the machine do to the mean of its
//! iterates (Feldman, Koren, Talwar 2020; Liu 2024, Algorithm 43; docs/proofs/phased-sgd.md).
//!
//! A step y − η·c(⟨x, y⟩)x with c non-decreasing and of slope at most β brings no two points further apart if ηβ‖x‖² ≤ 2, so what a
//! record did at its own step never grows afterwards. Iterates are kept relative to where the pass starts, as heads and what they
//! lose: rounding shrinks with the steps.
//!
//! Covers: thesis algorithm 40 (not private: by itself; phased SGD adds the noise)

use super::double::{self, Double, two_sum};
use super::sums::UNIT;
use crate::objective::Linear;
use crate::records::Examples;
use dpopt_process::stop;

/// So many records are used before it is asked again whether to go on.
pub(super) const STRETCH: usize = 1 << 14;

/// Beyond so many records or columns the bounds on rounding are not proved.
pub(super) const MOST: u64 = 1 << 31;

/// Steps y ← y − η·clip(∇φ_i(y)) over records in a given order. The clip bounds a record's slope in its one score, which keeps it monotone;
/// several scores have a common bound and are not clipped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// φ of rows of at most the norm that it names.
    pub objective: Linear,
    /// η > 0, of one record's step.
    pub learning_rate: f64,
    /// C > 0: bound on the norm of a record's clipped gradient.
    pub clip_norm: f64,
    /// Largest |target| of regression losses; targets are clamped to it.
    pub target_bound: f64,
}

impl Pass {
    /// Whether no step brings two points further apart, whatever the record: a convex smooth loss of bounded slope, ηβR² ≤ 2, and no clip of several scores.
    ///
    /// ```
    /// use dpopt_objective::{loss::Loss, objective::Linear, solver::Pass};
    /// let pass = |loss, learning_rate, clip_norm| {
    ///     Pass { objective: Linear::new(loss, 3, 2.0), learning_rate, clip_norm, target_bound: 1.0 }
    /// };
    /// let logistic = Loss::Logistic { shift: 0.0 }; // curvature ¼, rows of norm 2
    /// assert!(pass(logistic, 1.99, 2.0).is_contraction() && !pass(logistic, 2.01, 2.0).is_contraction());
    /// assert!(!pass(Loss::Hinge, 1e-3, 2.0).is_contraction());
    /// assert!(!pass(Loss::Softmax { classes: 3 }, 0.1, 1.0).is_contraction()); // clipped below √2·R
    /// assert!(pass(Loss::Softmax { classes: 3 }, 0.1, 3.0).is_contraction());
    /// ```
    pub fn is_contraction(&self) -> bool {
        let (facts, row_norm) = (self.objective.loss().facts(), self.objective.row_norm());
        let smooth =
            |curvature: f64| self.learning_rate * curvature * row_norm * row_norm <= 2.0 * (1.0 - 2f64.powi(-40));
        let positive = self.learning_rate > 0.0 && self.clip_norm > 0.0 && row_norm > 0.0 && row_norm.is_finite();
        positive
            && facts.convex
            && facts.lipschitz.is_some()
            && facts.smoothness.is_some_and(smooth)
            && (self.clips() || self.never_exceeds())
    }

    /// Whether slopes are clipped: of one score always, which costs nothing.
    fn clips(&self) -> bool {
        self.objective.loss().outputs() == 1
    }

    /// Whether no gradient is longer than C anyway.
    fn never_exceeds(&self) -> bool {
        let slope = self.objective.loss().facts().lipschitz.unwrap_or(f64::INFINITY);
        slope * self.objective.row_norm() <= self.clip_norm * (1.0 + 2f64.powi(-40))
    }

    /// V: bound on how far a pass over so many records goes.
    pub fn longest(&self, records: u64) -> f64 {
        records as f64 * self.learning_rate * self.clip_norm * (1.0 + 2f64.powi(-18))
    }

    /// What rounding adds to the distance between the computed means of two neighbours that start at the same point of norm at most
    /// `start`; infinite where nothing is proved.
    pub fn rounding(&self, records: u64, start: f64) -> f64 {
        let facts = self.objective.loss().facts();
        let columns = self.objective.features() as u64;
        let (Some(curvature), Some(slope), true) = (facts.smoothness, facts.lipschitz, records.max(columns) <= MOST)
        else {
            return f64::INFINITY;
        };
        let (t, m, row_norm) = (records as f64, columns as f64, self.objective.row_norm());
        let (step, longest) = (self.learning_rate * self.clip_norm, self.longest(records));
        let score = (m + 5.0) * UNIT * row_norm * (start + longest);
        let of_slope = self.learning_rate * row_norm * (curvature * score + 2.0 * UNIT * slope);
        let each = of_slope + 7.0 * UNIT * step + 3.0 * t * UNIT * UNIT * longest;
        (2.0 * t * each + (m + 6.0) * UNIT * step + 4.0 * UNIT * longest) * (1.0 + 2f64.powi(-10))
    }

    /// Bound on how far one record's presence moves the computed mean of the iterates: ηC, and what rounding adds.
    pub fn reach(&self, records: u64, start: f64) -> f64 {
        let bare = self.learning_rate * self.clip_norm;
        (bare + self.rounding(records, start)) * (1.0 + 4.0 * UNIT)
    }

    /// Mean of the iterates after each step, less the start; the records in this order. A record without a usable target makes no step.
    pub fn mean(&self, examples: &Examples, order: &[u32], start: &[f64]) -> Vec<f64> {
        let (loss, d) = (self.objective.loss(), self.objective.features());
        let (mut path, mut mean) = (Compensated::zero(start.len()), Compensated::zero(start.len()));
        let mut scores = vec![Double::default(); loss.outputs()];
        let mut slopes = vec![Double::default(); loss.outputs()];
        for (t, &record) in order.iter().enumerate() {
            if t % STRETCH == 0 {
                stop::point();
            }
            let target = f64::from(examples.targets[record as usize]);
            let Some(target) = loss.usable_target(target, self.target_bound) else { continue };
            let (columns, values) = examples.rows.row(record as usize);
            for (out, score) in scores.iter_mut().enumerate() {
                let entries = columns.iter().zip(values).map(|(&j, &v)| (out * d + j as usize, f64::from(v)));
                *score = Double::from(entries.map(|(j, v)| v * (start[j] + path.get(j))).sum::<f64>());
            }
            double::slope(loss, &scores, target, &mut slopes);
            let limit = if self.clips() { self.limit(values) } else { f64::INFINITY };
            // its share of the mean: it is in the iterates from its own on
            let weight = (order.len() - t) as f64 / order.len() as f64;
            for (out, slope) in slopes.iter().enumerate() {
                let step = -self.learning_rate * slope.hi.max(-limit).min(limit); // never panics, as a clamp may
                if step != 0.0 && step.is_finite() {
                    for (&j, &v) in columns.iter().zip(values) {
                        let change = step * f64::from(v);
                        path.add(out * d + j as usize, change);
                        mean.add(out * d + j as usize, weight * change);
                    }
                }
            }
        }
        (0..start.len()).map(|j| mean.get(j)).collect()
    }

    /// C/‖x‖: where the slope of a record is cut, which depends on the record alone.
    fn limit(&self, values: &[f32]) -> f64 {
        let size = values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
        // a row of nothing makes no step
        if size > 0.0 { self.clip_norm / size } else { 0.0 }
    }
}

/// Sums with what their additions lost.
pub(super) struct Compensated {
    sums: Vec<f64>,
    lost: Vec<f64>,
}

impl Compensated {
    pub(super) fn zero(len: usize) -> Self {
        Self { sums: vec![0.0; len], lost: vec![0.0; len] }
    }

    #[inline]
    pub(super) fn add(&mut self, j: usize, change: f64) {
        let (sum, error) = two_sum(self.sums[j], change);
        self.sums[j] = sum;
        self.lost[j] += error;
    }

    #[inline]
    pub(super) fn get(&self, j: usize) -> f64 {
        self.sums[j] + self.lost[j]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::norm;
    use crate::loss::Loss;
    use crate::records::Rows;
    use crate::synthetic::{Lcg, table};

    const LOGISTIC: Loss = Loss::Logistic { shift: 0.0 };

    fn pass(loss: Loss, features: usize, learning_rate: f64, clip_norm: f64) -> Pass {
        Pass { objective: Linear::new(loss, features, 1.0), learning_rate, clip_norm, target_bound: 1.0 }
    }

    fn distance(a: &[f64], b: &[f64]) -> f64 {
        norm(&a.iter().zip(b).map(|(x, y)| x - y).collect::<Vec<_>>())
    }

    #[test]
    fn the_mean_is_that_of_the_iterates() {
        let examples = table(3, 40, 2, 3, 1.0, LOGISTIC);
        let d = examples.rows.columns();
        let (start, order): (Vec<f64>, Vec<u32>) = ((0..d).map(|j| 0.1 * j as f64).collect(), (0..40).rev().collect());
        let pass = pass(LOGISTIC, d, 0.7, 0.3);
        let (mut y, mut sum) = (start.clone(), vec![0.0; d]);
        for &i in &order {
            let (columns, values) = examples.rows.row(i as usize);
            let score: f64 = columns.iter().zip(values).map(|(&j, &v)| f64::from(v) * y[j as usize]).sum();
            let size = values.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            let slope = LOGISTIC.scalar_slope(score, f64::from(examples.targets[i as usize]));
            let slope = slope.clamp(-0.3 / size, 0.3 / size);
            columns.iter().zip(values).for_each(|(&j, &v)| y[j as usize] -= 0.7 * slope * f64::from(v));
            sum.iter_mut().zip(&y).for_each(|(s, y)| *s += y / 40.0);
        }
        let mean = pass.mean(&examples, &order, &start);
        let plain: Vec<f64> = sum.iter().zip(&start).map(|(s, y)| s - y).collect();
        assert!(distance(&mean, &plain) < 1e-13, "{mean:?} {plain:?}");
        assert!(norm(&mean) > 0.1);
    }

    /// Two tables that differ in the record that comes first, in every way that a record can.
    #[test]
    fn a_record_moves_the_mean_by_no_more_than_the_reach_and_by_all_of_it_where_the_loss_is_linear() {
        let losses = [
            LOGISTIC,
            Loss::Huber { threshold: 0.5 },
            Loss::SmoothedHinge { width: 0.5 },
            Loss::Softmax { classes: 3 },
        ];
        let mut random = Lcg::new(5);
        let mut worst = 0.0f64;
        for trial in 0..200 {
            let loss = losses[trial % 4];
            let mut with = table(trial as u64, 60, 2, 3, 3.0, loss);
            let d = with.rows.columns();
            let facts = loss.facts();
            let slope = facts.lipschitz.unwrap();
            let clip = if loss.outputs() == 1 { slope * (0.05 + random.uniform()) } else { slope };
            let rate = 1.99 / facts.smoothness.unwrap() * 0.5f64.powi((trial / 4 % 5) as i32);
            let pass = pass(loss, d, rate, clip);
            assert!(pass.is_contraction());
            let mut other = with.clone();
            let (first, rest): (Vec<u32>, Vec<u32>) = (vec![7], (0..60).filter(|i| *i != 7).collect());
            let order = [first, rest].concat();
            other.targets[7] = f32::NAN; // absent
            let start: Vec<f64> = (0..d * loss.outputs()).map(|_| random.normal()).collect();
            let reach = pass.reach(60, norm(&start));
            let moved = distance(&pass.mean(&with, &order, &start), &pass.mean(&other, &order, &start));
            assert!(moved <= reach, "{loss:?} {moved} {reach}");
            worst = worst.max(moved / reach);
            // replaced by its opposite
            with.targets[7] = if loss.outputs() == 1 { -1.0 } else { 0.0 };
            other.targets[7] = 1.0;
            let moved = distance(&pass.mean(&with, &order, &start), &pass.mean(&other, &order, &start));
            assert!(moved <= 2.0 * reach, "{loss:?} {moved} {reach}");
            assert!(reach / (rate * clip) < 1.0 + 1e-8, "rounding is far below the step");
        }
        assert!(worst > 0.3, "{worst}");
        // slopes far out are constant: a record at ηC, and nothing that pulls back
        let mut rows = Rows::new(1);
        (0..10).for_each(|_| rows.push_clipped(&mut [(0, 1.0)], 1.0));
        let pass = pass(Loss::Huber { threshold: 0.5 }, 1, 2.0, 0.5);
        let (with, absent) = ([vec![1.0f32], vec![-1.0; 9]].concat(), [vec![f32::NAN], vec![-1.0; 9]].concat());
        let mean = |targets: Vec<f32>| pass.mean(&Examples { rows: rows.clone(), targets }, &[0, 1, 2], &[-90.0])[0];
        let moved = (mean(with) - mean(absent)).abs();
        assert!(moved <= pass.reach(3, 90.0) && moved > 0.999 * pass.reach(3, 90.0), "{moved}");
    }

    #[test]
    fn rows_of_nothing_and_missing_targets_make_no_step() {
        let mut rows = Rows::new(2);
        (0..2).for_each(|_| rows.push_zero());
        rows.push_clipped(&mut [(0, 1.0)], 1.0);
        let examples = Examples { rows, targets: vec![1.0, f32::NAN, f32::NAN] };
        assert_eq!(pass(LOGISTIC, 2, 1.0, 1.0).mean(&examples, &[2, 0, 1], &[3.0, 4.0]), [0.0, 0.0]);
    }

    /// What the bound ηβR² ≤ 2 is there for: at three times the curvature's inverse two iterates drift apart.
    #[test]
    fn steps_beyond_the_bound_drive_neighbours_apart() {
        let mut rows = Rows::new(1);
        (0..41).for_each(|_| rows.push_clipped(&mut [(0, 1.0)], 1.0));
        let order: Vec<u32> = (0..41).collect();
        let drift = |learning_rate: f64| {
            let pass = pass(Loss::Huber { threshold: 50.0 }, 1, learning_rate, 50.0);
            let mean = |first: f32| {
                let targets = [vec![first], vec![0.0; 40]].concat();
                pass.mean(&Examples { rows: rows.clone(), targets }, &order, &[0.0])[0]
            };
            ((mean(1.0) - mean(-1.0)).abs(), pass)
        };
        // each record's target reaches 1: gradients stay below the clip
        let (kept, pass) = drift(1.9);
        assert!(pass.is_contraction() && kept <= 2.0 * 1.9, "{kept}");
        let (grown, pass) = drift(3.0);
        assert!(!pass.is_contraction() && grown > 5.0 * 2.0 * 3.0, "{grown}");
    }

    #[test]
    fn the_bound_on_rounding_is_above_what_rounding_does() {
        // the same pass over the same records in higher precision is not at hand: compare orders of summation of equal records instead
        let examples = table(11, 3000, 3, 5, 2.0, LOGISTIC);
        let d = examples.rows.columns();
        let pass = pass(LOGISTIC, d, 1.0, 1.0);
        let order: Vec<u32> = (0..3000).collect();
        let start = vec![100.0; d];
        let far = pass.mean(&examples, &order, &start);
        // the columns in another order: the same real numbers, other roundings
        let mut swapped = Examples { rows: Rows::new(d), targets: examples.targets.clone() };
        for i in 0..3000 {
            let (columns, values) = examples.rows.row(i);
            let mut entries: Vec<(u32, f32)> =
                columns.iter().zip(values).map(|(&j, &v)| (d as u32 - 1 - j, v)).collect();
            swapped.rows.push_clipped(&mut entries, 1.0);
        }
        let mirrored: Vec<f64> = pass.mean(&swapped, &order, &start).into_iter().rev().collect();
        let gap = distance(&far, &mirrored);
        let allowed = pass.rounding(3000, norm(&start));
        assert!(gap > 0.0 && gap <= allowed, "{gap} {allowed}");
        assert!(pass.rounding(1 << 32, 1.0).is_infinite());
    }
}
