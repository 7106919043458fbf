//! Which build of the package runs.

use crate::accounting::json;
use dpopt::Provenance;
use pyo3::prelude::*;

/// The build that runs and its processor, as JSON: what it writes into models and reports.
#[pyfunction]
pub(crate) fn provenance() -> PyResult<String> {
    json(&Provenance::of_this_build())
}
