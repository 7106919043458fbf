//! The only doors out: the curator, and the mechanisms it applies.

mod curator;
mod gaussian;
mod gradient;
mod matrix;
mod minimiser;

pub use curator::{BatchId, Curator, CuratorError, Mechanism, PoissonBatch, ReleaseRecord};
pub use gaussian::Gaussian;
pub use gradient::{ClippedGradient, GridSum, target_moment};
pub use matrix::{SecondMoment, symmetric_matrix};
pub(crate) use minimiser::PerturbedObjective;
