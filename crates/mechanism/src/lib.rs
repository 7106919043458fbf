//! Mechanisms beside the kernel, and the kernel's own names: what a method releases with.
//!
//! The kernel (`dpopt-kernel`) has sensitive values, the [`Curator`] and the sums that most methods are made of. Here is what fewer need. A
//! mechanism here has to be trusted for its own releases: that it reads nothing but its input, and that its event is what it draws.
//!
//! | layer | what stands there |
//! |---|---|
//! | [`sampler`] | draws from e^(−F) with a proved distance from that law |
//! | `sums` | sums that single methods are made of: of sparse vectors, of chosen rows, of streams that begin anew |
//! | `draws` | draws from laws that depend on the records, minimisers with noise |
//! | `choices` | counts, and choices among public candidates |
//!
//! Mechanisms that are in `dpopt::mechanism` too are for general use; the others are made by one method's plan, which knows what they need.
#![forbid(unsafe_code)]

mod choices;
mod draws;
#[cfg(doctest)]
mod misuse;
#[cfg(feature = "past-the-curator")]
#[doc(hidden)]
pub mod past_the_curator;
pub mod sampler;
mod sums;
#[cfg(test)]
mod tests;

pub use choices::above_threshold::{AboveThreshold, Comparisons};
pub use choices::agreed_mean::{AgreedMean, Agreement, Answers, moved_pairs};
pub use choices::column_ranges::{ColumnCounts, ColumnRanges};
pub use choices::counts::{Choice, ChoiceLaw, Counts, DiscreteGaussianNoise, DiscreteLaplaceNoise};
pub use choices::experts::{ExpertPlays, LazyExperts, NoisyLeader, RoundLosses};
pub use choices::experts_blocks::BlockExperts;
pub use choices::experts_file::{ExpertsFile, SavedExperts};
pub use choices::fresh_sums::{FreshSums, OpenSums};
pub use choices::labels::LabelSelection;
pub use choices::net::{NET_QUANTA, net_scores};
pub use choices::peeling::{FeaturePick, FeatureScores, PeelingLaw};
pub use choices::point_scores::{MAX_SCORED, POINT_QUANTA, ScoredPoints};
pub use choices::quantiles::{Level, Place, Quantiles};
pub use choices::ranges::{PrivateBounds, RangeEnd};
pub use choices::search::{AssumedRun, AssumedSearch, RunScore, Searching};
pub use choices::selection::{FixedRuns, RandomStopping};
pub use choices::stationarity::{CurvatureSum, MAX_SUMMED, Stationarity, Wanted};
pub use choices::sums_file::{SavedSums, SumsFile};
pub use choices::tree::{MAX_TREE_DIMENSIONS, MAX_TREE_LEVELS, MAX_TREE_RECORDS, OpenTree, TreeChoice, TreeShape};
pub use choices::vertex::{VertexChoice, VertexFacts, VertexScores};
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
pub use sums::columns::ColumnClip;
pub use sums::embedding::{SelectedRows, SelectedUpdate, TouchedRows, joint_multiplier};
pub use sums::histograms::{HistogramShape, Histograms};
pub use sums::l1_recovery::SOLVER_SHARE;
pub use sums::laplace::{L1Sum, Laplace};
pub use sums::local_updates::LocalUpdates;
pub use sums::restarted::{Leaf, RestartedPlan, RestartedSums};
pub use sums::sketched_sum::SketchedGaussian;
pub use sums::sparse_descent::SparseDescent;
pub use sums::sparse_sum::{ProjectedGaussian, ProjectedLaplace, Projection, SparseClip, SparseSum, SparseSummer};
pub use sums::telescope::{BatchGradients, ProjectedGradients, ScaledPoint, telescoped_multiplier};
pub use sums::thresholded::{Formed, SparseGridSum, SparseVector, ThresholdedGaussian};

// the kernel's, by name: its module `beside` is not among them
pub use dpopt_kernel::{
    Batch, BatchId, BatchSum, Batching, Blocks, Clipped, ClippedVectors, Correlation, Curator, CuratorError,
    FeatureMoments, FixedBatch, Gaussian, GradientStream, GridSum, Interactive, InteractiveStart, Mechanism,
    NotApplicable, PartFacts, PieceSum, Public, PublicShape, ReleaseRecord, Released, SamplerError, SecondMoment,
    Sensitive, StreamPlan, StreamShape, TargetMoment, answer, answer_numbers, below_counts, moment_bound, progress,
    symmetric_matrix,
};
