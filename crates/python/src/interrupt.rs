//! Waits that end when Python has a signal to handle: Ctrl-C is heard in them, and what its handler raises is raised.

use std::cell::RefCell;

use headrace_engine::error::Result;
use pyo3::prelude::*;

use crate::errors::to_python;

thread_local! {
    /// What a handler raised during the call that this thread is in.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Lets Python handle its signals in the engine's waits.
pub fn listen() {
    headrace_engine::serve::ask_while_waiting(is_interrupted);
}

fn is_interrupted() -> bool {
    if RAISED.with_borrow(Option::is_some) {
        return true;
    }
    // Nothing is borrowed here: a handler may call the engine.
    let raised = Python::try_attach(|python| python.check_signals().err()).flatten();
    let is_raised = raised.is_some();
    RAISED.set(raised);
    is_raised
}

/// Runs `work`, which may wait, without the interpreter's lock. What a signal's handler raised meanwhile goes before
/// whatever came of it.
pub fn detached<T: Send>(python: Python<'_>, work: impl FnOnce() -> T + Send) -> PyResult<T> {
    let outcome = python.detach(work);
    RAISED.take().map_or(Ok(outcome), Err)
}

/// The same for what may fail.
pub fn detached_result<T: Send>(python: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    detached(python, work)?.map_err(to_python)
}
