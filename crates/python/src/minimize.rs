//! Minimization of objectives that Python evaluates: their gradients, values or derivatives come in batches, and are clipped here.

use crate::accounting::{json, relation};
use crate::errors::{invalid, refused};
use crate::face::{in_python, pythonic};
use crate::fit::fit_error;
use crate::objectives::{Kind, NativeObjective, entries, examples};
use crate::owners::UnitRows;
use crate::session::{Session, read_evidence};
use crate::stop::interruptible;
use crate::training::{Block, add_rows, add_weighted};
use dpopt::Sensitive;
use dpopt::mechanism::BatchSum;
use dpopt::minimize::{
    Answers, Candidate, Directions, InMemory, Minimization, MinimizeProblem, PerRecord, ReadByObjective, registry,
};
use dpopt::model::FitError;
use dpopt::objective::{Objective, OfUnits};
use dpopt::optimize::{MethodOptions, RunError};
use dpopt::plan::Assumption;
use dpopt::privacy::{Budget, Neighbours, Unit};
use dpopt::progress::Silent;
use dpopt::records::RecordSet;
use dpopt::session::Closed;
use numpy::{PyArray1, PyArray2, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::json as value;

/// What is public, and what is asked for.
#[derive(Deserialize)]
struct Request {
    records: u64,
    dimension: usize,
    answers: String,
    distance: Option<f64>,
    smoothness: Option<f64>,
    usual_clip_norm: Option<f64>,
    strong_convexity: f64,
    /// Whether Python evaluates it.
    #[serde(rename = "elsewhere")]
    remote: bool,
    /// Why what it says of a record is believed to be that record's own: `proved`, `checked` or `vouched`.
    own_evidence: String,
    /// Whether a record is all that a unit has.
    of_units: bool,
    relation: String,
    epsilon: f64,
    delta: f64,
    options: MethodOptions,
}

/// All options of all methods, as JSON.
#[pyfunction]
pub(crate) fn minimize_options() -> PyResult<String> {
    json(&registry().catalogue())
}

/// A certified plan of a minimization.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Minimizing {
    inner: Minimization,
}

fn told(candidate: &Candidate, allowed: f64) -> PyResult<serde_json::Value> {
    Ok(match &candidate.plan {
        Ok(plan) => value!({
            "method": candidate.method,
            "grade": plan.grade(),
            "noise_multiplier": plan.schedule.noise_multiplier,
            "steps": plan.schedule.steps,
            "gradients": plan.evaluations,
            "predicted_excess_risk": plan.predicted_excess,
            "epsilon": plan.certificate.bound().upper,
            "delta": plan.certificate.budget().delta(),
            "allowed_epsilon": allowed,
            "relation": plan.certificate.relation().name(),
            "unit": plan.certificate.neighbours().unit.name(),
            "bound": serde_json::to_value(plan.certificate.bound()).map_err(invalid)?,
            "event": serde_json::to_value(plan.certificate.event()).map_err(invalid)?,
            "assumptions": plan.assumptions.iter().map(Assumption::text).collect::<Vec<_>>(),
            "warnings": plan.warnings,
            "schedule": serde_json::to_value(&plan.schedule).map_err(invalid)?,
        }),
        Err(why) => value!({ "method": candidate.method, "not_applicable": in_python(why) }),
    })
}

#[pymethods]
impl Minimizing {
    /// Plans from what is public, as JSON. Reads no record.
    #[new]
    fn new(py: Python<'_>, request: &str) -> PyResult<Self> {
        let r: Request = serde_json::from_str(request).map_err(invalid)?;
        let answers = match r.answers.as_str() {
            "values" => Answers::Values,
            "derivatives" => Answers::Derivatives,
            _ => Answers::Gradients,
        };
        let unit = if r.of_units { Unit::User } else { Unit::Record };
        let neighbours = Neighbours { unit, relation: relation(&r.relation)? };
        let usual = MinimizeProblem::new(r.records, r.dimension, neighbours);
        let problem = MinimizeProblem {
            distance: r.distance.unwrap_or(usual.distance),
            smoothness: r.smoothness,
            usual_clip_norm: r.usual_clip_norm.unwrap_or(usual.usual_clip_norm),
            strong_convexity: r.strong_convexity,
            answers,
            remote: r.remote,
            own_evidence: read_evidence(&r.own_evidence)?,
            ..usual
        };
        let budget = Budget::new(r.epsilon, r.delta).map_err(invalid)?;
        let inner = interruptible(py, || Minimization::plan(problem, budget, &r.options))?.map_err(fit_error)?;
        Ok(Self { inner })
    }

