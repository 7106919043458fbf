//! What a Python object keeps behind a lock: one thread at a time, and it goes on in the process that opened it.

use crate::errors::refused;
use dpopt::mechanism::CuratorError;
use dpopt_process::{Process, locked};
use pyo3::{PyResult, Python};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// How long apart it is looked whether a lock is free.
const PAUSE: Duration = Duration::from_millis(1);

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

    /// To go on with it. A forked copy is refused before it waits for a lock, which a thread that it does not have may hold; and so is what was stopped in the
    /// middle of a step.
    pub(crate) fn own(&self) -> PyResult<MutexGuard<'_, T>> {
        if !self.process.is_here() {
            return Err(self.copied());
        }
        let guard = self.shown()?;
        if self.value.is_poisoned() {
            let what = self.what;
            return Err(refused(format!(
                "this {what} was stopped in the middle of a step; what was charged for it stays charged: open another"
            )));
        }
        Ok(guard)
    }

    /// To show what is known of it, in a forked copy too.
    pub(crate) fn shown(&self) -> PyResult<MutexGuard<'_, T>> {
        while self.process.is_here() && matches!(self.value.try_lock(), Err(TryLockError::WouldBlock)) {
            // who has it may be waiting for the interpreter, to ask for signals
            Python::attach(|py| py.detach(|| std::thread::sleep(PAUSE)));
        }
        locked(&self.value).ok_or_else(|| self.copied())
    }

    fn copied(&self) -> pyo3::PyErr {
        refused(CuratorError::Copied { what: self.what })
    }
}
