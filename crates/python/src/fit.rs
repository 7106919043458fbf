//! The steps of every estimator: plan, charge, labels, models, guarantee.

use crate::accounting::{json, named_accountant};
use crate::errors::{invalid, refused};
use crate::face::{in_python, pythonic};
use crate::owners::{Owners, UnitsAsked};
use crate::partitions::Asking;
use crate::report::answer as answer_of;
use crate::rows::Rows;
use crate::session::{Charging, session_error};
use crate::stop::interruptible;
use dpopt::data::EncoderForm;
use dpopt::loss::Loss;
use dpopt::model::{
    self, BoundedMatrix, FitError, Labels, MatrixFacts, MatrixOptions, MatrixRecords, Planned, Target, TargetRange,
};
use dpopt::optimize::MethodOptions;
use dpopt::optimize::registry::core_seconds;
use dpopt::plan::{Assumption, NotApplicable, Summary};
use dpopt::progress::Silent;
use dpopt_process::stop::paced;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json as value};
use std::sync::Arc;

/// What is fitted, and within what, as the Python side writes it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// How the run is called.
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) relation: String,
    pub(crate) epsilon: f64,
    pub(crate) delta: Option<f64>,
    pub(crate) options: MethodOptions,
    pub(crate) units: Option<UnitsAsked>,
    pub(crate) range: Range,
    /// Name of the accountant of the guarantee; `None` takes the tightest.
    pub(crate) accountant: Option<String>,
}

/// What is known of the range of a number that is predicted.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Range {
    Scaled,
    Known(f64, f64),
    Found,
    Moment(String),
}

impl Range {
    fn read(&self) -> PyResult<TargetRange> {
        Ok(match self {
            Self::Scaled => TargetRange::Scaled,
            Self::Known(lower, upper) => TargetRange::Known(*lower, *upper),
            Self::Found => TargetRange::Found,
            Self::Moment(said) => TargetRange::Moment(said.parse().map_err(invalid)?),
        })
    }
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
    match in_python(why) {
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
        "warnings": s.warnings,
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
                } else {
                    let one = core_seconds(prepared.problem(), prepared.summary().gradients);
                    row["core_seconds"] = value!(one * planned.models as f64);
                }
                row
            }
            Err(why) => value!({ "method": candidate.method, "not_applicable": in_python(why) }),
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
        "reason": planned.selection.as_ref().ok().map(|taken| taken.reason.to_string()),
        "refusal": plan.err().map(|why| none_applies(&why)),
        "epsilon": planned.budget.epsilon(),
        "delta": planned.budget.delta(),
        "models": planned.models,
        "loss": planned.problem.loss,
    }))
}

/// A fit of linear models to bounded rows, planned from public facts: to be explained, or run any number of times.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Fit {
    inner: model::Fit<BoundedMatrix>,
}

/// Every option of every method as JSON: name, help, values, methods that have it.
#[pyfunction]
pub(crate) fn method_options() -> PyResult<String> {
    json(&dpopt_methods::registry().catalogue())
}

/// Released weights of each model (outputs × features, row-major), an upper bound on the standard deviation of the noise in each
/// (NaN: none is known); plan, guarantee and releases as JSON; seconds of planning; places of the labels that were found, in the order of classes; the range
/// that targets were clipped to, if it was not their own; what that takes from their mean at most (NaN: nothing is known), and all of it in words; the
/// covariance of each model's weights, row by row, where its method finds one; of prediction intervals, where they are asked for, the level, half the width in
/// halves of the target's range, and whether that range is declared.
type Fitted<'py> = (
    Vec<Bound<'py, PyArray1<f64>>>,
    Vec<Bound<'py, PyArray1<f64>>>,
    String,
    String,
    String,
    f64,
    Option<Vec<usize>>,
    Option<(f64, f64)>,
    Option<(f64, String)>,
    Vec<Option<Bound<'py, PyArray1<f64>>>>,
    Option<(f64, f64, bool)>,
);

#[pymethods]
impl Fit {
    /// Public facts of the rows, and what is asked of them as JSON. Reads no record.
    #[new]
    fn new(
        py: Python<'_>,
        rows: u64,
        features: usize,
        nonzeros: usize,
        row_norm: f64,
        request: &str,
    ) -> PyResult<Self> {
        let r: Request = serde_json::from_str(request).map_err(invalid)?;
        let units = r.units.map(UnitsAsked::facts);
        let facts = MatrixFacts { rows, features, nonzeros, row_norm, units };
        let run = Charging::run((r.epsilon, r.delta, &r.relation), None, None)?.command(r.name);
        let methods = model::MethodRequest { registry: dpopt_methods::registry().clone(), options: r.options };
        let accountant = r.accountant.as_deref().map(named_accountant).transpose()?;
        let options = MatrixOptions::default().methods(methods).range(r.range.read()?).accountant(accountant);
        let fit = interruptible(py, || model::Fit::of_matrix(facts, r.target, run, options))?;
        Ok(Self { inner: fit.map_err(invalid)? })
    }

