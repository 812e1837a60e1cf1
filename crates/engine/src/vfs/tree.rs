//! The one implementation of `FileSystem`: names from the snapshot, bytes from the transfer.

use std::collections::HashSet;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::catalogue::Catalogue;
use super::files::{Files, OpenFile};
use super::generation::{Generation, Generations, TreeNode};
use super::replies::{reply_from_cache, reply_when_ready};
use super::selection::Selection;
use super::siblings::Siblings;
use super::{
    AtHand, Attributes, Backing, DirectoryEntry, FileKind, FileSystem, Inode, Opened, ROOT, ReadReply, Statistics,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::Origin;
use crate::snapshot::{Node, NodeIndex, NodeKind, Snapshot};
use crate::store::WrongFile;
use crate::sync::Mutex;
use crate::transfer::{Source, Transfer};

/// Who files belong to, and what may be done with them, where their origin does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ownership {
    pub uid: u32,
    pub gid: u32,
    /// Permission bits of files.
    pub file_mode: u32,
    /// Permission bits of directories.
    pub directory_mode: u32,
}

impl Ownership {
    /// Readable by all, owned by `uid` and `gid`.
    pub fn new(uid: u32, gid: u32) -> Self {
        Ownership { uid, gid, file_mode: 0o444, directory_mode: 0o555 }
    }
}

/// A dataset as a tree of files.
pub struct Tree {
    generations: Generations,
    transfer: Arc<Transfer>,
    ownership: Ownership,
    files: Files,
    siblings: Siblings,
    refreshing: Mutex<()>,
}

impl Tree {
    /// The tree of `snapshot`, whose origin number n is `origins[n]`.
    pub fn new(
        snapshot: Snapshot,
        origins: Vec<Arc<dyn Origin>>,
        transfer: Arc<Transfer>,
        ownership: Ownership,
    ) -> Arc<Self> {
        Arc::new(Tree {
            generations: Generations::new(Generation::new(snapshot, origins.into())),
            transfer,
            ownership,
            files: Files::new(),
            siblings: Siblings::default(),
            refreshing: Mutex::new(()),
        })
    }

    /// Answers from `snapshot` from now on; the one before, since a cache above must forget every name in which they
    /// differ (`snapshot::difference_inodes`). Files that are open stay at their version; so do inodes without a handle
    /// for the next four refreshes.
    pub fn refresh(&self, snapshot: Snapshot) -> Snapshot {
        let _one_at_a_time = self.refreshing.lock();
        self.generations.succeed(snapshot).snapshot.clone()
    }

    /// Answers from `older` snapshots, too, newest first, for what a daemon before has shown the kernel.
    pub fn recall(&self, older: Vec<Snapshot>) {
        self.generations.recall(older);
    }

    /// The snapshot of that identity; `None` when it is neither the current one nor an older one that is kept.
    pub fn snapshot_of(&self, identity: u64) -> Option<Snapshot> {
        self.generations.of_identity(identity).map(|generation| generation.snapshot.clone())
    }

    /// The paths of these inodes, of those that a snapshot which is kept has.
    pub fn paths_of(&self, inodes: &[Inode]) -> Vec<Vec<u8>> {
        let places = inodes.iter().filter_map(|inode| self.generations.find(*inode).ok());
        places.map(|place| place.generation.snapshot.path(place.node.index)).collect()
    }

    /// The snapshot of that identity, held as it is; `None` when it is neither the current one nor an older one in use.
    pub(super) fn generation(&self, identity: u64) -> Option<Arc<Generation>> {
        self.generations.of_identity(identity)
    }

    /// The versions of the snapshots that open files or the kernel may still need.
    pub fn versions_in_use(&self) -> Vec<u64> {
        self.generations.versions_in_use()
    }

    pub fn snapshot(&self) -> Snapshot {
        self.generations.current().snapshot.clone()
    }

    pub fn ownership(&self) -> Ownership {
        self.ownership
    }

    pub fn transfer(&self) -> &Arc<Transfer> {
        &self.transfer
    }

    /// The files at `paths` (below the root, no leading slash; a directory means all below it) in the current snapshot.
    pub fn select(&self, paths: &[impl AsRef<[u8]>]) -> Result<Selection> {
        Selection::new(self.generations.current(), paths)
    }

