//! What a Python object keeps behind a lock: one thread at a time, and it goes on in the process that opened it.

use crate::errors::refused;
use dpopt::mechanism::CuratorError;
use dpopt_process::{Process, locked};
use pyo3::{PyResult, Python};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// How long apart it is looked whether a lock is free.
const PAUSE: Duration = Duration::from_millis(1);

/// Something that goes on, and what it is called.
pub(crate) struct Kept<T> {
    what: &'static str,
    process: Process,
    /// Whether it is as good as before after a step that was stopped.
    lasting: bool,
    value: Mutex<T>,
}

impl<T> Kept<T> {
    /// Opened in this process.
    pub(crate) fn new(what: &'static str, value: T) -> Self {
        Self { what, process: Process::here(), lasting: false, value: Mutex::new(value) }
    }

    /// A value opened in this process that a stopped step leaves unchanged.
    pub(crate) fn lasting(what: &'static str, value: T) -> Self {
        Self { lasting: true, ..Self::new(what, value) }
    }

    /// To go on with it. A forked copy is refused before it waits for a lock, which a thread that it does not have may hold; and so is what was stopped in the
    /// middle of a step.
    pub(crate) fn own(&self) -> PyResult<MutexGuard<'_, T>> {
        if !self.process.is_here() {
            return Err(self.copied());
        }
        let guard = self.shown()?;
        if self.value.is_poisoned() && !self.lasting {
            let what = self.what;
            return Err(refused(format!(
                "this {what} was stopped in the middle of a step and cannot continue; its charge stays; open another"
            )));
        }
        Ok(guard)
    }

    /// To show what is known of it, in a forked copy too.
    pub(crate) fn shown(&self) -> PyResult<MutexGuard<'_, T>> {
        if self.process.is_here() {
            return held(&self.value);
        }
        locked(&self.value).ok_or_else(|| self.copied())
    }

    fn copied(&self) -> pyo3::PyErr {
        refused(CuratorError::Copied { what: self.what })
    }
}

/// The lock of something that another thread may be at work with: who has it may be waiting for the interpreter, to ask for signals or to call back, so the
/// interpreter is let go meanwhile. A value that was left in the middle of a step is taken as it is.
///
/// # Errors
/// What a signal's handler raised while it was waited for.
pub(crate) fn held<T>(shared: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    loop {
        match shared.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(left)) => return Ok(PoisonError::into_inner(left)),
            Err(TryLockError::WouldBlock) => Python::attach(|py| {
                py.detach(|| std::thread::sleep(PAUSE));
                py.check_signals()
            })?,
        }
    }
}
