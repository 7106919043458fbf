//! The answer, its guarantee, its plan and its cost as plain data, and as one HTML file without scripts or network.
//!
//! Everything in a [`Report`] is public: facts known before the run, the certified plan, and what the run released.

pub mod chart;
mod effects;
mod figures;
mod findings;
mod html;
mod markup;
mod ownership;

use crate::guarantee::Guarantee;
use crate::moment::TargetClip;
use dpopt_linear::registry;
use dpopt_mechanism::ReleaseRecord;
use dpopt_objective::loss::Loss;
use dpopt_optimize::plan::Grade;
use dpopt_optimize::{Candidate, octave};
use dpopt_privacy::Shown;
use dpopt_privacy::ledger::Receipt;
use serde::{Deserialize, Serialize};

pub use effects::{Effects, Importance, Scale};
pub use ownership::Ownership;

pub use dpopt_privacy::words::{detection_bound, number, probability, probability_up, protected, six_digits_up};

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
    /// Where an objective of somebody's own is small.
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
    /// `0.1.0`.
    pub software: String,
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
    /// Index into `candidates`.
    pub chosen: usize,
    /// Whether the chosen method was asked for by name.
    pub by_name: bool,
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
    pub warnings: Vec<String>,
    /// Seconds spent on planning and certifying. Timings that depend on records are not kept.
    pub planning_seconds: f64,
    /// Where a ledger file was charged.
    pub ledger: Option<String>,
    /// Which of its charges paid for the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

impl Outcome {
    /// Of a method that minimizes an objective.
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
            Err(why) => Self::Refused { not_applicable: why.to_string() },
        }
    }
}

impl Report {
    /// Why the chosen method was run, in a few words after "because".
    pub fn why_chosen(&self) -> String {
        match self.answer {
            _ if self.by_name => "it was asked for by name".into(),
            Answer::Minimum => {
                "it stands first: a simple method, unless another one was measured to be better (docs/methods/minimize.md)".into()
            }
            Answer::Means { .. } => "its intervals are the narrowest by its own, public numbers".into(),
            Answer::Agreed { .. } => "nothing else takes a program of anybody's own".into(),
            Answer::LinearModel | Answer::Mean { .. } => reason(&self.candidates, self.chosen),
        }
    }
}

/// What put `chosen` before all others that apply: each reason is given only if it holds over every one of them.
fn reason(candidates: &[CandidateRow], chosen: usize) -> String {
    let planned = |c: &CandidateRow| match &c.outcome {
        Outcome::Planned(row) if row.grade < Grade::Research => Some((row.predicted_excess_risk, row.gradients)),
        _ => None,
    };
    let applicable: Vec<(&CandidateRow, (f64, f64))> =
        candidates.iter().filter_map(|c| Some((c, planned(c)?))).collect();
    let own = candidates.get(chosen).and_then(|c| Some((c, planned(c)?)));
    let (Some(own), Some(best)) = (own, applicable.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0))) else {
        return "nothing else applies".into();
    };
    if applicable.len() == 1 {
        return "nothing else applies".into();
    }
    let smallest = best.1.0;
    if own.1.0 <= smallest {
        return format!("its predicted error is the smallest of the {} methods that apply", applicable.len());
    }
    let who = format!("{}, {}", best.0.method, number(smallest));
    let place = |c: &CandidateRow| registry().names().position(|m| m == c.method).unwrap_or(usize::MAX);
    let as_good: Vec<_> = applicable.iter().filter(|(_, (risk, _))| octave(*risk, smallest) == 0).collect();
    let fewest = as_good.iter().map(|(_, (_, gradients))| *gradients).fold(f64::INFINITY, f64::min);
    // what stands before it is passed over only for ten times the gradients, and objective perturbation of squared loss for any descent
    let later = |c: &CandidateRow| candidates.iter().position(|other| std::ptr::eq(other, c)) > Some(chosen);
    let passed_over = |c: &CandidateRow| c.method == "objective-perturbation" && later(c);
    let first = (as_good.iter())
        .all(|(c, (_, gradients))| place(c) >= place(own.0) || *gradients >= 10.0 * fewest || passed_over(c));
    if octave(own.1.0, smallest) == 0 && first {
        return format!(
            "its predicted error is within a factor of two of the smallest ({who}), which is as far as predictions go, and it comes first in \
             the standing order of methods: one release before many (for squared loss, descents first), full batches before samples, fewer \
             gradients"
        );
    }
    if registry().logarithmic(&own.0.method) {
        // the only other rule there is
        return format!(
            "features are so many for these rows that only an error that grows with ln d is of use: predictions (the smallest is {who}) \
             think too well of the other methods there"
        );
    }
    format!("it is the first that applies; the smallest predicted error is that of {who}")
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
    /// In words: `classification into 2 classes`.
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
    /// Predicted excess of the mean loss, from public facts; for a mean, the proved bound on its l2 error; for means of columns, the mean over them of the
    /// half width of the interval over the moment's root; for what groups agree on, the noise over the radius.
    pub predicted_excess_risk: f64,
    /// Certified ε at `delta`.
    pub epsilon: f64,
    /// δ.
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

