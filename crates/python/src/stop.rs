//! Native work that Ctrl-C ends, wherever it was begun, and that leaves the interpreter to other threads.

use dpopt_process::stop::stoppable;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What a person reads who ended a run.
const STOPPED: &str =
    "stopped; nothing was released or written. The run cannot be resumed, and what was charged stays charged";

/// Runs `work` without the interpreter's lock, and asks from time to time whether a signal has come. What its handler raises (Ctrl-C: `KeyboardInterrupt`) ends
/// the work before its next release or sum. All long work goes through here. Python hands signals to its main thread only.
///
/// # Errors
/// What the signal's handler raised.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    py.detach(|| {
        let raised = Rc::new(RefCell::new(None));
        let keep = raised.clone();
        let ask = move || match Python::attach(|py| py.check_signals()) {
            Ok(()) => false,
            Err(why) => {
                keep.replace(Some(why));
                true
            }
        };
        stoppable(ask, work).map_err(|_| {
            let why = raised.take().unwrap_or_else(|| PyKeyboardInterrupt::new_err(()));
            Python::attach(|py| match why.get_type(py).is(py.get_type::<PyKeyboardInterrupt>()) {
                true => PyKeyboardInterrupt::new_err(STOPPED),
                false => why,
            })
        })
    })
}

/// A loop over objects of Python's, which cannot do without the interpreter's lock: it lets others have it for a moment now and then, and hears signals.
pub(crate) struct Breaths {
    steps: u32,
    last: Instant,
}

/// Between two breaths: as long as Python's own code has the lock while others wait for it.
const BREATH: Duration = Duration::from_millis(5);
/// Objects between two looks at the clock.
const OBJECTS: u32 = 256;

impl Breaths {
    pub(crate) fn new() -> Self {
        Self { steps: 0, last: Instant::now() }
    }

    /// An object was read.
    ///
    /// # Errors
    /// What a signal's handler raised.
    pub(crate) fn step(&mut self, py: Python<'_>) -> PyResult<()> {
        self.steps += 1;
        if !self.steps.is_multiple_of(OBJECTS) || self.last.elapsed() < BREATH {
            return Ok(());
        }
        py.check_signals()?;
        py.detach(|| ());
        self.last = Instant::now();
        Ok(())
    }
}
