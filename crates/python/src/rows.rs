//! From NumPy arrays and SciPy CSR matrices to bounded rows (the only copy that is made of the records).

use crate::errors::invalid;
use crate::stop::interruptible;
use dpopt::records::{self, SparseRows};
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArray2, ToPyArray};
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// How rows are bounded, from public facts: x ↦ scale·(clip(x, lower, upper) − centre), clipped to l2 norm 1, then the constant
/// `intercept`.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Bounding {
    inner: records::Bounding,
}

/// Bounded records. They cannot be read from Python: a fit is their only use.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Rows {
    bounded: Mutex<Option<records::Bounded>>,
}

impl Rows {
    /// The records, which can be taken once.
    pub(crate) fn take(&self) -> PyResult<records::Bounded> {
        let mut bounded = self.bounded.lock().unwrap_or_else(PoisonError::into_inner);
        bounded.take().ok_or_else(|| invalid("these rows were used by another fit; make them again"))
    }
}

fn kept(bounding: records::Bounding, most: Option<usize>) -> Result<records::Bounding, records::BoundingError> {
    match most {
        Some(most) => bounding.keeping(most),
        None => Ok(bounding),
    }
}

/// A dense matrix of either precision.
#[derive(FromPyObject)]
pub(crate) enum Dense<'py> {
    Single(PyReadonlyArray2<'py, f32>),
    Double(PyReadonlyArray2<'py, f64>),
}

/// The values of a sparse matrix, of either precision.
#[derive(FromPyObject)]
pub(crate) enum Values<'py> {
    Single(PyReadonlyArray1<'py, f32>),
    Double(PyReadonlyArray1<'py, f64>),
}

fn rows(bounded: Result<records::Bounded, records::MatrixError>) -> PyResult<Rows> {
    Ok(Rows { bounded: Mutex::new(Some(bounded.map_err(invalid)?)) })
}

#[pymethods]
impl Bounding {
    /// Rows of `features` numbers, clipped to l2 norm `norm` and divided by it.
    #[staticmethod]
    fn in_ball(features: usize, norm: f64, intercept: f64, max_nonzeros: Option<usize>) -> PyResult<Self> {
        let made = records::Bounding::in_ball(features, norm, intercept).and_then(|b| kept(b, max_nonzeros));
        Ok(Self { inner: made.map_err(invalid)? })
    }

    /// Rows clipped to a box and scaled so that no row is longer than 1; then clipped to `norm` of that, and divided by it.
    #[staticmethod]
    fn in_box(
        lower: PyReadonlyArray1<'_, f64>,
        upper: PyReadonlyArray1<'_, f64>,
        norm: f64,
        intercept: f64,
        sparse: bool,
        max_nonzeros: Option<usize>,
    ) -> PyResult<Self> {
        let (lower, upper) = (lower.as_array().to_vec(), upper.as_array().to_vec());
        let made = records::Bounding::in_box(lower, upper, norm, intercept, sparse);
        Ok(Self { inner: made.and_then(|b| kept(b, max_nonzeros)).map_err(invalid)? })
    }

    #[getter]
    fn lower<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.lower().to_pyarray(py)
    }

    #[getter]
    fn upper<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.upper().to_pyarray(py)
    }

    #[getter]
    fn scale<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.scale().to_pyarray(py)
    }

    #[getter]
    fn centre<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<f64>> {
        self.inner.centre().to_pyarray(py)
    }

    /// The constant of every row, 0 if there is none.
    #[getter]
    fn intercept(&self) -> f64 {
        f64::from(self.inner.intercept())
    }

    /// Entries of a bounded row.
    #[getter]
    fn width(&self) -> usize {
        self.inner.width()
    }

    /// No bounded row has more entries that are not 0.
    #[getter]
    fn nonzeros(&self) -> usize {
        self.inner.nonzeros()
    }

    /// l2 norm that no bounded row exceeds.
    #[getter]
    fn row_norm(&self) -> f64 {
        self.inner.row_norm()
    }

    /// Bounds a dense array; reads it in place, whatever its strides.
    fn dense(&self, py: Python<'_>, x: Dense<'_>, targets: PyReadonlyArray1<'_, f64>) -> PyResult<Rows> {
        let targets = targets.as_slice().map_err(invalid)?;
        match &x {
            Dense::Single(x) => {
                let x = x.as_array();
                let row = |i: usize| x.row(i).into_iter().copied();
                rows(interruptible(py, || self.inner.dense(x.dim(), row, targets))?)
            }
            Dense::Double(x) => {
                let x = x.as_array();
                let row = |i: usize| x.row(i).into_iter().copied();
                rows(interruptible(py, || self.inner.dense(x.dim(), row, targets))?)
            }
        }
    }

    /// Bounds a CSR matrix; reads its three arrays in place.
    fn sparse(
        &self,
        py: Python<'_>,
        values: Values<'_>,
        columns: PyReadonlyArray1<'_, i32>,
        offsets: PyReadonlyArray1<'_, i32>,
        targets: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Rows> {
        let targets = targets.as_slice().map_err(invalid)?;
        let (columns, offsets) = (columns.as_slice().map_err(invalid)?, offsets.as_slice().map_err(invalid)?);
        match &values {
            Values::Single(values) => {
                let values = values.as_slice().map_err(invalid)?;
                rows(interruptible(py, || self.inner.sparse(SparseRows { values, columns, offsets }, targets))?)
            }
            Values::Double(values) => {
                let values = values.as_slice().map_err(invalid)?;
                rows(interruptible(py, || self.inner.sparse(SparseRows { values, columns, offsets }, targets))?)
            }
        }
    }
}
