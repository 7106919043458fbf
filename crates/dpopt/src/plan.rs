//! Plans: everything that is decided before the first record is read.
//!
//! From *public facts* ([`Problem`]) and a [`Budget`] an [`Algorithm`](crate::optimize::Algorithm) computes all its
//! hyper-parameters (its schedule) and the [`Event`] of all it will release; [`certify`] accounts that event.

use crate::loss::Loss;
use crate::objective::Linear;
use dpopt_privacy::certify::CertifyError;
use dpopt_privacy::{Budget, Certificate, Event, Neighbours, Relation};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Public facts about a learning problem with a linear model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Problem {
    /// n: number of records. Public under zero-out and replace-one; under add-or-remove a public guess.
    pub rows: u64,
    /// d: number of features after encoding, the intercept included.
    pub features: usize,
    /// Largest possible number of non-zeros in an encoded row.
    pub nonzeros: usize,
    /// R: enforced l2 norm of every encoded row.
    pub row_norm: f64,
    /// The per-record loss; its `outputs()` times `features` is the number of weights.
    pub loss: Loss,
    /// Which data sets are neighbours.
    #[serde(flatten)]
    pub neighbours: Neighbours,
}

impl Problem {
    /// The same records with `features` of the features only.
    pub(crate) fn with_features(&self, features: usize) -> Self {
        Self { features, nonzeros: self.nonzeros.min(features), ..self.clone() }
    }

    /// How neighbours differ in one unit.
    pub fn relation(&self) -> Relation {
        self.neighbours.relation
    }

    /// What its records contribute.
    pub fn objective(&self) -> Linear {
        Linear::new(self.loss, self.features, self.row_norm)
    }

    /// Upper bound on the norm of a record's gradient, where there is one.
    pub(crate) fn lipschitz(&self) -> Option<f64> {
        self.objective().known().lipschitz.map(|l| l.value)
    }

    /// Number of weights: outputs × features.
    pub fn weights(&self) -> usize {
        self.loss.outputs() * self.features
    }
}

/// How far a method's claim can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Grade {
    /// Proved, enforced and tested.
    Certified,
    /// Not proved or not enforceable: no privacy claim. Off by default.
    Research,
}

/// What a plan promises and costs, in terms every method shares. One row of `explain`.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Name of the method, as in `--method`.
    pub method: &'static str,
    /// The loss that the weights minimise; it may be a privacy-friendlier relative of the problem's (a shifted logistic
    /// loss, Huber's instead of squared). [`crate::model::probability`] reads its scores.
    pub loss: Loss,
    /// How far the claim can be trusted.
    pub grade: Grade,
    /// Noise standard deviation over the sensitivity bound C of the main release.
    pub noise_multiplier: f64,
    /// Number of noisy steps.
    pub steps: u64,
    /// Expected number of per-record gradient evaluations.
    pub gradients: f64,
    /// Predicted expected excess of the mean training loss over its minimum, from public facts only.
    pub predicted_excess_risk: f64,
    /// Upper bound on the standard deviation of the noise in one released weight: what is left of it in a direction
    /// without curvature. `None` where the plan has no such bound.
    pub weight_noise: Option<f64>,
    /// The event that the run will release, certified within the budget.
    pub certificate: Certificate,
    /// What the guarantee rests on and how each item is enforced.
    pub assumptions: Vec<String>,
    /// What the user should know.
    pub warnings: Vec<String>,
}

/// A schedule (all hyper-parameters) with its certified summary.
#[derive(Clone, Debug)]
pub struct Plan<S> {
    /// Hyper-parameters and noise scales, serialised into the report.
    pub schedule: S,
    /// The shared part.
    pub summary: Summary,
}

/// Why a method does not apply to a problem.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum NotApplicable {
    /// The method needs something the problem lacks.
    #[error("{0}")]
    Problem(String),
    /// An option is outside its range.
    #[error("{0}")]
    Option(String),
    /// The budget can't be met.
    #[error(transparent)]
    Budget(#[from] CertifyError),
}

impl NotApplicable {
    /// The same, and says of which method.
    pub(crate) fn of(self, method: &str) -> Self {
        let named = |text: String| if text.starts_with(method) { text } else { format!("{method}: {text}") };
        match self {
            Self::Problem(text) => Self::Problem(named(text)),
            Self::Option(text) => Self::Option(named(text)),
            budget => budget,
        }
    }
}

/// Accounts `event` between the problem's neighbours against `budget` (the one generic check).
pub fn certify(event: &Event, problem: &Problem, budget: Budget) -> Result<Certificate, NotApplicable> {
    Ok(dpopt_privacy::certify(event, problem.neighbours.within(budget))?)
}
