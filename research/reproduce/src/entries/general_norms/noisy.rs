//! Noisy mean gradients of a table, and two descents with them that know a norm: mirror descent, and Frank–Wolfe on matrices.

use super::linear::{dual, norm};
use super::{DELTA, EPSILON, RELATION};
use crate::Failure;
use dpopt::Sensitive;
use dpopt::mechanism::{Clipped, Curator, Gaussian};
use dpopt::noise::{Grid, NoiseSource};
use dpopt::objective::Linear;
use dpopt::optimize::gibbs_parameters::norm_radius;
use dpopt::plan::Problem;
use dpopt::privacy::{Budget, Event, Neighbours, calibrate};
use dpopt::records::Examples;
use dpopt::sampler::{NormSquare, best_exponent};
use dpopt_mechanism::sampler::research::Singular;

/// A table, and what is left of its budget: rows and gradients have norm at most 1.
pub(super) struct NoisyGradients<'a> {
    records: &'a Sensitive<Examples>,
    rows: f64,
    clipped: Clipped<Linear>,
    noise: Gaussian,
    curator: Curator,
    /// Standard deviation of an entry's noise.
    pub(super) std: f64,
}

impl<'a> NoisyGradients<'a> {
    /// `rounds` gradients may be asked for.
    pub(super) fn new(
        problem: &Problem,
        rounds: u64,
        records: &'a Sensitive<Examples>,
        source: NoiseSource,
    ) -> Result<Self, Failure> {
        let d = problem.features;
        let terms = Neighbours::of_records(RELATION).within(Budget::new(EPSILON, DELTA).map_err(Failure::of)?);
        let samplers = dpopt::mechanism::SamplerError::rounded(d as f64) * rounds as f64;
        let event = |z| samplers.on(Event::gaussian(z).self_composed(rounds));
        let (z, certificate) = calibrate::noise(event, terms).map_err(Failure::of)?;
        let grid = Grid::for_sum(1.0, z, problem.rows, d);
        Ok(Self {
            records,
            rows: problem.rows as f64,
            clipped: Clipped::new(problem.objective(), 1.0, grid).map_err(Failure::of)?,
            noise: Gaussian::new(z, 1.0, grid, d, "gradients"),
            curator: Curator::new(&certificate, source),
            std: z / problem.rows as f64,
        })
    }

    /// The mean gradient there, with noise.
    fn at(&mut self, x: &[f64]) -> Result<Vec<f64>, Failure> {
        let sum = self.clipped.sum(self.records, x);
        let noisy = self.curator.release(&self.noise, &sum).map_err(Failure::of)?;
        Ok(noisy.into_inner().into_iter().map(|g| g / self.rows).collect())
    }
}

/// Rounds of mirror descent.
pub(super) const MIRROR_ROUNDS: u64 = 100;

/// Mean of the points of dual averaging with the regulariser of l_p: x minimises ⟨Σg, x⟩ + r(x)/η for ‖x‖_q ≤ `radius`. The step is
/// that of its bound √(2Θ/T)·G, G the dual norm of a gradient of 1 with its noise.
pub(super) fn mirror_descent(
    gradients: &mut NoisyGradients<'_>,
    p: f64,
    radius: f64,
    largest_slope: f64,
    dimension: usize,
) -> Result<Vec<f64>, Failure> {
    let d = dimension as f64;
    let q = best_exponent(p, dimension);
    let r = NormSquare::new(p, q, dimension).ok_or_else(|| Failure::of("no such norm"))?;
    let order = dual(p);
    let of_noise =
        if order == f64::INFINITY { (2.0 * d.ln().max(0.5)).sqrt() } else { d.powf(1.0 / order) * order.sqrt() };
    let slope = largest_slope + gradients.std * of_noise;
    // √(2Θ) is the radius in the regulariser's own scale
    let step = norm_radius(p, dimension, radius) / (slope * (MIRROR_ROUNDS as f64).sqrt());
    let (mut sum, mut mean) = (vec![0.0; dimension], vec![0.0; dimension]);
    for _ in 0..MIRROR_ROUNDS {
        let x = mirrored(&sum, step, r, radius);
        mean.iter_mut().zip(&x).for_each(|(m, x)| *m += x / MIRROR_ROUNDS as f64);
        sum.iter_mut().zip(gradients.at(&x)?).for_each(|(s, g)| *s += g);
    }
    Ok(mean)
}

