//! One algorithm, one file, each in the same four steps: options → plan → (certified) → run.

mod adaptive;
mod algorithm;
mod bias_reduced;
mod calibration;
mod centred_descent;
pub mod centred_mean;
mod choices;
pub mod clip_bias;
mod clipped_sgd;
mod descent;
mod driver;
mod embedding;
mod exponential_mechanism;
mod frank_wolfe;
mod hard_thresholding;
mod last_iterate;
pub mod minimize;
mod noisy_newton;
mod objective_perturbation;
pub mod online;
#[cfg(test)]
mod option_tests;
pub mod options;
mod oracle;
mod output_perturbation;
mod phased_sgd;
pub mod plan;
mod planning;
pub mod power_law;
mod prepared;
mod regime;
mod registry;
mod released_preconditioner;
pub mod restricted_lipschitz;
mod risk;
mod sparse_exponential;
mod sparse_output_perturbation;
pub mod stationary;
mod sufficient_statistics;
#[cfg(test)]
mod tests;

pub use adaptive::{
    Adaptive, AdaptiveKind, AdaptiveSchedule, DpAdaGrad, DpAdaGradKind, DpAdam, DpAdamKind, MomentRelease,
    MomentSchedule, Pagan, PaganKind, Pasan, PasanKind, PdpSgd, PdpSgdKind, SubspaceSchedule,
};
pub use algorithm::{Algorithm, RowAccess, Run, RunError, RunResult, Solution, Traits};
pub use bias_reduced::{BiasReducedSchedule, BiasReducedSgd, Output, SPARE, Stopping};
pub use centred_descent::{CentredDescent, CentredSchedule};
pub use choices::{AdaptiveOptions, AdaptiveRule, Domain, InnerSteps, Moments, RateSchedule, Selection, Subspace};
pub use clipped_sgd::{ClippedSchedule, ClippedSgd};
pub use descent::{
    AdaptiveClipDescent, AdaptiveClipSchedule, Average, DescentOptions, DescentSchedule, DpFtrl, NoisyGradientDescent,
    NoisySgd, StreamSchedule, expected_risk,
};
pub use dpopt_mechanism::Inverse;
#[cfg(test)]
pub(crate) use dpopt_objective::synthetic;
pub use embedding::{EmbeddingSchedule, EmbeddingSgd, SelectionSchedule};
pub use exponential_mechanism::{
    ChainSchedule, ExponentialMechanism, GibbsSchedule, MAX_EVALUATIONS, parameters as gibbs_parameters,
};
pub use frank_wolfe::{FrankWolfe, VertexSchedule, run_vertices};
pub use hard_thresholding::{
    DpGdHt, DpScsgHt, DpSgdHt, DpSvrgHt, FeatureFit, Federated, FederatedPlan, FederatedProblem, FederatedSchedule,
    HardThresholdSchedule, OutOfConditions, Peeling, PeelingSchedule, Protects, RefitSchedule, SourceProblem,
    SparseOptions, VarianceOptions, VarianceReducedSchedule, geometric_constant, run_peeling, run_sparse,
    scsg_ht_noise, sgd_ht_noise, source_geometric_constant,
};
pub use last_iterate::{LastIterateDescent, LastIterateSchedule};
pub use noisy_newton::{NewtonSchedule, NoisyNewton};
pub use objective_perturbation::{ObjectivePerturbation, ObjectiveSchedule};
pub use options::MethodOptions;
pub use output_perturbation::{OutputPerturbation, OutputSchedule};
pub use phased_sgd::{PhasedSchedule, PhasedSgd};
pub use planning::Solver;
pub use prepared::{Choose, Prepared, prepare};
pub use regime::{Regime, Regimes};
pub use registry::{
    Candidate, Described, METHODS, about, candidates, catalogue, check_options, check_values, choose, first_applicable,
    has_option, named, row_access,
};
pub use registry::{first_from_disk, logarithmic, octave};
pub use released_preconditioner::{PreconditionedSchedule, ReleasedPreconditioner};
pub use restricted_lipschitz::{RegularizedDescent, RegularizedSchedule};
pub use sparse_exponential::{LARGEST_NET, SparseExponential, SparseExponentialSchedule};
pub use sparse_output_perturbation::{Goal, NoiseLaw, SparseOutputPerturbation, SparseOutputSchedule};
pub use sufficient_statistics::{SufficientStatistics, SufficientStatisticsSchedule};
