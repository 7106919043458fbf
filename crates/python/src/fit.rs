//! The road of every estimator: plan, charge, labels, models, guarantee.

use crate::accounting::{json, named_accountant, relation};
use crate::errors::{invalid, refused};
use crate::owners::{Owners, UnitsAsked};
use crate::parts::Asking;
use crate::rows::Rows;
use crate::session::{Charging, session_error};
use crate::stop::interruptible;
use crate::words::in_python;
use dpopt::data::EncoderForm;
use dpopt::loss::Loss;
use dpopt::model::{self, FitError, MatrixFacts, Planned, Target};
use dpopt::optimize::MethodOptions;
use dpopt::plan::{Assumption, NotApplicable, Summary};
use dpopt::records::Parts;
use numpy::{PyArray1, PyReadonlyArray1, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::sync::{Arc, Mutex, PoisonError};

/// What is fitted, and within what, as the Python side writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) relation: String,
    pub(crate) epsilon: f64,
    pub(crate) delta: Option<f64>,
    pub(crate) options: MethodOptions,
    pub(crate) units: Option<UnitsAsked>,
    /// The range of the target is found before the model, where so many rows are enough.
    pub(crate) finds_range: bool,
}

/// A moment as it is said, if it can be used.
#[pyfunction]
pub(crate) fn moment(said: &str) -> PyResult<String> {
    said.parse::<dpopt::moment::Moment>().map(|_| said.to_string()).map_err(invalid)
}

pub(crate) fn fit_error(error: FitError) -> PyErr {
    match error {
        FitError::Session(why) => session_error(why),
        FitError::Budget(why) => invalid(why),
        FitError::Data(why) => invalid(why),
        FitError::NotApplicable(why) => refused(none_applies(&why)),
        other => refused(other),
    }
}

/// Why nothing runs, whether one method was asked for or all.
fn none_applies(why: &NotApplicable) -> String {
    match why.to_string() {
        text if text.starts_with("no method applies") => text,
        text => format!("no method applies; {text}"),
    }
}

fn summary(s: &Summary, schedule: Value) -> PyResult<Value> {
    Ok(value!({
        "method": s.method,
        "loss": s.loss,
        "grade": serde_json::to_value(s.grade()).map_err(invalid)?,
        "noise_multiplier": s.noise_multiplier,
        "steps": s.steps,
        "gradients": s.gradients,
        "predicted_excess_risk": s.predicted_excess_risk,
        "epsilon": s.certificate.bound().upper,
        "delta": s.certificate.budget().delta(),
        "allowed_epsilon": s.certificate.budget().epsilon(),
        "relation": s.certificate.relation().name(),
        "unit": s.certificate.neighbours().unit.name(),
        "bound": serde_json::to_value(s.certificate.bound()).map_err(invalid)?,
        "event": serde_json::to_value(s.certificate.event()).map_err(invalid)?,
        "assumptions": s.assumptions.iter().map(Assumption::text).collect::<Vec<_>>(),
        "warnings": s.warnings.iter().map(|text| in_python(text)).collect::<Vec<_>>(),
        "schedule": schedule,
    }))
}

/// A plan in the words of Python: every candidate, the chosen one or why there is none, for how many models, and the forms of the
/// encoder that were compared.
pub(crate) fn described(planned: &Planned, forms: &[(EncoderForm, String, f64)]) -> PyResult<String> {
    let mut candidates = Vec::new();
    for candidate in &planned.candidates {
        candidates.push(match &candidate.plan {
            Ok(prepared) => {
                let mut row = summary(prepared.summary(), prepared.schedule())?;
                if let Some(clips) = prepared.problem().record.clips() {
                    row["clips"] = value!(clips);
                }
                if planned.in_parts {
                    row["passes"] = value!(prepared.passes() * planned.models as u64);
                }
                row
            }
            Err(why) => value!({ "method": candidate.method, "not_applicable": in_python(&why.to_string()) }),
        });
    }
    let plan = planned.plan();
    let mut encoders = Vec::new();
    for (form, words, risk) in forms {
        let mut row = serde_json::to_value(form).map_err(invalid)?;
        row["words"] = value!(words);
        row["excess_risk"] = value!(risk);
        encoders.push(row);
    }
    json(&value!({
        "encoders": encoders,
        "candidates": candidates,
        "method": plan.as_ref().ok().map(|plan| plan.summary().method),
        "refusal": plan.err().map(|why| in_python(&none_applies(&why))),
        "epsilon": planned.budget.epsilon(),
        "delta": planned.budget.delta(),
        "models": planned.models,
    }))
}

