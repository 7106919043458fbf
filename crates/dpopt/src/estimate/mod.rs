//! What a user estimates without a model: the mean of sparse vectors, single noisy sums. The same four steps: plan → certify →
//! run → report.

mod mean;
mod noise;
mod plan;
mod problem;
mod sketched;
#[cfg(test)]
mod tests;
mod vectors;

pub use mean::{Estimated, MeanEstimate, MeanOptions};
pub use noise::{BatchSums, NoiseLaw};
pub use plan::{MEAN_METHODS, MeanCandidate, mean_candidates};
pub use problem::{MeanPlan, MeanProblem};