    /// The files of the current snapshot, to count by.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue::new(&self.generations.current())
    }

    /// Copies into `buffer` what `at_hand` would return as here: how many bytes, fewer than it holds only at the end of the
    /// file. `None` when `read` would have to wait for an origin or a disk.
    pub fn copy_cached(&self, inode: Inode, offset: u64, buffer: &mut [u8]) -> Result<Option<usize>> {
        let file = self.file(inode, 0)?;
        if offset == 0 {
            self.note_start(&file);
        }
        Ok(self.transfer.copy_at_once(&file.source, offset, buffer, &file.reader))
    }

    /// The attributes of the entry at `path`; the root's for an empty one.
    pub fn find(&self, path: &[u8]) -> Result<Attributes> {
        let generation = self.generations.current();
        let index = generation.snapshot.find_path(path).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("/{} does not exist", String::from_utf8_lossy(path)))
        })?;
        generation.snapshot.node(index).map(|node| self.describe(&node)).ok_or_else(no_such_entry)
    }

    /// The version of a file that `inode` stands for, and where it comes from.
    pub fn source(&self, inode: Inode) -> Result<Source> {
        Ok(self.file(inode, 0)?.source.clone())
    }

    /// The inodes by which the files `wanted` are or were shown: a look at every file, for a thread that may take its time.
    pub fn inodes_of(&self, wanted: &HashSet<WrongFile>) -> Vec<Inode> {
        self.generations.inodes_of(wanted)
    }

    /// Files open by handle now.
    pub fn open_handles(&self) -> usize {
        self.files.open_handles()
    }

    fn file(&self, inode: Inode, handle: u64) -> Result<Arc<OpenFile>> {
        self.files.find(inode, handle, || OpenFile::at(self.generations.find(inode)?))
    }

    /// The file that is at `index` of `generation`, whatever generations came after.
    pub(super) fn file_at(&self, generation: &Arc<Generation>, node: Node) -> Result<Arc<OpenFile>> {
        let place = TreeNode { generation: generation.clone(), node };
        self.files.find(place.node.inode, 0, || OpenFile::at(place))
    }

    /// What `FileSystem::at_hand` tells of an open file.
    pub(super) fn at_hand_of(
        &self,
        file: &OpenFile,
        handle: u64,
        range: ByteRange,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        if range.start == 0 && handle == 0 {
            self.note_start(file);
        }
        self.transfer.at_hand(&file.source, range, &file.reader, takes_disk).try_map(reply_from_cache)
    }

    /// The same for `FileSystem::read`.
    pub(super) async fn fetched(&self, file: &OpenFile, handle: u64, range: ByteRange) -> Result<ReadReply> {
        if range.start == 0 && handle == 0 {
            self.note_start(file);
        }
        let reply = self.transfer.read(&file.source, range, &file.reader).await?;
        match reply_when_ready(&self.transfer, reply).await {
            // Its disk hangs, and counts as not there from now on.
            Err(error) if error.kind() == ErrorKind::Timeout => {
                let reply = self.transfer.read(&file.source, range, &file.reader).await?;
                reply_when_ready(&self.transfer, reply).await
            }
            ready => ready,
        }
    }

    /// Watches for walks in name order over small files, and fetches ahead of them.
    fn note_start(&self, file: &OpenFile) {
        let block = u64::from(self.transfer.block_size().bytes());
        if file.source.size() > block {
            return;
        }
        let Some(ahead) = self.siblings.note(&file.generation, file.parent, file.index) else { return };
        let snapshot = &file.generation.snapshot;
        let nodes = ahead.clone().map_while(|index| snapshot.node(NodeIndex(index)));
        let siblings = nodes.take_while(|node| node.parent == file.parent);
        for (reached, node) in ahead.zip(siblings) {
            if node.kind == NodeKind::File && node.size <= block && !self.fetch_sibling(&file.generation, node) {
                return self.siblings.pressed(&file.generation, file.parent, reached);
            }
        }
    }

    /// False when memory or requests are short.
    fn fetch_sibling(&self, generation: &Arc<Generation>, node: Node) -> bool {
        match self.file_at(generation, node) {
            Ok(file) => self.transfer.fetch_file_ahead(&file.source),
            // Its own reader will hear of it.
            Err(_) => true,
        }
    }

    fn describe(&self, node: &Node) -> Attributes {
        let (kind, mode, links) = match node.kind {
            NodeKind::File => (FileKind::File, self.ownership.file_mode, 1),
            NodeKind::Directory => (FileKind::Directory, self.ownership.directory_mode, 2 + node.subdirectories),
            NodeKind::Symlink => (FileKind::Symlink, 0o777, 1),
        };
        let Ownership { uid, gid, .. } = self.ownership;
        let known = node.permissions.map(|known| (u32::from(known.mode), known.uid, known.gid));
        let (mode, uid, gid) = known.unwrap_or((mode, uid, gid));
        Attributes { inode: node.inode, kind, size: node.size, mtime_ns: node.mtime_ns, mode, uid, gid, links }
    }
}

