//! The answer, its guarantee, its plan and its cost as plain data, and as one HTML file without scripts or network.
//!
//! Everything in a [`Report`] is public: facts known before the run, the certified plan, and what the run released.

pub mod chart;
mod checklist;
mod effects;
mod figures;
mod findings;
mod html;
mod markup;
mod ownership;

use crate::guarantee::Guarantee;
use crate::moment::TargetClip;
use crate::provenance::Provenance;
use dpopt_mechanism::ReleaseRecord;
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Grade;
use dpopt_optimize::{Candidate, Compared, Reason, Selection};
use dpopt_privacy::Shown;
use dpopt_privacy::ledger::Receipt;
use dpopt_refusal::{Refusal, Text};
use serde::{Deserialize, Serialize};

pub use effects::{Effects, Importance, Scale};
pub use ownership::Ownership;

pub use dpopt_privacy::rounding::{detection_bound, number, probability, probability_up, protected, six_digits_up};

/// Standard deviations to both sides that hold a normal number with a probability of .95.
const TWO_SIDED: f64 = 1.96;

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
    /// Means of columns, each with an interval: [`Report::intervals`].
    Means {
        /// With at least this probability all intervals hold.
        confidence: f64,
    },
    /// A point where a user-defined objective is small.
    Minimum,
    /// What groups of records agree on.
    Agreed {
        /// Whether enough of them do.
        found: bool,
    },
}

/// What one run released and what it is worth.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// What kind of answer it is about.
    pub answer: Answer,
    /// Version of the software, for example `0.1.0`.
    pub software: String,
    /// The build that made it.
    pub provenance: Provenance,
    /// The command, or a note that the library was called.
    pub command: String,
    /// Public facts about the table.
    pub facts: DataFacts,
    /// What was promised and certified, stage by stage.
    pub guarantee: Guarantee,
    /// What each stage released, in order; same length as `guarantee.stages`.
    pub releases: Vec<Vec<ReleaseRecord>>,
    /// All candidates of the model stage, the chosen one among them.
    pub candidates: Vec<CandidateRow>,
    /// Which of them ran, and why.
    #[serde(flatten)]
    pub selection: Selection,
    /// The chosen method's schedule.
    pub schedule: serde_json::Value,
    /// All released weights with their names.
    pub coefficients: Vec<Coefficient>,
    /// Confidence intervals, where the answer has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intervals: Option<Intervals>,
    /// What the released weights say of each column and pair of columns, where the model is a sum of those.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
    /// What the predicted excess risk of a model is held against.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline: Option<Baseline>,
    /// A score of the answer, where one was released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// What the guarantee rests on, and how each item is enforced.
    pub assumptions: Vec<String>,
    /// What the reader should know.
    pub warnings: Vec<Text>,
    /// Seconds spent on planning and certifying. Timings that depend on records are not kept.
    pub planning_seconds: f64,
    /// Where a ledger file was charged.
    pub ledger: Option<String>,
    /// Which of its charges paid for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

impl Outcome {
    /// The row of a method that minimizes an objective.
    pub(crate) fn of_minimizing(candidate: &dpopt_minimize::Candidate) -> Self {
        match &candidate.plan {
            Ok(plan) => Self::Planned(PlannedRow {
                grade: plan.grade(),
                noise_multiplier: plan.schedule.noise_multiplier,
                steps: plan.schedule.steps,
                gradients: plan.evaluations,
                predicted_excess_risk: plan.predicted_excess,
                epsilon: plan.certificate.bound().upper,
                delta: plan.certificate.budget().delta(),
                accountant: plan.certificate.bound().accountant.clone(),
                clips: None,
                notes: plan.warnings.clone(),
            }),
            Err(why) => Self::Refused { not_applicable: why.refusal() },
        }
    }
}

