//! Lists a folder's tree with several threads: each takes a folder, hands on its names, and queues the folders in it.

use std::ffi::OsStr;
use std::fs::{DirEntry, File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::origin::local::beneath::{open_folder, open_root};
use crate::origin::local::stamp::{keeps_numbers, nanoseconds, stamp_of};
use crate::origin::{Exclusion, LeftOut, ListedObject, ObjectKind, Permissions};
use crate::sync::{Condvar, Mutex};

/// More threads than this wait for each other in the kernel's directory cache.
pub(super) const MAX_THREADS: usize = 16;
const BATCH: usize = 1024;

/// The folders still to be listed, and how many threads may yet find more.
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    folders: Vec<Vec<u8>>,
    busy: usize,
    failure: Option<Error>,
}

/// Sends everything below `directory` to `sink`, of what is `excluded` the names; versions with or without `stamps`.
pub(super) fn walk(
    directory: &Path,
    stamps: bool,
    excluded: &Exclusion,
    threads: usize,
    sink: mpsc::Sender<Vec<ListedObject>>,
) -> Result<()> {
    let root = open_root(directory).map_err(|error| Error::from_io("open the folder", directory, error))?;
    let queue =
        Queue { state: Mutex::new(State { folders: vec![Vec::new()], ..State::default() }), changed: Condvar::new() };
    let tree = Tree { directory, root, stamps, excluded };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            let sink = sink.clone();
            scope.spawn(|| work(&tree, &queue, sink));
        }
        work(&tree, &queue, sink.clone());
    });
    match queue.state.into_inner().failure {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn work(tree: &Tree<'_>, queue: &Queue, sink: mpsc::Sender<Vec<ListedObject>>) {
    while let Some(folder) = queue.take() {
        let outcome = Folder { tree, key: &folder, sink: &sink }.list();
        queue.done(outcome);
    }
}

impl Queue {
    /// The next folder; `None` when all is done or something failed.
    fn take(&self) -> Option<Vec<u8>> {
        let mut state = self.state.lock();
        loop {
            if state.failure.is_some() {
                return None;
            }
            if let Some(folder) = state.folders.pop() {
                state.busy += 1;
                return Some(folder);
            }
            if state.busy == 0 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    fn done(&self, outcome: Result<Vec<Vec<u8>>>) {
        let mut state = self.state.lock();
        state.busy -= 1;
        match outcome {
            Ok(folders) => state.folders.extend(folders),
            Err(error) => state.failure = Some(error),
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// What is listed, and how.
struct Tree<'a> {
    directory: &'a Path,
    root: File,
    stamps: bool,
    excluded: &'a Exclusion,
}

/// One folder being listed.
struct Folder<'a> {
    tree: &'a Tree<'a>,
    key: &'a [u8],
    sink: &'a mpsc::Sender<Vec<ListedObject>>,
}

impl Folder<'_> {
    /// Sends the names in the folder, and gives the keys of the folders among them.
    fn list(&self) -> Result<Vec<Vec<u8>>> {
        let handle = match open_folder(&self.tree.root, self.key) {
            Ok(handle) => handle,
            // Deleted or replaced between its parent's listing and now: what is not there is not listed.
            Err(error) if !self.key.is_empty() && is_gone(&error) => return Ok(Vec::new()),
            // Nothing of it could be shown; the rest of the tree can.
            Err(error) if !self.key.is_empty() && is_forbidden(&error) => {
                self.send(vec![ListedObject::left_out(self.key, LeftOut::Unreadable)])?;
                return Ok(Vec::new());
            }
            Err(error) => return Err(self.failed(error)),
        };
        // Listing through the descriptor: the path could lead elsewhere by now.
        let entries =
            std::fs::read_dir(format!("/proc/self/fd/{}", handle.as_raw_fd())).map_err(|error| self.failed(error))?;
        let numbered = self.tree.stamps && keeps_numbers(&handle).map_err(|error| self.failed(error))?;
        let (mut folders, mut batch) = (Vec::new(), Vec::new());
        batch.push(folder_object(self.key, &handle).map_err(|error| self.failed(error))?);
        for entry in entries {
            let entry = entry.map_err(|error| self.failed(error))?;
            let Some(object) = self.object(&entry, numbered)? else { continue };
            // A folder tells of itself once it is open.
            if object.kind == ObjectKind::Directory {
                folders.push(object.key.into());
                continue;
            }
            batch.push(object);
            if batch.len() == BATCH {
                self.send(std::mem::take(&mut batch))?;
            }
        }
        self.send(batch)?;
        Ok(folders)
    }

    fn object(&self, entry: &DirEntry, numbered: bool) -> Result<Option<ListedObject>> {
        if self.is_excluded(entry) {
            return Ok(Some(Exclusion::left_out(&self.key_of(entry))));
        }
        match self.describe(entry, numbered) {
            Ok(object) => Ok(object),
            Err(error) if is_gone(&error) => Ok(None),
            // Who may list a folder may still not look at what is in it.
            Err(error) if is_forbidden(&error) => {
                Ok(Some(ListedObject::left_out(&self.key_of(entry), LeftOut::Unreadable)))
            }
            Err(error) => Err(Error::from_io("list", &self.path().join(entry.file_name()), error)),
        }
    }

    /// Most file systems say with a name whether it is a folder: what is not wanted is not looked at.
    fn is_excluded(&self, entry: &DirEntry) -> bool {
        !self.tree.excluded.is_empty()
            && match entry.file_type() {
                Ok(kind) => self.tree.excluded.has(&self.key_of(entry), kind.is_dir()),
                Err(_) => self.tree.excluded.has_in_any_case(&self.key_of(entry)),
            }
    }

    fn describe(&self, entry: &DirEntry, numbered: bool) -> io::Result<Option<ListedObject>> {
        let metadata = entry.metadata()?;
        let (kind, size) = if metadata.is_file() {
            (ObjectKind::File, metadata.size())
        } else if metadata.is_dir() {
            (ObjectKind::Directory, 0)
        } else if metadata.is_symlink() {
            let text = std::fs::read_link(entry.path())?.into_os_string().into_vec();
            (ObjectKind::Symlink(text.into()), 0)
        } else {
            return Ok(Some(ListedObject::left_out(&self.key_of(entry), LeftOut::Special)));
        };
        let (mtime_ns, permissions) = (mtime_ns(&metadata), Some(permissions(&metadata)));
        let stamp = (self.tree.stamps && kind == ObjectKind::File).then(|| stamp_of(&metadata, numbered));
        Ok(Some(ListedObject { key: self.key_of(entry), kind, size, mtime_ns, etag: None, stamp, permissions }))
    }

    fn key_of(&self, entry: &DirEntry) -> Box<[u8]> {
        let mut key = self.key.to_vec();
        if !key.is_empty() {
            key.push(b'/');
        }
        key.extend_from_slice(entry.file_name().as_bytes());
        key.into()
    }

    fn send(&self, batch: Vec<ListedObject>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.sink.blocking_send(batch).map_err(|_| Error::new(ErrorKind::Cancelled, "the listing was cancelled"))
    }

    fn path(&self) -> PathBuf {
        self.tree.directory.join(OsStr::from_bytes(self.key))
    }

    /// A folder that a fault keeps from being read makes the whole listing incomplete, so it is an error, not a gap.
    fn failed(&self, error: io::Error) -> Error {
        Error::from_io("list", &self.path(), error)
            .with_hint("the folder's file system is at fault, or does not let this user in: check both")
    }
}

/// What a folder itself is: who may not look into it shall not look into its mount.
fn folder_object(key: &[u8], handle: &File) -> io::Result<ListedObject> {
    let metadata = handle.metadata()?;
    let (kind, key) = (ObjectKind::Directory, key.into());
    let (mtime_ns, permissions) = (mtime_ns(&metadata), Some(permissions(&metadata)));
    Ok(ListedObject { key, kind, size: 0, mtime_ns, etag: None, stamp: None, permissions })
}

fn permissions(metadata: &Metadata) -> Permissions {
    Permissions::of(metadata.mode(), metadata.uid(), metadata.gid())
}

fn mtime_ns(metadata: &Metadata) -> i64 {
    nanoseconds(metadata.mtime(), metadata.mtime_nsec())
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::ESTALE))
}
