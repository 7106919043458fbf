//! Every method for linear models, planned for one problem and sorted by predicted risk: the table of `explain`, and
//! `method = auto` takes its first row.

use super::{
    NoisyGradientDescent, NoisyNewton, NoisySgd, ObjectivePerturbation, OutputPerturbation, Prepared,
    ReleasedPreconditioner, SufficientStatistics, prepare,
};
use crate::plan::{NotApplicable, Problem};
use dpopt_privacy::Budget;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Hyper-parameters a user fixes; everything else is chosen from public facts. A field that a method does not have is
/// ignored by that method.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct MethodOptions {
    /// Only this method (a name of [`METHODS`]).
    pub method: Option<String>,
    /// T: number of noisy steps.
    pub steps: Option<u64>,
    /// η on the mean loss.
    pub learning_rate: Option<f64>,
    /// C: l2 bound on a record's gradient (for squared loss also the slope bound of Huber's loss).
    pub clip_norm: Option<f64>,
    /// q: probability of a record to enter a batch.
    pub sampling_probability: Option<f64>,
    /// β of heavy-ball momentum.
    pub momentum: Option<f64>,
    /// λ in units of the sum of losses.
    pub regularization: Option<f64>,
    /// Shift of the logistic loss where a method minimises a shifted one; 0 asks for calibrated probabilities.
    pub shift: Option<f64>,
}

/// One row of `explain`: a planned and certified method, or why it does not apply.
pub struct Candidate {
    /// Name as in `--method`.
    pub method: &'static str,
    /// The plan, ready to run, or the reason.
    pub plan: Result<Box<dyn Prepared>, NotApplicable>,
}

type Planner = fn(&Problem, Budget, &MethodOptions) -> Result<Box<dyn Prepared>, NotApplicable>;

/// Names of all methods, as in `--method`.
pub const METHODS: [&str; 7] = [
    "objective-perturbation",
    "noisy-gradient-descent",
    "released-preconditioner",
    "noisy-sgd",
    "noisy-newton",
    "output-perturbation",
    "sufficient-statistics",
];

const PLANNERS: [Planner; METHODS.len()] = [
    |problem, budget, o| {
        let options = ObjectivePerturbation {
            regularization: o.regularization,
            shift: o.shift,
            clip_norm: o.clip_norm,
        };
        prepare(options, problem, budget)
    },
    |problem, budget, o| {
        let options = NoisyGradientDescent {
            steps: o.steps,
            learning_rate: o.learning_rate,
            clip_norm: o.clip_norm,
            momentum: o.momentum,
            regularization: o.regularization,
            ..Default::default()
        };
        prepare(options, problem, budget)
    },
    |problem, budget, o| {
        let options = ReleasedPreconditioner {
            steps: o.steps,
            clip_norm: o.clip_norm,
            regularization: o.regularization,
            ..Default::default()
        };
        prepare(options, problem, budget)
    },
    |problem, budget, o| {
        let options = NoisySgd {
            sampling_probability: o.sampling_probability,
            steps: o.steps,
            learning_rate: o.learning_rate,
            clip_norm: o.clip_norm,
            momentum: o.momentum,
            regularization: o.regularization,
            ..Default::default()
        };
        prepare(options, problem, budget)
    },
    |problem, budget, o| {
        let options = NoisyNewton { steps: o.steps, regularization: o.regularization, ..Default::default() };
        prepare(options, problem, budget)
    },
    |problem, budget, o| {
        let options = OutputPerturbation {
            regularization: o.regularization,
            shift: o.shift,
            clip_norm: o.clip_norm,
        };
        prepare(options, problem, budget)
    },
    |problem, budget, o| prepare(SufficientStatistics { regularization: o.regularization }, problem, budget),
];

/// Plans and certifies every method for `problem` within `budget`; the smallest predicted risk first, methods that do
/// not apply last, with their reasons. Touches no record.
///
/// The model behind the predictions is worth about a factor of two: methods within each factor of two of the best stay
/// in the order of [`METHODS`], which puts one release before many, and full batches before samples; beyond 10⁹ gradients
/// of one record a method that needs ten times fewer comes first.
pub fn candidates(problem: &Problem, budget: Budget, options: &MethodOptions) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = METHODS
        .par_iter()
        .zip(PLANNERS.par_iter())
        .filter(|(name, _)| options.method.as_deref().is_none_or(|wanted| wanted == **name))
        .map(|(&method, planner)| Candidate { method, plan: planner(problem, budget, options) })
        .collect();
    let risk = |c: &Candidate| c.plan.as_ref().map_or(f64::INFINITY, |p| p.summary().predicted_excess_risk);
    let best = all.iter().map(risk).fold(f64::INFINITY, f64::min);
    let octave = |c: &Candidate| match (risk(c) / best).log2() {
        octaves if octaves.is_finite() => octaves.floor().min(1e6) as u32,
        _ => u32::MAX,
    };
    let decade = |c: &Candidate| match &c.plan {
        Ok(plan) => (plan.summary().gradients / 1e9).max(1.0).log10().floor() as u32,
        Err(_) => 0,
    };
    // stable: keeps the order of METHODS within a factor of two
    all.sort_by_key(|c| (octave(c), decade(c)));
    all
}

/// The first candidate that applies; otherwise why none does.
pub fn choose(
    problem: &Problem,
    budget: Budget,
    options: &MethodOptions,
) -> Result<Box<dyn Prepared>, NotApplicable> {
    if let Some(name) = options.method.as_deref() {
        if !METHODS.contains(&name) {
            let known = METHODS.join(", ");
            return Err(NotApplicable::Option(format!("there is no method `{name}`; choose one of {known}")));
        }
    }
    let mut reasons = Vec::new();
    for candidate in candidates(problem, budget, options) {
        match candidate.plan {
            Ok(plan) => return Ok(plan),
            Err(reason) => reasons.push(format!("{}: {reason}", candidate.method)),
        }
    }
    Err(NotApplicable::Problem(format!("no method applies; {}", reasons.join("; "))))
}