/// A fit of linear models to bounded rows, planned from public facts: to be explained, or run any number of times.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Fit {
    inner: Arc<model::MatrixFit>,
}

/// Every option of every method as JSON: name, help, values, methods that have it.
#[pyfunction]
pub(crate) fn method_options() -> PyResult<String> {
    json(&dpopt_methods::registry().catalogue())
}

#[pymethods]
impl Fit {
    /// Public facts of the rows, and what is asked of them as JSON. Reads no record.
    #[new]
    fn new(rows: u64, features: usize, nonzeros: usize, row_norm: f64, request: &str) -> PyResult<Self> {
        let r: Request = serde_json::from_str(request).map_err(invalid)?;
        let units = r.units.map(UnitsAsked::facts);
        let facts = MatrixFacts { rows, features, nonzeros, row_norm, units };
        let budget = (r.epsilon, r.delta);
        let methods = model::MethodRequest { registry: dpopt_methods::registry().clone(), options: r.options };
        let fit = model::MatrixFit::new(facts, r.target, relation(&r.relation)?, budget, methods);
        let fit = if r.finds_range { fit.and_then(model::MatrixFit::finding_range) } else { fit };
        Ok(Self { inner: Arc::new(fit.map_err(invalid)?) })
    }

    /// Whether the target's range is found before the model.
    fn finds_range(&self) -> bool {
        self.inner.finds_range()
    }

    /// The plan for `classes` classes as JSON; all methods beside the chosen one to `compare`.
    fn plan(&self, py: Python<'_>, classes: usize, compare: bool) -> PyResult<String> {
        interruptible(py, || {
            let planned = if compare { self.inner.explain(classes) } else { self.inner.planned(classes) };
            described(&*planned.map_err(fit_error)?, &[])
        })?
    }

    /// Plans, then charges `charge` (run, event, ε, δ), if there is one. The guarantee will be by the accountant `by`.
    fn open(
        &self,
        py: Python<'_>,
        run: &str,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
        by: Option<&str>,
    ) -> PyResult<FitRun> {
        let by = by.map(named_accountant).transpose()?;
        let opened = interruptible(py, || self.inner.clone().open(run, Charging::account(charge), seed, by))?;
        Ok(FitRun { inner: Mutex::new(Some(opened.map_err(fit_error)?)) })
    }
}

/// A fit whose charge is written down: labels, if they are to be found, then the models.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct FitRun {
    inner: Mutex<Option<model::MatrixRun>>,
}

/// Released weights of each model (outputs × features, row-major), an upper bound on the standard deviation of the noise in each
/// (NaN: none is known); plan, guarantee and releases as JSON; seconds of planning.
type Fitted<'py> = (Vec<Bound<'py, PyArray1<f64>>>, Vec<Bound<'py, PyArray1<f64>>>, String, String, String, f64);

fn over() -> PyErr {
    refused("this fit has run; open another")
}

#[pymethods]
impl FitRun {
    /// Which of the labels that occur, of which `places` has each row's, are frequent enough to be known: their places; None if they
    /// are fewer than two, which is an answer and no failure.
    fn labels(
        &self,
        py: Python<'_>,
        places: PyReadonlyArray1<'_, i64>,
        occurring: usize,
        owners: Option<&Owners>,
    ) -> PyResult<Option<Vec<usize>>> {
        let places = places.as_slice().map_err(invalid)?;
        interruptible(py, || {
            let mut run = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let owners = owners.map(|owners| &owners.inner);
            match run.as_mut().ok_or_else(over)?.find_labels(places, occurring, owners) {
                Err(why) if why.is_an_answer() => Ok(None),
                found => found.map(Some).map_err(fit_error),
            }
        })?
    }

    /// Whether the target's range is found before the model.
    fn finds_range(&self) -> PyResult<bool> {
        let run = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(run.as_ref().ok_or_else(over)?.finds_range())
    }

    /// Where a target of this moment is clipped: lower and upper end, what that takes from its mean at most, and all that in words.
    fn target_clip(&self, moment: &str) -> PyResult<(f64, f64, f64, String)> {
        let run = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let clip = run.as_ref().ok_or_else(over)?.target_clip(moment.parse().map_err(invalid)?);
        let clip = clip.ok_or_else(|| invalid("the moment says nothing of the size of y; give k:m"))?;
        let (lower, upper) = clip.range();
        Ok((lower, upper, clip.clip_bias, clip.in_words()))
    }

