//! The tree of files that programs may write, over one of a snapshot.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::found::{Found, absent};
use super::handles::Handles;
use super::locks::PathLocks;
use super::settled::Settled;
use super::staged::Staged;
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::ids::ByteRange;
use crate::metrics::Metrics;
use crate::origin::{Origin, Target};
use crate::staging::{Content, Kind, Node, NodeAttributes, Record, Stands, is_written, join, split};
use crate::sync::Mutex;
use crate::vfs::{
    Attributes, Backing, DirectoryEntry, DiskRead, FileKind, FileSystem, Inode, Opened, ROOT, ReadReply, Statistics,
    Tree, Writable,
};

/// Within the names of files that were left open.
const LEFT: &[u8] = b".left-";

/// How files are written.
#[derive(Debug, Clone)]
pub struct WritingOptions {
    /// Where they lie until the origin has them, and for as long as there is room.
    pub folder: PathBuf,
    /// Uploads of files beyond this size go in parts of it.
    pub part_bytes: u64,
    /// Files that the origin holds are kept in the folder up to so many bytes.
    pub kept_bytes: u64,
    /// The connection goes on that a process before has served.
    pub goes_on: bool,
    /// The origin has folders itself, also those that hold nothing.
    pub has_folders: bool,
}

/// What a writable tree is made of.
pub struct Parts {
    pub target: Arc<dyn Target>,
    /// The same place for reading.
    pub origin: Arc<dyn Origin>,
    pub memory: Budget,
    pub metrics: Metrics,
    pub runtime: Handle,
}

pub struct WritableTree {
    pub(super) tree: Arc<Tree>,
    pub(super) staged: Staged,
    pub(super) target: Arc<dyn Target>,
    pub(super) origin: Arc<dyn Origin>,
    pub(super) options: WritingOptions,
    pub(super) memory: Budget,
    pub(super) metrics: Metrics,
    pub(super) runtime: Handle,
    pub(super) locks: PathLocks,
    pub(super) handles: Handles,
    pub(super) settled: Mutex<HashMap<Inode, Arc<Settled>>>,
    /// Why files are not in the origin.
    pub(super) failures: Mutex<BTreeMap<Inode, String>>,
    /// Files that were open when the mount before ended: nobody knows whether they are whole.
    pub(super) left: Mutex<BTreeSet<Inode>>,
    /// Files that were just emptied for the thread that is about to open them.
    pub(super) fresh: Mutex<HashMap<Inode, u32>>,
    pub(super) started_ns: i64,
    /// Bytes in the folder that the origin holds too: no more than these.
    kept_estimate: AtomicU64,
    myself: Weak<WritableTree>,
}

impl WritableTree {
    pub fn open(tree: Arc<Tree>, parts: Parts, options: WritingOptions) -> Result<Arc<Self>> {
        let staged = Staged::open(&options.folder, parts.target.name(), options.goes_on)?;
        let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
        let Parts { target, origin, memory, metrics, runtime } = parts;
        let written = Arc::new_cyclic(|myself| WritableTree {
            tree,
            staged,
            target,
            origin,
            options,
            memory,
            metrics,
            runtime,
            locks: PathLocks::default(),
            handles: Handles::default(),
            settled: Mutex::default(),
            failures: Mutex::default(),
            left: Mutex::default(),
            fresh: Mutex::default(),
            kept_estimate: AtomicU64::new(u64::MAX / 2),
            started_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
            myself: myself.clone(),
        });
        if !written.options.goes_on {
            let open = written.staged.look(|state| {
                let nodes = state.nodes().filter(|(_, node)| node.kind == Kind::File && node.content == Content::Open);
                nodes.map(|(inode, _)| inode).collect()
            });
            *written.left.lock() = open;
        }
        Ok(written)
    }

    pub(super) fn myself(&self) -> Weak<Self> {
        self.myself.clone()
    }

    pub(super) fn shared(&self) -> Option<Arc<Self>> {
        self.myself.upgrade()
    }

