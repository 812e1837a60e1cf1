//! Mounts as Python sees them.

use std::sync::Arc;

use headrace_engine::fuse::MountHandle;
use pyo3::prelude::*;

use crate::errors::to_python;
use crate::job::duration;

/// A mounted tree; ends when unmounted from outside, too.
#[pyclass(frozen, module = "headrace._native")]
pub struct Mount(pub Arc<MountHandle>);

#[pymethods]
impl Mount {
    #[getter]
    fn mountpoint(&self) -> String {
        self.0.mountpoint().display().to_string()
    }

    #[getter]
    fn mode(&self) -> String {
        self.0.mode().to_string()
    }

    /// True when the tree is no longer mounted.
    fn wait(&self, python: Python<'_>, timeout_s: f64) -> bool {
        python.detach(|| self.0.wait(Some(duration(timeout_s))))
    }

    #[pyo3(signature = (*, force))]
    fn unmount(&self, python: Python<'_>, force: bool) -> PyResult<()> {
        python.detach(|| self.0.unmount(force)).map_err(to_python)
    }
}
