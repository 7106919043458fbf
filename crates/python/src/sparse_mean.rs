//! The mean of sparse vectors, for `dpopt.mechanisms.sparse_mean`: plan, then one release.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::session::Session;
use dpopt::estimate::{MeanCandidate, MeanPlan, MeanProblem, mean_candidates};
use dpopt::optimize::RunError;
use dpopt::privacy::{Budget, Neighbours};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use serde_json::json as value;

/// Public facts: records, dimension, sparsity, norm, relation, ε, δ.
#[derive(FromPyObject)]
pub(crate) struct MeanFacts(u64, u64, f64, f64, String, f64, f64);

impl MeanFacts {
    fn candidates(&self) -> PyResult<(MeanProblem, Vec<MeanCandidate>)> {
        let &Self(records, dimension, sparsity, norm, ref name, epsilon, delta) = self;
        let problem = MeanProblem {
            records,
            dimension,
            sparsity,
            norm,
            group: 1,
            neighbours: Neighbours::of_records(relation(name)?),
        };
        let candidates = mean_candidates(&problem, Budget::new(epsilon, delta).map_err(invalid)?);
        Ok((problem, candidates))
    }

    fn plan(&self, method: Option<&str>) -> PyResult<(MeanProblem, MeanPlan)> {
        let (problem, candidates) = self.candidates()?;
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
    py.detach(|| {
        let mut rows = Vec::new();
        for c in facts.candidates()?.1 {
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
                Err(why) => value!({ "method": c.method, "not_applicable": why.to_string() }),
            });
        }
        json(&rows)
    })
}

/// The mean of a CSR matrix's rows: (indices, values). The session must have been charged for the method's event.
#[pyfunction]
pub(crate) fn sparse_mean(
    py: Python<'_>,
    values: PyReadonlyArray1<'_, f64>,
    indices: PyReadonlyArray1<'_, i64>,
    offsets: PyReadonlyArray1<'_, i64>,
    facts: MeanFacts,
    method: String,
    session: &Session,
) -> PyResult<(Vec<u64>, Vec<f64>)> {
    let (values, indices, offsets) = (values.as_array(), indices.as_array(), offsets.as_array());
    py.detach(|| {
        let (problem, plan) = facts.plan(Some(&method))?;
        let rows = |summer: &mut dpopt::mechanism::SparseSummer| -> Result<(), RunError> {
            let mut entries: Vec<(u32, f64)> = Vec::new();
            for (&from, &to) in offsets.iter().zip(offsets.iter().skip(1)) {
                entries.clear();
                for k in from.max(0)..to {
                    // an index out of range contributes nothing
                    if let (Some(&j), Some(&v)) = (indices.get(k as usize), values.get(k as usize))
                        && let Ok(j) = u32::try_from(j)
                    {
                        entries.push((j, v));
                    }
                }
                summer.add(&mut entries);
            }
            Ok(())
        };
        let released =
            session.stage(&plan.certificate, |curator| plan.run(&problem, curator, rows).map_err(refused))?;
        Ok(released.into_inner().into_iter().unzip())
    })
}
