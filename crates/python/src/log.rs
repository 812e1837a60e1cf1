//! The destination of the engine's log lines. Set once; a later call changes the level alone.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use headrace_engine::error::Error;
use pyo3::prelude::*;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

use crate::errors::to_python;

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();

/// Sends log lines of `level` ("error" to "trace", "off") and above to `file` (appended) or to stderr.
#[pyfunction]
#[pyo3(signature = (level, *, json, file))]
pub fn set_log(level: &str, json: bool, file: Option<PathBuf>) -> PyResult<()> {
    let filter: LevelFilter =
        level.parse().map_err(|_| to_python(Error::config(format!("{level} is not a log level"))))?;
    if let Some(handle) = LEVEL.get() {
        // Fails only when the subscriber is gone, and it never goes.
        let _ = handle.modify(|current| *current = filter);
        return Ok(());
    }
    let writer = match file {
        None => BoxMakeWriter::new(std::io::stderr),
        Some(path) => {
            let opened = OpenOptions::new().create(true).append(true).open(&path);
            BoxMakeWriter::new(Mutex::new(opened.map_err(|error| to_python(Error::from_io("open", &path, error)))?))
        }
    };
    let (filter, handle) = reload::Layer::new(filter);
    let lines = fmt::layer().with_writer(writer).with_ansi(false).with_target(true);
    let layer = if json { lines.json().boxed() } else { lines.boxed() };
    if Registry::default().with(filter).with(layer).try_init().is_ok() {
        let _ = LEVEL.set(handle);
    }
    Ok(())
}
