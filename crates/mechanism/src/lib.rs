//! The kernel: what is sensitive, and the only doors out of it.
//!
//! [`Sensitive`] depends on records, [`Released`] has passed through a mechanism that was planned, certified and charged, and only
//! the [`Curator`] turns one into the other. What has to be trusted for privacy is here or below (records and objectives, noise,
//! accounting), but for a few things above that decision 10 lists. What is sensitive can't be read outside of this crate, and the
//! compiler says so; an objective sees each record that it is asked about.
//!
//! | floor | what stands there |
//! |---|---|
//! | [`progress`], `refused`, `sampler_error` | where steps are shown, why a release does not happen, how far samplers are from their exact laws |
//! | `sensitive` | what may not leave, and what may |
//! | [`sampler`] | draws from e^(−F) with a proved distance from that law |
//! | `curator` | what a plan still allows, what a mechanism is and one that stays open, batches, blocks, the curator |
//! | `views` | what can be said of sensitive records, and views that stay sensitive |
//! | `sums` | clipped sums of what records give, and the noise that is added to them |
//! | `draws` | draws from laws that depend on the records, minimisers with noise |
//! | `choices` | counts, and choices among public candidates |
//!
//! Mechanisms that stand in `dpopt::mechanism` too are for everybody; the others are made by one method's plan, which knows what they need.
#![forbid(unsafe_code)]

mod choices;
mod curator;
mod draws;
#[cfg(doctest)]
mod misuse;
#[cfg(any(test, feature = "past-the-curator"))]
#[doc(hidden)]
pub mod past_the_curator;
pub mod progress;
mod refused;
pub mod sampler;
mod sampler_error;
mod sensitive;
mod sums;
#[cfg(test)]
mod tests;
mod views;

pub use choices::above_threshold::{AboveThreshold, Comparisons};
pub use choices::agreed_mean::{AgreedMean, Agreement, Answers, moved_pairs};
pub use choices::column_ranges::{ColumnCounts, ColumnRanges};
pub use choices::counts::{Choice, ChoiceLaw, Counts, DiscreteGaussianNoise, DiscreteLaplaceNoise};
pub use choices::experts::{ExpertPlays, LazyExperts, NoisyLeader, RoundLosses};
pub use choices::experts_blocks::BlockExperts;
pub use choices::experts_file::{ExpertsFile, SavedExperts};
pub use choices::fresh_sums::{FreshSums, OpenSums};
pub use choices::labels::LabelSelection;
pub use choices::net::{NET_UNITS, net_scores};
pub use choices::peeling::{FeaturePick, FeatureScores, PeelingLaw};
pub use choices::point_scores::{MOST_SCORED, POINT_UNITS, ScoredPoints};
pub use choices::quantiles::{Level, Place, Quantiles};
pub use choices::ranges::{PrivateBounds, RangeEnd};
pub use choices::search::{RunScore, Searching, VouchedRun, VouchedSearch};
pub use choices::selection::{FixedRuns, RandomStopping};
pub use choices::stationarity::{CurvatureSum, MOST_SUMMED, Stationarity, Wanted};
pub use choices::sums_file::{SavedSums, SumsFile};
pub use choices::vertex::{VertexChoice, VertexFacts, VertexScores};
pub use curator::batch::{BatchId, FixedBatch, PoissonBatch};
pub use curator::blocks::Blocks;
pub use curator::door::{Interactive, Mechanism, Opening};
pub use curator::{Curator, ReleaseRecord};
pub use draws::certified_pass::{CertifiedPass, CertifiedPoints, ClipTest};
pub use draws::gibbs::GibbsDraw;
pub use draws::gibbs_chain::{GibbsChain, GibbsFacts, LpGeometry, Start};
pub use draws::last_iterate::LastIterate;
pub use draws::minimiser::{
    LaplaceMinimiser, MinimiserReach, PerturbedMinimiser, PerturbedObjective, closing_grid, largest_linear_term,
};
pub use draws::newton_step::{Inverse, NewtonFacts, NewtonStep};
pub use draws::objective_draw::{ObjectiveDraw, Tempered};
pub use draws::phased_pass::{Phase, PhasedPass};
pub use draws::solved::SolvedRecords;
pub use refused::{CuratorError, NotApplicable};
pub use sampler_error::SamplerError;
pub use sensitive::{Public, Released, Sensitive};
pub use sums::answers::{PartFacts, answer};
pub use sums::clipped::Clipped;
pub use sums::columns::ColumnClip;
pub use sums::embedding::{SelectedRows, SelectedUpdate, TouchedRows, joint_multiplier};
pub use sums::gaussian::Gaussian;
pub use sums::grid_sum::GridSum;
pub use sums::histograms::{HistogramShape, Histograms};
pub use sums::l1_recovery::SOLVER_SHARE;
pub use sums::local_updates::LocalUpdates;
pub use sums::matrix::{SecondMoment, symmetric_matrix};
pub use sums::moments::{FeatureMoments, TargetMoment, moment_bound};
pub use sums::numbers_elsewhere::{answer_numbers, below_counts};
pub use sums::restarted::{Leaf, RestartedPlan, RestartedSums};
pub use sums::sketched_sum::SketchedGaussian;
pub use sums::sparse_descent::SparseDescent;
pub use sums::sparse_sum::{ProjectedGaussian, ProjectedLaplace, Projection, SparseClip, SparseSum, SparseSummer};
pub use sums::stream::{Batching, Correlation, GradientStream, StreamPlan, StreamShape};
pub use sums::telescope::{BatchGradients, ProjectedGradients, ScaledPoint, telescoped_multiplier};
pub use sums::thresholded::{Formed, SparseGridSum, SparseVector, ThresholdedGaussian};
pub use sums::vectors::{BatchSum, ClippedVectors, L1Sum, Laplace, PieceSum};
pub use views::PublicShape;