impl OpenFile {
    fn at(place: TreeNode) -> Result<Self> {
        let source = place.generation.source(&place.node)?;
        Ok(OpenFile {
            source,
            reader: Default::default(),
            index: place.node.index,
            parent: place.node.parent,
            generation: place.generation,
        })
    }
}

impl FileSystem for Tree {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let directory = self.generations.find_directory(parent)?;
        let snapshot = &directory.generation.snapshot;
        let index = snapshot.lookup(directory.node.index, name).ok_or_else(no_such_entry)?;
        snapshot.node(index).map(|node| self.describe(&node)).ok_or_else(no_such_entry)
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        Ok(self.describe(&self.generations.find(inode)?.node))
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        let place = self.generations.find(inode)?;
        place.generation.snapshot.symlink_target(place.node.index).ok_or_else(|| {
            let path = place.generation.readable_path(place.node.index);
            Error::config(format!("{path} is not a symbolic link"))
        })
    }

    fn open(&self, inode: Inode) -> Result<Opened> {
        let file = self.file(inode, 0)?;
        self.note_start(&file);
        Ok(Opened { handle: self.files.open(&file) })
    }

    fn release(&self, handle: u64) {
        self.files.release(handle);
    }

    fn backing(&self, inode: Inode) -> Option<Backing> {
        let file = self.file(inode, 0).ok()?;
        let whole = self.transfer.store()?.whole_file(&file.source.id(), file.source.size())?;
        self.transfer.note_reading(&file.source);
        Some(Backing { file: whole.file.clone(), size: file.source.size(), pin: Box::new(whole) })
    }

    fn hold(&self, inode: Inode) -> Option<Box<dyn Send + Sync>> {
        let file = self.file(inode, 0).ok()?;
        let held = self.transfer.store()?.hold(&file.source.id())?;
        Some(Box::new(held))
    }

    fn at_hand(
        &self,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        self.at_hand_of(&*self.file(inode, handle)?, handle, ByteRange::new(offset, length as u64), takes_disk)
    }

    fn in_memory(&self, inode: Inode, offset: u64, length: usize) -> Option<Vec<u8>> {
        let file = self.file(inode, 0).ok()?;
        self.transfer.in_memory(&file.source, ByteRange::new(offset, length as u64))
    }

    fn read(
        self: Arc<Self>,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async move {
            let file = self.file(inode, handle)?;
            self.fetched(&file, handle, ByteRange::new(offset, length as u64)).await
        })
    }

    /// A cookie is a child's position in name order plus one, and holds for the snapshot that the directory is in. A
    /// directory that is read across a refresh goes on at the same position of the new one: as on any file system, a
    /// name that came or went meanwhile may be told or not, and one beside it told twice or left out.
    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let directory = self.generations.find_directory(inode)?;
        let snapshot = &directory.generation.snapshot;
        // No directory has 2^32 entries, so a larger cookie is behind the end.
        let Ok(skip) = u32::try_from(cookie) else { return Ok(()) };
        let mut cookie = cookie;
        snapshot.children(directory.node.index, skip, &mut |index, name| {
            cookie += 1;
            let Some(node) = snapshot.node(index) else { return true };
            visit(DirectoryEntry { name, attributes: self.describe(&node), cookie })
        });
        Ok(())
    }

    fn parent(&self, inode: Inode) -> Result<Inode> {
        if inode == ROOT {
            return Ok(ROOT);
        }
        let place = self.generations.find(inode)?;
        place.generation.snapshot.inode(place.node.parent).ok_or_else(no_such_entry)
    }

    fn statistics(&self) -> Statistics {
        let generation = self.generations.current();
        Statistics { files: generation.snapshot.files(), bytes: generation.snapshot.total_bytes() }
    }
}

/// Not a word more: this is made for every name that a program tries in vain.
fn no_such_entry() -> Error {
    Error::new(ErrorKind::NotFound, "no such file or directory")
}
