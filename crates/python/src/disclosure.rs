//! What is published about a release.

use crate::errors::invalid;
use dpopt::disclosure::{Facts, Form, Release};
use dpopt::recall::Recalls;
use pyo3::prelude::*;

/// A document about a released file; `facts` as JSON.
#[pyfunction]
pub(crate) fn disclose(py: Python<'_>, file: &[u8], form: &str, facts: &str) -> PyResult<String> {
    let form = match form {
        "registry" => Form::Registry,
        "checklist" => Form::Checklist,
        _ => Form::ModelCard,
    };
    let facts = Facts::from_json(facts).map_err(invalid)?;
    py.detach(|| {
        Release::read(file)
            .map_err(|e| e.to_string())?
            .disclose(&Recalls::shipped(), &facts, form)
            .map_err(|e| e.to_string())
    })
    .map_err(invalid)
}
