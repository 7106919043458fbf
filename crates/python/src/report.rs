//! The HTML report of a fit, from the plain data that an estimator keeps (so that it survives pickling).

use crate::errors::invalid;
use crate::words::report_in_python;
use dpopt::loss::Loss;
use dpopt::mechanism::ReleaseRecord;
use dpopt::model::Guarantee;
use dpopt::plan::Grade;
use dpopt::privacy::Event;
use dpopt::report::{Answer, Baseline, CandidateRow, Coefficient, DataFacts, Outcome, PlannedRow, Report, Score};
use pyo3::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Stored {
    command: String,
    source: String,
    rows: u64,
    /// How many units own them, where a unit may have several.
    #[serde(default)]
    units: Option<u64>,
    features: usize,
    target: String,
    task: String,
    preparation: Vec<String>,
    guarantee: Guarantee,
    releases: Vec<Vec<StoredRelease>>,
    candidates: Vec<StoredCandidate>,
    chosen: usize,
    /// Whether the method was asked for by name.
    #[serde(default)]
    by_name: bool,
    schedule: serde_json::Value,
    coefficients: Vec<(String, f64, Option<f64>)>,
    assumptions: Vec<String>,
    warnings: Vec<String>,
    planning_seconds: f64,
    ledger: Option<String>,
    /// What was minimised, as planned.
    #[serde(default)]
    loss: Option<Loss>,
    /// Of the target, if it is a number.
    #[serde(default)]
    range: Option<(f64, f64)>,
    /// Of a search, the winner's.
    #[serde(default)]
    score: Option<Score>,
}

#[derive(Deserialize)]
struct StoredRelease {
    label: String,
    event: Event,
    count: u64,
}

#[derive(Deserialize)]
struct StoredCandidate {
    method: String,
    not_applicable: Option<String>,
    grade: Option<Grade>,
    #[serde(default)]
    noise_multiplier: f64,
    #[serde(default)]
    steps: u64,
    #[serde(default)]
    gradients: f64,
    #[serde(default)]
    predicted_excess_risk: f64,
    #[serde(default)]
    epsilon: f64,
    #[serde(default)]
    delta: f64,
    #[serde(default)]
    accountant: String,
    #[serde(default)]
    clips: Option<String>,
    #[serde(default)]
    notes: Vec<String>,
}

/// Labels are static in the library; a label this version does not know is shown by a neutral name.
fn label(text: &str) -> &'static str {
    const KNOWN: [&str; 16] = [
        "gradient sum",
        "batch gradient",
        "minimiser of the perturbed objective",
        "regularised minimiser",
        "class labels",
        "clipped sum",
        "private search",
        "second moment",
        "counts",
        "choice",
        "quantiles",
        "range end",
        "newton step",
        "features times target",
        "calibration",
        "histograms of numbers",
    ];
    KNOWN.into_iter().find(|known| *known == text).unwrap_or("release")
}

impl From<StoredCandidate> for CandidateRow {
    fn from(c: StoredCandidate) -> Self {
        let outcome = match (c.not_applicable, c.grade) {
            (None, Some(grade)) => Outcome::Planned(PlannedRow {
                grade,
                noise_multiplier: c.noise_multiplier,
                steps: c.steps,
                gradients: c.gradients,
                predicted_excess_risk: c.predicted_excess_risk,
                epsilon: c.epsilon,
                delta: c.delta,
                accountant: c.accountant,
                clips: c.clips,
                notes: c.notes,
            }),
            (why, _) => Outcome::Refused { not_applicable: why.unwrap_or_default() },
        };
        Self { method: c.method, outcome }
    }
}

/// One HTML document: no scripts, no network.
#[pyfunction]
pub(crate) fn report_html(py: Python<'_>, stored: &str) -> PyResult<String> {
    let s: Stored = serde_json::from_str(stored).map_err(invalid)?;
    let releases = s
        .releases
        .into_iter()
        .map(|stage| {
            stage
                .into_iter()
                .map(|r| ReleaseRecord { label: label(&r.label), event: r.event, count: r.count })
                .collect()
        })
        .collect();
    let report = Report {
        answer: Answer::LinearModel,
        software: env!("CARGO_PKG_VERSION").into(),
        command: s.command,
        facts: DataFacts {
            units: s.units,
            // what is kept is among the preparation
            ownership: None,
            source: s.source,
            rows: Some(s.rows),
            features: s.features,
            target: s.target,
            task: s.task,
            target_clip: None,
            preparation: s.preparation,
        },
        guarantee: s.guarantee,
        releases,
        candidates: s.candidates.into_iter().map(CandidateRow::from).collect(),
        chosen: s.chosen,
        by_name: s.by_name,
        schedule: s.schedule,
        coefficients: s
            .coefficients
            .into_iter()
            .map(|(name, value, noise)| Coefficient { name, value, noise, slot: false })
            .collect(),
        intervals: None,
        effects: None,
        baseline: s.loss.as_ref().map(|loss| Baseline::new(loss, s.range)),
        score: s.score,
        assumptions: s.assumptions,
        warnings: s.warnings,
        planning_seconds: s.planning_seconds,
        ledger: s.ledger,
        receipt: None,
    };
    Ok(py.detach(|| report_in_python(&report.html())))
}
