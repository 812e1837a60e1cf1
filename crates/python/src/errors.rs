//! Engine errors as the classes of `headrace.errors`, by the engine's one table.

use headrace_engine::error::{Error, ErrorKind};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The Python exception for `error`: errno, message, and the stable kind and hint as attributes.
pub fn to_python(error: Error) -> PyErr {
    Python::attach(|python| build(python, &error).unwrap_or_else(|fault| fault))
}

fn build(python: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = python.import("headrace.errors")?.getattr(error.kind().exception())?;
    let details = PyDict::new(python);
    details.set_item("kind", error.kind().name())?;
    details.set_item("hint", error.hint())?;
    let instance = class.call((error.errno(), error.to_string()), Some(&details))?;
    Ok(PyErr::from_value(instance))
}

/// A JSON configuration that does not fit the engine's types.
pub fn bad_configuration(error: &serde_json::Error) -> PyErr {
    to_python(Error::new(ErrorKind::Config, format!("the engine cannot use this configuration: {error}")))
}