    /// A range that holds nearly all `targets`; they are those of `owners`, if units were planned for.
    fn range(
        &self,
        py: Python<'_>,
        targets: PyReadonlyArray1<'_, f64>,
        owners: Option<&Owners>,
    ) -> PyResult<(f64, f64)> {
        let targets = targets.as_slice().map_err(invalid)?;
        interruptible(py, || {
            let mut run = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let owners = owners.map(|owners| &owners.inner);
            run.as_mut().ok_or_else(over)?.find_range(targets, owners).map_err(fit_error)
        })?
    }

    /// Fits the models to `rows`, whose targets are numbers or places of classes; they are those of `owners`, if units were planned for.
    fn fit<'py>(&self, py: Python<'py>, rows: &Rows, classes: usize, owners: Option<&Owners>) -> PyResult<Fitted<'py>> {
        let run = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(over)?;
        let records = rows.take()?;
        let owners = owners.map(|owners| &owners.inner);
        let fitted = interruptible(py, || run.fit(records, classes, owners))?.map_err(fit_error)?;
        released(py, &fitted)
    }

    /// The same of rows in parts of which is `known` how many records each has, and their digest: `ask` hands a question to the [`Shard`](crate::parts::Shard)s and gives what they answer.
    /// `owner`: how a unit is called, if units were planned for; `range`: of targets, if it was not known when the parts were made.
    #[pyo3(signature = (ask, known, classes, owner = None, range = None))]
    fn fit_elsewhere<'py>(
        &self,
        py: Python<'py>,
        ask: Py<PyAny>,
        known: Vec<(u64, u64)>,
        classes: usize,
        owner: Option<&str>,
        range: Option<(f64, f64)>,
    ) -> PyResult<Fitted<'py>> {
        let run = self.inner.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(over)?;
        let asking = Arc::new(Asking::new(ask));
        let parts: Arc<dyn Parts> = asking.clone();
        let fitted = interruptible(py, || run.fit_elsewhere(&parts, &known, classes, owner, range))?;
        released(py, &fitted.map_err(|why| asking.cause(py, fit_error(why)))?)
    }

    /// A range that holds nearly all targets in parts.
    fn range_elsewhere(&self, py: Python<'_>, ask: Py<PyAny>, known: Vec<(u64, u64)>) -> PyResult<(f64, f64)> {
        let asking = Arc::new(Asking::new(ask));
        let parts: Arc<dyn Parts> = asking.clone();
        let found = interruptible(py, || {
            let mut run = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            run.as_mut().ok_or_else(over)?.find_range_elsewhere(&parts, &known).map_err(fit_error)
        })?;
        found.map_err(|error| asking.cause(py, error))
    }
}

/// What a fit hands to Python.
fn released<'py>(py: Python<'py>, fitted: &model::MatrixFitted) -> PyResult<Fitted<'py>> {
    let bound = fitted.planned.plan().map_err(refused)?.summary().weight_noise.unwrap_or(f64::NAN);
    let (mut weights, mut noise) = (Vec::new(), Vec::new());
    for solution in &fitted.solutions {
        warn_of(py, solution.note.as_deref())?;
        weights.push(solution.weights.to_pyarray(py));
        let same = || vec![bound; solution.weights.len()];
        noise.push(solution.noise.clone().unwrap_or_else(same).to_pyarray(py));
    }
    let (guarantee, releases) = (json(&fitted.guarantee)?, json(&fitted.releases)?);
    Ok((weights, noise, described(&fitted.planned, &[])?, guarantee, releases, fitted.planning.as_secs_f64()))
}

/// Tells how a run ended, as a warning of Python's.
pub(crate) fn warn_of(py: Python<'_>, note: Option<&str>) -> PyResult<()> {
    let Some(note) = note else { return Ok(()) };
    let text = std::ffi::CString::new(in_python(note)).map_err(invalid)?;
    PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyUserWarning>(), &text, 1)
}

/// P(second class) at each margin, for the loss that was minimised.
#[pyfunction]
pub(crate) fn probability<'py>(
    py: Python<'py>,
    loss: &str,
    margins: PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let loss: Loss = serde_json::from_str(loss).map_err(invalid)?;
    let p: Vec<f64> = margins.as_array().iter().map(|&s| dpopt::model::probability::of_margin(&loss, s)).collect();
    Ok(p.to_pyarray(py))
}
