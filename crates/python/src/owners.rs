//! Whose rows a table's are, by one id for each row.

use crate::cells::Given;
use crate::errors::invalid;
use crate::table::Table;
use dpopt::data::{RowOwners, truth_words};
use dpopt::model::{KeptCounts, UnitClipping, UnitFacts, UnitOptions};
use pyo3::prelude::*;
use serde::Deserialize;
use std::num::NonZeroU64;

/// Which unit has which row. It cannot be read from Python, but for how many units there are.
#[pyclass(frozen, module = "dpopt._core")]
pub(crate) struct Owners {
    pub(crate) inner: RowOwners,
}

#[pymethods]
impl Owners {
    /// From one id for each row; `name` is how a unit is called. Ids are compared as the command line compares the values of its `--unit`.
    #[new]
    fn new(py: Python<'_>, name: &str, ids: Given<'_>) -> PyResult<Self> {
        let table = Table::build("ids", vec![(name.into(), ids)], |_| truth_words::<&str>(&[]), None)?;
        let name = name.trim();
        Ok(Self { inner: py.detach(|| RowOwners::read(&table.inner, name)).map_err(invalid)? })
    }

    /// From columns of ids, each of which has one for each row: a row belongs to all whom they name. Who owns which rows is taken as known.
    #[staticmethod]
    fn several(py: Python<'_>, columns: Vec<(String, Given<'_>)>) -> PyResult<Self> {
        let names: Vec<String> = columns.iter().map(|(name, _)| name.trim().to_string()).collect();
        let table = Table::build("ids", columns, |_| truth_words::<&str>(&[]), None)?;
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(Self { inner: py.detach(|| RowOwners::read_all(&table.inner, &names)).map_err(invalid)? })
    }

    /// How many rows are kept so that nobody owns more than `most` of them, and how many so that nobody owns two; None where a row has one owner.
    fn kept(&self, py: Python<'_>, most: NonZeroU64) -> Option<(usize, usize)> {
        let count = |most| Some(self.inner.kept(most)?.positions().len());
        py.detach(|| Some((count(most)?, count(NonZeroU64::MIN)?)))
    }

    /// Number of units that have a row.
    #[getter]
    fn units(&self) -> u64 {
        self.inner.units()
    }
}

/// What is public of units, as the Python side writes it.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct UnitsAsked {
    count: u64,
    most_rows: Option<NonZeroU64>,
    clipping: UnitClipping,
    /// Rows that are kept, where a row may have several owners.
    #[serde(default)]
    kept: Option<KeptCounts>,
}

impl UnitsAsked {
    /// For rows of a matrix.
    pub(crate) fn facts(self) -> UnitFacts {
        let Self { count, most_rows, clipping, kept } = self;
        UnitFacts { count, most_rows, clipping, kept }
    }

    /// For a table with columns of ids.
    pub(crate) fn of_columns(self, columns: Vec<String>) -> UnitOptions {
        let Self { count, most_rows, clipping, .. } = self;
        UnitOptions { columns, most_rows, clipping, units: Some(count) }
    }
}
