//! Problems made from a seed, with a known truth, for demos, benchmarks and tests. Nothing here is sensitive.

mod census;
mod geometric_median;

pub use census::{Census, Term, census};
pub use geometric_median::GeometricMedian;
