//! Methods for linear models: one algorithm, one file, each in the same four steps: options → plan → (certified) → run.
//!
//! [`registry`] has those that ship; the functions of this module that take no registry use it.

mod adaptive;
#[cfg(test)]
mod calibration_tests;
mod centred_descent;
mod choices;
mod descent;
mod embedding;
mod exponential_mechanism;
mod frank_wolfe;
mod hard_thresholding;
#[cfg(test)]
mod interval_tests;
mod noisy_newton;
mod objective_perturbation;
mod one_step;
mod output_perturbation;
#[cfg(test)]
mod regime_tests;
mod registry;
mod released_preconditioner;
pub mod restricted_lipschitz;
mod sparse_exponential;
mod sparse_output_perturbation;
mod sufficient_statistics;
#[cfg(test)]
mod tests;

pub use adaptive::{
    Adaptive, AdaptiveKind, AdaptiveSchedule, DpAdaGrad, DpAdaGradKind, DpAdam, DpAdamKind, MomentRelease,
    MomentSchedule, Pagan, PaganKind, Pasan, PasanKind, PdpSgd, PdpSgdKind, SubspaceSchedule,
};
pub use centred_descent::{CentredDescent, CentredSchedule};
pub use choices::{AdaptiveOptions, InnerSteps, Moments, RateSchedule, RowSelection, Subspace};
pub use descent::{
    AdaptiveClipDescent, AdaptiveClipSchedule, Average, DescentOptions, DescentSchedule, DpFtrl, NoisyGradientDescent,
    NoisySgd, StreamSchedule, expected_risk,
};
pub use dpopt_mechanism::Inverse;
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
pub use noisy_newton::{NewtonSchedule, NoisyNewton};
pub use objective_perturbation::{ObjectivePerturbation, ObjectiveSchedule};
pub use one_step::{OneStep, OneStepSchedule, StepRelease};
pub use output_perturbation::{OutputPerturbation, OutputSchedule, smooth_loss};
pub use registry::{candidates, catalogue, check_options, check_values, choose, has_option, named, registry};
pub use released_preconditioner::{PreconditionedSchedule, ReleasedPreconditioner};
pub use restricted_lipschitz::{RegularizedDescent, RegularizedSchedule};
pub use sparse_exponential::{LARGEST_NET, SparseExponential, SparseExponentialSchedule};
pub use sparse_output_perturbation::{Goal, NoiseLaw, SparseOutputPerturbation, SparseOutputSchedule};
pub use sufficient_statistics::{SufficientStatistics, SufficientStatisticsSchedule};