    /// All methods as JSON, the chosen one first.
    fn candidates(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| {
            let allowed = self.inner.budget().epsilon();
            let all: PyResult<Vec<_>> = self.inner.candidates().iter().map(|c| told(c, allowed)).collect();
            json(&all?)
        })
    }

    /// What is charged for, as JSON.
    fn event(&self) -> PyResult<String> {
        self.inner.certificate().event().to_json().map_err(invalid)
    }

    /// Runs the plan in a session that was charged for it. `gradients(x, positions)` gives one row for each of the positions (of gradients, or of derivatives
    /// along `directions`, which it gets then); `values(x, positions)` one number. Positions come `chunk` at a time.
    #[pyo3(signature = (session, start, objective, records, chunk))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        session: &Session,
        start: PyReadonlyArray1<'py, f64>,
        objective: Py<PyAny>,
        records: usize,
        chunk: usize,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let start = start.as_array().to_vec();
        let answers = self.inner.problem().answers;
        let found = interruptible(py, || {
            let called = Called { objective, answers, chunk: chunk.max(1) };
            session
                .run_in(|inner| self.inner.run(&start, ReadByObjective::new(called, records), inner, &Silent))?
                .map_err(raised)
        })?;
        Ok(found?.to_pyarray(py))
    }

    /// Runs the plan in a session that was charged for it, with an objective of the library: rows and their targets, or entries of a matrix without targets;
    /// `units` are the owners of the rows.
    #[pyo3(signature = (session, start, objective, records, units = None))]
    fn run_native<'py>(
        &self,
        py: Python<'py>,
        session: &Session,
        start: PyReadonlyArray1<'py, f64>,
        objective: &NativeObjective,
        records: NativeRecords<'py>,
        units: Option<&UnitRows>,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let start = start.as_array().to_vec();
        let found = match (&objective.kind, records) {
            (Kind::Scored(scored), NativeRecords::Rows(rows, targets)) => {
                let (rows, targets) = (rows.as_array(), targets.as_array());
                interruptible(py, || self.run_on(&start, *scored, examples(rows, targets)?, units, session))?
            }
            (Kind::Network(network), NativeRecords::Rows(rows, targets)) => {
                let (rows, targets) = (rows.as_array(), targets.as_array());
                interruptible(py, || self.run_on(&start, network.clone(), examples(rows, targets)?, units, session))?
            }
            (Kind::Factorization(factorization), NativeRecords::Entries(cells)) => {
                let cells = cells.as_array();
                interruptible(py, || self.run_on(&start, *factorization, entries(cells)?, units, session))?
            }
            _ => return Err(invalid("the records do not have the form that the objective takes")),
        };
        Ok(found?.to_pyarray(py))
    }

    /// The report, as HTML.
    fn report(
        &self,
        py: Python<'_>,
        session: &Session,
        x: PyReadonlyArray1<'_, f64>,
        source: &str,
        objective: &str,
    ) -> PyResult<String> {
        let x = x.as_array().to_vec();
        interruptible(py, || {
            let (guarantee, receipt) = session.promised()?;
            let closed = Closed { guarantee, releases: session.released()?, receipt };
            let minimum = self.inner.minimum(x, closed, "dpopt.minimize", source, objective);
            Ok(pythonic(|| minimum.report.html()))
        })?
    }
}

impl Minimizing {
    fn run_on<O: Objective<R> + Clone + Sync, R: RecordSet>(
        &self,
        start: &[f64],
        objective: O,
        records: R,
        units: Option<&UnitRows>,
        session: &Session,
    ) -> PyResult<Vec<f64>> {
        let Some(units) = units else {
            let records = Sensitive::new(records);
            let run = |inner: &mut _| self.inner.run(start, InMemory::new(objective, &records), inner, &Silent);
            return session.run_in(run)?.map_err(raised);
        };
        let records = units.of(records).map_err(|why| raised(FitError::Option(why.to_string().into())))?;
        let records = Sensitive::new(records);
        let objective = OfUnits::new(objective);
        let run = |inner: &mut _| self.inner.run(start, InMemory::new(objective, &records), inner, &Silent);
        session.run_in(run)?.map_err(raised)
    }
}

/// Records of an objective of the library's.
#[derive(FromPyObject)]
pub(crate) enum NativeRecords<'py> {
    Rows(PyReadonlyArray2<'py, f32>, PyReadonlyArray1<'py, f32>),
    #[pyo3(transparent)]
    Entries(PyReadonlyArray2<'py, f64>),
}

/// An objective of Python's.
struct Called {
    objective: Py<PyAny>,
    answers: Answers,
    chunk: usize,
}