/// The candidate at `place`, taken by its predicted error unless it was asked for by name.
pub(crate) fn selected(candidates: &[CandidateRow], place: usize, by_name: bool) -> Selection {
    let compared = |c: &CandidateRow| match &c.outcome {
        Outcome::Planned(row) if row.grade < Grade::Research => Some((row.predicted_excess_risk, row.gradients)),
        _ => None,
    };
    let before = candidates.iter().take(place).filter(|c| compared(c).is_some()).count();
    let all = candidates.iter().filter_map(|c| {
        let (risk, gradients) = compared(c)?;
        Some(Compared { method: &c.method, risk, gradients, tie_break: 0, logarithmic: false, stands_last: false })
    });
    let reason = if by_name { Reason::ByName } else { Reason::of(&all.collect::<Vec<_>>(), before) };
    Selection { place, reason }
}

impl Report {
    /// The method that ran.
    pub fn chosen(&self) -> Option<&CandidateRow> {
        self.candidates.get(self.selection.place)
    }
}

/// Public facts about the table and the target.
#[derive(Clone, Debug, Serialize)]
pub struct DataFacts {
    /// How the table is called.
    pub source: String,
    /// n, or a public guess of it under add-or-remove. `None`: no use was made of it, and it was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// How many units own them, where a unit may have several; or a public guess of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub units: Option<u64>,
    /// Who owns what, where a row may have several owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership: Option<Ownership>,
    /// d after encoding, the intercept included.
    pub features: usize,
    /// Name of the target column.
    pub target: String,
    /// What was learned, for example `classification into 2 classes`.
    pub task: String,
    /// Where the target is clipped, if a moment of it says so: what that takes from its mean at most stands beside the noise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_clip: Option<TargetClip>,
    /// Where bounds and levels come from, one sentence each.
    pub preparation: Vec<String>,
}

/// One method, planned or refused.
#[derive(Clone, Debug, Serialize)]
pub struct CandidateRow {
    /// Name of the method, as `--method` takes it.
    pub method: String,
    /// The plan in numbers, or why there is none.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What planning a method gave.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Outcome {
    /// The method can run, with these numbers.
    Planned(PlannedRow),
    /// It can't, and why.
    Refused {
        /// Why the method does not apply, as one sentence.
        not_applicable: Refusal,
    },
}

/// The shared numbers of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct PlannedRow {
    /// Trust in the claim.
    pub grade: Grade,
    /// Noise over sensitivity of the main release.
    pub noise_multiplier: f64,
    /// Number of noisy steps.
    pub steps: u64,
    /// Expected per-record gradients.
    pub gradients: f64,
    /// Predicted excess of the mean loss, from public facts; for a mean, the proved bound on its l2 error; for means of columns, the mean over them of the
    /// half width of the interval over the moment's root; for what groups agree on, the noise over the radius.
    pub predicted_excess_risk: f64,
    /// Certified ε at `delta`.
    pub epsilon: f64,
    /// δ of the plan's certificate.
    pub delta: f64,
    /// Which accountant certified it.
    pub accountant: String,
    /// Where units of several rows are protected: what is clipped, `unit` or `row × k`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clips: Option<String>,
    /// What the plan tells besides: a proved bound, for example.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// One released weight of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Feature, and class for several outputs.
    pub name: String,
    /// The released value of the weight.
    pub value: f64,
    /// Upper bound on the standard deviation of the noise in it, where the method's plan has one.
    pub noise: Option<f64>,
    /// Standard deviation of its distance from the population's best coefficient, of sampling and noise together, where the method finds one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub std_error: Option<f64>,
    /// Whether it is that of a slot of a hash: which values fall into it is not declared, and most hold noise alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slot: bool,
}

/// What a model that knows nothing has: public.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Mean loss of the constant answer; for a number, the largest.
    pub loss: f64,
    /// What the report answers, as text.
    pub answer: String,
    /// Half of the target's range, if the target is a number and no count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_range: Option<f64>,
    /// Whether the loss is half the squared error, in halves of the range.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub squared: bool,
    /// Whether counts are predicted: the loss is half the deviance, over the constant answer, of a record without any.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// The level of the quantile that is predicted, if it is one: the loss is the pinball loss, in halves of the range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantile: Option<f64>,
}

