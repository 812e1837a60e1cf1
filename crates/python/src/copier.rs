//! A copy as Python sees it.

use std::sync::Arc;

use headrace_engine::engine::Copier as Inner;
use headrace_engine::error::{Error, ErrorKind};
use pyo3::prelude::*;

use crate::errors::{bad_configuration, to_python};
use crate::job::Job;

/// Copies files from a dataset or from storage to a target.
#[pyclass(frozen, module = "headrace._native")]
pub struct Copier {
    inner: Option<Arc<Inner>>,
    process: u32,
}

impl Copier {
    fn inner(&self) -> PyResult<&Arc<Inner>> {
        if self.process != std::process::id() {
            let message = format!("this copy belongs to process {}", self.process);
            return Err(to_python(Error::new(ErrorKind::Unsupported, message)));
        }
        self.inner.as_ref().ok_or_else(|| to_python(Error::new(ErrorKind::Cancelled, "the copy is closed")))
    }
}

/// A forked child must not run the destructors of threads that it does not have.
impl Drop for Copier {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.take());
        }
    }
}

#[pymethods]
impl Copier {
    #[staticmethod]
    fn open(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        let inner = python.detach(|| Inner::open(config)).map_err(to_python)?;
        Ok(Copier { inner: Some(Arc::new(inner)), process: std::process::id() })
    }

    fn start(&self, python: Python<'_>) -> PyResult<Job> {
        let inner = self.inner()?;
        python.detach(|| inner.start()).map(Job).map_err(to_python)
    }

    fn set_view(&self, python: Python<'_>, view_json: &str) -> PyResult<()> {
        let view = serde_json::from_str(view_json).map_err(|error| bad_configuration(&error))?;
        let inner = self.inner()?;
        python.detach(|| inner.set_view(&view)).map_err(to_python)
    }

    fn metrics(&self, python: Python<'_>) -> PyResult<String> {
        let inner = self.inner()?;
        Ok(python.detach(|| inner.metrics_text()))
    }

    fn close(&self, python: Python<'_>) -> PyResult<()> {
        let inner = self.inner()?;
        python.detach(|| inner.close());
        Ok(())
    }
}
