//! The only doors out: the curator, and the mechanisms it applies.

mod above_threshold;
mod counts;
mod curator;
mod difference;
mod embedding;
mod gaussian;
mod gibbs;
mod gradient;
mod labels;
mod matrix;
mod minimiser;
mod moments;
mod quantiles;
mod ranges;
mod search;
mod sparse_descent;
mod sparse_sum;
mod stream;
mod thresholded;
#[cfg(test)]
mod tests;
mod vectors;
mod vertex;

pub use above_threshold::{AboveThreshold, Comparisons};
pub use counts::{Choice, ChoiceLaw, Counts, DiscreteGaussianNoise, DiscreteLaplaceNoise};
pub use curator::{BatchId, Curator, CuratorError, Mechanism, PoissonBatch, ReleaseRecord};
pub use gaussian::Gaussian;
pub use gradient::{ClippedGradient, GridSum, target_moment};
pub use labels::LabelSelection;
pub use matrix::{SecondMoment, symmetric_matrix};
pub use quantiles::{Level, Quantiles};
pub use ranges::{PrivateBounds, RangeEnd};
pub use search::{BestRun, Run};
pub use sparse_sum::{ProjectedGaussian, ProjectedLaplace, Projection, SparseClip, SparseSum, SparseSummer};
pub use vectors::{ClippedVectors, L1Sum, Laplace};
pub use stream::{Correlation, GradientStream, StreamShape};
pub(crate) use embedding::{EmbeddingGradient, SelectedRows, SelectedUpdate, joint_multiplier};
pub(crate) use gibbs::{GibbsDraw, Start};
pub(crate) use minimiser::PerturbedObjective;
pub(crate) use moments::{FeatureMoments, moment_bound};
pub(crate) use sparse_descent::{SparseDescent, SparseGradient};
pub(crate) use thresholded::{Formed, ThresholdedGaussian};
pub use thresholded::{SparseGridSum, SparseVector};
pub(crate) use stream::StreamPlan;
pub(crate) use vertex::{VertexChoice, VertexFacts, VertexScores};
