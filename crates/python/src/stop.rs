//! Native work that Ctrl-C ends, wherever it was begun.

use dpopt_process::stop::stoppable;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use std::cell::RefCell;
use std::rc::Rc;

/// What a person reads who ended a run.
const STOPPED: &str =
    "stopped; nothing was released or written, and what was charged stays charged: the run cannot be gone on with";

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
