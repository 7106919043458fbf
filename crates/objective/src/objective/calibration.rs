//! How far the scores of a released linear model are from what happened: sums for a few steps of Newton's method in the scores' scale and offsets.

use super::linear::LinearScratch;
use super::{Gradient, InWords, Linear, Objective, Point, Scores};
use crate::loss::Loss;
use crate::records::{Records, Row};

/// What a record contributes to the calibration of a linear model, at the model's weights: with residuals e = p − y of its scores' probabilities (of a squared loss: score − target),
/// instruments h_c = clamp(r_c/unit, ±1), r being the scores without the intercept's part, and V = ∂e/∂scores,
///
/// - e_c for each output (if there is an intercept), and Σ e_c·h_c: both are 0 on average where scores are right;
/// - the derivatives of all that in the offsets (as weights of the intercept, over `origin`) and in the scale, [`WEIGHT`] times: upper triangle, row by row, √2 times off the diagonal.
///
/// It is no gradient of anything. A record moves a sum by a vector of any length, which whoever adds up clips, as always.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    of: Linear,
    told: Scores,
}

/// Of derivatives beside residuals: they are small, and noise is the same for both.
pub const WEIGHT: f64 = 2.0;
/// Scores beyond so many units count as if they were no larger, in derivatives.
const FAR: f64 = 3.0;

impl Calibration {
    /// Of a model with the logistic loss without a shift, softmax or the squared loss; `None` for another one.
    pub fn new(of: Linear, told: Scores) -> Option<Self> {
        let usual = matches!(of.loss(), Loss::Logistic { shift: 0.0 } | Loss::Softmax { .. } | Loss::Squared);
        let inside = told.intercept.is_none_or(|at| (at as usize) < of.features());
        let sized = told.unit > 0.0 && told.unit.is_finite() && told.origin > 0.0 && told.origin.is_finite();
        (usual && inside && sized).then_some(Self { of, told })
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

    fn in_words(&self) -> Option<InWords> {
        let of = Objective::<R>::in_words(&self.of)?;
        Some(InWords { scores: Some(self.told), ..of })
    }

    /// Nothing: see above.
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
            let of_constant = match (self.told.intercept, constant) {
                (Some(at), Some(value)) => value * x.read(c * features + at as usize),
                _ => 0.0,
            };
            scores[c] - of_constant
        }));
        if outputs > 1 {
            // what all scores have in common says nothing
            let mean = rest.iter().sum::<f64>() / outputs as f64;
            rest.iter_mut().for_each(|r| *r -= mean);
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
                _ => out.push(binary * (1.0 - binary) * v(0)),
            }
        };
        let instrument = |c: usize| (rest[c] / unit).clamp(-1.0, 1.0);
        let far = |c: usize| (rest[c] / unit).clamp(-FAR, FAR);
        values.clear();
        let offsets = constant.map_or(0, |_| outputs);
        values.extend(residuals.iter().take(offsets));
        values.push((0..outputs).map(|c| residuals[c] * instrument(c)).sum());
        let apart = WEIGHT * std::f64::consts::SQRT_2;
        let moved = constant.unwrap_or(0.0) / self.told.origin;
        for b in 0..offsets {
            // a weight of the intercept moves its own score only
            change(&|c| f64::from(c == b) * moved, curved);
            values.push(WEIGHT * curved[b]);
            values.extend((b + 1..offsets).map(|c| apart * curved[c]));
            values.push(apart * (0..outputs).map(|c| curved[c] * instrument(c)).sum::<f64>());
        }
        change(&far, curved);
        values.push(WEIGHT * (0..outputs).map(|c| curved[c] * instrument(c)).sum::<f64>());
        if values.iter().any(|v| !v.is_finite()) {
            return Ok(Gradient::Zero); // never an error, which would be an output
        }
        places.clear();
        places.extend(0..values.len());
        Ok(Gradient::Entries { places, values })
    }
}
