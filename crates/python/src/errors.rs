//! Rust errors as Python exceptions: the same one-line advice, never a value of a record.

use crate::face::in_python;
use dpopt::privacy::rounding::foreign_lines;
use pyo3::exceptions::PyValueError;
use pyo3::{PyErr, create_exception};
use std::fmt::Display;

create_exception!(
    dpopt,
    PrivacyError,
    PyValueError,
    "A privacy parameter, plan or release that dpopt refuses; nothing was released."
);
create_exception!(dpopt, BudgetExceeded, PrivacyError, "The budget does not allow this; nothing was released.");

/// `error` as a `PrivacyError`.
pub(crate) fn refused(error: impl Display) -> PyErr {
    PrivacyError::new_err(foreign_lines(&in_python(error)).into_owned())
}

/// Wrong arguments: a plain `ValueError`.
pub(crate) fn invalid(error: impl Display) -> PyErr {
    PyValueError::new_err(foreign_lines(&in_python(error)).into_owned())
}
