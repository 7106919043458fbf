//! Embedding models: the loss of scores that are products of learned vectors (docs/proofs/embeddings.md).

use super::{Gradient, Objective, Point};
use crate::loss::Loss;
use crate::loss::embedding::{Embedding, Pass};
use crate::records::{RecordBuffer, Records, Row};

/// φ_i of an [`Embedding`] as a function of how far its weights have moved from their public start. Not convex, and not Lipschitz:
/// nothing about privacy may rest on it but a clip.
#[derive(Clone, Debug)]
pub struct Embedded {
    model: Embedding,
    loss: Loss,
    features: usize,
    row_norm: f64,
    length: usize,
}

impl Embedded {
    /// The objective of rows with `features` columns and norm at most `row_norm`; vectors have at least `length` coordinates, those beyond the
    /// weights staying 0.
    pub fn new(model: Embedding, loss: Loss, features: usize, row_norm: f64, length: usize) -> Self {
        let length = length.max(model.weights(features, loss.outputs()));
        Self { model, loss, features, row_norm, length }
    }

    /// Form and length of its vectors, public start.
    pub fn model(&self) -> &Embedding {
        &self.model
    }

    /// Number of coordinates.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Number of features of a row, numbers per feature, length of the dense part.
    pub fn shape(&self) -> [usize; 3] {
        [self.features, self.model.width(), self.model.head(self.loss.outputs())]
    }

    /// The weights that `moved` was moved to: starting values added, what is no weight cut off.
    pub fn started(&self, mut moved: Vec<f64>) -> Vec<f64> {
        moved.truncate(self.model.weights(self.features, self.loss.outputs()));
        moved.iter_mut().enumerate().for_each(|(at, w)| *w += self.model.start(at, self.features, self.row_norm));
        moved
    }

    /// Scores of record i, its target, and the pass that made them; `None` if it contributes nothing.
    fn forward<'a, R: Records>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        (pass, buffer): (&mut Pass, &'a mut RecordBuffer),
    ) -> Result<Option<Scored<'a>>, R::Error> {
        let (columns, values, target) = records.record(i, buffer)?;
        let fits = Row::increasing(columns, values).fits(self.features);
        let usable = self.loss.usable_target(f64::from(target), f64::MAX);
        let Some(target) = usable.filter(|_| fits) else { return Ok(None) };
        let (d, outputs) = (self.features, self.loss.outputs());
        let weight = |at: usize| x.read(at) + self.model.start(at, d, self.row_norm);
        self.model.forward((columns, values), (d, outputs), weight, pass);
        Ok(Some(Scored { columns, values, target }))
    }
}

struct Scored<'a> {
    columns: &'a [u32],
    values: &'a [f32],
    target: f64,
}

/// Buffers of one record.
#[derive(Default)]
pub struct EmbeddedScratch {
    pass: Pass,
    buffer: RecordBuffer,
    places: Vec<usize>,
}

impl<R: Records> Objective<R> for Embedded {
    type Scratch = EmbeddedScratch;
    const LOCAL: bool = true;

    fn dimension(&self) -> usize {
        self.length
    }

    fn describes(&self, records: &R) -> bool {
        records.columns() == self.features && records.norm_bound() <= self.row_norm
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut EmbeddedScratch) -> Result<f64, R::Error> {
        let EmbeddedScratch { pass, buffer, .. } = scratch;
        let scored = self.forward(&mut { x }, records, i, (pass, buffer))?;
        Ok(scored.map_or(0.0, |scored| self.loss.value(&pass.scores, scored.target)))
    }

    #[inline]
    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut EmbeddedScratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let EmbeddedScratch { pass, buffer, places } = scratch;
        let Some(Scored { columns, values, target }) = self.forward(x, records, i, (pass, buffer))? else {
            return Ok(Gradient::Zero);
        };
        let outputs = self.loss.outputs();
        pass.slope.clear();
        pass.slope.resize(outputs, 0.0);
        self.loss.slope(&pass.scores, target, &mut pass.slope);
        if pass.slope.iter().any(|c| !c.is_finite()) {
            return Ok(Gradient::Zero); // never an error, which would be an output
        }
        self.model.backward((columns, values), pass);
        places.clear();
        places.extend(self.model.places(columns, self.features, outputs));
        Ok(Gradient::Entries { places, values: &mut pass.gradient })
    }

    /// Neighbours of a fetched line come by themselves.
    #[inline]
    fn ahead(
        &self,
        records: &R,
        i: usize,
        scratch: &mut EmbeddedScratch,
        places: &mut Vec<usize>,
    ) -> Result<(), R::Error> {
        let (columns, ..) = records.record(i, &mut scratch.buffer)?;
        let w = self.model.width();
        places.extend(columns.iter().flat_map(|&j| (self.model.place(j)..self.model.place(j) + w).step_by(2)));
        Ok(())
    }
}
