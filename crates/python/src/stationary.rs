//! Choices among candidates by how stationary they are for records whose gradients Python evaluates.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::session::Session;
use crate::stop::interruptible;
use crate::training::{Block, add_rows};
use dpopt::mechanism::{ClippedVectors, Curator};
use dpopt::objective::Evidence;
use dpopt::optimize::RunError;
use dpopt::optimize::stationary::{
    CurvatureOptions, StationaryOptions, StationaryPlan, StationaryProblem, Sums, plan, run,
};
use dpopt::plan::Assumption;
use dpopt::privacy::{Budget, Neighbours, Unit};
use dpopt::progress::Silent;
use numpy::{PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json as value;

/// What is public, and what is asked for.
#[derive(Deserialize)]
struct Request {
    records: u64,
    candidates: u64,
    of_units: bool,
    relation: String,
    epsilon: f64,
    clip_norm: f64,
    alpha: Option<f64>,
    /// M and ρ: bounds on a record's Hessian and on its change.
    curvature: Option<(f64, f64)>,
    first: bool,
}

/// A certified plan of the choice.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Stationary {
    inner: StationaryPlan,
}

const NOT_ONE_EACH: &str = "the objective did not return one row of the right length for each record; return an \
                            array of records × parameters (records × directions for \
                            curvatures)";

/// What Python raised comes out as it is.
fn failed(error: PyErr) -> RunError {
    RunError::Objective(Box::new(error))
}

fn raised(error: RunError) -> PyErr {
    match error {
        RunError::Objective(inner) => match inner.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(other) => refused(other),
        },
        other => refused(other),
    }
}

/// What Python evaluates, and of how many records with how many numbers each.
struct Called {
    gradients: Py<PyAny>,
    curvatures: Option<Py<PyAny>>,
    records: usize,
    dimension: usize,
    directions: usize,
    chunk: usize,
}

impl Called {
    fn sums(&self, plan: &StationaryPlan, curator: &mut Curator, candidate: usize) -> Result<Sums, RunError> {
        let (batch, all) = curator.all_for_loader(self.records)?;
        let clipped = ClippedVectors::new(plan.score.clip_norm(), plan.score.grid())?;
        let mut sum = clipped.in_parts(batch, self.dimension);
        for part in all.chunks(self.chunk) {
            Python::attach(|py| {
                let rows: Vec<Block<'_>> =
                    self.gradients.bind(py).call1((candidate, part.to_pyarray(py)))?.extract()?;
                add_rows(py, &mut sum, &rows, part.len()).map_err(|()| invalid(NOT_ONE_EACH))
            })
            .map_err(failed)?;
        }
        let gradients = sum.finish();
        let Some(curvatures) = &self.curvatures else { return Ok((gradients, None)) };
        let (batch, _) = curator.all_for_loader(self.records)?;
        let mut bent = plan.score.curvatures(batch, self.directions);
        for part in all.chunks(self.chunk) {
            Python::attach(|py| {
                let rows: PyReadonlyArray2<'_, f64> =
                    curvatures.bind(py).call1((candidate, part.to_pyarray(py)))?.extract()?;
                let rows = rows.as_array();
                if rows.dim() != (part.len(), self.directions) {
                    return Err(invalid(NOT_ONE_EACH));
                }
                let Some(sum) = bent.as_mut() else { return Ok(()) };
                py.detach(|| sum.add(part.len(), |i, out| out.extend(rows.row(i)))).map_err(refused)
            })
            .map_err(failed)?;
        }
        Ok((gradients, bent))
    }
}

#[pymethods]
impl Stationary {
    /// Plans from what is public, as JSON. Reads no record.
    #[new]
    fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
        let r: Request = serde_json::from_str(request).map_err(invalid)?;
        let unit = if r.of_units { Unit::User } else { Unit::Record };
        let neighbours = Neighbours { unit, relation: relation(&r.relation)? };
        let problem = StationaryProblem {
            records: r.records,
            candidates: r.candidates,
            neighbours,
            own_evidence: Evidence::Checked,
        };
        let options = StationaryOptions {
            clip_norm: r.clip_norm,
            target: r.alpha,
            curvature: r.curvature.map(|(bound, hessian_lipschitz)| CurvatureOptions { bound, hessian_lipschitz }),
            first: r.first,
        };
        let budget = Budget::new(r.epsilon, 0.0).map_err(invalid)?;
        Ok(Self { inner: interruptible(py, || plan(&problem, budget, &options))?.map_err(invalid)? })
    }

    /// What is charged for, as JSON.
    fn event(&self) -> PyResult<String> {
        self.inner.certificate.event().to_json().map_err(invalid)
    }

    /// ε, how much less stationary than the best the chosen one may be, and what the guarantee rests on, as JSON.
    fn told(&self) -> PyResult<String> {
        json(&value!({
            "epsilon": self.inner.certificate.bound().upper,
            "error": self.inner.error,
            "assumptions": self.inner.assumptions.iter().map(Assumption::text).collect::<Vec<_>>(),
        }))
    }

    /// The index, or none, in a session that was charged for it. `gradients(candidate, positions)` gives rows as arrays of records × numbers side by side;
    /// `curvatures(candidate, positions)` records × directions. Positions come `chunk` at a time.
    #[pyo3(signature = (session, gradients, curvatures, records, dimension, directions, chunk))]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python class")]
    fn run(
        &self,
        py: Python<'_>,
        session: &Session,
        gradients: Py<PyAny>,
        curvatures: Option<Py<PyAny>>,
        records: usize,
        dimension: usize,
        directions: usize,
        chunk: usize,
    ) -> PyResult<Option<usize>> {
        let called = Called { gradients, curvatures, records, dimension, directions, chunk: chunk.max(1) };
        interruptible(py, || {
            session.stage(&self.inner.certificate, |curator| {
                let sums = |curator: &mut Curator, candidate| called.sums(&self.inner, curator, candidate);
                Ok(run(&self.inner, curator, &Silent, sums).map_err(raised)?.into_inner())
            })
        })?
    }
}
