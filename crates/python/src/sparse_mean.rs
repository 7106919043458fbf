//! The mean of sparse vectors, for `dpopt.mechanisms.sparse_mean`: plan, then one release.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::face::in_python;
use crate::owners::Owners;
use crate::session::Session;
use crate::stop::interruptible;
use dpopt::Sensitive;
use dpopt::estimate::{MeanCandidate, MeanPlan, MeanProblem, mean_candidates};
use dpopt::optimize::RunError;
use dpopt::privacy::{Budget, Neighbours, Unit};
use dpopt::records::SparseVectors;
use dpopt_process::stop::paced;
use numpy::PyReadonlyArray1;
use numpy::ndarray::ArrayView1;
use pyo3::prelude::*;
use serde_json::json as value;
use std::num::NonZeroU64;

/// Public facts: records, dimension, sparsity, norm, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct MeanFacts(u64, u64, f64, f64, String, f64, f64);

impl MeanFacts {
    fn candidates(&self, unit: Unit) -> PyResult<(MeanProblem, Vec<MeanCandidate>)> {
        let &Self(records, dimension, sparsity, norm, ref name, epsilon, delta) = self;
        let neighbours = Neighbours { unit, relation: relation(name)? };
        let problem = MeanProblem { records, dimension, sparsity, norm, group: 1, neighbours };
        let candidates = mean_candidates(&problem, Budget::new(epsilon, delta).map_err(invalid)?);
        Ok((problem, candidates))
    }

    fn plan(&self, unit: Unit, method: Option<&str>) -> PyResult<(MeanProblem, MeanPlan)> {
        let (problem, candidates) = self.candidates(unit)?;
        let chosen = match method {
            None => candidates.into_iter().next(),
            Some(name) => candidates.into_iter().find(|c| c.method == name),
        };
        let chosen = chosen.ok_or_else(|| {
            let names = dpopt::estimate::MEAN_METHODS.join(", ");
            invalid(format!("there is no method `{}` for means; choose one of {names}", method.unwrap_or("")))
        })?;
        Ok((problem, chosen.plan.map_err(refused)?))
    }
}

/// Every method with its noise, proved error and event, the smallest error first, as JSON. Reads no record.
#[pyfunction]
pub(crate) fn sparse_mean_plans(py: Python<'_>, facts: MeanFacts) -> PyResult<String> {
    interruptible(py, || {
        let mut rows = Vec::new();
        for c in facts.candidates(Unit::Record)?.1 {
            rows.push(match &c.plan {
                Ok(plan) => value!({
                    "method": c.method,
                    "noise_multiplier": plan.noise_multiplier,
                    "noise_std": plan.noise_std,
                    "error_bound": plan.error_bound,
                    "epsilon": plan.certificate.bound().upper,
                    "event": plan.certificate.event().to_json().map_err(invalid)?,
                    "schedule": plan.schedule,
                }),
                Err(why) => value!({ "method": c.method, "not_applicable": in_python(why) }),
            });
        }
        json(&rows)
    })?
}

/// Rows of a CSR matrix, one after the other.
struct Lines<'a> {
    values: ArrayView1<'a, f64>,
    indices: ArrayView1<'a, i64>,
    offsets: ArrayView1<'a, i64>,
}

impl Lines<'_> {
    fn for_each(&self, mut line: impl FnMut(&mut Vec<(u32, f64)>)) {
        let mut entries: Vec<(u32, f64)> = Vec::new();
        for (&from, &to) in paced(self.offsets.iter().zip(self.offsets.iter().skip(1))) {
            entries.clear();
            for k in from.max(0)..to {
                // an index out of range contributes nothing
                if let (Some(&j), Some(&v)) = (self.indices.get(k as usize), self.values.get(k as usize))
                    && let Ok(j) = u32::try_from(j)
                {
                    entries.push((j, v));
                }
            }
            line(&mut entries);
        }
    }
}

/// The mean of a CSR matrix's rows, or of the means of the rows of `owners` (how many units there are is the number of records of `facts`), at most `most`
/// rows of each: (indices, values). The session must have been charged for the method's event.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
pub(crate) fn sparse_mean(
    py: Python<'_>,
    values: PyReadonlyArray1<'_, f64>,
    indices: PyReadonlyArray1<'_, i64>,
    offsets: PyReadonlyArray1<'_, i64>,
    facts: MeanFacts,
    method: String,
    session: &Session,
    owners: Option<&Owners>,
    most: Option<NonZeroU64>,
) -> PyResult<(Vec<u64>, Vec<f64>)> {
    let lines = Lines { values: values.as_array(), indices: indices.as_array(), offsets: offsets.as_array() };
    interruptible(py, || {
        let neighbours = session.certificate.neighbours();
        // rows of a unit are of no one else's concern, and a row that is one has no others
        if owners.is_some() != (neighbours.unit == Unit::User) {
            return Err(refused("the session was charged for another privacy unit than that of the mean"));
        }
        let (problem, plan) = facts.plan(neighbours.unit, Some(&method))?;
        let released = session.stage(&plan.certificate, |curator| {
            let mean = match owners {
                None => plan.run(&problem, curator, |summer| -> Result<(), RunError> {
                    lines.for_each(|entries| summer.add(entries));
                    Ok(())
                }),
                Some(owners) => {
                    let mut vectors = SparseVectors::default();
                    lines.for_each(|entries| vectors.push(entries));
                    let owners = owners.among(problem.records, neighbours.relation).sensitive();
                    let owners = owners.ok_or_else(|| refused(dpopt::records::UnitsError::Shared))?;
                    let mut units = owners.of(Sensitive::new(vectors)).map_err(refused)?;
                    if let Some(most) = most {
                        units = curator.capped(units, most);
                    }
                    plan.run(&problem, curator, |summer| -> Result<(), RunError> {
                        summer.add_units(&units, || ());
                        Ok(())
                    })
                }
            };
            mean.map_err(refused)
        })?;
        Ok(released.into_inner().into_iter().unzip())
    })?
}
