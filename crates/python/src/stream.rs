//! Linear models that learn batch by batch from Python: the library's own stream behind a lock.

use crate::accounting::{json, named_accountant, relation};
use crate::errors::invalid;
use crate::face::pythonic;
use crate::fit::{Range, Request, described, fit_error};
use crate::kept::Kept;
use crate::owners::UnitsAsked;
use crate::report::answer as answer_of;
use crate::rows::Rows;
use crate::session::Charging;
use crate::stop::interruptible;
use dpopt::model::{MatrixFacts, MatrixStream, MatrixStreamPlan};
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;

/// Models of a stream that is under way; one thread at a time. Not to be pickled or copied: its noise goes on once.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct LinearStream(Kept<MatrixStream>);

fn planned(
    (rows, features, nonzeros, row_norm): (u64, usize, usize, f64),
    r: Request,
    classes: usize,
    batches: u64,
) -> PyResult<MatrixStreamPlan> {
    if matches!(r.range, Range::Found) {
        return Err(invalid(
            "y has no public range, and a stream cannot look for it first; give target_bounds=(lower, upper)",
        ));
    }
    let units = r.units.map(UnitsAsked::facts);
    let facts = MatrixFacts { rows, features, nonzeros, row_norm, units };
    let relation = relation(&r.relation)?;
    MatrixStreamPlan::new(facts, r.target, classes, relation, (r.epsilon, r.delta), &r.options, batches)
        .map_err(fit_error)
}

/// The report of the models of a stream so far, of which an estimator wrote down the answer as JSON.
#[pyfunction]
pub(crate) fn stream_report(
    py: Python<'_>,
    facts: (u64, usize, usize, f64),
    request: &str,
    classes: usize,
    batches: u64,
    answer: &str,
) -> PyResult<String> {
    let (asked, answer) = (serde_json::from_str(request).map_err(invalid)?, answer_of(answer)?);
    interruptible(py, || {
        let report = planned(facts, asked, classes, batches)?.report(answer).map_err(fit_error)?;
        Ok(pythonic(|| report.html()))
    })?
}

#[pymethods]
impl LinearStream {
    /// Plans a stream of so many records in at most so many batches, and charges `charge` for all of it.
    #[staticmethod]
    #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
    fn open(
        py: Python<'_>,
        facts: (u64, usize, usize, f64),
        request: &str,
        classes: usize,
        batches: u64,
        charge: Option<Py<PyAny>>,
        seed: Option<u64>,
    ) -> PyResult<Self> {
        let asked: Request = serde_json::from_str(request).map_err(invalid)?;
        let (run, by) = (asked.name.clone(), asked.accountant.as_deref().map(named_accountant).transpose()?);
        interruptible(py, || {
            let plan = planned(facts, asked, classes, batches)?;
            let stream = plan.open(&run, Charging::account(charge), seed, by).map_err(fit_error)?;
            Ok(Self(Kept::new("stream", stream)))
        })?
    }

    /// The plan as JSON.
    fn described(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| described(self.0.shown()?.plan().planned(), &[]))
    }

    /// Records of a batch at most.
    fn batch_size(&self) -> PyResult<u64> {
        Ok(self.0.shown()?.plan().batch_size())
    }

    /// One step along the records that came.
    fn learn(&self, py: Python<'_>, rows: &Rows) -> PyResult<()> {
        let records = rows.take()?;
        interruptible(py, || self.0.own()?.learn(records).map_err(fit_error))?
    }

    /// Number of batches learned from so far.
    fn learned(&self) -> PyResult<u64> {
        Ok(self.0.shown()?.learned())
    }

    /// The model so far: weights of each (outputs × features, row-major), and a bound on the standard deviation of their noise at the end.
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Bound<'py, PyArray1<f64>>>, f64)> {
        let (weights, noise) = py.detach(|| {
            let stream = self.0.shown()?;
            let noise = stream.plan().planned().plan().map_err(invalid)?.summary().weight_noise.unwrap_or(f64::NAN);
            Ok::<_, PyErr>((stream.weights(), noise))
        })?;
        Ok((weights.into_iter().map(|weights| weights.into_pyarray(py)).collect(), noise))
    }

    /// (what is promised, what was released), as JSON.
    fn promised(&self, py: Python<'_>) -> PyResult<(String, String)> {
        // not to be stopped: a look that is left half-way would close the stream
        py.detach(|| {
            let stream = self.0.shown()?;
            Ok((json(&stream.guarantee().map_err(fit_error)?)?, json(&stream.releases())?))
        })
    }
}
