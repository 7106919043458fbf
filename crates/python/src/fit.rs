//! Plan, certify, run: the registry of methods behind the estimators.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::examples::Examples;
use dpopt::loss::Loss;
use dpopt::mechanism::Curator;
use dpopt::noise::NoiseSource;
use dpopt::optimize::{MethodOptions, Prepared, Run, candidates, named};
use dpopt::plan::{Grade, Problem, Summary};
use dpopt::privacy::{Budget, Neighbours};
use dpopt::progress::Silent;
use numpy::{PyArray1, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json as value};

/// Public facts, budget and options, as the Python side writes them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    rows: u64,
    features: usize,
    nonzeros: usize,
    row_norm: f64,
    loss: Loss,
    relation: String,
    epsilon: f64,
    delta: f64,
    options: MethodOptions,
    /// Plan all methods for comparison even if one is asked for by name.
    compare: bool,
}

/// A source of noise: secure unless a seed is given.
pub(crate) fn noise(seed: Option<u64>) -> PyResult<NoiseSource> {
    match seed {
        Some(seed) => Ok(NoiseSource::insecure(seed)),
        None => NoiseSource::secure().map_err(refused),
    }
}

fn grade(grade: Grade) -> Value {
    serde_json::to_value(grade).unwrap_or(Value::Null)
}

fn summary(s: &Summary, schedule: Value) -> PyResult<Value> {
    Ok(value!({
        "method": s.method,
        "loss": s.loss,
        "grade": grade(s.grade),
        "noise_multiplier": s.noise_multiplier,
        "steps": s.steps,
        "gradients": s.gradients,
        "predicted_excess_risk": s.predicted_excess_risk,
        "epsilon": s.certificate.bound().upper,
        "delta": s.certificate.budget().delta(),
        "allowed_epsilon": s.certificate.budget().epsilon(),
        "relation": s.certificate.relation().name(),
        "bound": serde_json::to_value(s.certificate.bound()).map_err(invalid)?,
        "event": serde_json::to_value(s.certificate.event()).map_err(invalid)?,
        "assumptions": s.assumptions,
        "warnings": s.warnings,
        "schedule": schedule,
    }))
}

/// The chosen method with its certified plan, ready to run; and the table of all candidates.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct CertifiedPlan {
    problem: Problem,
    prepared: Option<Box<dyn Prepared>>,
    table: String,
}

/// Plans and certifies every method; reads no record. Candidates come sorted by predicted risk.
#[pyfunction]
pub(crate) fn plan(py: Python<'_>, request: &str) -> PyResult<CertifiedPlan> {
    let r: Request = serde_json::from_str(request).map_err(invalid)?;
    let problem = Problem {
        rows: r.rows,
        features: r.features,
        nonzeros: r.nonzeros,
        row_norm: r.row_norm,
        loss: r.loss,
        neighbours: Neighbours::of_records(relation(&r.relation)?),
    };
    let budget = Budget::new(r.epsilon, r.delta).map_err(invalid)?;
    r.options.check().map_err(invalid)?;
    if let Some(name) = r.options.method.as_deref()
        && !dpopt::optimize::METHODS.contains(&name)
    {
        let known = dpopt::optimize::METHODS.join(", ");
        return Err(invalid(format!("there is no method `{name}`; choose auto or one of {known}")));
    }
    let one = if r.compare { None } else { py.detach(|| named(&problem, budget, &r.options)) };
    let all = match one {
        Some(candidate) => vec![candidate],
        None => py.detach(|| candidates(&problem, budget, &r.options)),
    };
    let mut rows = Vec::new();
    let mut chosen = None;
    for candidate in all {
        rows.push(match candidate.plan {
            Ok(prepared) => {
                let row = summary(prepared.summary(), prepared.schedule())?;
                // research grade is never chosen by itself
                let eligible = match r.options.method.as_deref() {
                    Some(wanted) => wanted == candidate.method,
                    None => prepared.summary().grade == Grade::Certified,
                };
                if chosen.is_none() && eligible {
                    chosen = Some(prepared);
                }
                row
            }
            Err(why) => value!({ "method": candidate.method, "not_applicable": why.to_string() }),
        });
    }
    Ok(CertifiedPlan { problem, prepared: chosen, table: json(&rows)? })
}

/// Every option of every method as JSON: name, help, values, methods that have it.
#[pyfunction]
pub(crate) fn method_options() -> PyResult<String> {
    json(&dpopt::optimize::catalogue())
}

#[pymethods]
impl CertifiedPlan {
    /// All candidates as JSON, the best prediction first.
    fn candidates(&self) -> &str {
        &self.table
    }

    /// Name of the chosen method, `None` if none applies.
    fn method(&self) -> Option<&'static str> {
        self.prepared.as_ref().map(|p| p.summary().method)
    }

    /// Runs the plan: released weights (outputs × features, row-major), an upper bound on the standard deviation of the
    /// noise in each (NaN: none is known), and the releases as JSON.
    fn run<'py>(
        &self,
        py: Python<'py>,
        examples: &Examples,
        seed: Option<u64>,
    ) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyArray1<f64>>, String)> {
        let Some(prepared) = &self.prepared else {
            return Err(refused("no method applies; see the reasons of each in explain()"));
        };
        let noise = noise(seed)?;
        let (solution, records) = py.detach(|| {
            let mut curator = Curator::open(&prepared.summary().certificate, noise);
            let released = Run::new(&self.problem, &examples.inner, &mut curator, &Silent)
                .and_then(|run| prepared.run(run))
                .map_err(refused)?;
            Ok::<_, PyErr>((released.into_inner(), json(&curator.records())?))
        })?;
        let same = || vec![prepared.summary().weight_noise.unwrap_or(f64::NAN); solution.weights.len()];
        let noise = solution.noise.clone().unwrap_or_else(same);
        Ok((solution.weights.to_pyarray(py), noise.to_pyarray(py), records))
    }
}

/// P(second class) at each margin, for the loss that was minimised.
#[pyfunction]
pub(crate) fn probability<'py>(
    py: Python<'py>,
    loss: &str,
    margins: numpy::PyReadonlyArray1<'py, f64>,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let loss: Loss = serde_json::from_str(loss).map_err(invalid)?;
    let p: Vec<f64> = margins.as_array().iter().map(|&s| dpopt::model::probability::of_margin(&loss, s)).collect();
    Ok(p.to_pyarray(py))
}
