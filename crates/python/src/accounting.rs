//! Events, accountants and calibration for `dpopt.accounting`. Events come and go as JSON.

use crate::errors::{BudgetExceeded, invalid, refused};
use crate::stop::interruptible;
use dpopt::estimate::{BatchSums, NoiseLaw};
use dpopt::model::Guarantee;
use dpopt::privacy::accountant::pld::Quality;
use dpopt::privacy::accountant::{self, Accountant, AccountingError};
use dpopt::privacy::certify::CertifyError;
use dpopt::privacy::{Bound, Budget, Certificate, Event, Neighbours, Relation, Unit, calibrate as search};
use pyo3::prelude::*;
use std::cell::RefCell;

pub(crate) fn relation(name: &str) -> PyResult<Relation> {
    [Relation::ZeroOut, Relation::AddOrRemove, Relation::ReplaceOne]
        .into_iter()
        .find(|r| r.name() == name)
        .ok_or_else(|| invalid(format!("there is no relation `{name}`; choose zero-out, add-or-remove or replace-one")))
}

/// Default δ of a run of `units` records.
#[pyfunction]
pub(crate) fn default_delta(units: u64) -> f64 {
    dpopt::session::default_delta(units)
}

/// Who is protected, and between which data sets.
pub(crate) fn neighbours(unit: &str, under: &str) -> PyResult<Neighbours> {
    let found = [Unit::Record, Unit::User, Unit::Round].into_iter().find(|known| known.name() == unit);
    let unit = found.ok_or_else(|| invalid(format!("there is no unit `{unit}`; choose record, user or round")))?;
    Ok(Neighbours { unit, relation: relation(under)? })
}

/// What is released without a word of whose rows they are protects one record: a row of what it is given.
pub(crate) fn of_records(name: &str) -> PyResult<Neighbours> {
    relation(name).map(Neighbours::of_records)
}

pub(crate) fn event(json: &str) -> PyResult<Event> {
    Event::from_json(json).map_err(invalid)
}

pub(crate) fn json<T: serde::Serialize>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(invalid)
}

pub(crate) fn certify_error(error: CertifyError) -> PyErr {
    match error {
        CertifyError::OverBudget { .. } => BudgetExceeded::new_err(error.to_string()),
        other => refused(other),
    }
}

/// The accountant of that name.
pub(crate) fn named_accountant(name: &str) -> PyResult<&'static dyn Accountant> {
    let all = accountant::all();
    all.iter().copied().find(|a| a.name() == name).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|a| a.name()).collect();
        invalid(format!("there is no accountant `{name}`; choose auto, {}", names.join(", ")))
    })
}

/// What `work` makes of an event and the relation of its neighbours.
fn accounted<T: Send>(
    py: Python<'_>,
    event_json: &str,
    under: &str,
    work: impl FnOnce(&Event, Relation) -> PyResult<T> + Send,
) -> PyResult<T> {
    let relation = relation(under)?;
    interruptible(py, || work(&event(event_json)?, relation))?
}

/// The named accountant's answer, or the tightest one's for `auto`.
fn ask(
    name: &str,
    automatic: impl Fn() -> Result<Bound, AccountingError>,
    one: impl Fn(&dyn Accountant) -> Result<Bound, AccountingError>,
) -> PyResult<Bound> {
    if name == "auto" {
        return automatic().map_err(refused);
    }
    one(named_accountant(name)?).map_err(refused)
}

/// Certified ε of an event at δ, as JSON of the bound.
#[pyfunction]
pub(crate) fn epsilon(py: Python<'_>, event_json: &str, at_delta: f64, under: &str, by: &str) -> PyResult<String> {
    accounted(py, event_json, under, |event, relation| {
        json(&ask(
            by,
            || accountant::epsilon_at(event, relation, at_delta, Quality::BRACKET),
            |a| a.epsilon(event, relation, at_delta),
        )?)
    })
}

/// Certified δ of an event at ε, as JSON of the bound.
#[pyfunction]
pub(crate) fn delta(py: Python<'_>, event_json: &str, at_epsilon: f64, under: &str, by: &str) -> PyResult<String> {
    accounted(py, event_json, under, |event, relation| {
        json(&ask(
            by,
            || accountant::delta_at(event, relation, at_epsilon, Quality::BRACKET),
            |a| a.delta(event, relation, at_epsilon),
        )?)
    })
}

