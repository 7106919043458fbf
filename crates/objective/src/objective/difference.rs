//! Gradients as differences from those at an anchor, for variance reduction (Liang, Tong, Ding, Pan, Bi 2022, Algorithm 2): ∇φ_i(x) − ∇φ_i(x̃).
//!
//! For a linear model with one output the difference is (φ'(⟨x, a⟩) − φ'(⟨x̃, a⟩))·a: one scalar, clipped as one vector, so that the
//! sensitivity is c and not the 2l of two clipped gradients. c is fixed by the plan.

use super::linear::LinearScratch;
use super::{Evidence, Fact, Facts, Gradient, Linear, Objective, Point};
use crate::records::{Records, Row};

/// φ_i(x) − ⟨∇φ_i(anchor), x⟩ for models with one output.
#[derive(Clone, Copy, Debug)]
pub struct Difference<'a> {
    objective: Linear,
    anchor: &'a [f64],
}

impl<'a> Difference<'a> {
    /// # Panics
    /// If there is more than one output, or the anchor is not a point of the objective (bugs of the caller).
    pub fn from(objective: Linear, anchor: &'a [f64]) -> Self {
        assert_eq!((objective.loss().outputs(), anchor.len()), (1, objective.features()), "one output, one anchor");
        Self { objective, anchor }
    }

    fn score(mut point: &[f64], row: Row<'_>) -> f64 {
        let features = point.len();
        Point::score(&mut point, 0, features, row)
    }
}

impl<R: Records> Objective<R> for Difference<'_> {
    type Scratch = LinearScratch;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        self.objective.features()
    }

    /// Where x may lie is not bounded, so the difference is at most twice a gradient.
    fn facts(&self) -> Facts {
        let known = self.objective.known();
        Facts { lipschitz: known.lipschitz.map(|l| l.times(Fact::new(2.0, Evidence::Proved))), ..known }
    }

    fn describes(&self, records: &R) -> bool {
        self.objective.describes(records)
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut LinearScratch) -> Result<f64, R::Error> {
        let (columns, values, target) = records.record(i, &mut scratch.buffer)?;
        let (row, loss) = (Row::increasing(columns, values), self.objective.loss());
        let Some(target) = self.objective.usable(row, target) else { return Ok(0.0) };
        let (here, there) = (Self::score(x, row), Self::score(self.anchor, row));
        Ok(loss.scalar_value(here, target) - loss.scalar_slope(there, target) * here)
    }

    #[inline]
    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut LinearScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let LinearScratch { slope, buffer, .. } = scratch;
        let (columns, values, target) = records.record(i, buffer)?;
        let (row, loss, width) = (Row::increasing(columns, values), self.objective.loss(), self.objective.features());
        let Some(target) = self.objective.usable(row, target) else { return Ok(Gradient::Zero) };
        let change = loss.scalar_slope(x.score(0, width, row), target)
            - loss.scalar_slope(Self::score(self.anchor, row), target);
        if !change.is_finite() {
            return Ok(Gradient::Zero);
        }
        slope.clear();
        slope.push(change);
        Ok(Gradient::Outer { slope, width, row })
    }
}
