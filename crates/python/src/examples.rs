//! From NumPy arrays and SciPy CSR matrices to bounded rows (the only copy that is made of the records).
//!
//! A row x becomes s·(clamp(x) − m), clipped to `row_norm`, with the constant `intercept` appended; s, m and the ranges
//! are public. Missing targets and non-finite values contribute nothing.

use crate::errors::invalid;
use dpopt::Sensitive;
use dpopt::records::{self, Rows, keep_largest};
use numpy::ndarray::ArrayView2;
use numpy::{PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;

/// Encoded records. They cannot be read from Python: a fit is their only use.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Examples {
    pub(crate) inner: Sensitive<records::Examples>,
}

/// How a row is bounded, from public facts.
struct Bounding {
    lower: Vec<f64>,
    upper: Vec<f64>,
    scale: Vec<f64>,
    centre: Vec<f64>,
    row_norm: f64,
    intercept: f64,
    /// Norm of the whole row, intercept included.
    whole: f64,
    /// Entries of a row that are kept besides the intercept, the largest.
    most: usize,
}

impl Bounding {
    fn new(
        columns: usize,
        facts: [&PyReadonlyArray1<'_, f64>; 4],
        row_norm: f64,
        intercept: f64,
        whole: f64,
        max_nonzeros: Option<usize>,
    ) -> PyResult<Self> {
        let [lower, upper, scale, centre] = facts.map(|a| a.as_array().to_vec());
        if [&lower, &upper, &scale, &centre].iter().any(|v| v.len() != columns) {
            return Err(invalid(format!(
                "lower, upper, scale and centre need one number for each of {columns} features"
            )));
        }
        if lower.iter().zip(&upper).any(|(l, u)| l.is_nan() || u.is_nan() || l > u) {
            return Err(invalid("each lower bound must be at most the upper bound"));
        }
        if !(row_norm > 0.0 && row_norm.is_finite() && intercept.is_finite() && whole >= row_norm && whole.is_finite())
        {
            return Err(invalid("row_norm must be positive and finite"));
        }
        let most = max_nonzeros.unwrap_or(usize::MAX);
        if most == 0 {
            return Err(invalid("max_nonzeros must be at least 1"));
        }
        Ok(Self { lower, upper, scale, centre, row_norm, intercept, whole, most })
    }

    fn value(&self, j: usize, x: f64) -> f64 {
        self.scale[j] * (x.clamp(self.lower[j], self.upper[j]) - self.centre[j])
    }

    /// Keeps the largest of `values`, clips them to the row norm, appends the constant and pushes the row; its bound is enforced in f32 there.
    fn push(&self, entries: &mut Vec<(u32, f32)>, values: &mut Vec<(u32, f64)>, rows: &mut Rows) {
        keep_largest(values, 0, self.most);
        for v in values.iter_mut() {
            if !v.1.is_finite() {
                v.1 = 0.0;
            }
        }
        let largest = values.iter().fold(0.0f64, |m, v| m.max(v.1.abs()));
        // divided by the largest first: squares never overflow
        let norm = if largest == 0.0 {
            0.0
        } else {
            largest * values.iter().map(|v| (v.1 / largest).powi(2)).sum::<f64>().sqrt()
        };
        let factor = if norm.is_infinite() { 0.0 } else { (self.row_norm / norm).min(1.0) };
        entries.clear();
        entries.extend(values.iter().map(|&(j, v)| (j, (v * factor) as f32)));
        if self.intercept != 0.0 {
            entries.push(((self.scale.len()) as u32, self.intercept as f32));
        }
        rows.push_clipped(entries, self.whole);
    }

    fn width(&self) -> usize {
        self.scale.len() + usize::from(self.intercept != 0.0)
    }
}

/// Targets as the library wants them: NaN marks a record that contributes nothing.
fn target(value: f64) -> Option<f32> {
    if value.is_nan() { None } else { Some(value as f32) }
}

fn from_dense<T: Copy + Into<f64> + Sync>(x: ArrayView2<'_, T>, y: &[f64], bounding: &Bounding) -> records::Examples {
    let mut rows = Rows::new(bounding.width());
    let mut targets = Vec::with_capacity(y.len());
    let (mut entries, mut values) = (Vec::new(), Vec::new());
    for (line, &y) in x.outer_iter().zip(y) {
        let Some(t) = target(y) else {
            rows.push_zero();
            targets.push(0.0);
            continue;
        };
        values.clear();
        values.extend(line.iter().enumerate().map(|(j, &v)| (j as u32, bounding.value(j, v.into()))));
        bounding.push(&mut entries, &mut values, &mut rows);
        targets.push(t);
    }
    records::Examples { rows, targets }
}

#[allow(
    clippy::too_many_arguments,
    reason = "the arguments of the Python functions above or below, which only differ in type"
)]
fn dense<T: Copy + Into<f64> + Sync + Send + numpy::Element>(
    py: Python<'_>,
    x: PyReadonlyArray2<'_, T>,
    y: PyReadonlyArray1<'_, f64>,
    facts: [&PyReadonlyArray1<'_, f64>; 4],
    row_norm: f64,
    intercept: f64,
    whole: f64,
    max_nonzeros: Option<usize>,
) -> PyResult<Examples> {
    let (x, y) = (x.as_array(), y.as_slice().map_err(invalid)?);
    if x.nrows() != y.len() {
        return Err(invalid("X and y have different numbers of rows"));
    }
    let bounding = Bounding::new(x.ncols(), facts, row_norm, intercept, whole, max_nonzeros)?;
    Ok(Examples { inner: Sensitive::new(py.detach(|| from_dense(x, y, &bounding))) })
}

macro_rules! dense_functions {
    ($($name:ident $kind:ty),*) => {$(
        /// Encodes a dense array; reads it in place, whatever its strides.
        #[pyfunction]
        #[pyo3(signature = (x, y, lower, upper, scale, centre, row_norm, intercept, whole, max_nonzeros=None))]
        #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name(
            py: Python<'_>,
            x: PyReadonlyArray2<'_, $kind>,
            y: PyReadonlyArray1<'_, f64>,
            lower: PyReadonlyArray1<'_, f64>,
            upper: PyReadonlyArray1<'_, f64>,
            scale: PyReadonlyArray1<'_, f64>,
            centre: PyReadonlyArray1<'_, f64>,
            row_norm: f64,
            intercept: f64,
            whole: f64,
            max_nonzeros: Option<usize>,
        ) -> PyResult<Examples> {
            dense(py, x, y, [&lower, &upper, &scale, &centre], row_norm, intercept, whole, max_nonzeros)
        }
    )*};
}
dense_functions!(encode_dense_f32 f32, encode_dense_f64 f64);

