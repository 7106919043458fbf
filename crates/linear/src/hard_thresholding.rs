//! Private sparse learning by iterative hard thresholding (Liang, Tong, Ding, Pan, Bi 2022): at most k features, chosen and fitted privately.
//!
//! x ← H_k(x − η·noisy gradient): the noisy vector exists in law only, its k largest entries are what leaves. Then, with the
//! rest of the budget, the features that were found are fitted again: on k coordinates noise is small. The selection has to be
//! found through noise of size √(2 ln(d/k)) in its largest untouched coordinates, whatever the method's analysis says.
//!
//! The intercept is always kept, not counted and not decayed; weight decay is no part of what is clipped, because it reads
//! no record. The *gradient* of the intercept reads records, so it is inside the clip like any other coordinate.

mod closed_forms;
mod descent;
mod federated;
mod peeling;
#[cfg(test)]
mod peeling_tests;
mod refit;
#[cfg(test)]
mod tests;
mod variance_reduced;

pub use closed_forms::{
    OutOfConditions, SourceProblem, geometric_constant, scsg_ht_noise, sgd_ht_noise, source_geometric_constant,
};
pub use descent::{DpGdHt, DpSgdHt, HardThresholdSchedule, run_sparse};
pub use federated::{Federated, FederatedPlan, FederatedProblem, FederatedSchedule, Protects};
pub use peeling::{FeatureFit, Peeling, PeelingSchedule, run_peeling};
pub use refit::RefitSchedule;
pub use variance_reduced::{DpScsgHt, DpSvrgHt, VarianceOptions, VarianceReducedSchedule};

use dpopt_mechanism::SparseVector;
use dpopt_objective::loss::Loss;
use dpopt_optimize::options::common::{CLIP_NORM, LEARNING_RATE, MAX_FEATURES, REGULARIZATION, STEPS};
use dpopt_optimize::options::{OptionReader, Range, Setting};
use dpopt_optimize::plan::{NotApplicable, Problem};
use dpopt_optimize::planning::in_range;
use dpopt_refusal::{Refusal, Step, option, text};

pub(super) static INITIAL_FEATURES: Setting<u64> = Setting::whole(
    "initial_features",
    "number of features kept after the first step; it falls to max_features over the first half of the steps \
     [default: max_features]",
)
.called("K");
pub(super) static REFIT_SHARE: Setting<f64> = Setting::real(
    "refit_share",
    Range::SHARE,
    "share of the budget for refitting the chosen features; 0 for no refit [default: 0.5]",
)
.called("SHARE");

/// Options that every method here has. `None` means: chosen from public facts.
#[derive(Clone, Debug, Default)]
pub struct SparseOptions {
    /// k ≥ 1: most features with a weight that is not zero, the intercept not counted. Required.
    pub max_features: Option<u64>,
    /// k₀ ≥ k: features kept after the first step; falls geometrically to k over the first half of the steps. Default k.
    pub initial_features: Option<u64>,
    /// Index of the feature that is always kept, not counted and not decayed.
    pub intercept: Option<u32>,
    /// Share in [0, 1) of the budget (of μ²) for fitting the chosen features again. Default 0.5.
    pub refit_share: Option<f64>,
    /// T ≥ 1: steps of the selection.
    pub steps: Option<u64>,
    /// η > 0 on the mean loss.
    pub learning_rate: Option<f64>,
    /// C > 0: l2 bound on a record's gradient.
    pub clip_norm: Option<f64>,
    /// β in [0, 1) of heavy-ball momentum.
    pub momentum: Option<f64>,
    /// Weight decay λ ≥ 0 in units of the sum of losses. Default 0.
    pub regularization: Option<f64>,
}

impl SparseOptions {
    /// What all methods here have, as a user says it; some have more.
    pub(crate) fn read(options: &OptionReader<'_>) -> Self {
        Self {
            max_features: options.get(&MAX_FEATURES),
            intercept: options.intercept(),
            steps: options.get(&STEPS),
            learning_rate: options.get(&LEARNING_RATE),
            clip_norm: options.get(&CLIP_NORM),
            regularization: options.get(&REGULARIZATION),
            ..Self::default()
        }
    }
}

/// How many features are kept after each step, and which one is exempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sparsity {
    pub(crate) max_features: usize,
    pub(crate) initial_features: usize,
    pub(crate) intercept: Option<u32>,
}

impl SparseOptions {
    /// Checks what is asked for against the problem.
    pub(crate) fn sparsity(&self, problem: &Problem) -> Result<Sparsity, NotApplicable> {
        let Some(k) = self.max_features else {
            return Err(NotApplicable::Problem(
                text!["it keeps a fixed number of features, which is not given; give it as ", option("max_features")]
                    .into(),
            ));
        };
        if matches!(problem.loss, Loss::Softmax { .. }) {
            return Err(NotApplicable::Problem(
                Refusal::of(
                    "it fits one score per record and cannot fit several classes at once; fit one class \
                             against the rest",
                )
                .or(Step::LeaveOutMaxFeatures),
            ));
        }
        if let Some(intercept) = self.intercept
            && intercept as usize >= problem.features
        {
            return Err(NotApplicable::Option(
                format!("the intercept is feature {intercept} of {}; give an index below that", problem.features)
                    .into(),
            ));
        }
        let most = problem.features - usize::from(self.intercept.is_some());
        let k = in_range(option("max_features"), k as f64, 1.0, 1e7)? as usize;
        let initial =
            in_range(option("initial_features"), self.initial_features.unwrap_or(k as u64) as f64, k as f64, 1e7)?
                as usize;
        Ok(Sparsity {
            max_features: k.min(most.max(1)),
            initial_features: initial.min(most.max(1)),
            intercept: self.intercept,
        })
    }
}

impl Sparsity {
    /// k_t: geometric from k₀ to k over the first half of the steps.
    pub(crate) fn at(&self, step: u64, steps: u64) -> usize {
        let (first, last) = (self.initial_features as f64, self.max_features as f64);
        let half = (steps / 2) as f64;
        let done = if half > 0.0 { (step as f64 / half).min(1.0) } else { 1.0 };
        ((first.ln() + done * (last.ln() - first.ln())).exp().round() as usize)
            .clamp(self.max_features, self.initial_features)
    }

    /// Where a step starts: a·x + β(x − previous), the intercept not decayed.
    pub(crate) fn start(&self, x: &SparseVector, previous: &SparseVector, decay: f64, momentum: f64) -> SparseVector {
        let moved = x.combined(decay + momentum, previous, -momentum);
        match self.intercept {
            Some(j) if decay != 1.0 => moved.combined(1.0, &SparseVector::new([(j, (1.0 - decay) * x.at(j))]), 1.0),
            _ => moved,
        }
    }
}
