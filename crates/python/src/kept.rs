//! What a Python object keeps behind a lock: one thread at a time, and it goes on in the process that opened it.

use crate::errors::refused;
use dpopt::mechanism::CuratorError;
use dpopt_process::{Process, locked};
use pyo3::PyResult;
use std::sync::{Mutex, MutexGuard};

/// Something that goes on, and what it is called.
pub(crate) struct Kept<T> {
    what: &'static str,
    process: Process,
    value: Mutex<T>,
}

impl<T> Kept<T> {
    /// Opened in this process.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self { what, process: Process::here(), value: Mutex::new(value) }
    }

    /// To go on with it. A forked copy is refused before it waits for a lock, which a thread that it does not have may hold.
    pub(crate) fn own(&self) -> PyResult<MutexGuard<'_, T>> {
        if self.process.is_here() { self.shown() } else { Err(self.copied()) }
    }

    /// To show what is known of it, in a forked copy too.
    pub(crate) fn shown(&self) -> PyResult<MutexGuard<'_, T>> {
        locked(&self.value).ok_or_else(|| self.copied())
    }

    fn copied(&self) -> pyo3::PyErr {
        refused(CuratorError::Copied { what: self.what })
    }
}
