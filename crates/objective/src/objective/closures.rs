//! User-defined objectives, as two functions.

use super::{Facts, Gradient, Objective, Point};
use std::convert::Infallible;

/// φ_i and its gradient as functions of a point and a record of any type.
///
/// ```
/// use dpopt_objective::objective::{Closures, Objective};
///
/// // robust regression through the origin: Σ r²/(1 + r²) with r = y − x·t, which is not convex
/// let loss = Closures::new(
///     1,
///     |x: &[f64], &(t, y): &(f64, f64)| { let r = y - x[0] * t; r * r / (1.0 + r * r) },
///     |x: &[f64], &(t, y): &(f64, f64), g: &mut [f64]| { let r = y - x[0] * t; g[0] = -2.0 * r * t / (1.0 + r * r).powi(2) },
/// );
/// let (records, mut sum) = (vec![(1.0, 1.0), (2.0, 0.0)], [0.0]);
/// loss.gradient(&mut &[0.0][..], &records, 0, &mut Default::default())?.add_to(&mut sum);
/// assert_eq!(sum, [-0.5]);
/// # Ok::<(), std::convert::Infallible>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Closures<V, G> {
    dimension: usize,
    value: V,
    gradient: G,
    facts: Facts,
}

impl<V, G> Closures<V, G> {
    /// `value(x, record)`, and `gradient(x, record, out)`, which writes all of `out` (zeros before).
    pub fn new(dimension: usize, value: V, gradient: G) -> Self {
        Self { dimension, value, gradient, facts: Facts::UNKNOWN }
    }

    /// With what the caller vouches for: whatever the facts were of, of these functions nothing is proved.
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts: facts.assumed(), ..self }
    }
}

/// Buffers of one record.
#[derive(Default)]
pub struct ClosuresScratch {
    point: Vec<f64>,
    gradient: Vec<f64>,
}

impl<T, V, G> Objective<Vec<T>> for Closures<V, G>
where
    T: Sync,
    V: Fn(&[f64], &T) -> f64 + Sync,
    G: Fn(&[f64], &T, &mut [f64]) + Sync,
{
    type Scratch = ClosuresScratch;

    fn dimension(&self) -> usize {
        self.dimension
    }

    fn facts(&self) -> Facts {
        self.facts
    }

    fn value(&self, x: &[f64], records: &Vec<T>, i: usize, _: &mut ClosuresScratch) -> Result<f64, Infallible> {
        Ok((self.value)(x, &records[i]))
    }

    fn gradient<'a>(
        &self,
        x: &mut impl Point,
        records: &'a Vec<T>,
        i: usize,
        scratch: &'a mut ClosuresScratch,
    ) -> Result<Gradient<'a>, Infallible> {
        let ClosuresScratch { point, gradient } = scratch;
        gradient.clear();
        gradient.resize(self.dimension, 0.0);
        (self.gradient)(x.whole(self.dimension, point), &records[i], gradient);
        Ok(Gradient::Dense(gradient))
    }
}