/// Certified δ at each of `epsilons`, never growing with ε.
#[pyfunction]
pub(crate) fn privacy_curve(py: Python<'_>, event_json: &str, epsilons: Vec<f64>, under: &str) -> PyResult<Vec<f64>> {
    accounted(py, event_json, under, |event, relation| accountant::deltas(event, relation, &epsilons).map_err(refused))
}

/// Upper bounds on the true positive rate of any test at each false positive rate.
#[pyfunction]
pub(crate) fn true_positive_rates(
    py: Python<'_>,
    event_json: &str,
    rates: Vec<f64>,
    under: &str,
) -> PyResult<Vec<f64>> {
    accounted(py, event_json, under, |event, relation| {
        accountant::true_positive_rates(event, relation, &rates).map_err(refused)
    })
}

/// The least μ that covers what is certified, an estimate.
#[pyfunction]
pub(crate) fn gdp_estimate(py: Python<'_>, event_json: &str, under: &str) -> PyResult<f64> {
    accounted(py, event_json, under, |event, relation| accountant::gdp_estimate(event, relation).map_err(refused))
}

/// Every accountant's ε: (name, bound as JSON or `None`, reason or `None`).
#[pyfunction]
pub(crate) fn compare(
    py: Python<'_>,
    event_json: &str,
    at_delta: f64,
    under: &str,
) -> PyResult<Vec<(&'static str, Option<String>, Option<String>)>> {
    accounted(py, event_json, under, |event, relation| {
        accountant::compare(event, relation, at_delta)
            .into_iter()
            .map(|(name, answer)| match answer {
                Ok(bound) => Ok((name, Some(json(&bound)?), None)),
                Err(why) => Ok((name, None, Some(why.to_string()))),
            })
            .collect()
    })
}

/// Certifies an event against (ε, δ); the bound as JSON.
#[pyfunction]
pub(crate) fn certified(py: Python<'_>, event_json: &str, epsilon: f64, delta: f64, under: &str) -> PyResult<String> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    interruptible(py, || {
        let certificate = dpopt::privacy::certify(&event(event_json)?, terms).map_err(certify_error)?;
        json(certificate.bound())
    })?
}

/// Finds the noise (`what` = "noise"), the sampling probability, the number of steps or another cost (an ε, μ or ρ) for which `event_of(value)`,
/// a callable that returns JSON, meets (ε, δ). Returns (value, event as JSON, bound as JSON).
#[pyfunction]
pub(crate) fn calibrate(
    py: Python<'_>,
    event_of: Py<PyAny>,
    what: &str,
    epsilon: f64,
    delta: f64,
    under: &str,
) -> PyResult<Found> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    interruptible(py, || {
        // the first exception of the callable; the search then ends on an event that every accountant refuses
        let failure: RefCell<Option<PyErr>> = RefCell::new(None);
        let build = |call: &dyn Fn(Python<'_>) -> PyResult<Py<PyAny>>| -> Event {
            let made = Python::attach(|py| call(py)?.extract::<String>(py)).and_then(|text| event(&text));
            made.unwrap_or_else(|error| {
                failure.borrow_mut().get_or_insert(error);
                Event::Unsupported
            })
        };
        let real = |x: f64| build(&|py| event_of.call1(py, (x,)));
        let whole = |x: u64| build(&|py| event_of.call1(py, (x,)));
        let found = match what {
            "noise" => search::noise(real, terms),
            "sampling_probability" => search::sampling_probability(real, terms),
            "steps" => search::steps(whole, terms).map(|(t, c)| (t as f64, c)),
            "cost" => search::cost(real, terms),
            other => {
                return Err(invalid(format!(
                    "cannot search for `{other}`; choose noise, sampling_probability, steps or cost"
                )));
            }
        };
        match failure.into_inner() {
            Some(error) => Err(error),
            None => self::found(found.map_err(certify_error)?),
        }
    })?
}

/// (value, event as JSON, bound as JSON) of a search.
type Found = (f64, String, String);

fn found((value, certificate): (f64, Certificate)) -> PyResult<Found> {
    Ok((value, certificate.event().to_json().map_err(invalid)?, json(certificate.bound())?))
}

