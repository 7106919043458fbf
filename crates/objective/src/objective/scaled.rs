//! Another objective in other units: coordinates in which an ellipsoid is a ball (Asi, Duchi, Fallah, Javidbakht, Talwar 2021).
//!
//! ‖g‖_C = √Σ C_j·g_j² is the l2 norm of √C_j·g_j: one isotropic clip, grid and noise serve every diagonal C.

use super::{Gradient, Objective, Point};
use crate::records::RecordSet;

/// An objective whose gradients come out multiplied by public scales √C_j, at points in the original units.
#[derive(Clone, Debug)]
pub struct Scaled<O> {
    objective: O,
    scales: Vec<f64>,
}

impl<O> Scaled<O> {
    /// One scale per coordinate; none at all is a ball.
    pub fn new(objective: O, scales: Vec<f64>) -> Self {
        Self { objective, scales }
    }

    /// The objective in the original units.
    pub fn objective(&self) -> &O {
        &self.objective
    }

    /// √C_j, the scale of each coordinate.
    pub fn scales(&self) -> &[f64] {
        &self.scales
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct ScaledScratch<S> {
    inner: S,
    places: Vec<usize>,
    values: Vec<f64>,
}

impl<R: RecordSet, O: Objective<R>> Objective<R> for Scaled<O> {
    type Scratch = ScaledScratch<O::Scratch>;
    const LOCAL: bool = O::LOCAL;

    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn lines(&self) -> usize {
        self.objective.lines()
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
        let ScaledScratch { inner, places, values } = scratch;
        let gradient = self.objective.gradient(x, records, i, inner)?;
        let scale = |at: usize| self.scales.get(at).copied().unwrap_or(1.0);
        if self.scales.is_empty() {
            return Ok(gradient);
        }
        Ok(match gradient {
            Gradient::Zero => Gradient::Zero,
            Gradient::Dense(g) => {
                g.iter_mut().enumerate().for_each(|(at, v)| *v *= scale(at));
                Gradient::Dense(g)
            }
            Gradient::Entries { places, values } => {
                places.iter().zip(values.iter_mut()).for_each(|(&at, v)| *v *= scale(at));
                Gradient::Entries { places, values }
            }
            Gradient::Outer { slope, width, row } => {
                places.clear();
                values.clear();
                for (line, c) in slope.iter().enumerate() {
                    let columns = row.columns().iter().map(|&j| line * width + j as usize);
                    values.extend(columns.clone().zip(row.values()).map(|(at, &x)| c * f64::from(x) * scale(at)));
                    places.extend(columns);
                }
                Gradient::Entries { places, values }
            }
        })
    }

    fn ahead(&self, records: &R, i: usize, scratch: &mut Self::Scratch, at: &mut Vec<usize>) -> Result<(), R::Error> {
        self.objective.ahead(records, i, &mut scratch.inner, at)
    }
}
