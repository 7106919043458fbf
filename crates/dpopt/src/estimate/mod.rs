//! What a user estimates without a model: the mean of sparse vectors. The same four steps: plan → certify → run → report.

mod mean;
mod plan;
mod sketched;
mod vectors;

pub use mean::{Estimated, MeanEstimate, MeanOptions};
pub use plan::{MEAN_METHODS, MeanCandidate, MeanPlan, MeanProblem, mean_candidates};
