//! How far the scores of a released linear model are from what happened: sums for a few steps of Newton's method in the scores' scale and offsets.

use super::linear::LinearScratch;
use super::{Gradient, Linear, Objective, ObjectiveSpec, Point, Scores};
use crate::loss::Loss;
use crate::records::{Records, Row};

/// What a record contributes to the calibration of a linear model, at the model's weights: with residuals e = p − y of its scores' probabilities (of a squared loss: score − target; of counts: mean − count, in usual counts),
/// instruments h_c = clamp(r_c/unit, ±1), r being the scores without the intercept's own part (of several outputs: less the largest of them), and V = ∂e/∂scores,
///
/// - e_c for each output (if there is an intercept), and Σ e_c·h_c: both are 0 on average where scores are right;
/// - the derivatives of all that in the offsets (as weights of the intercept, over `origin`) and in the scale, [`curvature_weight`] times: upper triangle, row by row, √2 times off the diagonal. That of a number in its offset is 1, and is left out.
///
/// It is no gradient of anything. A record moves a sum by a vector of any length, which whoever adds up clips, as always.
#[derive(Clone, Debug)]
pub struct Calibration {
    of: Linear,
    told: Scores,
}

/// Weight of derivatives beside residuals, for which noise is the same: those of probabilities are small, those of numbers are not.
pub fn curvature_weight(loss: Loss) -> f64 {
    match loss {
        Loss::Squared | Loss::Poisson { .. } => 0.25,
        _ => 2.0,
    }
}

/// Scores beyond so many units count as if they were no larger, in derivatives.
const FAR: f64 = 3.0;

impl Calibration {
    /// Sums for a model with the logistic loss without a shift, softmax, the squared or the Poisson loss; `None` for another one.
    pub fn new(of: Linear, told: Scores) -> Option<Self> {
        let usual = matches!(
            of.loss(),
            Loss::Logistic { shift: 0.0 } | Loss::Softmax { .. } | Loss::Squared | Loss::Poisson { .. }
        );
        let inside = told.intercept.is_none_or(|at| (at as usize) < of.features());
        let sized = told.unit > 0.0 && told.unit.is_finite() && told.origin > 0.0 && told.origin.is_finite();
        let own = told.own.len() == told.intercept.map_or(0, |_| of.loss().outputs());
        let own = own && told.own.iter().all(|b| b.is_finite());
        (usual && inside && sized && own).then_some(Self { of, told })
    }

    /// Offsets and the scale: as many numbers as are to be found.
    pub fn unknowns(&self) -> usize {
        1 + self.told.intercept.map_or(0, |_| self.of.loss().outputs())
    }

