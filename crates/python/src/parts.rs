//! Records that are elsewhere, in parts: what a part is, and how a fit asks them.

use crate::errors::{invalid, refused};
use crate::rows::Rows;
use dpopt::model;
use dpopt::records::{Parts, PartsFailed};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::{Mutex, PoisonError};

/// One part of the records, near them.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Shard {
    inner: model::Shard,
}

#[pymethods]
impl Shard {
    /// Part number `part` of bounded rows with their targets.
    #[new]
    fn new(rows: &Rows, part: u32) -> PyResult<Self> {
        Ok(Self { inner: model::Shard::new(rows.take()?, part) })
    }

    /// Its number.
    #[getter]
    fn part(&self) -> u32 {
        self.inner.part()
    }

    /// How many records it has.
    #[getter]
    fn records(&self) -> u64 {
        self.inner.records()
    }

    /// How many records it has, and a digest of what they hold: by that a driver knows it again.
    #[getter]
    fn known(&self) -> (u64, u64) {
        (self.inner.records(), self.inner.digest())
    }

    /// What they add up to; as sensitive as they are. By one thread (`alone`), where every core has a worker.
    #[pyo3(signature = (message, alone = false))]
    fn answer<'py>(&self, py: Python<'py>, message: &[u8], alone: bool) -> PyResult<Bound<'py, PyBytes>> {
        let answered = || if alone { self.inner.answer_alone(message) } else { self.inner.answer(message) };
        let answer = py.detach(answered).map_err(refused)?;
        Ok(PyBytes::new(py, &answer))
    }

    /// All of it, for an engine that moves it; as sensitive as the records.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.inner.to_bytes()))
    }

    /// From these bytes.
    #[staticmethod]
    #[pyo3(signature = (bytes, part = None))]
    fn from_bytes(py: Python<'_>, bytes: &[u8], part: Option<u32>) -> PyResult<Self> {
        let shard = py.detach(|| model::Shard::from_bytes(bytes)).map_err(invalid)?;
        let part = part.unwrap_or(shard.part());
        Ok(Self { inner: shard.numbered(part) })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let py = slf.py();
        Ok((py.get_type::<Self>().getattr("from_bytes")?, (slf.get().to_bytes(py),)))
    }

    /// For engines that count what their workers hold.
    fn __sizeof__(&self) -> usize {
        self.inner.bytes()
    }

    /// Nothing of what it holds.
    fn __repr__(&self) -> String {
        format!("<part {}>", self.inner.part())
    }
}

/// Asks by a callable of Python's: bytes in, a list of bytes out.
pub(crate) struct Asking {
    ask: Py<PyAny>,
    failure: Mutex<Option<PyErr>>,
}

impl Asking {
    pub(crate) fn new(ask: Py<PyAny>) -> Self {
        Self { ask, failure: Mutex::new(None) }
    }

    /// What the callable raised last.
    pub(crate) fn failure(&self) -> Option<PyErr> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Parts for Asking {
    fn ask(&self, question: &[u8]) -> Result<Vec<Vec<u8>>, PartsFailed> {
        Python::attach(|py| {
            let answers = self.ask.bind(py).call1((PyBytes::new(py, question),));
            answers.and_then(|answers| answers.extract::<Vec<Vec<u8>>>()).map_err(|why| {
                *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                PartsFailed
            })
        })
    }
}
