//! Tables of Python, what is declared of their columns, and the library's encoder.

use crate::accounting::json;
use crate::cells::Given;
use crate::errors::invalid;
use crate::stop::interruptible;
use dpopt::data::{
    BadCells, Column, ColumnTable, Encoder, Kind, Levels, Schema, Stored, TableReader, Unit, VectorsFile, WordVectors,
};
use dpopt::privacy::rounding::foreign;
use dpopt_process::stop::paced;
use numpy::{IntoPyArray, PyArray1};
use pyo3::prelude::*;
use std::sync::Arc;

/// Public declarations about columns: a bounds file, and what is said besides as the text of one.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Declarations {
    pub(crate) schema: Schema,
}

#[pymethods]
impl Declarations {
    #[new]
    #[pyo3(signature = (path, text, public_vectors=None))]
    fn new(path: Option<&str>, text: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let mut said = Schema::from_toml(text).map_err(invalid)?;
        said.vectors = public_vectors.map(VectorsFile::new).or(said.vectors);
        let Some(path) = path else { return Ok(Self { schema: said }) };
        let mut schema = Schema::from_toml_file(path).map_err(invalid)?;
        schema.vectors = said.vectors.clone().or(schema.vectors);
        let none = Schema::default();
        if (&said.form, said.options) != (&none.form, none.options) {
            if (&schema.form, schema.options) != (&none.form, none.options) {
                return Err(invalid(
                    "constants of the encoder are given here (encoding, row_norm, or interactions of an additive model) and in the bounds file (under [dpopt]); leave \
                     out one of the two",
                ));
            }
            (schema.form, schema.options) = (said.form.clone(), said.options);
        }
        for (name, kind) in said.declared() {
            schema.declare(name, kind.clone()).map_err(invalid)?;
        }
        for (name, trend) in said.trends() {
            schema.declare_trend(name, trend).map_err(invalid)?;
        }
        Ok(Self { schema })
    }

    /// Names of the columns that are declared.
    fn names(&self) -> Vec<String> {
        self.schema.declared().map(|(name, _)| name.to_string()).collect()
    }

    /// Names of the numbers that predictions are to move one way with.
    fn trends(&self) -> Vec<String> {
        self.schema.trends().map(|(name, _)| name.to_string()).collect()
    }

    /// What a column is declared to hold, in a word.
    fn kind(&self, column: &str) -> Option<&'static str> {
        self.schema.get(column).map(|kind| match kind {
            Kind::Numeric { .. } => "numeric",
            Kind::Categorical { .. } => "levels",
            Kind::Hashed => "hash",
            Kind::Text => "text",
            Kind::Ignored => "ignore",
        })
    }

    /// The range that is declared for a numeric column, if there is one.
    fn range(&self, column: &str) -> Option<(f64, f64)> {
        match self.schema.get(column) {
            Some(Kind::Numeric { bounds: Some(bounds), .. }) => Some((bounds.lower(), bounds.upper())),
            _ => None,
        }
    }

    /// The levels that are declared for a column, if some are.
    fn levels(&self, column: &str) -> Option<Vec<String>> {
        match self.schema.get(column) {
            Some(Kind::Categorical { levels }) => Some(levels.clone()),
            _ => None,
        }
    }

    /// The declarations without a column.
    fn without(&self, column: &str) -> Self {
        let mut schema = self.schema.clone();
        schema.forget(column);
        Self { schema }
    }
}

/// A table of Python in memory. Its cells cannot be read from Python.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Table {
    pub(crate) inner: ColumnTable,
}

impl Table {
    pub(crate) fn build(
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, Given<'_>)>,
        declared: Option<&[&str]>,
    ) -> PyResult<Self> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.trim().to_string()).collect();
        let all: Vec<&str> = names.iter().map(String::as_str).collect();
        let cells = columns.into_iter().map(|(name, given)| Ok((name, given.cells(py)?)));
        let cells = cells.collect::<PyResult<Vec<_>>>()?;
        let inner = py.detach(|| ColumnTable::new(name, cells, declared.unwrap_or(&all)));
        Ok(Self { inner: inner.map_err(invalid)? })
    }
}

#[pymethods]
impl Table {
    /// Columns for a fit within `declarations`.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        columns: Vec<(String, Given<'_>)>,
        declarations: &Declarations,
    ) -> PyResult<Self> {
        let schema = &declarations.schema;
        let declared: Vec<&str> = schema.declared().map(|(name, _)| name).collect();
        // the ticks of a dtype that rows decide are no unit for bounds: with one other cell they are objects
        for (column, given) in &columns {
            if let (Given::Times(.., false), Some(Kind::Numeric { bounds: Some(bounds), .. })) =
                (given, schema.get(column.trim()))
                && bounds.unit() == Unit::Number
            {
                return Err(invalid(format!(
                    "column `{}` holds dates or spans of time and its bounds are plain numbers; give dates (datetime, Timestamp, \
                     datetime64) or spans (timedelta) as its bounds",
                    foreign(column.trim())
                )));
            }
        }
        Self::build(py, name, columns, Some(&declared))
    }

    /// Columns that a model or an encoder reads.
    #[staticmethod]
    fn to_read(py: Python<'_>, name: &str, columns: Vec<(String, Given<'_>)>) -> PyResult<Self> {
        Self::build(py, name, columns, None)
    }

    /// Which of the levels each cell of one column is; -1 where it is none of them.
    #[staticmethod]
    fn codes<'py>(py: Python<'py>, column: Given<'py>, levels: Vec<String>) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let table = Self::build(py, "y", vec![("y".into(), column)], None)?;
        if let Some(Column { stored: Stored::Unsupported(kind), .. }) = table.inner.columns().first() {
            return Err(invalid(format!("y has the type {kind}; give one label per row")));
        }
        let codes = interruptible(py, || {
            let (mut codes, levels) = (Vec::new(), Levels::new(&levels));
            let read = table.inner.for_each_block(&mut |block| {
                for row in paced(0..block.len()) {
                    codes.push(levels.place(block.field(row, 0)).map_or(-1, i64::from));
                }
                Ok(())
            });
            read.map(|()| codes)
        })?;
        Ok(codes.map_err(invalid)?.into_pyarray(py))
    }
}

