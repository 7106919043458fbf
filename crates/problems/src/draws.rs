//! Draws of generated tables: ChaCha20 from a seed, inverse transforms and Box–Muller with the portable functions of `libm`, so
//! that every machine draws the same numbers. Test data only: this is not a source of privacy noise.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

pub(crate) struct Draws(ChaCha20Rng);

impl Draws {
    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(ChaCha20Rng::seed_from_u64(seed))
    }

    /// Uniform on multiples of 2^-53 in [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Standard normal by Box–Muller.
    pub(crate) fn normal(&mut self) -> f64 {
        let radius = libm::sqrt(-2.0 * libm::log(1.0 - self.uniform()));
        radius * libm::cos(std::f64::consts::TAU * self.uniform())
    }

    /// A whole number below `end`, uniform but for 2^-64 · end.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.0.next_u64()) * end as u128) >> 64) as usize
    }

    /// A name with probability proportional to its weight.
    pub(crate) fn one_of<'a>(&mut self, table: &[(&'a str, f64)]) -> &'a str {
        quantile(table, self.uniform())
    }
}

/// The name at which the cumulated weights pass `share` of their total; for a uniform share a draw by weight.
pub(crate) fn quantile<'a>(table: &[(&'a str, f64)], share: f64) -> &'a str {
    let total: f64 = table.iter().map(|entry| entry.1).sum();
    let mut left = share * total;
    for (name, weight) in table {
        left -= weight;
        if left < 0.0 {
            return name;
        }
    }
    table[table.len() - 1].0 // rounding of the last subtraction
}
