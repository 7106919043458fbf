//! The only doors out: the curator, and the mechanisms it applies.

mod curator;
mod gaussian;
mod gradient;
mod minimiser;

pub use curator::{BatchId, Curator, CuratorError, Mechanism, PoissonBatch, ReleaseRecord};
pub use gaussian::Gaussian;
pub use gradient::{ClippedGradient, GridSum};
pub(crate) use minimiser::PerturbedObjective;
