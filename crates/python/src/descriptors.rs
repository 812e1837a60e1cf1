//! Descriptors that Python hands in.

use std::os::fd::{FromRawFd, OwnedFd};

use headrace_engine::error::Error;
use pyo3::prelude::*;

use crate::errors::to_python;

/// The descriptor `number`, which the caller gives away.
pub fn owned(number: i32) -> PyResult<OwnedFd> {
    if number < 0 {
        return Err(to_python(Error::config(format!("{number} is no descriptor"))));
    }
    // SAFETY: the caller hands in a descriptor that was sent to this process and that nothing else here owns.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