    /// Whether the target's range is found before the model.
    fn finds_range(&self) -> bool {
        self.inner.finds_range()
    }

    /// The plan for `classes` classes as JSON; all methods beside the chosen one to `compare`.
    fn plan(&self, py: Python<'_>, classes: usize, compare: bool) -> PyResult<String> {
        interruptible(py, || {
            let planned = if compare { self.inner.compared(classes) } else { self.inner.planned(classes) };
            described(&*planned.map_err(fit_error)?, &[])
        })?
    }

    /// The report of a run with `classes` classes, of which an estimator wrote down the answer as JSON: one HTML document, no scripts, no network. All methods
    /// are compared for it.
    fn report(&self, py: Python<'_>, classes: usize, answer: &str) -> PyResult<String> {
        let answer = answer_of(answer)?;
        interruptible(py, || {
            let report = self.inner.report(classes, answer).map_err(fit_error)?;
            Ok(pythonic(|| report.html()))
        })?
    }

    /// Plans, charges `charge` (run, event, ε, δ), if there is one, and fits the models to `rows`, whose targets are numbers or places of classes; where
    /// labels are to be found, places among those that occur, which stand as `rank` says in the order of classes. The rows are those of `owners`, if units
    /// were planned for.
    #[pyo3(signature = (rows, rank, owners, charge, seed))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        rows: &Rows,
        rank: Option<Vec<usize>>,
        owners: Option<&Owners>,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
    ) -> PyResult<Fitted<'py>> {
        let fit = self.inner.paid_by(Charging::payer(charge), seed);
        let (records, owners) = (rows.take()?, owners.map(|owners| owners.inner.clone()));
        let labels = rank.map(|rank| Labels { rank });
        let records = MatrixRecords::Here { records, labels, owners };
        released(py, &interruptible(py, || fit.run_on(records, &Silent))?.map_err(fit_error)?)
    }

    /// As `run`, of rows in partitions of which is `known` how many records each has, and their digest: `ask` hands a query to the
    /// [`Shard`](crate::partitions::Shard)s and gives what they answer. `owner`: how a unit is called, if units were planned for.
    #[pyo3(signature = (ask, known, owner, charge, seed))]
    fn run_remote<'py>(
        &self,
        py: Python<'py>,
        ask: Py<PyAny>,
        known: Vec<(u64, u64)>,
        owner: Option<String>,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
    ) -> PyResult<Fitted<'py>> {
        let fit = self.inner.paid_by(Charging::payer(charge), seed);
        let asking = Arc::new(Asking::new(ask));
        let records = MatrixRecords::Partitions { parts: asking.clone(), known, owner };
        let fitted = interruptible(py, || fit.run_on(records, &Silent))?;
        released(py, &fitted.map_err(|why| asking.cause(py, fit_error(why)))?)
    }
}

/// What a fit hands to Python.
fn released<'py>(py: Python<'py>, fitted: &model::MatrixFitted) -> PyResult<Fitted<'py>> {
    let bound = fitted.planned.plan().map_err(refused)?.summary().weight_noise.unwrap_or(f64::NAN);
    let (mut weights, mut noise, mut covariances) = (Vec::new(), Vec::new(), Vec::new());
    for solution in &fitted.solutions {
        warn_of(py, solution.note.as_deref())?;
        weights.push(solution.weights.to_pyarray(py));
        let same = || vec![bound; solution.weights.len()];
        noise.push(solution.noise.clone().unwrap_or_else(same).to_pyarray(py));
        covariances.push(solution.covariance.as_ref().map(|c| c.to_pyarray(py)));
    }
    let (guarantee, releases) = (json(&fitted.guarantee)?, json(&fitted.releases)?);
    let bias = fitted.clip.map_or(f64::NAN, |clip| clip.clip_bias);
    let clip = fitted.note.clone().map(|note| (bias, note));
    let plan = described(&fitted.planned, &[])?;
    let seconds = fitted.planning.as_secs_f64();
    let (labels, range) = (fitted.labels.clone(), fitted.range);
    let interval = fitted.solutions.first().and_then(|solution| solution.interval);
    let interval = interval.map(|found| (found.level, found.half_width, found.ends));
    Ok((weights, noise, plan, guarantee, releases, seconds, labels, range, clip, covariances, interval))
}

/// Tells how a run ended, as a warning of Python's.
pub(crate) fn warn_of(py: Python<'_>, note: Option<&str>) -> PyResult<()> {
    let Some(note) = note else { return Ok(()) };
    let text = std::ffi::CString::new(note).map_err(invalid)?;
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
    let margins = margins.as_array();
    let of = |&margin: &f64| dpopt::model::probability::of_margin(&loss, margin);
    let p: Vec<f64> = interruptible(py, || paced(&margins).map(of).collect())?;
    Ok(p.into_pyarray(py))
}
