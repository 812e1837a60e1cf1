//! The engine and its entries as Python sees them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use headrace_engine::engine::{Engine as Inner, Role};
use headrace_engine::error::{Error, ErrorKind};
use headrace_engine::fuse::KeptMount;
use headrace_engine::snapshot::NodeKind;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::descriptors::owned;
use crate::errors::{bad_configuration, to_python};
use crate::interrupt::detached_result;
use crate::job::Job;
use crate::memory::Memory;
use crate::mount::Mount;

/// One name of the tree.
#[pyclass(frozen, module = "headrace._native")]
pub struct Entry(headrace_engine::engine::Entry);

#[pymethods]
impl Entry {
    #[getter]
    fn path<'py>(&self, python: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(python, &self.0.path)
    }

    /// "file", "directory" or "symlink".
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0.kind {
            NodeKind::File => "file",
            NodeKind::Directory => "directory",
            NodeKind::Symlink => "symlink",
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.0.size
    }

    #[getter]
    fn mtime_ns(&self) -> i64 {
        self.0.mtime_ns
    }

    #[getter]
    fn inode(&self) -> u64 {
        self.0.inode
    }

    #[getter]
    fn etag<'py>(&self, python: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.0.etag.as_ref().map(|tag| PyBytes::new(python, tag))
    }

    fn __repr__(&self) -> String {
        format!("Entry({:?}, {}, {} bytes)", String::from_utf8_lossy(&self.0.path), self.kind(), self.0.size)
    }
}

/// One dataset on this machine: as the owner of its cache, or attached to the process that owns it.
#[pyclass(frozen, module = "headrace._native")]
pub struct Engine {
    inner: Option<Arc<Inner>>,
    process: u32,
}

impl Engine {
    fn hold(inner: Inner) -> Self {
        Engine { inner: Some(Arc::new(inner)), process: std::process::id() }
    }

    fn inner(&self) -> PyResult<&Arc<Inner>> {
        if self.process != std::process::id() {
            let message = format!("this engine belongs to process {}, and this is a forked child of it", self.process);
            return Err(to_python(
                Error::new(ErrorKind::Unsupported, message).with_hint("open the dataset again here"),
            ));
        }
        self.inner.as_ref().ok_or_else(|| to_python(Error::new(ErrorKind::Cancelled, "the engine is closed")))
    }

    /// Runs `work` without the interpreter's lock.
    fn call<T: Send>(
        &self,
        python: Python<'_>,
        work: impl FnOnce(&Inner) -> headrace_engine::error::Result<T> + Send,
    ) -> PyResult<T> {
        let inner = self.inner()?;
        detached_result(python, || work(inner))
    }
}

/// A forked child must not run the destructors of threads that it does not have.
impl Drop for Engine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.inner.take());
        }
    }
}

#[pymethods]
impl Engine {
    /// Owns the cache, or attaches to the running owner.
    #[staticmethod]
    fn open(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        detached_result(python, || Inner::open(config)).map(Engine::hold)
    }

    /// Owns the cache, or fails with `BusyError`.
    #[staticmethod]
    fn own(python: Python<'_>, config_json: &str) -> PyResult<Self> {
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        detached_result(python, || Inner::own(config)).map(Engine::hold)
    }

    /// Takes the place of a process that died or stepped back, and goes on with its mount: `kept` is what `Mount.keep`
    /// returned there, `relay` as for `Mount.send_through`. The descriptors belong to the engine from here on.
    #[staticmethod]
    fn resume(
        python: Python<'_>,
        config_json: &str,
        options_json: &str,
        kept: (String, i32, i32, Option<i32>),
        relay: Option<i32>,
    ) -> PyResult<(Self, Mount)> {
        let (words, connection, ledger, apart) = kept;
        let kept = KeptMount {
            words,
            connection: owned(connection)?,
            ledger: owned(ledger)?,
            apart: apart.map(owned).transpose()?,
            relay: relay.map(owned).transpose()?,
        };
        let config = serde_json::from_str(config_json).map_err(|error| bad_configuration(&error))?;
        let options = serde_json::from_str(options_json).map_err(|error| bad_configuration(&error))?;
        let (engine, mount) = python.detach(|| Inner::resume(config, kept, options)).map_err(to_python)?;
        Ok((Engine::hold(engine), Mount(mount)))
    }

    /// Attaches to the owner that serves this state directory; with `waits`, to the successor of one that just died.
    #[staticmethod]
    #[pyo3(signature = (state_directory, waits = false))]
    fn attach(python: Python<'_>, state_directory: PathBuf, waits: bool) -> PyResult<Self> {
        detached_result(python, || Inner::attach(&state_directory, waits)).map(Engine::hold)
    }

