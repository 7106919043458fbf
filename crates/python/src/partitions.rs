//! Remote records: what a partition is, and how a fit sends aggregate queries to it.

use crate::cells::Given;
use crate::errors::{invalid, refused};
use crate::owners::Owners;
use crate::rows::Rows;
use crate::stop::interruptible;
use crate::table::{ColumnEncoder, Table};
use dpopt::Sensitive;
use dpopt::data::unit_marks;
use dpopt::model;
use dpopt::records::{Partitions, PartitionsFailed, RemoteRecords};
use dpopt_process::stop::paced;
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of what a unit is called under a secret key.
const MARK: usize = 16;

/// One partition of the records, near them.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Shard {
    inner: model::Shard,
    /// What kind their ids are of and what its units are called under a secret key, in order; empty where records are no units of several rows.
    marks: Vec<u8>,
}

/// Bytes of a partition, wherever they lie.
#[derive(FromPyObject)]
pub(crate) enum Encoded<'py> {
    Bytes(Bound<'py, PyBytes>),
    /// Memory of another object, read in place.
    Array(PyReadonlyArray1<'py, u8>),
}

#[pymethods]
impl Shard {
    /// Partition number `part` of bounded rows with their targets; those of `owners`, if it has **all** rows of some units, which are called `marks`.
    #[new]
    #[pyo3(signature = (rows, part, owners = None, marks = None))]
    fn new(py: Python<'_>, rows: &Rows, part: u32, owners: Option<&Owners>, marks: Option<&[u8]>) -> PyResult<Self> {
        let records = rows.take()?;
        let inner = interruptible(py, || match owners {
            None => Ok(model::Shard::new(records, part)),
            Some(owners) => model::Shard::of_units(records, &owners.inner, part).map_err(invalid),
        })??;
        Ok(Self { inner, marks: marks.unwrap_or_default().to_vec() })
    }

    /// Partition number `part` of a table's rows, encoded as `encoder` says.
    #[staticmethod]
    fn of_table(py: Python<'_>, table: &Table, encoder: &ColumnEncoder, part: u32) -> PyResult<Self> {
        let made = interruptible(py, || model::Shard::of_table(&encoder.inner, &table.inner, part))?;
        Ok(Self { inner: made.map_err(invalid)?, marks: Vec::new() })
    }

    /// Partition number `part` of numbers as they are, a row for each record; those of units that are called `marks`, if it has one row for **each** of them.
    #[staticmethod]
    #[pyo3(signature = (x, part, marks = None))]
    fn of_numbers(py: Python<'_>, x: PyReadonlyArray2<'_, f64>, part: u32, marks: Option<&[u8]>) -> PyResult<Self> {
        let x = x.as_array();
        let inner = interruptible(py, || model::Shard::of_numbers(x.ncols(), x.iter().copied().collect(), part))?;
        Ok(Self { inner, marks: marks.unwrap_or_default().to_vec() })
    }

    /// Number of the partition, counted from 0.
    #[getter]
    fn part(&self) -> u32 {
        self.inner.part()
    }

    /// How many records it has.
    #[getter]
    fn records(&self) -> u64 {
        self.inner.records()
    }

    /// How many records it has and a digest of what they hold, by which a driver knows it again; how many rows they have; and what its units are called under
    /// a secret key.
    #[getter]
    fn known<'py>(&self, py: Python<'py>) -> (u64, u64, u64, Bound<'py, PyBytes>) {
        (self.inner.records(), self.inner.digest(), self.inner.rows(), PyBytes::new(py, &self.marks))
    }

    /// What they add up to; as sensitive as they are. By one thread (`alone`), where every core has a worker.
    #[pyo3(signature = (message, alone = false))]
    fn answer<'py>(&self, py: Python<'py>, message: &[u8], alone: bool) -> PyResult<Bound<'py, PyBytes>> {
        let answered = || if alone { self.inner.answer_alone(message) } else { self.inner.answer(message) };
        let answer = interruptible(py, answered)?.map_err(refused)?;
        Ok(PyBytes::new(py, &answer))
    }

    /// All of it but what its units are called, for an engine that moves it; as sensitive as the records.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &interruptible(py, || self.inner.to_bytes())?))
    }

    /// Reads a partition from the bytes that `to_bytes` gave.
    #[staticmethod]
    #[pyo3(signature = (bytes, part = None, marks = None))]
    fn from_bytes(py: Python<'_>, bytes: Encoded<'_>, part: Option<u32>, marks: Option<&[u8]>) -> PyResult<Self> {
        let shard = match &bytes {
            Encoded::Bytes(bytes) => {
                let bytes = bytes.as_bytes();
                interruptible(py, || model::Shard::from_bytes(bytes))?
            }
            // nobody writes there
            Encoded::Array(bytes) if !bytes.getattr("flags")?.getattr("writeable")?.is_truthy()? => {
                let bytes = bytes.as_slice().map_err(invalid)?;
                interruptible(py, || model::Shard::from_bytes(bytes))?
            }
            // somebody may, and waits while Python is not let go
            Encoded::Array(bytes) => {
                let bytes = bytes.as_slice().map_err(invalid)?.to_vec();
                interruptible(py, || model::Shard::from_bytes(&bytes))?
            }
        };
        let shard = shard.map_err(invalid)?;
        let part = part.unwrap_or(shard.part());
        Ok(Self { inner: shard.numbered(part), marks: marks.unwrap_or_default().to_vec() })
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Moved<'py>)> {
        let (py, shard) = (slf.py(), slf.get());
        let from_bytes = py.get_type::<Self>().getattr("from_bytes")?;
        Ok((from_bytes, (shard.to_bytes(py)?, None, PyBytes::new(py, &shard.marks))))
    }

    /// For engines that count what their workers hold.
    fn __sizeof__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(interruptible(py, || self.inner.bytes())? + self.marks.len())
    }

    /// Nothing of what it holds.
    fn __repr__(&self) -> String {
        format!("<part {}>", self.inner.part())
    }
}

