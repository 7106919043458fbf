//! What the exponential mechanism draws from for linear losses: a regulariser, tilted.

use super::{DELTA, EPSILON};
use crate::Failure;
use dpopt::optimize::gibbs_parameters::{RiskFacts, Temperature, empirical, norm_radius, shares};
use dpopt::privacy::Budget;
use dpopt::sampler::{NormSquare, Potential};
use dpopt_mechanism::sampler::research::SchattenSquare;

/// k, μ and the bound on the excess for slopes of dual norm at most 1, `entries` weights in the ball of such a radius; the constants are those of
/// l_p in `side` dimensions, of matrices in the Schatten norm those of the smaller side.
pub(super) fn tuning(p: f64, side: usize, entries: usize, radius: f64, rows: f64) -> Result<Temperature, Failure> {
    let budget = Budget::new(EPSILON, DELTA).map_err(Failure::of)?;
    let radius = norm_radius(p, side, radius);
    let facts = RiskFacts { rows, dimension: entries as f64, radius, difference_lipschitz: 1.0 };
    Ok(empirical(facts, shares(budget).mu))
}

/// The part of a regulariser that a chain has in its potential.
pub(super) trait Term: Sync {
    fn value(&self, x: &[f64]) -> f64;
    fn add_slope(&self, x: &[f64], weight: f64, gradient: &mut [f64]);
}

/// Without its quadratic part, which is the chain's own.
impl Term for NormSquare {
    fn value(&self, x: &[f64]) -> f64 {
        self.beyond_quadratic(x)
    }

    fn add_slope(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        NormSquare::add_slope(self, x, weight, gradient);
    }
}

/// The whole term, its quadratic part included.
impl Term for SchattenSquare {
    fn value(&self, x: &[f64]) -> f64 {
        SchattenSquare::value(self, x)
    }

    fn add_slope(&self, x: &[f64], weight: f64, gradient: &mut [f64]) {
        SchattenSquare::add_slope(self, x, weight, gradient);
    }
}

/// k(⟨slope, x⟩ + μ·term(x)).
pub(super) struct Tilted<T> {
    pub(super) slope: Vec<f64>,
    pub(super) term: T,
    pub(super) temperature: f64,
    pub(super) modulus: f64,
}

impl<T> Tilted<T> {
    pub(super) fn linear(&self, x: &[f64]) -> f64 {
        self.slope.iter().zip(x).map(|(s, x)| s * x).sum()
    }
}

impl<T: Term> Potential for Tilted<T> {
    fn dimension(&self) -> usize {
        self.slope.len()
    }

    fn scale(&self) -> f64 {
        self.temperature
    }

    fn terms(&self) -> usize {
        1
    }

    fn value(&self, point: &[f64]) -> f64 {
        self.linear(point) + self.modulus * self.term.value(point)
    }

    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        subgradient.copy_from_slice(&self.slope);
        self.term.add_slope(point, self.modulus, subgradient);
        self.value(point)
    }

    fn term(&self, _index: usize, point: &[f64]) -> f64 {
        self.value(point)
    }
}
