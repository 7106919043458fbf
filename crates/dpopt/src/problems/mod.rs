//! Tables made from a seed, with a known truth, for demos, benchmarks and tests. Nothing here is sensitive.

mod census;

pub use census::{Census, Term, census};