/// Bytes, number and marks of a partition that moves.
type Moved<'py> = (Bound<'py, PyBytes>, Option<u32>, Bound<'py, PyBytes>);

/// What the unit of each row is called under `key`, of `ids`.
fn marks_of(py: Python<'_>, ids: Given<'_>, key: &[u8]) -> PyResult<Vec<Option<[u8; MARK]>>> {
    let key: &[u8; 32] = key.try_into().map_err(|_| invalid("the key has not 32 bytes"))?;
    let table = Table::build(py, "ids", vec![("unit".into(), ids)], None)?;
    interruptible(py, || unit_marks(&table.inner, "unit", key))?.map_err(invalid)
}

/// What the units of `ids` are called under the secret `key`, each once and in order, 16 bytes each.
#[pyfunction]
pub(crate) fn units_of<'py>(py: Python<'py>, ids: Given<'py>, key: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    let marks = marks_of(py, ids, key)?;
    let once = interruptible(py, || {
        let once: BTreeSet<[u8; MARK]> = paced(marks).flatten().collect();
        once.into_iter().flatten().collect::<Vec<u8>>()
    })?;
    Ok(PyBytes::new(py, &once))
}

/// Which of `places` places the unit of each row belongs to, by the secret `key`; a row without an owner goes to any.
#[pyfunction]
pub(crate) fn places_of_units<'py>(
    py: Python<'py>,
    ids: Given<'py>,
    key: &[u8],
    places: u64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let place = |(row, mark): (u64, Option<[u8; MARK]>)| {
        let number = mark.map_or(row, |mark| u64::from_le_bytes(*mark.first_chunk().unwrap_or(&[0; 8])));
        (number % places.max(1)) as i64
    };
    let marks = marks_of(py, ids, key)?;
    let placed: Vec<i64> = interruptible(py, || paced((0..).zip(marks)).map(place).collect())?;
    Ok(placed.into_pyarray(py))
}

/// An aggregate query that asks for nothing: what a pass costs besides the sums.
#[pyfunction]
pub(crate) fn empty_query(py: Python<'_>) -> Bound<'_, PyBytes> {
    PyBytes::new(py, &model::empty_query())
}

/// Whether no unit is in two partitions, of each of which these are the [`units_of`]; `None` if they are no such lists.
#[pyfunction]
pub(crate) fn units_are_apart(py: Python<'_>, parts: Vec<Bound<'_, PyBytes>>) -> PyResult<Option<bool>> {
    let parts: Vec<&[u8]> = parts.iter().map(|part| part.as_bytes()).collect();
    interruptible(py, || {
        let mut seen = HashSet::new();
        for part in &parts {
            let (marks, rest) = part.as_chunks::<MARK>();
            if !rest.is_empty() {
                return None;
            }
            if !paced(marks).all(|mark| seen.insert(*mark)) {
                return Some(false);
            }
        }
        Some(true)
    })
}

/// Numbers in partitions of which is `known` how many records each has, and their digest; `width` in each record. They cannot be read from here.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct RemoteNumbers {
    asking: Arc<Asking>,
    known: Vec<(u64, u64)>,
    width: usize,
}

#[pymethods]
impl RemoteNumbers {
    /// `ask` hands an aggregate query to the [`Shard`]s and gives what they answer.
    #[new]
    fn new(ask: Py<PyAny>, known: Vec<(u64, u64)>, width: usize) -> Self {
        Self { asking: Arc::new(Asking::new(ask)), known, width }
    }
}

impl RemoteNumbers {
    /// Numbers in each record.
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// What `release` makes of them; a failure of the engine is the cause of its error.
    pub(crate) fn told<T: Send>(
        &self,
        py: Python<'_>,
        release: impl FnOnce(&Sensitive<RemoteRecords>) -> PyResult<T> + Send,
    ) -> PyResult<T> {
        let parts: Arc<dyn Partitions> = self.asking.clone();
        let numbers = Sensitive::new(model::remote_numbers(parts, self.known.clone(), self.width));
        interruptible(py, || release(&numbers))?.map_err(|error| self.asking.cause(py, error))
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

    /// The error with what the callable raised last as its cause; who interrupts gets the interruption.
    pub(crate) fn cause(&self, py: Python<'_>, error: PyErr) -> PyErr {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        match failure {
            Some(failure) if !failure.is_instance_of::<pyo3::exceptions::PyException>(py) => failure,
            failure => {
                error.set_cause(py, failure);
                error
            }
        }
    }
}

impl Partitions for Asking {
    fn ask(&self, query: &[u8]) -> Result<Vec<Vec<u8>>, PartitionsFailed> {
        Python::attach(|py| {
            let answers = self.ask.bind(py).call1((PyBytes::new(py, query),));
            answers.and_then(|answers| answers.extract::<Vec<Vec<u8>>>()).map_err(|why| {
                // the one before is dropped after the lock: what Python does then may want it
                let _before = self.failure.lock().unwrap_or_else(PoisonError::into_inner).replace(why);
                PartitionsFailed
            })
        })
    }
}