/// One released weight.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Coefficient {
    /// Feature, and class for several outputs.
    pub name: String,
    /// The released value.
    pub value: f64,
    /// Upper bound on the standard deviation of the noise in it, where the method's plan has one.
    pub noise: Option<f64>,
    /// Whether it is that of a slot of a hash: which values fall into it nobody has declared, and most hold noise alone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub slot: bool,
}

/// What a model that knows nothing has: public.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Baseline {
    /// Its mean loss; of a number at most.
    pub loss: f64,
    /// What it answers, in words.
    pub answer: String,
    /// Of a number, half of its range.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub half_range: Option<f64>,
    /// Whether the loss is half the squared error, in halves of the range.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub squared: bool,
}

impl Baseline {
    /// Of `loss`; `range`: that of the target, if it is a number and the range is known.
    pub fn new(loss: &Loss, range: Option<(f64, f64)>) -> Self {
        let answer = match (loss, range) {
            (Loss::Softmax { .. } | Loss::Logistic { .. }, _) => {
                "a model that gives every class the same probability".into()
            }
            (_, Some((lower, upper))) => {
                format!("answering {}, the middle of its range, to everybody", Shown(0.5 * (lower + upper)))
            }
            (_, None) => "a model whose weights are all 0".into(),
        };
        let half_range = range.map(|(lower, upper)| 0.5 * (upper - lower));
        Self { loss: loss.at_zero(), answer, half_range, squared: *loss == Loss::Squared }
    }
}

/// A score that was released with noise, of records that were kept aside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// As a sentence begins: `Accuracy`.
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
        const TWO_SIDED: f64 = 1.96;
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
    /// In the order in which they were asked for.
    pub rows: Vec<IntervalRow>,
    /// What they rest on, one sentence each. Privacy rests on none of it.
    pub rests_on: Vec<String>,
}

/// A released mean, between what and what it is, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct IntervalRow {
    /// Of the column.
    pub name: String,
    /// The released value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Half width for the noise of privacy.
    pub noise: f64,
    /// Half width for sampling.
    pub sampling: f64,
    /// Bound on what clipping moved: certain.
    pub bias: f64,
    /// Numbers were clipped to this distance
    pub threshold: f64,
    /// from here.
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

#[cfg(test)]
mod tests {
    use super::*;
    use dpopt_linear::candidates;
    use dpopt_objective::loss::Loss;
    use dpopt_optimize::plan::Problem;
    use dpopt_optimize::{MethodOptions, Regime, Regimes, first_applicable};
    use dpopt_privacy::{Budget, Neighbours, Relation};

    #[test]
    fn reasons_are_given_only_where_they_hold() {
        let budget = Budget::new(1.0, 1e-6).unwrap();
        let mut told = [0; 3];
        for (rows, features, nonzeros) in
            [(10_000, 30, 30), (300, 5, 5), (100_000, 200, 20), (2_000, 100_000, 10), (50, 100_000, 10)]
        {
            for loss in [Loss::Logistic { shift: 0.0 }, Loss::Squared, Loss::Softmax { classes: 3 }] {
                let problem = Problem {
                    directions: None,
                    before: None,
                    calibrated: None,
                    record: Default::default(),
                    rows,
                    features,
                    nonzeros,
                    row_norm: 1.0,
                    loss,
                    neighbours: Neighbours::of_records(Relation::ZeroOut),
                };
                let all = candidates(&problem, budget, &MethodOptions::default());
                let table: Vec<CandidateRow> = all.iter().map(CandidateRow::from).collect();
                let risks: Vec<f64> =
                    all.iter().filter_map(|c| Some(c.plan.as_ref().ok()?.summary().predicted_excess_risk)).collect();
                let smallest = risks.iter().copied().fold(f64::INFINITY, f64::min);
                let place = first_applicable(&all, &MethodOptions::default()).unwrap();
                let plan = all[place].plan.as_ref().unwrap();
                let own = plan.summary().predicted_excess_risk;
                let why = reason(&table, place);
                let at = format!("n={rows} d={features} {loss:?} {}: {why}", plan.summary().method);
                if why.starts_with("features are so many") {
                    let regimes = Regimes::of(&problem, budget).unwrap();
                    assert_eq!(regimes.at(rows as f64), Regime::Sparse, "{at}");
                    told[0] += 1;
                } else if why.contains("within a factor of two") {
                    assert!(own < 2.0 * smallest && own > smallest, "{at}");
                    told[1] += 1;
                } else {
                    assert!(why.contains("smallest of the") && own == smallest, "{at}");
                    told[2] += 1;
                }
            }
        }
        assert!(told[1] > 0 && told[2] > 0 && told[0] > 0, "{told:?}");
    }
}
