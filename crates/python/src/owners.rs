//! Whose rows a table's are, by one id for each row.

use crate::cells::Given;
use crate::errors::invalid;
use crate::table::Table;
use dpopt::data::{RowOwners, truth_words};
use dpopt::model::{UnitClipping, UnitFacts, UnitOptions};
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
}

impl UnitsAsked {
    /// For rows of a matrix.
    pub(crate) fn facts(self) -> UnitFacts {
        let Self { count, most_rows, clipping } = self;
        UnitFacts { count, most_rows, clipping }
    }

    /// For a table with a column of ids.
    pub(crate) fn of_column(self, column: String) -> UnitOptions {
        let Self { count, most_rows, clipping } = self;
        UnitOptions { column, most_rows, clipping, units: Some(count) }
    }
}
