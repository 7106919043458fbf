//! The integers of a vector that its owner keeps, masks or adds to others before anything is released: clipped exactly, as the kernel clips records.

use crate::errors::refused;
use crate::stop::interruptible;
use dpopt::noise::{Grid, Norm, Quantizer};
use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

/// g, where 2^g is the step of the grid for a sum of at most `vectors` vectors of l2 norm at most `clip_norm` in `dimension` coordinates, with noise of
/// standard deviation `noise_std`.
#[pyfunction]
pub(crate) fn grid_exponent(clip_norm: f64, noise_std: f64, vectors: u64, dimension: usize) -> i32 {
    Grid::for_sum(clip_norm, noise_std, vectors, dimension).exponent()
}

/// `values` clipped to l2 norm `clip_norm`, in steps of 2^`exponent`, toward zero: the norm of the integers is at most `clip_norm`/2^`exponent`, exactly. What is
/// not finite counts as 0. They are as sensitive as `values`.
#[pyfunction]
pub(crate) fn clipped_integers<'py>(
    py: Python<'py>,
    values: PyReadonlyArray1<'py, f64>,
    clip_norm: f64,
    exponent: i32,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let quantizer = Quantizer::new(Norm::L2, clip_norm, Grid::new(exponent)).map_err(refused)?;
    let values = values.as_array();
    let integers = interruptible(py, || {
        let mut values = values.to_vec();
        let mut integers = Vec::with_capacity(values.len());
        quantizer.quantize(&mut values, &mut integers);
        integers
    })?;
    Ok(integers.into_pyarray(py))
}
