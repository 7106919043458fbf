//! What samples are held against, and potentials of closures.

use super::potential::Potential;

pub(crate) use dpopt_problems::laws::{Tabulated, kolmogorov, kolmogorov_distance, kolmogorov_limit};

/// β·Σ φ_i by closures: value of term i, and its subgradient added to a vector.
pub(crate) struct Terms<F, G> {
    pub(crate) dimension: usize,
    pub(crate) count: usize,
    pub(crate) scale: f64,
    pub(crate) value: F,
    pub(crate) add_subgradient: G,
}

impl<F: Fn(usize, &[f64]) -> f64 + Sync, G: Fn(usize, &[f64], &mut [f64]) + Sync> Potential for Terms<F, G> {
    fn dimension(&self) -> usize {
        self.dimension
    }
    fn scale(&self) -> f64 {
        self.scale
    }
    fn terms(&self) -> usize {
        self.count
    }
    fn value(&self, point: &[f64]) -> f64 {
        (0..self.count).map(|i| (self.value)(i, point)).sum()
    }
    fn value_and_subgradient(&self, point: &[f64], subgradient: &mut [f64]) -> f64 {
        subgradient.fill(0.0);
        (0..self.count).for_each(|i| (self.add_subgradient)(i, point, subgradient));
        self.value(point)
    }
    fn term(&self, index: usize, point: &[f64]) -> f64 {
        (self.value)(index, point)
    }
}
