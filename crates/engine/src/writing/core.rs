//! The parts of a writable tree, put together. Its methods stand in the other modules, each of which uses those below it:
//! `tree` and `changes` over `upkeep`, `report`, `publishing`, `copies`, `listing`, `names`, and these over this one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;

use super::handles::Handles;
use super::locks::PathLocks;
use super::settled::Settled;
use super::staged::Staged;
use crate::budget::Budget;
use crate::error::Result;
use crate::metrics::Metrics;
use crate::origin::{Origin, Target};
use crate::staging::{Content, Kind};
use crate::sync::Mutex;
use crate::vfs::{Inode, Tree};

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
    pub(super) kept_estimate: AtomicU64,
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
}