    /// What of a sum says something; any more entries are 0 before noise.
    pub fn entries(&self) -> usize {
        let unknowns = self.unknowns();
        unknowns + unknowns * (unknowns + 1) / 2
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct CalibrationScratch {
    linear: LinearScratch,
    scores: Vec<f64>,
    residuals: Vec<f64>,
    rest: Vec<f64>,
    curved: Vec<f64>,
    places: Vec<usize>,
    values: Vec<f64>,
}

impl<R: Records> Objective<R> for Calibration {
    type Scratch = CalibrationScratch;

    fn dimension(&self) -> usize {
        self.of.weights().max(self.entries())
    }

    fn describes(&self, records: &R) -> bool {
        Objective::describes(&self.of, records)
    }

    fn spec(&self) -> Option<ObjectiveSpec> {
        let of = Objective::<R>::spec(&self.of)?;
        Some(ObjectiveSpec { scores: Some(self.told.clone()), ..of })
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
        let CalibrationScratch { linear, scores, residuals, rest, curved, places, values } = scratch;
        let (columns, entries, target) = records.record(i, &mut linear.buffer)?;
        let row = Row::increasing(columns, entries);
        let Some(target) = self.of.usable(row, target) else { return Ok(Gradient::Zero) };
        // the row that contributes nothing is one of zeros: it has no intercept either
        let own = |at: u32| columns.iter().position(|&j| j == at).map_or(0.0, |k| f64::from(entries[k]));
        let constant = self.told.intercept.map(own);
        if constant == Some(0.0) || entries.is_empty() {
            return Ok(Gradient::Zero);
        }
        let (loss, features, outputs) = (self.of.loss(), self.of.features(), self.of.loss().outputs());
        scores.resize(outputs, 0.0);
        residuals.resize(outputs, 0.0);
        x.scores(scores, features, row);
        if loss == Loss::Squared {
            // what is predicted lies within the range of targets
            scores[0] = scores[0].clamp(-1.0, 1.0);
        }
        loss.slope(scores, target, residuals);
        rest.clear();
        rest.extend((0..outputs).map(|c| {
            let own = self.told.own.get(c).copied().unwrap_or(0.0);
            scores[c] - constant.unwrap_or(0.0) * own
        }));
        if outputs > 1 {
            // what all scores have in common says nothing, and of two large ones only their difference says something
            let largest = rest.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            rest.iter_mut().for_each(|r| *r -= largest);
        }
        let unit = self.told.unit;
        // V·v: what residuals change by where scores change by v
        let probability = |c: usize| residuals[c] + f64::from(outputs > 1 && c == target as usize);
        let binary = residuals[0] + f64::from(target > 0.0);
        let change = |v: &dyn Fn(usize) -> f64, out: &mut Vec<f64>| {
            out.clear();
            match loss {
                Loss::Softmax { .. } => {
                    let mean: f64 = (0..outputs).map(|c| probability(c) * v(c)).sum();
                    out.extend((0..outputs).map(|c| probability(c) * (v(c) - mean)));
                }
                Loss::Squared => out.push(v(0)),
                Loss::Poisson { .. } => out.push(loss.scalar_curvature(scores[0], target) * v(0)),
                _ => out.push(binary * (1.0 - binary) * v(0)),
            }
        };
        let instrument = |c: usize| (rest[c] / unit).clamp(-1.0, 1.0);
        let far = |c: usize| (rest[c] / unit).clamp(-FAR, FAR);
        values.clear();
        let offsets = constant.map_or(0, |_| outputs);
        values.extend(residuals.iter().take(offsets));
        values.push((0..outputs).map(|c| residuals[c] * instrument(c)).sum());
        let weight = curvature_weight(loss);
        let apart = weight * std::f64::consts::SQRT_2;
        let moved = constant.unwrap_or(0.0) / self.told.origin;
        for b in 0..offsets {
            // a weight of the intercept moves its own score only
            change(&|c| f64::from(c == b) * moved, curved);
            values.push(if loss == Loss::Squared { 0.0 } else { weight * curved[b] });
            values.extend((b + 1..offsets).map(|c| apart * curved[c]));
            values.push(apart * (0..outputs).map(|c| curved[c] * instrument(c)).sum::<f64>());
        }
        change(&far, curved);
        values.push(weight * (0..outputs).map(|c| curved[c] * instrument(c)).sum::<f64>());
        if values.iter().any(|v| !v.is_finite()) {
            return Ok(Gradient::Zero); // never an error, which would be an output
        }
        places.clear();
        places.extend(0..values.len());
        Ok(Gradient::Entries { places, values })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{Examples, Rows};

    const LOSSES: [Loss; 4] =
        [Loss::Logistic { shift: 0.0 }, Loss::Softmax { classes: 3 }, Loss::Squared, Loss::Poisson { top: 8.0 }];

    /// A third of the intercept's weights is its own.
    fn scores_of(loss: Loss, intercept: Option<u32>) -> Scores {
        let own = |_| weights(loss).chunks(3).map(|line| line[0] / 3.0).collect();
        Scores { intercept, origin: 0.5, unit: 0.8, own: intercept.map_or_else(Vec::new, own) }
    }

    fn of(loss: Loss, intercept: Option<u32>) -> Calibration {
        Calibration::new(Linear::new(loss, 3, 1.0), scores_of(loss, intercept)).unwrap()
    }

    fn sum(sums: &Calibration, weights: &[f64], records: &Examples, i: usize) -> Vec<f64> {
        let dimension = Objective::<Examples>::dimension(sums);
        let mut point = weights.to_vec();
        point.resize(dimension, 0.0);
        let mut sum = vec![0.0; dimension];
        sums.gradient(&mut &point[..], records, i, &mut Default::default()).unwrap().add_to(&mut sum);
        sum
    }

    fn records(target: f32) -> Examples {
        let mut rows = Rows::new(3);
        rows.push_clipped(&mut [(0, 0.5), (1, 0.4), (2, -0.3)], 1.0);
        rows.push_zero();
        rows.push_clipped(&mut [(0, 0.0), (1, 0.0), (2, 0.0)], 1.0);
        Examples { rows, targets: vec![target; 3] }
    }

    fn weights(loss: Loss) -> Vec<f64> {
        (0..3 * loss.outputs()).map(|at| 0.5 * (at as f64 * 1.7).sin()).collect()
    }

    /// Under zero-out the neighbour's record is the row of zeros: it may move nothing.
    #[test]
    fn the_row_that_contributes_nothing_moves_no_sum() {
        for loss in LOSSES {
            for intercept in [None, Some(0)] {
                let sums = of(loss, intercept);
                for target in [1.0, 0.0, -3.0, f32::MAX, f32::INFINITY, f32::NAN] {
                    let records = records(target);
                    let there = sum(&sums, &weights(loss), &records, 0).iter().any(|v| *v != 0.0);
                    assert!(there || target != 1.0, "{loss:?}");
                    for nothing in [1, 2] {
                        let moved = sum(&sums, &weights(loss), &records, nothing);
                        assert!(moved.iter().all(|v| *v == 0.0), "{loss:?} {intercept:?} {target}: {moved:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn derivatives_are_those_of_the_residuals() {
        let step = 1e-5;
        for loss in LOSSES {
            for target in [0.0, 1.0] {
                let (sums, records, at) = (of(loss, Some(0)), records(target), weights(loss));
                let unknowns = sums.unknowns();
                let here = sum(&sums, &at, &records, 0);
                let mut entries = here[unknowns..].iter();
                for a in 0..unknowns {
                    for b in a..unknowns {
                        let apart = if a == b { 1.0 } else { std::f64::consts::SQRT_2 };
                        let said = entries.next().unwrap() / (curvature_weight(loss) * apart);
                        if loss == Loss::Squared && (a, b) == (0, 0) {
                            assert_eq!(said, 0.0);
                            continue;
                        }
                        // along the offset or the scale b, whichever it is
                        let moved = |by: f64| {
                            let mut weights = at.clone();
                            for (j, weight) in weights.iter_mut().enumerate() {
                                let (line, column) = (j / 3, j % 3);
                                match (b + 1 == unknowns, column) {
                                    (false, 0) if line == b => *weight += by / 0.5,
                                    (true, 0) => *weight *= 1.0 + by * 2.0 / 3.0 / 0.8,
                                    (true, 1 | 2) => *weight *= 1.0 + by / 0.8,
                                    _ => {}
                                }
                            }
                            weights
                        };
                        let residuals = |by: f64| {
                            let there = sum(&sums, &moved(by), &records, 0);
                            if a + 1 < unknowns {
                                return there[a];
                            }
                            // the instrument stays where it is
                            let scores = |c: usize| {
                                let all: f64 =
                                    [0.5, 0.4f32, -0.3].iter().zip(&at[3 * c..]).map(|(x, w)| f64::from(*x) * w).sum();
                                all - 0.5 * at[3 * c] / 3.0
                            };
                            let all = (0..unknowns - 1).map(scores);
                            let largest = if unknowns > 2 { all.fold(f64::NEG_INFINITY, f64::max) } else { 0.0 };
                            (0..unknowns - 1).map(|c| there[c] * ((scores(c) - largest) / 0.8).clamp(-1.0, 1.0)).sum()
                        };
                        let expected = (residuals(step) - residuals(-step)) / (2.0 * step);
                        assert!((said - expected).abs() < 1e-6, "{loss:?} {target} {a} {b}: {said} {expected}");
                    }
                }
            }
        }
    }

    #[test]
    fn other_losses_and_shapes_have_no_calibration() {
        let linear = |loss| Linear::new(loss, 3, 1.0);
        for loss in [Loss::Hinge, Loss::Logistic { shift: 2.0 }, Loss::Huber { threshold: 0.1 }] {
            assert!(Calibration::new(linear(loss), scores_of(loss, Some(0))).is_none());
        }
        assert!(Calibration::new(linear(Loss::Squared), scores_of(Loss::Squared, Some(3))).is_none());
        for own in [vec![], vec![0.0; 2], vec![f64::NAN]] {
            let given = Scores { own, ..scores_of(Loss::Squared, Some(0)) };
            assert!(Calibration::new(linear(Loss::Squared), given).is_none());
        }
        for unit in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(
                Calibration::new(linear(Loss::Squared), Scores { unit, ..scores_of(Loss::Squared, None) }).is_none()
            );
        }
    }
}
