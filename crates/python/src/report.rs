//! The report of linear models, from the plain data that an estimator keeps (so that it survives pickling).

use crate::errors::invalid;
use dpopt::mechanism::ReleaseRecord;
use dpopt::model::{Guarantee, MatrixAnswer};
use dpopt::privacy::Event;
use dpopt::report::{Coefficient, Score};
use pyo3::prelude::*;
use serde::Deserialize;

/// What an estimator knows of its answer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    command: String,
    source: String,
    target: String,
    preparation: Vec<String>,
    guarantee: Guarantee,
    releases: Vec<Vec<StoredRelease>>,
    /// Name, value, standard deviation of the noise, standard error.
    coefficients: Vec<(String, f64, Option<f64>, Option<f64>)>,
    /// Range of the target, if it is a number.
    range: Option<(f64, f64)>,
    /// Score of the winner of a search.
    score: Option<Score>,
    warnings: Vec<String>,
    planning_seconds: f64,
    ledger: Option<String>,
}

#[derive(Deserialize)]
struct StoredRelease {
    label: String,
    event: Event,
    count: u64,
}

/// Labels are static in the library; a label this version does not know is shown by a neutral name.
fn label(text: &str) -> &'static str {
    const KNOWN: [&str; 17] = [
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
        "slopes and curvatures",
    ];
    KNOWN.into_iter().find(|known| *known == text).unwrap_or("release")
}

/// What an estimator wrote down of its answer.
pub(crate) fn answer(stored: &str) -> PyResult<MatrixAnswer> {
    let s: Stored = serde_json::from_str(stored).map_err(invalid)?;
    let record = |r: StoredRelease| ReleaseRecord { label: label(&r.label), event: r.event, count: r.count };
    let weight = |(name, value, noise, std_error)| Coefficient { name, value, noise, std_error, slot: false };
    Ok(MatrixAnswer {
        command: s.command,
        source: s.source,
        target: s.target,
        preparation: s.preparation,
        guarantee: s.guarantee,
        releases: s.releases.into_iter().map(|stage| stage.into_iter().map(record).collect()).collect(),
        coefficients: s.coefficients.into_iter().map(weight).collect(),
        range: s.range,
        score: s.score,
        warnings: s.warnings,
        planning_seconds: s.planning_seconds,
        ledger: s.ledger,
    })
}
