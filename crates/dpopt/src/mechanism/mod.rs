//! The only doors out: the curator, and the mechanisms it applies.

mod curator;
mod gaussian;
mod gradient;
mod labels;
mod matrix;
mod minimiser;
mod quantiles;
mod ranges;
mod sparse_descent;
#[cfg(test)]
mod tests;

pub use curator::{BatchId, Curator, CuratorError, Mechanism, PoissonBatch, ReleaseRecord};
pub use gaussian::Gaussian;
pub use gradient::{ClippedGradient, GridSum, target_moment};
pub use labels::LabelSelection;
pub use matrix::{SecondMoment, symmetric_matrix};
#[doc(hidden)]
pub use quantiles::QuantileBug;
pub use quantiles::{Level, Quantiles};
pub use ranges::{PrivateBounds, RangeEnd};
pub(crate) use minimiser::PerturbedObjective;
pub(crate) use sparse_descent::SparseDescent;
