//! Means in rounds around released centres, for `dpopt.MeanEstimator(spread=…)`: plan, then one release for each round.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::release::Numbers;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::estimate::{CentredPlan, CentredProblem};
use dpopt::privacy::{Budget, Neighbours, Unit};
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use serde_json::json as value;

/// Public facts: records, numbers in a vector, spread, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct CentredFacts(u64, usize, f64, String, f64, f64);

impl CentredFacts {
    fn plan(&self, unit: Unit) -> PyResult<(CentredProblem, CentredPlan)> {
        let &Self(records, dimension, spread, ref name, epsilon, delta) = self;
        let neighbours = Neighbours { unit, relation: relation(name)? };
        let problem = CentredProblem { records, dimension, spread, neighbours };
        let plan = CentredPlan::new(&problem, Budget::new(epsilon, delta).map_err(invalid)?);
        plan.map(|plan| (problem, plan)).map_err(refused)
    }
}

/// Rounds, noise of the answer, event and bound, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn centred_plan(py: Python<'_>, facts: CentredFacts, by_unit: bool) -> PyResult<String> {
    interruptible(py, || {
        let (_, plan) = facts.plan(if by_unit { Unit::User } else { Unit::Record })?;
        json(&value!({
            "rounds": plan.rounds,
            "noise_std": plan.noise_std,
            "bound": plan.certificate.bound(),
            "event": plan.certificate.event().to_json().map_err(invalid)?,
        }))
    })?
}

/// The mean of the rows of `x`; one that is all NaN has no owner, and contributes nothing. The session must have been charged for the plan's event.
#[pyfunction]
pub(crate) fn centred_mean<'py>(
    py: Python<'py>,
    x: Numbers<'py>,
    facts: CentredFacts,
    session: &Session,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (problem, plan) = interruptible(py, || facts.plan(session.certificate.neighbours().unit))??;
    let mean = match &x {
        Numbers::Here(x) => {
            let x = x.as_array();
            let row = |i: usize, out: &mut Vec<f64>| out.extend(x.row(i).iter().copied());
            interruptible(py, || {
                session.stage(&plan.certificate, |curator| plan.run(&problem, x.nrows(), row, curator).map_err(refused))
            })?
        }
        Numbers::Remote(x) => x.get().told(py, |numbers| {
            session.stage(&plan.certificate, |curator| plan.run_remote(&problem, numbers, curator).map_err(refused))
        }),
    };
    Ok(mean?.get().to_pyarray(py))
}