    /// After a mount begins on a new list, which has what was published: only what the origin lacks is told from here.
    /// Files without a name, which nobody can have open, go.
    pub fn begin_anew(&self) -> Result<()> {
        self.set_aside()?;
        let gone: Vec<Inode> = self.staged.look(|state| {
            let nodes = state.nodes().filter(|(_, node)| self.is_told_elsewhere(node));
            nodes.map(|(inode, _)| inode).collect()
        });
        for inode in gone {
            let path = self.node(inode)?.path;
            self.staged.note(Record::Forgotten { inode })?;
            if let Some(path) = path {
                self.staged.note(Record::Uncovered { path: path.into() })?;
            }
            self.staged.remove(inode);
        }
        let deleted: Vec<Vec<u8>> = self.staged.look(|state| {
            let names = state.names().filter(|(_, name)| {
                name.held.is_none() && name.upload.is_none() && !matches!(name.stands, Stands::Here(_))
            });
            names.map(|(path, _)| path).collect()
        });
        deleted.into_iter().try_for_each(|path| self.staged.note(Record::Uncovered { path }))
    }

    fn is_told_elsewhere(&self, node: &Node) -> bool {
        match (&node.path, node.kind) {
            (None, _) => true,
            (Some(_), Kind::File) => node.content == Content::Published,
            (Some(path), Kind::Folder) => self.options.has_folders || self.tree.find(path).is_ok(),
        }
    }

    /// What was open when the mount before ended may be half written: it keeps its content, and loses its name to what the
    /// origin has.
    fn set_aside(&self) -> Result<()> {
        for inode in self.left.lock().clone() {
            // One that was removed has none.
            let Ok(path) = self.path_of(inode) else { continue };
            let (folder, name) = split(&path);
            if name.starts_with(b".") && name.windows(LEFT.len()).any(|part| part == LEFT) {
                continue;
            }
            let aside = [b".", name, LEFT, format!("{inode:x}").as_bytes()].concat();
            self.staged.note(Record::Moved { inode, path: join(folder, &aside), request: 0 })?;
            self.staged.note(Record::Uncovered { path })?;
        }
        Ok(())
    }

    /// Takes away what uploads left that a kill cut off.
    pub async fn clear_uploads(&self) {
        let paths: Vec<Vec<u8>> = self
            .staged
            .look(|state| state.names().filter(|(_, name)| name.upload.is_some()).map(|(path, _)| path).collect());
        for path in paths {
            self.give_up(&path).await;
        }
    }

    /// The origin holds what nobody has open to be written, soon and without anybody who waits: after a process that died.
    pub fn finish_in_background(&self) {
        let Some(tree) = self.shared() else { return };
        self.runtime.spawn(async move {
            if let Err(error) = tree.finish().await {
                tracing::error!("{error}");
            }
        });
    }

    fn read_staged(&self, inode: Inode, offset: u64, length: usize) -> Result<ReadReply> {
        let live = self.staged.live(inode)?;
        let mut bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
            match live.file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::from_io("read", &self.staged.file_path(inode), error)),
            }
        }
        bytes.truncate(filled);
        Ok(ReadReply::Memory(vec![Bytes::from(bytes)]))
    }

    /// Its content is to be in the origin alone; its time stays.
    fn settle(&self, inode: Inode) -> Result<()> {
        let mtime_ns = self.attributes_of(inode)?.mtime_ns;
        self.staged.decide(|ledger| {
            let Some(of) = ledger.state().node(inode).map(|node| node.attributes) else { return Ok(()) };
            ledger.commit(NodeAttributes { mtime_ns: Some(mtime_ns), ..of }.record(inode))?;
            ledger.commit(Record::Settled { inode })
        })
    }

    /// Makes room in the staging folder after `more` bytes came to the origin: what it holds and nobody has open goes,
    /// oldest first.
    pub(super) fn trim(&self, more: u64) {
        if self.kept_estimate.fetch_add(more, Ordering::Relaxed).saturating_add(more) <= self.options.kept_bytes {
            return;
        }
        let kept: Vec<Inode> = self.staged.look(|state| {
            let files = state.nodes().filter(|(_, node)| node.kind == Kind::File && !node.settled);
            files
                .filter(|(_, node)| node.content == Content::Published && node.path.is_some())
                .map(|(n, _)| n)
                .collect()
        });
        let mut bytes: u64 = kept.iter().map(|inode| self.staged.size(*inode)).sum();
        for inode in kept {
            if bytes <= self.options.kept_bytes {
                break;
            }
            bytes -= self.staged.size(inode);
            self.handles.if_unused(inode, || {
                if self.settle(inode).is_ok() {
                    self.staged.remove(inode);
                }
            });
        }
        self.kept_estimate.store(bytes, Ordering::Relaxed);
    }
}