impl Baseline {
    /// The baseline of `loss`; `range` is that of the target, if it is a number and the range is known.
    pub fn new(loss: &Loss, range: Option<(f64, f64)>) -> Self {
        let answer = match (loss, range) {
            (Loss::Softmax { .. } | Loss::Logistic { .. }, _) => {
                "a model that gives every class the same probability".into()
            }
            (Loss::Poisson { top }, Some((_, upper))) => {
                format!("always predicting {} (the largest count over {})", Shown(upper / top), Shown(*top))
            }
            (_, Some((lower, upper))) => {
                format!("always predicting {} (the middle of its range)", Shown(0.5 * (lower + upper)))
            }
            (_, None) => "a model whose weights are all 0".into(),
        };
        let counts = matches!(loss, Loss::Poisson { .. });
        let quantile = match loss {
            Loss::Quantile { level, .. } => Some(*level),
            _ => None,
        };
        let half_range = range.filter(|_| !counts).map(|(lower, upper)| 0.5 * (upper - lower));
        Self { loss: loss.at_zero(), answer, half_range, squared: *loss == Loss::Squared, counts, quantile }
    }

    /// What an excess risk means beside its loss, as the end of a sentence.
    pub fn verdict(&self, excess: f64) -> &'static str {
        match excess / self.loss {
            share if share < 0.1 => "small beside it",
            share if share < 0.5 => "a noticeable part of it",
            share if share < 1.0 => "most of it; the model may be little better than a guess",
            _ => "all of it or more; the model may be no better than a guess. More rows or a larger epsilon help",
        }
    }
}

/// A score that was released with noise, of records that were kept aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Name of the score, as a sentence begins: `Accuracy`.
    pub name: String,
    /// The released mean of scores in [0, 1].
    pub value: f64,
    /// Standard deviation of the noise in it.
    pub noise: f64,
    /// How many they are.
    pub held_out: u64,
}

impl Score {
    /// Where the mean lies in 95 % of cases, with the noise and with the records a sample.
    pub fn band(&self) -> (f64, f64) {
        let mean = self.value.clamp(0.0, 1.0);
        // numbers in [0, 1] vary most when they are its ends
        let sampling = (mean * (1.0 - mean) / self.held_out.max(1) as f64).sqrt();
        let half = TWO_SIDED * self.noise.hypot(sampling);
        ((self.value - half).clamp(0.0, 1.0), (self.value + half).clamp(0.0, 1.0))
    }
}

/// Confidence intervals for the quantities that were released.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Intervals {
    /// With at least this probability all of them hold.
    pub confidence: f64,
    /// The columns, in the order in which they were asked for.
    pub rows: Vec<IntervalRow>,
    /// What they rest on, one sentence each. Privacy rests on none of it.
    pub rests_on: Vec<String>,
}

/// A released mean, between what and what it is, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntervalRow {
    /// Name of the column.
    pub name: String,
    /// The released mean, in the unit of the column.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Half width for the noise of privacy.
    pub noise: f64,
    /// Half width for sampling.
    pub sampling: f64,
    /// Bound on what clipping moved: certain.
    pub bias: f64,
    /// Distance from `centre` to which numbers were clipped.
    pub threshold: f64,
    /// Centre around which numbers were clipped.
    pub centre: f64,
    /// Root of the moment about the centre, declared or assumed.
    pub root: f64,
}

impl From<&Candidate> for CandidateRow {
    fn from(candidate: &Candidate) -> Self {
        let outcome = match &candidate.plan {
            Ok(plan) => {
                let s = plan.summary();
                Outcome::Planned(PlannedRow {
                    grade: s.grade(),
                    noise_multiplier: s.noise_multiplier,
                    steps: s.steps,
                    gradients: s.gradients,
                    predicted_excess_risk: s.predicted_excess_risk,
                    epsilon: s.certificate.bound().upper,
                    delta: s.certificate.budget().delta(),
                    accountant: s.certificate.bound().accountant.clone(),
                    clips: plan.problem().record.clips(),
                    notes: s.warnings.clone(),
                })
            }
            Err(why) => Outcome::Refused { not_applicable: why.refusal() },
        };
        Self { method: candidate.method.into(), outcome }
    }
}

impl Report {
    /// The report as one HTML document: no scripts, no network, light and dark.
    pub fn html(&self) -> String {
        html::page(self)
    }

    /// The report as JSON, for programs.
    pub fn json(&self) -> Result<String, serde_json::Error> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }
}
