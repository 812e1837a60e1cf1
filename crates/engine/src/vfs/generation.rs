//! The snapshots that the tree answers from: the current one, and a few before it for those who still hold their inodes.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;

use super::Inode;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileKey;
use crate::origin::{ObjectVersion, Origin};
use crate::snapshot::{Node, NodeIndex, NodeKind, Snapshot};
use crate::store::WrongFile;
use crate::sync::Mutex;
use crate::transfer::Source;

/// Snapshots kept beside the current one. A file that is open keeps its own for as long as it is open; these are for
/// inodes that the kernel remembers without a handle.
const OLDER: usize = 4;

/// One snapshot with the origins that its files come from.
pub(super) struct Generation {
    pub(super) snapshot: Snapshot,
    origins: Arc<[Arc<dyn Origin>]>,
    names: Arc<[Arc<str>]>,
}

/// A node of one generation.
#[derive(Clone)]
pub(super) struct TreeNode {
    pub(super) generation: Arc<Generation>,
    pub(super) node: Node,
}

/// The current generation and those before it, newest first.
struct Line {
    current: Arc<Generation>,
    older: Vec<Arc<Generation>>,
}

pub(super) struct Generations {
    line: ArcSwap<Line>,
    /// All that were ever made and may be in use by open files.
    made: Mutex<Vec<Weak<Generation>>>,
}

impl Generation {
    pub(super) fn new(snapshot: Snapshot, origins: Arc<[Arc<dyn Origin>]>) -> Self {
        let names = origins.iter().map(|origin| Arc::from(origin.name())).collect();
        Generation { snapshot, origins, names }
    }

    pub(super) fn succeeded_by(&self, snapshot: Snapshot) -> Self {
        Generation { snapshot, origins: self.origins.clone(), names: self.names.clone() }
    }

    /// The version of a file and where it comes from. `IsDirectory` for a directory.
    pub(super) fn source(&self, node: &Node) -> Result<Source> {
        if node.kind != NodeKind::File {
            return Err(self.not_a_file(node));
        }
        let number = usize::from(node.origin);
        let key = self.snapshot.origin_key(node.index);
        let version = self.snapshot.file_version(node.index);
        let (Some(origin), Some(dataset), Some(version)) = (self.origins.get(number), self.names.get(number), version)
        else {
            let path = self.readable_path(node.index);
            return Err(Error::new(ErrorKind::Corrupt, format!("the snapshot's entry for {path} makes no sense"))
                .with_hint("take a new snapshot: headrace refresh"));
        };
        let path: Box<[u8]> = key.into();
        let object = ObjectVersion { key: path.clone(), size: node.size, version: version.clone() };
        let key = FileKey { dataset: dataset.clone(), path, size: node.size, version };
        Ok(Source::new(key, object, origin.clone()))
    }

    /// Where a file of that key stands in the tree, if it does.
    pub(super) fn paths<'a>(&'a self, key: &'a FileKey) -> impl Iterator<Item = Vec<u8>> + 'a {
        let mounts = self.snapshot.mounts().iter().zip(self.names.iter());
        mounts.filter(|(_, name)| **name == key.dataset).map(|(mount, _)| match mount.as_bytes() {
            b"" => key.path.to_vec(),
            mount => [mount, b"/", &key.path].concat(),
        })
    }

    /// Adds the inodes of the files that are among `wanted`.
    fn add_inodes(&self, wanted: &HashSet<WrongFile>, found: &mut HashSet<Inode>) {
        let sizes: HashSet<u64> = wanted.iter().map(|file| file.size).collect();
        let nodes = (0..self.snapshot.nodes()).filter_map(|index| self.snapshot.node(NodeIndex(index)));
        let files = nodes.filter(|node| node.kind == NodeKind::File && sizes.contains(&node.size));
        let is_wanted = |node: &Node| {
            let id = self.source(node).map(|source| source.id());
            id.is_ok_and(|id| wanted.contains(&WrongFile { id, size: node.size }))
        };
        found.extend(files.filter(is_wanted).map(|node| node.inode));
    }

