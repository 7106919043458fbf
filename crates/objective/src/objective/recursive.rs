//! Recursive gradients: with growing weights (SRG; Choquette-Choo, Ganesh, Thakurta 2025) t·∇φ_i(x) − (t − 1)·∇φ_i(before), and the plain change
//! ∇φ_i(x) − ∇φ_i(before) (Spider; Liu 2024, Theorem 6.3.9).
//!
//! Both gradients are of the *same* record, and what is clipped is their weighted difference, as one vector: clipped by themselves they would come to (2t − 1)·C and 2·C.

use super::{Facts, Gradient, Objective, Point};
use crate::records::RecordSet;

/// w·φ_i(x) − w'·⟨∇φ_i(before), x⟩.
#[derive(Clone, Debug)]
pub struct Recursive<'a, O> {
    objective: &'a O,
    before: &'a [f64],
    weights: (f64, f64),
}

impl<'a, O> Recursive<'a, O> {
    /// The objective of step t ≥ 1; `before` is where step t − 1 asked, and is not looked at in the first one.
    pub fn new(objective: &'a O, before: &'a [f64], step: u64) -> Self {
        Self { objective, before, weights: Self::weights(step.max(1)) }
    }

    /// What changed since `before`: both gradients count once.
    pub fn change(objective: &'a O, before: &'a [f64]) -> Self {
        Self::weighted(objective, before, (1.0, 1.0))
    }

    /// With weights w and w' of one's own, w' ≥ 0; at w' = 0 `before` is not looked at.
    pub fn weighted(objective: &'a O, before: &'a [f64], weights: (f64, f64)) -> Self {
        Self { objective, before, weights }
    }

    /// t and t − 1: what the gradients here and there count.
    pub fn weights(step: u64) -> (f64, f64) {
        (step as f64, (step - 1) as f64)
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct RecursiveScratch<S> {
    here: S,
    there: S,
    places: Vec<usize>,
    values: Vec<f64>,
}

impl<R: RecordSet, O: Objective<R>> Objective<R> for Recursive<'_, O> {
    type Scratch = RecursiveScratch<O::Scratch>;

    fn dimension(&self) -> usize {
        self.objective.dimension()
    }

    fn lines(&self) -> usize {
        self.objective.lines()
    }

    fn facts(&self) -> Facts {
        Facts::UNKNOWN
    }

    fn value(&self, x: &[f64], records: &R, i: usize, scratch: &mut Self::Scratch) -> Result<f64, R::Error> {
        let (own, other) = self.weights;
        let mut value = own * self.objective.value(x, records, i, &mut scratch.here)?;
        if other > 0.0 {
            let gradient = self.objective.gradient(&mut { self.before }, records, i, &mut scratch.there)?;
            gradient.for_each(|at, g| value -= other * g * x.get(at).copied().unwrap_or(0.0));
        }
        Ok(value)
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a R,
        i: usize,
        scratch: &'a mut Self::Scratch,
    ) -> Result<Gradient<'a>, R::Error> {
        let RecursiveScratch { here, there, places, values } = scratch;
        let (own, other) = self.weights;
        let now = self.objective.gradient(x, records, i, here)?;
        if other == 0.0 {
            return Ok(match now {
                now if own == 1.0 => now,
                Gradient::Zero => Gradient::Zero,
                Gradient::Dense(g) => {
                    g.iter_mut().for_each(|g| *g *= own);
                    Gradient::Dense(g)
                }
                Gradient::Entries { places, values } => {
                    values.iter_mut().for_each(|g| *g *= own);
                    Gradient::Entries { places, values }
                }
                Gradient::Outer { slope, width, row } => {
                    values.clear();
                    values.extend(slope.iter().map(|g| own * g));
                    Gradient::Outer { slope: values, width, row }
                }
            });
        }
        let then = self.objective.gradient(&mut { self.before }, records, i, there)?;
        Ok(match (now, then) {
            (Gradient::Dense(now), Gradient::Dense(then)) if now.len() == then.len() => {
                now.iter_mut().zip(then).for_each(|(g, h)| *g = own * *g - other * *h);
                Gradient::Dense(now)
            }
            (
                Gradient::Outer { slope: now, width, row },
                Gradient::Outer { slope: then, width: other_width, row: same },
            ) if now.len() == then.len()
                && width == other_width
                && row.columns() == same.columns()
                && row.values() == same.values() =>
            {
                values.clear();
                values.extend(now.iter().zip(then).map(|(g, h)| own * g - other * h));
                Gradient::Outer { slope: values, width, row }
            }
            (now, then) => {
                places.clear();
                values.clear();
                let mut put = |at: usize, value: f64| {
                    places.push(at);
                    values.push(value);
                };
                now.for_each(|at, g| put(at, own * g));
                then.for_each(|at, g| put(at, -other * g));
                Gradient::Entries { places, values }
            }
        })
    }

    fn ahead(&self, records: &R, i: usize, scratch: &mut Self::Scratch, at: &mut Vec<usize>) -> Result<(), R::Error> {
        self.objective.ahead(records, i, &mut scratch.here, at)
    }
}
