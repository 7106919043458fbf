//! Private search: how many runs, and which one leaves.

use crate::accounting::{event, json, of_records};
use crate::errors::{invalid, refused};
use crate::seeds::noise;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::mechanism::{AssumedRun, AssumedSearch, CuratorError, RunScore};
use dpopt::model::{FitError, SearchLaw, score_event};
use dpopt::noise::{Purpose, Repetitions};
use dpopt::privacy::{Budget, Event};
use pyo3::prelude::*;
use serde_json::json as value;

/// The law of the number of runs; shape 0 is logarithmic, 1 geometric, infinity Poisson without zero (whose mean is stated before
/// zero is cut off).
fn law(shape: f64, mean: f64) -> PyResult<Repetitions> {
    SearchLaw { shape, mean }.sampler().map_err(invalid)
}

/// The largest run budget for which a search fits (ε, δ): `train(ε₁, δ₁)` gives the training event of every candidate as JSON. The
/// plan as JSON.
#[pyfunction]
pub(crate) fn plan_search(
    py: Python<'_>,
    shape: f64,
    mean: f64,
    epsilon: f64,
    delta: f64,
    under: &str,
    train: Py<PyAny>,
) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    let train = |run: Budget| -> Result<Vec<Event>, Stop> {
        let events = Python::attach(|py| train.call1(py, (run.epsilon(), run.delta()))?.extract::<Vec<String>>(py));
        events.and_then(|events| events.iter().map(|text| event(text)).collect()).map_err(Stop)
    };
    let law = SearchLaw { shape, mean };
    let plan = interruptible(py, || law.plan(terms, train))?.map_err(|Stop(why)| why)?;
    json(&value!({
        "run_epsilon": plan.run.epsilon(),
        "run_delta": plan.run.delta(),
        "score_noise": plan.score_noise,
        "score_event": serde_json::to_value(score_event(plan.score_noise)).map_err(invalid)?,
        "event": serde_json::to_value(plan.certificate.event()).map_err(invalid)?,
        "epsilon": plan.certificate.bound().upper,
        "theorem": serde_json::to_value(plan.theorem).map_err(invalid)?,
    }))
}

/// A secret number of runs.
#[pyfunction]
pub(crate) fn repetitions(shape: f64, mean: f64, seed: Option<u64>) -> PyResult<u64> {
    Ok(law(shape, mean)?.sample(&mut noise(seed)?.stream(Purpose::Selection, 0)))
}

/// What ended a search: a refusal of the curator, or an exception of a run.
struct Stop(PyErr);

impl From<CuratorError> for Stop {
    fn from(why: CuratorError) -> Self {
        Self(refused(why))
    }
}

impl From<FitError> for Stop {
    fn from(why: FitError) -> Self {
        Self(refused(why))
    }
}

/// The search itself: `run(k)` -> (noisy score, tie breaker) is called a secret number of times; the index of the best, released
/// once for the price of the search, which the session was charged before the first run.
#[pyfunction]
pub(crate) fn select_best(shape: f64, mean: f64, run: Bound<'_, PyAny>, session: &Session) -> PyResult<usize> {
    let law = law(shape, mean)?;
    let certificate = &session.certificate;
    session.stage(certificate, |curator| {
        let best = AssumedSearch::select(curator, certificate.event(), &law, |k| {
            let (score, tie) = run.call1((k,)).and_then(|pair| pair.extract::<(f64, u64)>()).map_err(Stop)?;
            Ok::<_, Stop>(AssumedRun { run: RunScore { score, tie }, output: k as usize })
        });
        Ok(best.map_err(|Stop(why)| why)?.into_inner())
    })
}
