//! Moments of classes and covariances, for `dpopt.GaussianNB`, `dpopt.PrivateScaler` and `dpopt.PCA`: plan, then release.

use crate::accounting::{json, of_records};
use crate::errors::{invalid, refused};
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::estimate::{CovariancePlan, CovarianceProblem, MomentsPlan, MomentsProblem};
use dpopt::privacy::Budget;
use numpy::ndarray::Array2;
use numpy::{IntoPyArray, PyArray2, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use serde_json::json as value;

/// Public facts: records, columns, classes, whether they are counted, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct MomentsFacts(u64, usize, usize, bool, String, f64, f64);

impl MomentsFacts {
    fn plan(&self) -> PyResult<MomentsPlan> {
        let &Self(records, columns, classes, counted, ref relation, epsilon, delta) = self;
        let problem = MomentsProblem { records, columns, classes, counted, neighbours: of_records(relation)? };
        MomentsPlan::new(&problem, Budget::new(epsilon, delta).map_err(invalid)?).map_err(refused)
    }
}

/// Weights, noise, expected divergence, event and bound, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn class_moments_plan(py: Python<'_>, facts: MomentsFacts) -> PyResult<String> {
    interruptible(py, || {
        let plan = facts.plan()?;
        json(&value!({
            "weights": plan.weights,
            "noise_multiplier": plan.noise_multiplier,
            "divergence": plan.divergence,
            "bound": plan.certificate.bound(),
            "event": plan.certificate.event().to_json().map_err(invalid)?,
        }))
    })?
}

/// Moments of each class of the rows of `x`, numbers in [−1, 1], as JSON; a row whose place is that of no class contributes nothing. Without `classes` all rows are of
/// one. The session must have been charged for the plan's event.
#[pyfunction]
pub(crate) fn class_moments(
    py: Python<'_>,
    x: PyReadonlyArray2<'_, f64>,
    classes: Option<PyReadonlyArray1<'_, i64>>,
    facts: MomentsFacts,
    session: &Session,
) -> PyResult<String> {
    let (x, classes) = (x.as_array(), classes.as_ref().map(|classes| classes.as_array()));
    if classes.is_some_and(|classes| classes.len() != x.nrows()) {
        return Err(invalid("there is not one class for each row"));
    }
    let found = interruptible(py, || {
        let plan = facts.plan()?;
        let class = |i: usize| classes.map_or(Some(0), |classes| usize::try_from(classes[i]).ok());
        let numbers = |i: usize, out: &mut Vec<f64>| out.extend(x.row(i).iter().copied());
        session.stage(&plan.certificate, |curator| plan.run(x.nrows(), class, numbers, curator).map_err(refused))
    })??;
    json(found.get())
}

/// Public facts: rows, columns, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct CovarianceFacts(u64, usize, String, f64, f64);

impl CovarianceFacts {
    fn plan(&self) -> PyResult<CovariancePlan> {
        let &Self(records, columns, ref relation, epsilon, delta) = self;
        let problem = CovarianceProblem { records, columns, neighbours: of_records(relation)? };
        CovariancePlan::new(&problem, Budget::new(epsilon, delta).map_err(invalid)?).map_err(refused)
    }
}

/// Noise of both releases, event and bound, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn covariance_plan(py: Python<'_>, facts: CovarianceFacts) -> PyResult<String> {
    interruptible(py, || {
        let plan = facts.plan()?;
        json(&value!({
            "sum_weights": plan.sum_weights,
            "sum_noise": plan.sum_noise,
            "moment_noise": plan.moment_noise,
            "bound": plan.certificate.bound(),
            "event": plan.certificate.event().to_json().map_err(invalid)?,
        }))
    })?
}

/// Mean (with its noise and the number of rows it is of) as JSON and covariance of the rows of `x`, each clipped to norm 1. The session must have been charged for the
/// plan's event.
#[pyfunction]
pub(crate) fn covariance<'py>(
    py: Python<'py>,
    x: PyReadonlyArray2<'py, f64>,
    facts: CovarianceFacts,
    session: &Session,
) -> PyResult<(String, Bound<'py, PyArray2<f64>>)> {
    let x = x.as_array();
    let found = interruptible(py, || {
        let plan = facts.plan()?;
        let numbers = |i: usize, out: &mut Vec<f64>| out.extend(x.row(i).iter().copied());
        session.stage(&plan.certificate, |curator| plan.run(x.nrows(), numbers, curator).map_err(refused))
    })??
    .into_inner();
    let told = json(&value!({
        "count": found.count, "mean": found.mean, "mean_noise": found.mean_noise, "matrix_noise": found.matrix_noise,
    }))?;
    let d = found.mean.len();
    let matrix = Array2::from_shape_vec((d, d), found.matrix).map_err(invalid)?;
    Ok((told, matrix.into_pyarray(py)))
}