impl FileSystem for WritableTree {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let path = self.path_in(parent, name).map_err(|_| absent())?;
        self.attributes_at(&path)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        self.attributes_of_any(inode)
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        self.tree.read_link(inode)
    }

    fn open(&self, inode: Inode) -> Result<Opened> {
        if !is_written(inode) {
            return self.tree.open(inode);
        }
        self.node(inode)?;
        Ok(Opened { handle: self.handles.add(inode, false) })
    }

    fn release(&self, handle: u64) {
        if Handles::is_ours(handle) { self.release_ours(handle) } else { self.tree.release(handle) }
    }

    fn backing(&self, inode: Inode) -> Option<Backing> {
        if is_written(inode) { None } else { self.tree.backing(inode) }
    }

    fn hold(&self, inode: Inode) -> Option<Box<dyn Send + Sync>> {
        if is_written(inode) { None } else { self.tree.hold(inode) }
    }

    fn read_cached(&self, inode: Inode, handle: u64, offset: u64, length: usize) -> Result<Option<ReadReply>> {
        if !is_written(inode) {
            return self.tree.read_cached(inode, handle, offset, length);
        }
        if self.node(inode)?.settled {
            return self.settled_at_once(&*self.settled(inode)?, ByteRange::new(offset, length as u64));
        }
        self.read_staged(inode, offset, length).map(Some)
    }

    fn in_memory(&self, inode: Inode, offset: u64, length: usize) -> Option<Vec<u8>> {
        if is_written(inode) { None } else { self.tree.in_memory(inode, offset, length) }
    }

    fn read_from_disk(&self, inode: Inode, handle: u64, offset: u64, length: usize) -> Option<DiskRead> {
        if is_written(inode) { None } else { self.tree.read_from_disk(inode, handle, offset, length) }
    }

    fn read(
        self: Arc<Self>,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>> {
        if !is_written(inode) {
            return self.tree.clone().read(inode, handle, offset, length);
        }
        Box::pin(async move {
            if self.node(inode)?.settled {
                return self.settled_read(&*self.settled(inode)?, ByteRange::new(offset, length as u64)).await;
            }
            self.read_staged(inode, offset, length)
        })
    }

    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        self.list(inode, cookie, visit)
    }

    fn parent(&self, inode: Inode) -> Result<Inode> {
        if !is_written(inode) {
            return self.tree.parent(inode);
        }
        let path = self.path_of(inode)?;
        match split(&path).0 {
            b"" => Ok(ROOT),
            folder => Ok(match self.find(folder)? {
                Found::Written(inode) => inode,
                Found::Listed(listed) if listed.kind == FileKind::Directory => listed.inode,
                Found::Listed(_) => ROOT,
            }),
        }
    }

    fn statistics(&self) -> Statistics {
        self.tree.statistics()
    }

    fn writable(self: Arc<Self>) -> Option<Arc<dyn Writable>> {
        Some(self)
    }

    fn is_written(&self, inode: Inode) -> bool {
        is_written(inode) && self.handles.users(inode).writing > 0
    }
}