    fn not_a_file(&self, node: &Node) -> Error {
        let path = self.readable_path(node.index);
        match node.kind {
            NodeKind::Directory => Error::new(ErrorKind::IsDirectory, format!("{path} is a directory")),
            _ => Error::new(ErrorKind::Unsupported, format!("{path} is a symbolic link, which cannot be read itself")),
        }
    }

    pub(super) fn readable_path(&self, index: NodeIndex) -> String {
        format!("/{}", String::from_utf8_lossy(&self.snapshot.path(index)))
    }
}

impl Generations {
    pub(super) fn new(first: Generation) -> Self {
        let current = Arc::new(first);
        let made = Mutex::new(vec![Arc::downgrade(&current)]);
        Generations { line: ArcSwap::from_pointee(Line { current, older: Vec::new() }), made }
    }

    /// Adds snapshots from before the current one.
    pub(super) fn recall(&self, snapshots: Vec<Snapshot>) {
        let current = self.current();
        let older: Vec<_> = snapshots.into_iter().map(|snapshot| Arc::new(current.succeeded_by(snapshot))).collect();
        self.made.lock().extend(older.iter().map(Arc::downgrade));
        self.line.store(Arc::new(Line { current, older }));
    }

    /// The versions of those that somebody may still ask for.
    pub(super) fn versions_in_use(&self) -> Vec<u64> {
        let mut made = self.made.lock();
        made.retain(|generation| generation.strong_count() > 0);
        made.iter().filter_map(|generation| Some(generation.upgrade()?.snapshot.version())).collect()
    }

    /// The inodes of `wanted` in all generations that somebody may still use.
    pub(super) fn inodes_of(&self, wanted: &HashSet<WrongFile>) -> Vec<Inode> {
        let living: Vec<_> = self.made.lock().iter().filter_map(Weak::upgrade).collect();
        let mut found = HashSet::new();
        living.iter().for_each(|generation| generation.add_inodes(wanted, &mut found));
        found.into_iter().collect()
    }

    /// The one whose snapshot has that identity, if it is the current one or kept beside it.
    pub(super) fn of_identity(&self, identity: u64) -> Option<Arc<Generation>> {
        let line = self.line.load();
        let mut all = std::iter::once(&line.current).chain(&line.older);
        all.find(|generation| generation.snapshot.identity() == identity).cloned()
    }

    pub(super) fn current(&self) -> Arc<Generation> {
        self.line.load().current.clone()
    }

    /// Makes `snapshot` the current one; returns the one before.
    pub(super) fn succeed(&self, snapshot: Snapshot) -> Arc<Generation> {
        let line = self.line.load_full();
        let older = std::iter::once(&line.current).chain(&line.older).take(OLDER).cloned().collect();
        let current = Arc::new(line.current.succeeded_by(snapshot));
        self.made.lock().push(Arc::downgrade(&current));
        self.line.store(Arc::new(Line { current, older }));
        line.current.clone()
    }

    /// The newest node with this inode. `Stale` when no snapshot that is kept has it.
    pub(super) fn find(&self, inode: Inode) -> Result<TreeNode> {
        let line = self.line.load();
        std::iter::once(&line.current)
            .chain(&line.older)
            .find_map(|generation| {
                let node = generation.snapshot.node(generation.snapshot.find_inode(inode)?)?;
                Some(TreeNode { generation: generation.clone(), node })
            })
            .ok_or_else(|| Error::new(ErrorKind::Stale, format!("inode {inode} is of a snapshot that is long gone")))
    }

    /// The same for a directory; `NotDirectory` for anything else.
    pub(super) fn find_directory(&self, inode: Inode) -> Result<TreeNode> {
        let place = self.find(inode)?;
        if place.node.kind == NodeKind::Directory {
            return Ok(place);
        }
        let path = place.generation.readable_path(place.node.index);
        Err(Error::new(ErrorKind::NotDirectory, format!("{path} is not a directory")))
    }
}
