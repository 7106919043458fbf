//! The answer, its guarantee, its plan and its cost as plain data, and as one HTML file without scripts or network.
//!
//! Everything in a [`Report`] is public: facts known before the run, the certified plan, and what the run released.

pub mod chart;
mod figures;
mod html;
mod markup;
mod words;

use crate::mechanism::ReleaseRecord;
use crate::model::Guarantee;
use crate::optimize::Candidate;
use crate::plan::Grade;
use dpopt_privacy::ledger::Receipt;
use serde::Serialize;

pub use words::{detection_bound, number, probability};

/// What kind of answer a report is about: decides its words.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// The weights of a linear model.
    LinearModel,
    /// The mean of vectors.
    Mean {
        /// With probability 0.95 the l2 error is at most this.
        error_bound: f64,
    },
}

/// What one run released and what it is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What kind of answer it is about.
    pub answer: Answer,
    /// `0.1.0`.
    pub software: String,
    /// The command, or a note that the library was called.
    pub command: String,
    /// Public facts about the table.
    pub facts: Facts,
    /// What was promised and certified, stage by stage.
    pub guarantee: Guarantee,
    /// What each stage released, in order; same length as `guarantee.stages`.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// All candidates of the model stage, the chosen one among them.
    pub candidates: Vec<CandidateRow>,
    /// Index into `candidates`.
    pub chosen: usize,
    /// Whether the chosen method was asked for by name.
    pub by_name: bool,
    /// The chosen method's schedule.
    pub schedule: serde_json::Value,
    /// All released weights with their names.
    pub coefficients: Vec<Coefficient>,
    /// What the guarantee rests on, and how each item is enforced.
    pub assumptions: Vec<String>,
    /// What the reader should know.
    pub warnings: Vec<String>,
    /// Seconds spent on planning and certifying. Timings that depend on records are not kept.
    pub planning_seconds: f64,
    /// Where a ledger file was charged.
    pub ledger: Option<String>,
    /// Which of its charges paid for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

impl Report {
    /// Why the chosen method was run, in a few words after "because".
    pub fn why_chosen(&self) -> String {
        if self.by_name {
            return "it was asked for by name".into();
        }
        let planned = |c: &CandidateRow| match &c.outcome {
            Outcome::Planned(row) => Some(row.predicted_excess_risk),
            Outcome::Refused { .. } => None,
        };
        let applicable = self.candidates.iter().filter(|c| planned(c).is_some()).count();
        let best = self
            .candidates
            .iter()
            .enumerate()
            .filter_map(|(i, c)| Some((i, planned(c)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        match best {
            Some((i, _)) if i == self.chosen => {
                format!("its predicted error is the smallest of the {applicable} methods that apply")
            }
            // the choice by regime may pass over more than a factor of two
            Some((i, risk)) if self.candidates.get(self.chosen).and_then(planned).is_some_and(|own| own >= 2.0 * risk) => format!(
                "features are so many for these rows that only an error that grows with ln d is of use: predictions (the smallest is \
                 {}, {}) think too well of the other methods there",
                self.candidates[i].method,
                number(risk)
            ),
            Some((i, risk)) => format!(
                "its predicted error is within a factor of two of the smallest ({}, {}), which is as far as predictions \
                 go, and it comes first in the standing order of methods: one release before many, full batches before \
                 samples, fewer gradients",
                self.candidates[i].method,
                number(risk)
            ),
            None => "nothing else applies".into(),
        }
    }
}

/// Public facts about the table and the target.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// How the table is called.
    pub source: String,
    /// n, or a public guess of it under add-or-remove.
    pub rows: u64,
    /// d after encoding, the intercept included.
    pub features: usize,
    /// Name of the target column.
    pub target: String,
    /// In words: `classification into 2 classes`.
    pub task: String,
    /// Where bounds and levels come from, one sentence each.
    pub preparation: Vec<String>,
}

/// One method, planned or refused.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateRow {
    /// As in `--method`.
    pub method: String,
    /// The plan in numbers, or why there is none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What planning a method gave.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// It can run.
    Planned(PlannedRow),
    /// It can't, and why.
    Refused {
        /// One sentence.
        not_applicable: String,
    },
}

/// The shared numbers of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedRow {
    /// Trust in the claim.
    pub grade: Grade,
    /// Noise over sensitivity of the main release.
    pub noise_multiplier: f64,
    /// Noisy steps.
    pub steps: u64,
    /// Expected per-record gradients.
    pub gradients: f64,
    /// Predicted excess of the mean loss, from public facts; for a mean, the proved bound on its l2 error.
    pub predicted_excess_risk: f64,
    /// Certified ε at `delta`.
    pub epsilon: f64,
    /// δ.
    pub delta: f64,
    /// Which accountant certified it.
    pub accountant: String,
    /// What the plan tells besides: a proved bound, for example.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One released weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Feature, and class for several outputs.
    pub name: String,
    /// The released value.
    pub value: f64,
    /// Upper bound on the standard deviation of the noise in it, where the method's plan has one.
    pub noise: Option<f64>,
}

impl From<&Candidate> for CandidateRow {
    fn from(candidate: &Candidate) -> Self {
        let outcome = match &candidate.plan {
            Ok(plan) => {
                let s = plan.summary();
                Outcome::Planned(PlannedRow {
                    grade: s.grade,
                    noise_multiplier: s.noise_multiplier,
                    steps: s.steps,
                    gradients: s.gradients,
                    predicted_excess_risk: s.predicted_excess_risk,
                    epsilon: s.certificate.bound().upper,
                    delta: s.certificate.budget().delta(),
                    accountant: s.certificate.bound().accountant.clone(),
                    notes: s.warnings.clone(),
                })
            }
            Err(why) => Outcome::Refused { not_applicable: why.to_string() },
        };
        Self { method: candidate.method.into(), outcome }
    }
}

impl Report {
    /// The report as one HTML document: no scripts, no network, light and dark.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The same as JSON, for programs.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}
