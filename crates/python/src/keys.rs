//! Keys of origins that are renewed while engines of this process use them.

use std::os::fd::IntoRawFd;

use headrace_engine::config::OriginConfig;
use headrace_engine::error::Error;
use headrace_engine::origin::renewal;
use pyo3::prelude::*;

use crate::errors::to_python;

/// A descriptor that becomes readable when keys of these names are wanted; the caller closes it.
#[pyfunction]
pub fn watch_key_demands(names: Vec<String>) -> PyResult<i32> {
    renewal::watch_demands(&names).map(IntoRawFd::into_raw_fd).map_err(to_python)
}

/// Those of these names whose keys are wanted since the last call; each is to be answered.
#[pyfunction]
pub fn key_demands(names: Vec<String>) -> Vec<String> {
    renewal::demands(&names)
}

/// Has the origins of this name go by the keys of `config`, an origin's configuration as JSON.
#[pyfunction]
pub fn renew_keys(name: &str, config: &str) -> PyResult<()> {
    // The parser's own message may repeat a key.
    let config: OriginConfig = serde_json::from_str(config)
        .map_err(|_| to_python(Error::config("the renewed keys are not those of an origin")))?;
    renewal::renew(name, config);
    Ok(())
}

/// There are no other keys than those that were refused.
#[pyfunction]
pub fn decline_keys(name: &str) {
    renewal::decline(name);
}

/// Nobody renews the keys of this name any more.
#[pyfunction]
pub fn forget_keys(name: &str) {
    renewal::forget(name);
}