/// The least noise multiplier of one noisy sum of `coordinates` coordinates within (ε, δ): `law` is gaussian or laplace.
#[pyfunction]
pub(crate) fn sum_noise(
    py: Python<'_>,
    law: &str,
    coordinates: u64,
    epsilon: f64,
    delta: f64,
    under: &str,
) -> PyResult<Found> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    let law = match law {
        "gaussian" => NoiseLaw::Gaussian,
        "laplace" => NoiseLaw::Laplace,
        other => return Err(invalid(format!("there is no noise `{other}`; choose gaussian or laplace"))),
    };
    interruptible(py, || found(law.least(coordinates, terms).map_err(certify_error)?))?
}

fn batches(facts: &str) -> PyResult<BatchSums> {
    serde_json::from_str(facts).map_err(invalid)
}

/// The least noise multiplier of a training loop within (ε, δ); its facts as JSON.
#[pyfunction]
pub(crate) fn batch_noise(py: Python<'_>, facts: &str, epsilon: f64, delta: f64, under: &str) -> PyResult<Found> {
    let terms = of_records(under)?.within(Budget::new(epsilon, delta).map_err(invalid)?);
    let batches = batches(facts)?;
    interruptible(py, || found(batches.least(terms).map_err(certify_error)?))?
}

/// What a training loop with this noise multiplier releases; facts and event as JSON.
#[pyfunction]
pub(crate) fn batch_event(facts: &str, noise_multiplier: f64) -> PyResult<String> {
    batches(facts)?.event(noise_multiplier).to_json().map_err(invalid)
}

/// Text of a file on one line: what commands a terminal becomes U+FFFD.
#[pyfunction]
pub(crate) fn foreign(text: &str) -> String {
    dpopt::privacy::rounding::foreign(text)
}

/// ε and δ as people read them, both rounded up.
#[pyfunction]
pub(crate) fn shown(epsilon: f64, delta: f64) -> (String, String) {
    (dpopt::report::six_digits_up(epsilon), dpopt::report::probability_up(delta))
}

fn guarantee(text: &str) -> PyResult<Guarantee> {
    serde_json::from_str(text).map_err(invalid)
}

/// A certified δ of everything that a guarantee promises at another ε; 1 where nothing is certified.
#[pyfunction]
pub(crate) fn guarantee_delta(py: Python<'_>, text: &str, epsilon: f64) -> PyResult<f64> {
    let guarantee = guarantee(text)?;
    Ok(interruptible(py, || guarantee.delta_at(epsilon))?.unwrap_or(1.0))
}

/// The guarantee with every stage accounted by the accountant of that name, as JSON.
#[pyfunction]
pub(crate) fn guarantee_by(py: Python<'_>, text: &str, by: &str) -> PyResult<String> {
    let (guarantee, by) = (guarantee(text)?, named_accountant(by)?);
    interruptible(py, || json(&guarantee.accounted_by(by).map_err(refused)?))?
}

/// Reads the expression language of `dpopt account`; the event as JSON.
#[pyfunction]
pub(crate) fn parse(py: Python<'_>, text: &str, unknown: Option<f64>) -> PyResult<String> {
    py.detach(|| dpopt::privacy::expression::parse(text, unknown).map_err(invalid)?.to_json().map_err(invalid))
}

/// The classes of events, with their fields, as JSON.
#[pyfunction]
pub(crate) fn event_classes() -> PyResult<String> {
    json(&dpopt::privacy::event::classes())
}

/// The event's short formula, after checking it under `under`.
#[pyfunction]
pub(crate) fn describe(py: Python<'_>, event_json: &str) -> PyResult<String> {
    py.detach(|| Ok(event(event_json)?.to_string()))
}

/// (Rényi divergence, failure probability, sampler error) of an event at each order; `None` where nothing is certified.
#[pyfunction]
pub(crate) fn renyi(
    py: Python<'_>,
    event_json: &str,
    under: &str,
    orders: Vec<f64>,
) -> PyResult<Vec<Option<(f64, f64, f64)>>> {
    accounted(py, event_json, under, |event, relation| {
        let at = |order| accountant::rdp::cost(event, relation, order).ok();
        Ok(orders.into_iter().map(|order| at(order).map(|c| (c.divergence, c.delta, c.total_variation))).collect())
    })
}
