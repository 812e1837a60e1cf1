//! Mounts as Python sees them.

use std::os::fd::IntoRawFd;
use std::sync::Arc;

use headrace_engine::fuse::MountHandle;
use pyo3::prelude::*;

use crate::descriptors::owned;
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

    /// `major:minor` of the connection, where the mount itself has another; else `None`.
    #[getter]
    fn connection(&self) -> Option<String> {
        self.0.connection().map(str::to_owned)
    }

    /// True when the tree is no longer mounted.
    fn wait(&self, python: Python<'_>, timeout_s: f64) -> bool {
        python.detach(|| self.0.wait(Some(duration(timeout_s))))
    }

    /// (words, connection, ledger, apart): what another process needs to go on with this mount, `apart` only of a view. The
    /// caller owns the descriptors.
    fn keep(&self) -> PyResult<(String, i32, i32, Option<i32>)> {
        let kept = self.0.keep().map_err(to_python)?;
        let apart = kept.apart.map(IntoRawFd::into_raw_fd);
        Ok((kept.words, kept.connection.into_raw_fd(), kept.ledger.into_raw_fd(), apart))
    }

    /// Invalidations go through a supervisor at the other end of this packet socket, which belongs to the mount then.
    fn send_through(&self, relay: i32) -> PyResult<()> {
        self.0.send_through(owned(relay)?);
        Ok(())
    }

    /// Stops serving without unmounting: programs wait until another process goes on.
    fn hand_over(&self, python: Python<'_>) {
        python.detach(|| self.0.hand_over());
    }

    #[getter]
    fn handed_over(&self) -> bool {
        self.0.is_handed_over()
    }

    /// How often another process took this mount over.
    #[getter]
    fn resumed(&self) -> u64 {
        self.0.resumed()
    }

    #[pyo3(signature = (*, force))]
    fn unmount(&self, python: Python<'_>, force: bool) -> PyResult<()> {
        python.detach(|| self.0.unmount(force)).map_err(to_python)
    }
}