    #[getter]
    fn role(&self) -> PyResult<&'static str> {
        Ok(if self.inner()?.role() == Role::Owner { "owner" } else { "attached" })
    }

    fn close(&self, python: Python<'_>) -> PyResult<()> {
        self.call(python, |inner| inner.close())
    }

    fn stat(&self, python: Python<'_>, path: &[u8]) -> PyResult<Entry> {
        self.call(python, |inner| inner.stat(path)).map(Entry)
    }

    fn list(&self, python: Python<'_>, path: &[u8], after: Option<&[u8]>, limit: usize) -> PyResult<Vec<Entry>> {
        let entries = self.call(python, |inner| inner.list(path, after, limit))?;
        Ok(entries.into_iter().map(Entry).collect())
    }

    fn read_into(&self, python: Python<'_>, path: &[u8], offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        let slice = memory.as_mut_slice();
        self.call(python, |inner| inner.read_into(path, offset, slice))
    }

    /// As `read_into`, of the version of a file that `stat` told of.
    fn read_version(
        &self,
        python: Python<'_>,
        entry: &Bound<'_, Entry>,
        offset: u64,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut memory = Memory::writable(buffer)?;
        let (slice, entry) = (memory.as_mut_slice(), &entry.get().0);
        self.call(python, |inner| inner.read_version(entry, offset, slice))
    }

    fn read_many(
        &self,
        python: Python<'_>,
        paths: Vec<Vec<u8>>,
        offsets: Vec<u64>,
        buffers: Vec<Bound<'_, PyAny>>,
    ) -> PyResult<Vec<usize>> {
        if paths.len() != offsets.len() || paths.len() != buffers.len() {
            return Err(to_python(Error::config("paths, offsets and buffers must be equally many")));
        }
        let mut memories = buffers.iter().map(Memory::writable).collect::<PyResult<Vec<_>>>()?;
        let mut slices: Vec<&mut [u8]> = memories.iter_mut().map(Memory::as_mut_slice).collect();
        let paths: Vec<&[u8]> = paths.iter().map(Vec::as_slice).collect();
        self.call(python, |inner| inner.read_many(&paths, &offsets, &mut slices))
    }

    fn prefetch(&self, python: Python<'_>, paths: Vec<Vec<u8>>) -> PyResult<()> {
        self.call(python, |inner| inner.prefetch(&borrowed(&paths)))
    }

    fn warm(&self, python: Python<'_>, paths: Vec<Vec<u8>>) -> PyResult<Job> {
        self.call(python, |inner| inner.warm(&borrowed(&paths))).map(Job)
    }

    fn verify(&self, python: Python<'_>, paths: Vec<Vec<u8>>) -> PyResult<Job> {
        self.call(python, |inner| inner.verify(&borrowed(&paths))).map(Job)
    }

    fn evict(&self, python: Python<'_>, paths: Vec<Vec<u8>>) -> PyResult<u64> {
        self.call(python, |inner| inner.evict(&borrowed(&paths)))
    }

    fn refresh(&self, python: Python<'_>) -> PyResult<String> {
        self.call(python, |inner| inner.refresh())
    }

    /// Goes by this view of the cluster from now on (JSON).
    fn set_view(&self, python: Python<'_>, view_json: &str) -> PyResult<()> {
        let view = serde_json::from_str(view_json).map_err(|error| bad_configuration(&error))?;
        self.call(python, |inner| inner.set_view(&view))
    }

    /// Moves readers on to the newest snapshot in the state directory; its version.
    fn adopt_snapshot(&self, python: Python<'_>) -> PyResult<u64> {
        self.call(python, |inner| inner.adopt_snapshot())
    }

    /// Tries once more to put what was written into the origin; how many names were done.
    fn sync(&self, python: Python<'_>, ours: Vec<Vec<u8>>, theirs: Vec<Vec<u8>>) -> PyResult<u64> {
        self.call(python, |inner| inner.sync(ours, theirs))
    }

    fn status(&self, python: Python<'_>) -> PyResult<String> {
        self.call(python, |inner| inner.status())
    }

    /// Files of the current snapshot, and their bytes.
    fn totals(&self, python: Python<'_>) -> PyResult<(u64, u64)> {
        self.call(python, |inner| inner.totals())
    }

    fn metrics(&self, python: Python<'_>) -> PyResult<String> {
        self.call(python, |inner| inner.metrics())
    }

    fn mount(&self, python: Python<'_>, mountpoint: PathBuf, options_json: &str) -> PyResult<Mount> {
        let options = serde_json::from_str(options_json).map_err(|error| bad_configuration(&error))?;
        self.call(python, |inner| inner.mount(Path::new(&mountpoint), options)).map(Mount)
    }
}

fn borrowed(paths: &[Vec<u8>]) -> Vec<&[u8]> {
    paths.iter().map(Vec::as_slice).collect()
}
