//! Linear models: the loss of the scores of a row.

use super::{Evidence, Fact, Facts, Gradient, Objective, ObjectiveSpec, Point};
use crate::loss::Loss;
use crate::records::{RecordBuffer, Records, Row};

/// φ_i(θ) = loss(θ·x_i, y_i) with weights θ, outputs × features, row-major.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    loss: Loss,
    features: usize,
    row_norm: f64,
}

impl Linear {
    /// The objective of rows with `features` columns and l2 norm at most `row_norm`, which whoever made the rows enforced.
    pub fn new(loss: Loss, features: usize, row_norm: f64) -> Self {
        Self { loss, features, row_norm }
    }

    /// The objective of these rows under `loss`.
    pub fn with_loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }

    /// The loss of a record's scores.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// d of a row.
    pub fn features(&self) -> usize {
        self.features
    }

    /// R: bound on the l2 norm of a row.
    pub fn row_norm(&self) -> f64 {
        self.row_norm
    }

    /// Number of weights.
    pub fn weights(&self) -> usize {
        self.loss.outputs() * self.features
    }

    /// The loss's facts are proved for every score and target, and the norm of a row is enforced: so is what follows for weights.
    ///
    /// ```
    /// use dpopt_objective::{loss::Loss, objective::{Linear, Evidence}};
    /// let facts = Linear::new(Loss::Logistic { shift: 0.0 }, 30, 2.0).known();
    /// assert_eq!(facts.lipschitz().map(|l| (l.value(), l.evidence())), Some((2.0, Evidence::Proved)));
    /// assert_eq!(facts.smoothness().map(|b| b.value()), Some(1.0)); // R²/4
    /// assert_eq!(Linear::new(Loss::Squared, 30, 2.0).known().lipschitz(), None); // clipped instead
    /// ```
    pub fn known(&self) -> Facts {
        let row = Fact::new(self.row_norm, Evidence::Enforced);
        let loss = self.loss.facts();
        let proved = |value: f64| Fact::new(value, Evidence::Proved);
        Facts {
            lipschitz: loss.lipschitz.map(|l| proved(l).times(row)),
            smoothness: loss.smoothness.map(|b| proved(b).times(row).times(row)),
            convex: loss.convex.then_some(Evidence::Proved),
        }
    }
}

impl Linear {
    /// G where every record's loss is convex and G-Lipschitz in l_p and rows have a norm of order `dual` = p/(p − 1), from 2 to ∞, of at
    /// most `bound`: the norm of slope ⊗ row is the product of theirs. Infinite where one of them is not known.
    ///
    /// ```
    /// use dpopt_objective::{loss::Loss, objective::Linear};
    /// let softmax = Linear::new(Loss::Softmax { classes: 4 }, 30, 2.0);
    /// assert_eq!(softmax.convex_lipschitz_in(f64::INFINITY, 0.5), 0.5);
    /// assert_eq!(softmax.with_loss(Loss::Sigmoid).convex_lipschitz_in(3.0, 0.5), f64::INFINITY);
    /// ```
    pub fn convex_lipschitz_in(&self, dual: f64, bound: f64) -> f64 {
        let slope = self.loss.slope_norm(dual).filter(|_| self.loss.facts().convex);
        slope.map_or(f64::INFINITY, |slope| slope * bound)
    }

    /// The target that the loss works with; `None` for a record that contributes nothing: without one, or wider than the features.
    #[inline]
    pub(super) fn usable(&self, row: Row<'_>, target: f32) -> Option<f64> {
        if row.fits(self.features) { self.loss.usable_target(f64::from(target), f64::MAX) } else { None }
    }

    /// Whether the facts are those of such rows.
    pub(super) fn describes<R: Records>(&self, records: &R) -> bool {
        records.columns() == self.features && records.norm_bound() <= self.row_norm
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct LinearScratch {
    scores: Vec<f64>,
    pub(super) slope: Vec<f64>,
    pub(super) buffer: RecordBuffer,
}

impl<R: Records> Objective<R> for Linear {
    type Scratch = LinearScratch;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        self.weights()
    }

    fn lines(&self) -> usize {
        self.loss.outputs()
    }

    fn facts(&self) -> Facts {
        self.known()
    }

    fn describes(&self, records: &R) -> bool {
        self.describes(records)
    }

    fn spec(&self) -> Option<ObjectiveSpec> {
        Some(ObjectiveSpec {
            loss: self.loss,
            features: self.features,
            row_norm: self.row_norm,
            sizes: None,
            scores: None,
            interval: None,
            of_units: false,
        })
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut LinearScratch) -> Result<f64, R::Error> {
        let LinearScratch { scores, buffer, .. } = scratch;
        let (columns, values, target) = records.record(i, buffer)?;
        let row = Row::increasing(columns, values);
        let Some(target) = self.usable(row, target) else { return Ok(0.0) };
        let mut x = x;
        scores.clear();
        scores.extend((0..self.loss.outputs()).map(|out| x.score(out, self.features, row)));
        Ok(self.loss.value(scores, target))
    }

    #[inline]
    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut LinearScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let LinearScratch { scores, slope, buffer } = scratch;
        let (columns, values, target) = records.record(i, buffer)?;
        let row = Row::increasing(columns, values);
        let Some(target) = self.usable(row, target) else { return Ok(Gradient::Zero) };
        scores.resize(self.loss.outputs(), 0.0);
        slope.resize(self.loss.outputs(), 0.0);
        x.scores(scores, self.features, row);
        self.loss.slope(scores, target, slope);
        if slope.iter().any(|c| !c.is_finite()) {
            return Ok(Gradient::Zero); // never an error, which would be an output
        }
        Ok(Gradient::Outer { slope, width: self.features, row })
    }

    /// Those of a feature's first line stand for the others beside them.
    #[inline]
    fn ahead(
        &self,
        records: &R,
        i: usize,
        scratch: &mut LinearScratch,
        places: &mut Vec<usize>,
    ) -> Result<(), R::Error> {
        let (columns, ..) = records.record(i, &mut scratch.buffer)?;
        places.extend(columns.iter().map(|&j| j as usize));
        Ok(())
    }
}
