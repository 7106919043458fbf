//! What a user estimates without a model: the mean of sparse vectors, means of heavy-tailed columns, single noisy sums, what groups of
//! records agree on. The same four steps: plan → certify →
//! run → report.

mod aggregate;
mod agreed;
mod group_command;
mod heavy_tailed;
mod heavy_tailed_plan;
#[cfg(test)]
mod heavy_tailed_tests;
mod interval;
mod mean;
mod noise;
mod plan;
mod problem;
mod protected;
mod sketched;
#[cfg(test)]
mod tests;
mod vectors;

pub use crate::moment::Moment;
pub use aggregate::{Aggregate, AggregateOptions, Aggregated};
pub use agreed::{Agreed, AgreedPlan, AgreedProblem, AgreedSchedule, RadiusSearch};
pub use dpopt_optimize::centred_mean::{CentredPlan, CentredProblem, CentredRound};
pub use dpopt_optimize::centred_moment::{Covariance, CovariancePlan, CovarianceProblem};
pub use dpopt_optimize::class_moments::{ClassMoments, MomentWeights, MomentsPlan, MomentsProblem};
pub use group_command::{GroupCommand, stop_commands};
pub use heavy_tailed::{HeavyTailedMean, HeavyTailedMeans, HeavyTailedOptions};
pub use heavy_tailed_plan::{
    ColumnMean, ColumnSchedule, HEAVY_TAILED_METHODS, HeavyTailedCandidate, HeavyTailedPlan, HeavyTailedProblem,
    HeavyTailedSchedule, RangeSchedule, SPREAD_FACTOR, heavy_tailed_candidates,
};
pub use interval::Parts;
pub use mean::{Estimated, MeanEstimate, MeanOptions};
pub use noise::{BatchSums, NoiseLaw};
pub use plan::{MEAN_METHODS, MeanCandidate, mean_candidates};
pub use problem::{MeanPlan, MeanProblem};