#[allow(
    clippy::too_many_arguments,
    reason = "the arguments of the Python functions above or below, which only differ in type"
)]
fn sparse<T: Copy + Into<f64> + Sync + Send + numpy::Element>(
    py: Python<'_>,
    values: PyReadonlyArray1<'_, T>,
    indices: PyReadonlyArray1<'_, i32>,
    offsets: PyReadonlyArray1<'_, i32>,
    y: PyReadonlyArray1<'_, f64>,
    facts: [&PyReadonlyArray1<'_, f64>; 4],
    row_norm: f64,
    intercept: f64,
    whole: f64,
    max_nonzeros: Option<usize>,
) -> PyResult<Examples> {
    let columns = facts[2].as_array().len();
    let bounding = Bounding::new(columns, facts, row_norm, intercept, whole, max_nonzeros)?;
    let (values, indices) = (values.as_slice().map_err(invalid)?, indices.as_slice().map_err(invalid)?);
    let (offsets, y) = (offsets.as_slice().map_err(invalid)?, y.as_slice().map_err(invalid)?);
    let sorted = offsets.windows(2).all(|w| w[0] <= w[1]);
    let ends = offsets.first() == Some(&0) && offsets.last().is_some_and(|&e| e as usize == values.len());
    let inside = indices.iter().all(|&j| j >= 0 && (j as usize) < columns);
    if offsets.len() != y.len() + 1 || !sorted || !ends || indices.len() != values.len() || !inside {
        return Err(invalid("the CSR matrix is not well formed; rebuild it with scipy.sparse.csr_matrix"));
    }
    let examples = py.detach(|| {
        let mut rows = Rows::new(bounding.width());
        let mut targets = Vec::with_capacity(y.len());
        let (mut entries, mut line) = (Vec::new(), Vec::new());
        for (i, &y) in y.iter().enumerate() {
            let Some(t) = target(y) else {
                rows.push_zero();
                targets.push(0.0);
                continue;
            };
            let span = offsets[i] as usize..offsets[i + 1] as usize;
            line.clear();
            line.extend(
                indices[span.clone()]
                    .iter()
                    .zip(&values[span])
                    .map(|(&j, &v)| (j as u32, bounding.value(j as usize, v.into()))),
            );
            bounding.push(&mut entries, &mut line, &mut rows);
            targets.push(t);
        }
        records::Examples { rows, targets }
    });
    Ok(Examples { inner: Sensitive::new(examples) })
}

macro_rules! sparse_functions {
    ($($name:ident $kind:ty),*) => {$(
        /// Encodes a CSR matrix; reads its three arrays in place. `centre` must be 0 (it would fill the zeros).
        #[pyfunction]
        #[pyo3(signature = (values, indices, offsets, y, lower, upper, scale, centre, row_norm, intercept, whole, max_nonzeros=None))]
        #[allow(clippy::too_many_arguments, reason = "the arguments of the Python function")]
        pub(crate) fn $name(
            py: Python<'_>,
            values: PyReadonlyArray1<'_, $kind>,
            indices: PyReadonlyArray1<'_, i32>,
            offsets: PyReadonlyArray1<'_, i32>,
            y: PyReadonlyArray1<'_, f64>,
            lower: PyReadonlyArray1<'_, f64>,
            upper: PyReadonlyArray1<'_, f64>,
            scale: PyReadonlyArray1<'_, f64>,
            centre: PyReadonlyArray1<'_, f64>,
            row_norm: f64,
            intercept: f64,
            whole: f64,
            max_nonzeros: Option<usize>,
        ) -> PyResult<Examples> {
            sparse(py, values, indices, offsets, y, [&lower, &upper, &scale, &centre], row_norm, intercept, whole, max_nonzeros)
        }
    )*};
}
sparse_functions!(encode_sparse_f32 f32, encode_sparse_f64 f64);
