//! Another objective whose gradients are moved to the nearest point of an ellipsoid in the l2 norm of the original coordinates
//! (the projection of Asi, Duchi, Fallah, Javidbakht, Talwar 2021), instead of being shortened.

use super::{Gradient, Objective, Point};
use crate::geometry::project_ellipsoid;
use crate::records::RecordSet;

/// An objective in units in which the ellipsoid is a ball of radius C, each gradient projected on it in the original ones.
#[derive(Clone, Debug)]
pub struct NearestPoint<O> {
    objective: O,
    /// √C_j, the scale of each coordinate.
    scales: Vec<f64>,
    /// (√C_j / C)²: the ellipsoid in the original units, per coordinate.
    shape: Vec<f64>,
}

impl<O> NearestPoint<O> {
    /// `scales` repeat over the `dimension` coordinates. In the units of `objective` the projection divides coordinate j by
    /// 1 + ν·s_j²; Newton comes from outside, so whoever clips to `clip_norm` afterwards has the last word.
    pub fn new(objective: O, scales: &[f64], dimension: usize, clip_norm: f64) -> Self {
        let scales: Vec<f64> = scales.iter().copied().cycle().take(dimension).collect();
        let shape = scales.iter().map(|s| (s / clip_norm).powi(2)).collect();
        Self { objective, scales, shape }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct NearestScratch<S> {
    inner: S,
    gradient: Vec<f64>,
}

impl<R: RecordSet, O: Objective<R>> Objective<R> for NearestPoint<O> {
    type Scratch = NearestScratch<O::Scratch>;

    fn dimension(&self) -> usize {
        self.scales.len()
    }

    fn describes(&self, records: &R) -> bool {
        self.objective.describes(records)
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        self.objective.value(x, records, i, &mut scratch.inner)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let NearestScratch { inner, gradient: out } = scratch;
        let gradient = self.objective.gradient(x, records, i, inner)?;
        if matches!(gradient, Gradient::Zero) {
            return Ok(Gradient::Zero);
        }
        out.clear();
        out.resize(self.scales.len(), 0.0);
        gradient.add_to(out);
        out.iter_mut().zip(&self.scales).for_each(|(g, s)| *g /= s);
        project_ellipsoid(out, &self.shape);
        out.iter_mut().zip(&self.scales).for_each(|(g, s)| *g *= s);
        Ok(Gradient::Dense(out))
    }
}
