//! Means of heavy-tailed columns, for `dpopt.HeavyTailedMean`: plan, then one release.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::face::in_python;
use crate::owners::Owners;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::Sensitive;
use dpopt::estimate::{HEAVY_TAILED_METHODS, HeavyTailedPlan, HeavyTailedProblem, Moment, heavy_tailed_candidates};
use dpopt::privacy::{Budget, Neighbours, Unit};
use dpopt::records::Columns;
use dpopt_process::stop::paced;
use numpy::PyReadonlyArray2;
use pyo3::prelude::*;
use serde_json::json as value;
use std::num::NonZeroU64;

/// Public facts: records, (order, root, about) of each column, spread factor, confidence, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct HeavyTailedFacts(u64, Vec<(f64, Option<f64>, f64)>, f64, f64, String, f64, f64);

impl HeavyTailedFacts {
    fn problem(&self, unit: Unit) -> PyResult<(HeavyTailedProblem, Budget)> {
        let &Self(records, ref moments, spread_factor, confidence, ref name, epsilon, delta) = self;
        let neighbours = Neighbours { unit, relation: relation(name)? };
        let moments = moments.iter().map(|&(order, root, about)| Moment { order, root, about }).collect();
        let problem = HeavyTailedProblem { records, moments, spread_factor, confidence, neighbours };
        Ok((problem, Budget::new(epsilon, delta).map_err(invalid)?))
    }

    fn plan(&self, unit: Unit, method: &str) -> PyResult<(HeavyTailedProblem, HeavyTailedPlan)> {
        let (problem, budget) = self.problem(unit)?;
        let chosen = heavy_tailed_candidates(&problem, budget).into_iter().find(|c| c.method == method);
        let chosen = chosen.ok_or_else(|| {
            let names = HEAVY_TAILED_METHODS.join(", ");
            invalid(format!("there is no method `{method}` for means of columns; choose one of {names}"))
        })?;
        Ok((problem, chosen.plan.map_err(refused)?))
    }
}

/// Every method with its noise, half widths and event, the narrowest intervals first, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn heavy_tailed_plans(py: Python<'_>, facts: HeavyTailedFacts, by_unit: bool) -> PyResult<String> {
    interruptible(py, || {
        let (problem, budget) = facts.problem(if by_unit { Unit::User } else { Unit::Record })?;
        let mut rows = Vec::new();
        for c in heavy_tailed_candidates(&problem, budget) {
            rows.push(match &c.plan {
                Ok(plan) => value!({
                    "method": c.method,
                    "noise_multiplier": plan.noise_multiplier,
                    "half_width_over_moment": plan.mean_width(),
                    "epsilon": plan.certificate.bound().upper,
                    "bound": plan.certificate.bound(),
                    "event": plan.certificate.event().to_json().map_err(invalid)?,
                    "schedule": plan.schedule,
                }),
                Err(why) => value!({ "method": c.method, "not_applicable": in_python(why) }),
            });
        }
        json(&rows)
    })?
}

/// The means of the columns of a matrix, or of units' means of rows of `owners`, at most `most` rows of each, as JSON. The session must have been charged for
/// the method's event.
#[pyfunction]
pub(crate) fn heavy_tailed_mean(
    py: Python<'_>,
    values: PyReadonlyArray2<'_, f64>,
    facts: HeavyTailedFacts,
    method: String,
    session: &Session,
    owners: Option<&Owners>,
    most: Option<NonZeroU64>,
) -> PyResult<String> {
    let values = values.as_array();
    interruptible(py, || {
        let neighbours = session.certificate.neighbours();
        // rows of a unit are of no one else's concern, and a row that is one has no others
        if owners.is_some() != (neighbours.unit == Unit::User) {
            return Err(refused("the session was charged for another privacy unit than that of the means"));
        }
        let (problem, plan) = facts.plan(neighbours.unit, &method)?;
        let mut numbers = Columns::new(values.ncols());
        let mut row = Vec::with_capacity(values.ncols());
        for line in paced(values.rows()) {
            row.clear();
            row.extend(line.iter().copied());
            numbers.push(&row);
        }
        let numbers = Sensitive::new(numbers);
        let released = session.stage(&plan.certificate, |curator| match owners {
            None => plan.run(&problem, &numbers, curator).map_err(refused),
            Some(owners) => {
                let owners = owners.among(problem.records, neighbours.relation).sensitive();
                let owners = owners.ok_or_else(|| refused(dpopt::records::UnitsError::Shared))?;
                let mut units = owners.of(numbers).map_err(refused)?;
                if let Some(most) = most {
                    units = curator.capped(units, most);
                }
                plan.run(&problem, &units, curator).map_err(refused)
            }
        })?;
        json(&released.into_inner())
    })?
}
