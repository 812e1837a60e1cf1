//! The engine of a master as Python sees it.

use std::path::PathBuf;

use headrace_engine::cluster::HoldWish;
use headrace_engine::engine::{Listed, Lister as Inner};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{bad_configuration, to_python};
use crate::job::Job;

/// Lists origins into snapshots, and has loads carried out.
#[pyclass(frozen, module = "headrace._native")]
pub struct Lister(Inner);

/// Version, path and JSON report of a snapshot.
type Described = (u64, PathBuf, String);

#[pymethods]
impl Lister {
    /// Takes the state directory and a first snapshot.
    #[staticmethod]
    fn open(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        python.detach(|| Inner::open(config)).map(Lister).map_err(to_python)
    }

    fn current(&self, python: Python<'_>) -> Described {
        python.detach(|| described(self.0.current()))
    }

    /// Lists the origins again.
    fn refresh(&self, python: Python<'_>) -> PyResult<Described> {
        python.detach(|| self.0.refresh()).map(described).map_err(to_python)
    }

    /// (place in the tree, canonical name) of each origin.
    fn origins(&self) -> Vec<(String, String)> {
        self.0.origins()
    }

    fn block_size(&self) -> u32 {
        self.0.block_size().bytes()
    }

    fn set_view(&self, python: Python<'_>, view_json: &str) -> PyResult<()> {
        let view = serde_json::from_str(view_json).map_err(|error| bad_configuration(&error))?;
        python.detach(|| self.0.set_view(&view)).map_err(to_python)
    }

    /// Starts having the files at and below `paths` held by their first `replicas` owners, at most `bytes_per_second`; with
    /// `verify`, compared with their checksums, too.
    #[pyo3(signature = (paths, *, replicas=None, bytes_per_second=None, verify=false))]
    fn load(
        &self,
        python: Python<'_>,
        paths: Vec<Vec<u8>>,
        replicas: Option<u32>,
        bytes_per_second: Option<u64>,
        verify: bool,
    ) -> PyResult<Job> {
        let wish = HoldWish { replicas, bytes_per_second, verify, lets_go: false };
        python.detach(|| self.0.load(&paths, wish)).map(Job).map_err(to_python)
    }

    /// Has every worker drop the files at and below `paths`; the bytes given back.
    fn evict(&self, python: Python<'_>, paths: Vec<Vec<u8>>) -> PyResult<u64> {
        python.detach(|| self.0.evict(&paths)).map_err(to_python)
    }

    /// The ids of the files at and below `paths`, 16 bytes each, one after the other.
    fn file_ids<'py>(&self, python: Python<'py>, paths: Vec<Vec<u8>>) -> PyResult<Bound<'py, PyBytes>> {
        let ids = python.detach(|| self.0.file_ids(&paths)).map_err(to_python)?;
        Ok(PyBytes::new(python, &ids))
    }

    fn metrics(&self, python: Python<'_>) -> String {
        python.detach(|| self.0.metrics_text())
    }

    fn close(&self, python: Python<'_>) {
        python.detach(|| self.0.close());
    }
}

fn described(listed: Listed) -> Described {
    (listed.version, listed.path, listed.report.to_string())
}