pub(crate) fn bad_cells(name: &str) -> PyResult<BadCells> {
    match name {
        "error" => Ok(BadCells::Error),
        "missing" => Ok(BadCells::Missing),
        _ => Err(invalid("bad_cells must be \"missing\" or \"error\"")),
    }
}

pub(crate) fn path_of(file: Option<&VectorsFile>) -> Option<String> {
    file.map(|file| file.path().to_string_lossy().into_owned())
}

/// A file of public vectors, read.
pub(crate) fn vectors_of(py: Python<'_>, path: Option<&str>) -> PyResult<Option<Arc<WordVectors>>> {
    path.map(|path| interruptible(py, || VectorsFile::new(path).vectors())?.map_err(invalid)).transpose()
}

pub(crate) fn feature_names(py: Python<'_>, encoder: &Encoder) -> PyResult<Vec<String>> {
    interruptible(py, || paced(0..encoder.dimension()).filter_map(|i| encoder.feature_name(i)).collect())
}

/// The encoder by itself.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct ColumnEncoder {
    pub(crate) inner: Encoder,
    pub(crate) vectors: Option<String>,
}

/// What a copy is made by, and of: JSON, and where public vectors are.
pub(crate) type Copied<'py> = (Bound<'py, PyAny>, (String, Option<String>));

/// Values, columns and offsets of a compressed matrix, and its number of columns.
type Compressed<'py> = (Bound<'py, PyArray1<f32>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i64>>, usize);

#[pymethods]
impl ColumnEncoder {
    /// From names and types of the table's columns and what is declared of them; reads no row.
    #[new]
    fn new(py: Python<'_>, table: &Table, declarations: &Declarations) -> PyResult<Self> {
        let schema = &declarations.schema;
        let layout = interruptible(py, || schema.resolve(table.inner.columns(), None))?.map_err(invalid)?;
        if let Some((column, _)) = layout.trends().next() {
            return Err(invalid(format!(
                "`{column}` is declared monotone, which a fit sees to and an encoder alone cannot; leave out `monotone`, or give the columns to an \
                 estimator"
            )));
        }
        let inner = Encoder::new(&layout).map_err(invalid)?;
        let vectors = path_of(schema.vectors.as_ref()).filter(|_| inner.needs_vectors());
        Ok(Self { inner, vectors })
    }

    #[staticmethod]
    #[pyo3(signature = (text, public_vectors=None))]
    fn from_json(py: Python<'_>, text: &str, public_vectors: Option<&str>) -> PyResult<Self> {
        let encoder = py.detach(|| {
            let value = serde_json::from_str(text).map_err(|_| invalid("this is not an encoder"))?;
            Encoder::from_json(value).map_err(invalid)
        })?;
        let inner = match vectors_of(py, public_vectors)? {
            Some(vectors) => encoder.with_vectors(vectors).map_err(invalid)?,
            None => encoder,
        };
        Ok(Self { inner, vectors: public_vectors.map(str::to_string) })
    }

    fn to_json(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| json(&self.inner))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Copied<'py>> {
        Ok((slf.get_type().getattr("from_json")?, (slf.get().to_json(slf.py())?, slf.get().vectors.clone())))
    }

    /// Columns of the table that it reads.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.inner.columns().map(str::to_string).collect()
    }

    /// Names of the encoded features.
    fn feature_names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        feature_names(py, &self.inner)
    }

    /// Encoded rows, for the operator's eyes.
    fn encode<'py>(&self, py: Python<'py>, table: &Table, unreadable: &str) -> PyResult<Compressed<'py>> {
        let unreadable = bad_cells(unreadable)?;
        let (entries, places, offsets) = interruptible(py, || {
            let rows = self.inner.encode_features(&table.inner, unreadable).map_err(invalid)?;
            let (mut entries, mut places, mut offsets) = (Vec::new(), Vec::new(), vec![0i64]);
            for i in paced(0..rows.len()) {
                let (columns, values) = rows.row(i);
                entries.extend_from_slice(values);
                places.extend(columns.iter().map(|&column| column as i32));
                offsets.push(entries.len() as i64);
            }
            Ok::<_, PyErr>((entries, places, offsets))
        })??;
        Ok((entries.into_pyarray(py), places.into_pyarray(py), offsets.into_pyarray(py), self.inner.dimension()))
    }
}
