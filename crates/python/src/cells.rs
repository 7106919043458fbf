//! A column of Python, whatever it is held in, as cells that the library reads.

use crate::stop::{Breaths, interruptible};
use dpopt::data::{Cells, Texts, Ticks, Unit};
use dpopt_process::stop::paced;
use numpy::PyReadonlyArray1;
use numpy::ndarray::ArrayView1;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyFloat, PyInt, PyList, PyString};

/// Numbers or truth values of any type.
#[derive(FromPyObject)]
pub(crate) enum Array<'py> {
    F64(PyReadonlyArray1<'py, f64>),
    I64(PyReadonlyArray1<'py, i64>),
    Truth(PyReadonlyArray1<'py, bool>),
    F32(PyReadonlyArray1<'py, f32>),
    I32(PyReadonlyArray1<'py, i32>),
    I16(PyReadonlyArray1<'py, i16>),
    I8(PyReadonlyArray1<'py, i8>),
    U64(PyReadonlyArray1<'py, u64>),
    U32(PyReadonlyArray1<'py, u32>),
    U16(PyReadonlyArray1<'py, u16>),
    U8(PyReadonlyArray1<'py, u8>),
}

/// A column as Python hands it over.
#[derive(FromPyObject)]
pub(crate) enum Given<'py> {
    /// Any objects: texts, numbers, truth values, missing ones.
    Objects(Bound<'py, PyList>),
    /// Arrow's texts: where each ends and the next begins, bytes, which are missing.
    Arrow(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, u8>, PyReadonlyArray1<'py, bool>),
    /// Places in a list of objects; a place outside it is a missing cell.
    Coded(PyReadonlyArray1<'py, i64>, Bound<'py, PyList>),
    /// Points in time (true) or spans of it, in ticks of so many a day, and which are missing; whether the type is a fact of the whole column, which no
    /// record can change.
    Times(PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, bool>, i64, bool, bool),
    /// So many cells of a type that no column may have, by its name.
    Unsupported(String, usize),
    /// Numbers, and which are missing.
    Array(Array<'py>, Option<PyReadonlyArray1<'py, bool>>),
}

fn fill<T: Copy>(values: &mut [T], gaps: &[usize], with: T) {
    for &row in gaps {
        if let Some(value) = values.get_mut(row) {
            *value = with;
        }
    }
}

fn gaps_of(mask: ArrayView1<'_, bool>) -> Vec<usize> {
    mask.iter().enumerate().filter(|(_, gap)| **gap).map(|(row, _)| row).collect()
}

impl Array<'_> {
    fn cells(&self, py: Python<'_>, missing: Option<&PyReadonlyArray1<'_, bool>>) -> PyResult<Cells> {
        let missing = missing.map(|mask| mask.as_array());
        let gaps = move || missing.map_or_else(Vec::new, gaps_of);
        macro_rules! numbers {
            ($values:expr) => {{
                let values = $values.as_array();
                interruptible(py, || {
                    let mut values: Vec<f64> = paced(values).map(|v| *v as f64).collect();
                    fill(&mut values, &gaps(), f64::NAN);
                    Cells::Numbers(values)
                })
            }};
        }
        macro_rules! integers {
            ($values:expr) => {{
                let values = $values.as_array();
                interruptible(py, || Cells::Integers(paced(values).map(|v| i64::from(*v)).collect(), gaps()))
            }};
        }
        match self {
            Self::F64(values) => numbers!(values),
            Self::F32(values) => numbers!(values),
            // as in Parquet: numbers of 64 bits without a sign are floating-point
            Self::U64(values) => numbers!(values),
            Self::I64(values) => integers!(values),
            Self::I32(values) => integers!(values),
            Self::I16(values) => integers!(values),
            Self::I8(values) => integers!(values),
            Self::U32(values) => integers!(values),
            Self::U16(values) => integers!(values),
            Self::U8(values) => integers!(values),
            Self::Truth(values) => {
                let values = values.as_array();
                interruptible(py, || {
                    let mut values: Vec<u8> = paced(values).map(|v| u8::from(*v)).collect();
                    fill(&mut values, &gaps(), 2);
                    Cells::Truths(values)
                })
            }
        }
    }
}

fn ticks(per_day: i64, points: bool) -> Ticks {
    Ticks { per_day: per_day.max(1), unit: if points { Unit::Date } else { Unit::Duration } }
}

/// A date, a moment or a span of Python, NumPy or pandas: its ticks, how many are a day, and whether it is a point in time.
fn time_of(value: &Bound<'_, PyAny>) -> PyResult<Option<(i64, i64, bool)>> {
    let times = value.py().import("dpopt._times")?;
    times.getattr("ticks_of")?.call1((value,))?.extract()
}

/// Appends any object as the text that a file would hold.
fn push(texts: &mut Texts, value: &Bound<'_, PyAny>) {
    if value.is_none() {
        return texts.push_missing();
    }
    if let Ok(text) = value.cast::<PyString>() {
        return match text.to_str() {
            Ok(text) => texts.push(text.as_bytes()),
            Err(_) => texts.push_unreadable(),
        };
    }
    if let Ok(truth) = value.cast::<PyBool>() {
        return texts.push_truth(truth.is_true());
    }
    if value.is_instance_of::<PyInt>() {
        return match value.str() {
            Ok(digits) => texts.push(digits.to_string_lossy().as_bytes()),
            Err(_) => texts.push_unreadable(),
        };
    }
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return texts.push(bytes.as_bytes());
    }
    if !value.is_instance_of::<PyFloat>() {
        let kind = value.get_type();
        let name = kind.name().map(|name| name.to_string()).unwrap_or_default();
        if matches!(name.as_str(), "NAType" | "NaTType") {
            return texts.push_missing();
        }
        // (ticks, how many a day, point or span)
        if let Ok(Some((value, per_day, points))) = time_of(value) {
            return texts.push_time(value, ticks(per_day, points));
        }
        let numpy = kind.module().is_ok_and(|module| module.to_string_lossy() == "numpy");
        if numpy
            && let Ok(plain) = value.call_method0("item")
            && !plain.get_type().is(&kind)
        {
            return push(texts, &plain);
        }
    }
    match value.extract::<f64>() {
        Ok(number) if number.is_nan() => texts.push_missing(),
        Ok(number) => texts.push((number + 0.0).to_string().as_bytes()),
        Err(_) => texts.push_unreadable(),
    }
}

fn objects(list: &Bound<'_, PyList>) -> PyResult<Texts> {
    let (mut texts, mut breaths) = (Texts::default(), Breaths::new());
    for value in list {
        push(&mut texts, &value);
        breaths.step(list.py())?;
    }
    Ok(texts)
}

impl Given<'_> {
    /// The cells of the column.
    ///
    /// # Errors
    /// What a signal's handler raised while they were read.
    pub(crate) fn cells(&self, py: Python<'_>) -> PyResult<Cells> {
        match self {
            Self::Objects(list) => Ok(Cells::Texts(objects(list)?)),
            Self::Arrow(borders, bytes, missing) => {
                let (borders, bytes, missing) = (borders.as_array(), bytes.as_array(), missing.as_array());
                let bytes = bytes.to_slice().unwrap_or_default();
                interruptible(py, || {
                    let mut texts = Texts::default();
                    let ends = borders.iter().zip(borders.iter().skip(1)).zip(missing);
                    for ((from, to), gap) in paced(ends) {
                        let text = usize::try_from(*from).ok().zip(usize::try_from(*to).ok());
                        match text.and_then(|(from, to)| bytes.get(from..to)) {
                            Some(text) if !gap => texts.push(text),
                            _ => texts.push_missing(),
                        }
                    }
                    Cells::Texts(texts)
                })
            }
            Self::Coded(places, levels) => {
                let levels = objects(levels)?;
                let (places, place) = (places.as_array(), |p: &i64| u32::try_from(*p).unwrap_or(u32::MAX));
                interruptible(py, || Cells::Coded(paced(places).map(place).collect(), levels))
            }
            Self::Times(values, missing, per_day, points, _) => {
                let (values, missing, ticks) = (values.as_array(), missing.as_array(), ticks(*per_day, *points));
                interruptible(py, || Cells::Times(paced(values).copied().collect(), ticks, gaps_of(missing)))
            }
            Self::Unsupported(kind, rows) => Ok(Cells::Unsupported(kind.clone(), *rows)),
            Self::Array(values, missing) => values.cells(py, missing.as_ref()),
        }
    }
}