/// argmin ⟨sum, x⟩ + (c/(2η))‖x‖_q² where ‖x‖_q ≤ `radius`.
fn mirrored(sum: &[f64], step: f64, r: NormSquare, radius: f64) -> Vec<f64> {
    let order = dual(r.exponent);
    let size = norm(sum, order);
    if size == 0.0 {
        return vec![0.0; sum.len()];
    }
    let length = (step * size / r.coefficient).min(radius);
    sum.iter().map(|s| -s.signum() * length * (s.abs() / size).powf(order - 1.0)).collect()
}

/// Singular values and vectors of an m × m matrix that stands row by row.
pub(super) fn decomposed(x: &[f64], side: usize) -> Result<Singular, Failure> {
    Singular::of(x, side, side).ok_or_else(|| Failure::of("singular values do not converge"))
}

/// Frank–Wolfe on the m × m matrices of trace norm at most `radius`: towards the matrix of rank one that the noisy gradient favours.
pub(super) fn frank_wolfe(
    gradients: &mut NoisyGradients<'_>,
    rounds: u64,
    side: usize,
    radius: f64,
) -> Result<Vec<f64>, Failure> {
    let mut x = vec![0.0; side * side];
    for round in 0..rounds {
        let gradient = gradients.at(&x)?;
        let found = decomposed(&gradient, side)?;
        let (u, v) = (found.left(0), found.right(0));
        let share = 2.0 / (round as f64 + 2.0);
        for (at, x) in x.iter_mut().enumerate() {
            let vertex = -radius * u[at / side] * v[at % side];
            *x += share * (vertex - *x);
        }
    }
    Ok(x)
}

/// The nearest matrix of trace norm at most `radius`: singular values less the same, as far as that is needed.
pub(super) fn shrunk(x: &[f64], side: usize, radius: f64) -> Result<Vec<f64>, Failure> {
    let found = decomposed(x, side)?;
    let s = &found.values;
    let less = (1..=side).map(|count| (s[..count].iter().sum::<f64>() - radius) / count as f64).fold(0.0, f64::max);
    let entry = |at: usize| {
        (0..side).map(|k| (s[k] - less).max(0.0) * found.left(k)[at / side] * found.right(k)[at % side]).sum()
    };
    Ok((0..side * side).map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn singular_values_are_shrunk_to_the_ball_and_no_further() {
        // diag(3, 1) to trace norm 3: ½ off both
        let near = |a: &[f64], b: [f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(near(&shrunk(&[3.0, 0.0, 0.0, -1.0], 2, 3.0).unwrap(), [2.5, 0.0, 0.0, -0.5]));
        assert!(near(&shrunk(&[3.0, 0.0, 0.0, -1.0], 2, 1.0).unwrap(), [1.0, 0.0, 0.0, 0.0]));
        assert!(near(&shrunk(&[0.0, 3.0, 1.0, 0.0], 2, 5.0).unwrap(), [0.0, 3.0, 1.0, 0.0]));
    }

    #[test]
    fn mirrored_points_are_minimisers() {
        let r = NormSquare::new(1.5, 1.5, 3).unwrap();
        let sum = [0.3, -0.2, 0.05];
        let value = |x: &[f64], step: f64| sum.iter().zip(x).map(|(s, x)| s * x).sum::<f64>() + r.value(x) / step;
        let x = mirrored(&sum, 0.7, r, 10.0);
        for j in 0..3 {
            for by in [1e-3, -1e-3] {
                let mut other = x.clone();
                other[j] += by;
                assert!(value(&other, 0.7) > value(&x, 0.7));
            }
        }
        let bound = mirrored(&sum, 0.7, r, 0.01);
        assert!((norm(&bound, 1.5) - 0.01).abs() < 1e-12);
    }
}
