//! Means of groups' answers that agree, for `dpopt.aggregate`: plan, then one release.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::Sensitive;
use dpopt::estimate::{AgreedPlan, AgreedProblem};
use dpopt::mechanism::Answers;
use dpopt::privacy::{Budget, Neighbours, Unit};
use dpopt_process::stop::paced;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use serde_json::json as value;

/// Public facts: groups, numbers in an answer, share of outliers, radius, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct AgreedFacts(u64, usize, f64, Option<f64>, String, f64, f64);

impl AgreedFacts {
    fn plan(&self, unit: Unit) -> PyResult<(AgreedProblem, AgreedPlan)> {
        let &Self(groups, dimension, outliers, radius, ref name, epsilon, delta) = self;
        let neighbours = Neighbours { unit, relation: relation(name)? };
        let problem = AgreedProblem { groups, dimension, outliers, radius, neighbours };
        let plan = AgreedPlan::new(&problem, Budget::new(epsilon, delta).map_err(invalid)?);
        plan.map(|plan| (problem, plan)).map_err(refused)
    }
}

/// Noise, parameters and event, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn agreed_plan(py: Python<'_>, facts: AgreedFacts, by_unit: bool) -> PyResult<String> {
    interruptible(py, || {
        let (_, plan) = facts.plan(if by_unit { Unit::User } else { Unit::Record })?;
        json(&value!({
            "noise_multiplier": plan.noise_multiplier,
            "epsilon": plan.certificate.bound().upper,
            "event": plan.certificate.event().to_json().map_err(invalid)?,
            "schedule": plan.schedule,
        }))
    })?
}

/// The mean of those rows of `answers` (groups × numbers, scaled to [-1, 1]; a row with NaN is no answer) that agree, as JSON. The session must have been
/// charged for the plan's event.
#[pyfunction]
pub(crate) fn agreed_mean(
    py: Python<'_>,
    answers: PyReadonlyArray2<'_, f64>,
    facts: AgreedFacts,
    session: &Session,
) -> PyResult<String> {
    let answers = answers.as_array();
    interruptible(py, || {
        let (problem, plan) = facts.plan(session.certificate.neighbours().unit)?;
        let rows: Vec<Vec<f64>> = paced(answers.rows()).map(|row| row.to_vec()).collect();
        let answers = Answers::new(problem.dimension, rows.iter().map(|row| Some(row.as_slice()))).map_err(refused)?;
        let answers = Sensitive::new(answers);
        let released =
            session.stage(&plan.certificate, |curator| plan.run(&problem, &answers, curator).map_err(refused))?;
        json(&released.into_inner())
    })?
}
