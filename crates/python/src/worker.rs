//! Workers as Python sees them.

use headrace_engine::engine::Worker as Inner;
use headrace_engine::error::Error;
use headrace_engine::ids::FileId;
use pyo3::prelude::*;

use crate::errors::{bad_configuration, to_python};
use crate::job::Job;

/// One worker of a cluster, at work until it is closed.
#[pyclass(frozen, module = "headrace._native")]
pub struct Worker(Inner);

#[pymethods]
impl Worker {
    /// Takes the cache folders and serves. `BusyError` when another process has them.
    #[staticmethod]
    fn open(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        python.detach(|| Inner::open(config)).map(Worker).map_err(to_python)
    }

    /// `address:port` that it listens on.
    fn address(&self) -> String {
        self.0.address().to_string()
    }

    /// The path of the socket where processes of this machine get descriptors of cached files.
    fn lease_socket(&self) -> String {
        self.0.lease_socket().display().to_string()
    }

    fn set_view(&self, python: Python<'_>, view_json: &str) -> PyResult<()> {
        let view = serde_json::from_str(view_json).map_err(|error| bad_configuration(&error))?;
        python.detach(|| self.0.set_view(&view)).map_err(to_python)
    }

    /// Keeps the files of these ids (16 bytes each, one after the other), and no others, whatever else needs room.
    fn set_pinned(&self, python: Python<'_>, files: &[u8]) -> PyResult<()> {
        let (ids, []) = files.as_chunks::<16>() else {
            return Err(to_python(Error::config("the ids of pinned files are cut off")));
        };
        python.detach(|| self.0.set_pinned(ids.iter().copied().map(FileId).collect()));
        Ok(())
    }

    /// Starts handing over what is here to those who own it now.
    fn drain(&self, python: Python<'_>) -> PyResult<Job> {
        python.detach(|| self.0.drain()).map(Job).map_err(to_python)
    }

    /// JSON of capacity, use and counters.
    fn status(&self, python: Python<'_>) -> String {
        python.detach(|| self.0.status().to_string())
    }

    fn metrics(&self, python: Python<'_>) -> String {
        python.detach(|| self.0.metrics_text())
    }

    fn close(&self, python: Python<'_>) -> PyResult<()> {
        python.detach(|| self.0.close()).map_err(to_python)
    }
}
