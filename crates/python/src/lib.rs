//! The private extension module `headrace._native`: conversions between Python and the engine, and nothing else.
//!
//! Every call that may wait releases the interpreter's lock. An engine belongs to the process that opened it: the threads
//! behind it do not survive a fork, so a forked child is told instead of hanging.

mod copier;
mod descriptors;
mod engine;
mod errors;
mod interrupt;
mod job;
mod keys;
mod lister;
mod log;
mod memory;
mod mount;
mod ring;
mod worker;

use std::path::PathBuf;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use super::copier::Copier;
    #[pymodule_export]
    use super::engine::{Engine, Entry};
    #[pymodule_export]
    use super::job::Job;
    #[pymodule_export]
    use super::keys::{decline_keys, forget_keys, key_demands, renew_keys, watch_key_demands};
    #[pymodule_export]
    use super::lister::Lister;
    #[pymodule_export]
    use super::log::set_log;
    #[pymodule_export]
    use super::mount::Mount;
    #[pymodule_export]
    use super::ring::Ring;
    #[pymodule_export]
    use super::worker::Worker;
    #[pymodule_export]
    use super::{check_origin, continue_snapshot, error_kinds, is_debug_build, metric_definitions, version};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::interrupt::listen();
        Ok(())
    }
}

/// The version of the native module.
#[pyfunction]
fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// True for a build without optimisation, which nobody should measure.
#[pyfunction]
fn is_debug_build() -> bool {
    cfg!(debug_assertions)
}

/// Rows of the one error table: kind, errno, exception class, meaning.
#[pyfunction]
fn error_kinds() -> Vec<(String, i32, &'static str, &'static str)> {
    headrace_engine::error::ErrorKind::ALL.iter().map(|row| (row.0.name(), row.1, row.2, row.3)).collect()
}

/// The OpenMetrics text of a fresh registry: every name, unit and help.
#[pyfunction]
fn metric_definitions() -> String {
    headrace_engine::metrics::Metrics::new().encode()
}

/// Asks an origin, of this configuration as JSON, whether it can be used: within seconds, and without its list.
#[pyfunction]
fn check_origin(python: Python<'_>, config_json: &str) -> PyResult<()> {
    let config = serde_json::from_str(config_json).map_err(|error| errors::bad_configuration(&error))?;
    python.detach(|| headrace_engine::engine::check_one(&config)).map_err(errors::to_python)
}

/// Numbers the snapshot at `path` as the successor of the one at `previous`.
#[pyfunction]
fn continue_snapshot(python: Python<'_>, previous: PathBuf, path: PathBuf) -> PyResult<()> {
    let outcome = python.detach(|| headrace_engine::snapshot::continue_line(&previous, &path));
    outcome.map(drop).map_err(errors::to_python)
}