/// What Python raised comes out as it is.
fn failed(error: PyErr) -> RunError {
    RunError::Objective(Box::new(error))
}

fn raised(error: FitError) -> PyErr {
    match error {
        FitError::Run(RunError::Objective(inner)) => match inner.downcast::<PyErr>() {
            Ok(raised) => *raised,
            Err(other) => refused(other),
        },
        other => fit_error(other),
    }
}

/// How many records a batch has is as secret as the records: no message tells it.
const NOT_ONE_EACH: &str = "the objective did not return one row of the right length for each record of the batch; \
                            return an array of records × parameters \
                            (records × directions for derivatives; one number for each record for values)";

impl Called {
    fn each_part(
        &self,
        records: &[u64],
        mut add: impl FnMut(Python<'_>, Bound<'_, PyArray1<u64>>, usize) -> PyResult<()>,
    ) -> Result<(), RunError> {
        records
            .chunks(self.chunk)
            .try_for_each(|part| Python::attach(|py| add(py, part.to_pyarray(py), part.len())))
            .map_err(failed)
    }

    /// One number for each record.
    fn numbers(
        &self,
        py: Python<'_>,
        x: &[f64],
        positions: &Bound<'_, PyArray1<u64>>,
        count: usize,
    ) -> PyResult<Vec<f64>> {
        let values: PyReadonlyArray1<'_, f64> =
            self.objective.bind(py).call1((x.to_pyarray(py), positions))?.extract()?;
        if values.len()? != count {
            return Err(invalid(NOT_ONE_EACH));
        }
        Ok(values.as_array().to_vec())
    }
}

impl PerRecord for Called {
    fn gradients(&mut self, records: &[u64], x: &[f64], sum: &mut BatchSum) -> Result<(), RunError> {
        self.each_part(records, |py, positions, count| {
            let rows: Vec<Block<'_>> = self.objective.bind(py).call1((x.to_pyarray(py), positions))?.extract()?;
            add_rows(py, sum, &rows, count).map_err(|()| invalid(NOT_ONE_EACH))
        })
    }

    fn combined(&mut self, records: &[u64], terms: &[(f64, &[f64])], sum: &mut BatchSum) -> Result<(), RunError> {
        self.each_part(records, |py, positions, count| {
            let mut rows: Vec<Vec<f64>> = vec![vec![0.0; sum.dimension()]; count];
            for (weight, x) in terms.iter().filter(|(weight, _)| *weight != 0.0) {
                let blocks: Vec<Block<'_>> =
                    self.objective.bind(py).call1((x.to_pyarray(py), &positions))?.extract()?;
                // used up before the next call, which may write into the same arrays
                add_weighted(py, &mut rows, *weight, &blocks).map_err(|()| invalid(NOT_ONE_EACH))?;
            }
            py.detach(|| sum.add(count, |i, out| out.extend(&rows[i]))).map_err(refused)
        })
    }

    fn derivatives(
        &mut self,
        records: &[u64],
        x: &[f64],
        directions: &Directions,
        sum: &mut BatchSum,
    ) -> Result<(), RunError> {
        if self.answers == Answers::Values {
            let around = directions.around(x);
            return self.each_part(records, |py, positions, count| {
                let mut derivatives = vec![Vec::with_capacity(around.len()); count];
                for [ahead, behind] in &around {
                    let (a, b) =
                        (self.numbers(py, ahead, &positions, count)?, self.numbers(py, behind, &positions, count)?);
                    for (row, (a, b)) in derivatives.iter_mut().zip(a.iter().zip(&b)) {
                        row.push((a - b) / (2.0 * directions.width()));
                    }
                }
                py.detach(|| sum.add(count, |i, out| out.extend(&derivatives[i]))).map_err(refused)
            });
        }
        let along: Vec<Vec<f64>> = directions.each().map(<[f64]>::to_vec).collect();
        self.each_part(records, |py, positions, count| {
            let u = PyArray2::from_vec2(py, &along).map_err(invalid)?;
            let rows: PyReadonlyArray2<'_, f64> =
                self.objective.bind(py).call1((x.to_pyarray(py), positions, u))?.extract()?;
            add_rows(py, sum, &[Block::Double(rows)], count).map_err(|()| invalid(NOT_ONE_EACH))
        })
    }

    fn values(&mut self, records: &[u64], x: &[f64], out: &mut Vec<f64>) -> Result<(), RunError> {
        self.each_part(records, |py, positions, count| {
            out.extend(self.numbers(py, x, &positions, count)?);
            Ok(())
        })
    }
}
