//! Jobs as Python sees them.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;

use crate::interrupt::detached;

/// A warm-up or verification under way.
#[pyclass(frozen, module = "headrace._native")]
pub struct Job(pub Arc<dyn headrace_engine::engine::Job>);

#[pymethods]
impl Job {
    /// JSON of the job's state and counters.
    fn progress(&self, python: Python<'_>) -> PyResult<String> {
        detached(python, || serde_json::to_string(&self.0.progress()).unwrap_or_default())
    }

    /// True when the job has ended.
    fn wait(&self, python: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        detached(python, || self.0.wait(duration(timeout_s)))
    }

    fn cancel(&self, python: Python<'_>) -> PyResult<()> {
        detached(python, || self.0.cancel())
    }
}

/// Seconds as a duration; nonsense is no time at all.
pub fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO)
}
