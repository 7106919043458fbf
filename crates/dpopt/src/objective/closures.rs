//! Objectives of anybody's own, as two functions.

use super::{Facts, Gradient, Objective, Point};
use std::convert::Infallible;

/// φ_i and its gradient as functions of a point and a record of any type.
///
/// ```
/// use dpopt::mechanism::{Clipped, Curator, Gaussian, SamplerError};
/// use dpopt::noise::{Grid, NoiseSource};
/// use dpopt::objective::Closures;
/// use dpopt::privacy::{Budget, Event, Neighbours, Relation, calibrate};
/// use dpopt::Sensitive;
///
/// // robust regression through the origin: Σ r²/(1 + r²) with r = y − x·t, which is not convex
/// let loss = Closures::new(
///     1,
///     |x: &[f64], &(t, y): &(f64, f64)| { let r = y - x[0] * t; r * r / (1.0 + r * r) },
///     |x: &[f64], &(t, y): &(f64, f64), g: &mut [f64]| { let r = y - x[0] * t; g[0] = -2.0 * r * t / (1.0 + r * r).powi(2) },
/// );
/// let records: Vec<(f64, f64)> = (0..20_000).map(|i| { let t = f64::from(i % 200) / 200.0; (t, 3.0 * t) }).collect();
///
/// let (steps, clip_norm, n) = (50, 1.0, records.len() as f64);
/// let records = Sensitive::new(records);
/// let terms = Neighbours::of_records(Relation::ZeroOut).within(Budget::new(1.0, 1e-6)?);
/// let samplers = SamplerError::rounded(1.0) * steps as f64;
/// let (z, certificate) = calibrate::noise(|z| samplers.on(Event::gaussian(z).self_composed(steps)), terms)?;
/// let grid = Grid::for_sum(clip_norm, z * clip_norm, n as u64, 1);
/// let (clipped, noise) = (Clipped::new(loss, clip_norm, grid)?, Gaussian::new(z, clip_norm, grid, 1, "gradient"));
/// let mut curator = Curator::new(&certificate, NoiseSource::secure()?);
/// let mut x = vec![0.0];
/// for _ in 0..steps {
///     let gradient = curator.release(&noise, &clipped.sum(&records, &x))?;
///     x[0] -= 4.0 * gradient.get()[0] / n;
/// }
/// assert!((x[0] - 3.0).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
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

    /// With what is known of them.
    pub fn with_facts(self, facts: Facts) -> Self {
        Self { facts, ..self }
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
