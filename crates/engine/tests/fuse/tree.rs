//! A tree for tests and measurements of the mount: files in memory or on a local disk, with knobs for how reads are
//! answered. Stands in for the real file system at the border that the mount knows: `FileSystem`.

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Bound;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use headrace_engine::error::{Error, ErrorKind, Result};
use headrace_engine::store::DiskWatch;
use headrace_engine::vfs::{
    AtHand, Attributes, Backing, DirectoryEntry, DiskRead, FileKind, FilePart, FileSystem, Inode, Opened, ROOT,
    ReadReply, Statistics,
};

pub enum Content {
    Memory(Bytes),
    Disk {
        path: PathBuf,
        size: u64,
        file: OnceLock<Arc<File>>,
    },
    Link(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Inode>),
    /// Reads of this file wait until somebody says otherwise.
    Stuck {
        size: u64,
    },
}

pub struct Node {
    parent: Inode,
    content: Arc<Content>,
    links: u32,
}

/// How reads of disk files are answered.
#[derive(Default)]
pub struct Knobs {
    /// From memory instead of by file part.
    pub copy: AtomicBool,
    /// Nothing is cached: every read goes through the runtime.
    pub slow: AtomicBool,
    /// Only what was asked for is in memory.
    pub cold: AtomicBool,
    /// No local file for passthrough.
    pub no_backing: AtomicBool,
    /// Requests for a local file wait as long as this is set, as for a disk that hangs; `backings` counts them.
    pub backing_held: AtomicBool,
    pub backings: AtomicU64,
    /// Where disk files are read from, until their disk hangs.
    pub disk: Mutex<Option<(Arc<File>, Arc<DiskWatch>)>>,
    /// Every other request for a local file is denied, as if it had just been evicted.
    pub flicker: AtomicBool,
    /// `at_hand` panics.
    pub panic: AtomicBool,
    pub counter: AtomicU64,
    pub reads: AtomicU64,
    /// Reads of stuck files that have begun to wait.
    pub waiting: AtomicU64,
    pub opens: AtomicU64,
    pub releases: AtomicU64,
    pub cancelled: Arc<AtomicU64>,
}

pub struct Tree {
    nodes: RwLock<Vec<Node>>,
    pub knobs: Knobs,
}

impl Default for Tree {
    fn default() -> Self {
        let root = Node { parent: ROOT, content: Arc::new(Content::Directory(BTreeMap::new())), links: 2 };
        Tree { nodes: RwLock::new(vec![root]), knobs: Knobs::default() }
    }
}

impl Tree {
    /// The tree of a local folder, names and sizes taken now.
    pub fn of_folder(folder: &Path) -> Tree {
        let tree = Tree::default();
        tree.add_folder(ROOT, folder);
        tree
    }

    fn add_folder(&self, parent: Inode, folder: &Path) {
        let mut children = BTreeMap::new();
        for entry in std::fs::read_dir(folder).expect("a readable folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a type");
            let name = entry.file_name().as_bytes().to_vec();
            let content = if kind.is_dir() {
                Content::Directory(BTreeMap::new())
            } else if kind.is_symlink() {
                Content::Link(std::fs::read_link(entry.path()).expect("a target").as_os_str().as_bytes().to_vec())
            } else {
                let size = entry.metadata().expect("metadata").len();
                Content::Disk { path: entry.path(), size, file: OnceLock::new() }
            };
            let inode = self.push(parent, content);
            children.insert(name, inode);
            if kind.is_dir() {
                self.add_folder(inode, &entry.path());
            }
        }
        self.nodes.write().expect("lock")[parent as usize - 1].content = Arc::new(Content::Directory(children));
    }

    fn push(&self, parent: Inode, content: Content) -> Inode {
        let links = if matches!(content, Content::Directory(_)) { 2 } else { 1 };
        let mut nodes = self.nodes.write().expect("lock");
        nodes.push(Node { parent, content: Arc::new(content), links });
        nodes.len() as Inode
    }

    /// Adds or replaces `name`; a replaced name gets a new inode.
    pub fn put(&self, parent: Inode, name: &str, content: Content) -> Inode {
        let inode = self.push(parent, content);
        self.link(parent, name, inode);
        inode
    }

    pub fn link(&self, parent: Inode, name: &str, inode: Inode) {
        let mut nodes = self.nodes.write().expect("lock");
        let Content::Directory(children) = &*nodes[parent as usize - 1].content else { panic!("no directory") };
        let mut children = children.clone();
        children.insert(name.as_bytes().to_vec(), inode);
        nodes[parent as usize - 1].content = Arc::new(Content::Directory(children));
    }

    pub fn set_links(&self, inode: Inode, links: u32) {
        self.nodes.write().expect("lock")[inode as usize - 1].links = links;
    }

    /// A directory of `count` empty files `000000000`, `000000001`, …, made in one go.
    pub fn put_many(&self, parent: Inode, name: &str, count: usize) -> Inode {
        let directory = self.put(parent, name, Content::Directory(BTreeMap::new()));
        let children =
            (0..count).map(|number| (format!("{number:09}").into_bytes(), self.push(directory, memory(b"")))).collect();
        self.nodes.write().expect("lock")[directory as usize - 1].content = Arc::new(Content::Directory(children));
        directory
    }

    fn content(&self, inode: Inode) -> Result<Arc<Content>> {
        let nodes = self.nodes.read().expect("lock");
        let node = (inode as usize).checked_sub(1).and_then(|index| nodes.get(index));
        node.map(|node| node.content.clone()).ok_or_else(absent)
    }

    fn read_now(&self, inode: Inode, offset: u64, length: usize) -> Result<ReadReply> {
        self.knobs.reads.fetch_add(1, Ordering::Relaxed);
        match &*self.content(inode)? {
            Content::Memory(bytes) => Ok(ReadReply::Memory(vec![cut(bytes, offset, length)])),
            Content::Disk { size, .. } => {
                let (_, file) = self.file(inode)?;
                let length = length.min(size.saturating_sub(offset) as usize);
                if self.knobs.copy.load(Ordering::Relaxed) {
                    let mut bytes = vec![0; length];
                    file.read_exact_at(&mut bytes, offset).expect("readable");
                    return Ok(ReadReply::Memory(vec![bytes.into()]));
                }
                Ok(ReadReply::Files(vec![FilePart { file, offset, length, pin: Box::new(()) }]))
            }
            _ => Err(Error::new(ErrorKind::IsDirectory, "no file")),
        }
    }

    fn file(&self, inode: Inode) -> Result<(u64, Arc<File>)> {
        match &*self.content(inode)? {
            Content::Disk { path, size, file } => {
                let open = || Arc::new(File::open(path).expect("the source file"));
                Ok((*size, file.get_or_init(open).clone()))
            }
            _ => Err(absent()),
        }
    }
}

pub fn memory(bytes: &[u8]) -> Content {
    Content::Memory(Bytes::copy_from_slice(bytes))
}

fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "no such file")
}

fn cut(bytes: &Bytes, offset: u64, length: usize) -> Bytes {
    let start = (offset as usize).min(bytes.len());
    bytes.slice(start..(start + length).min(bytes.len()))
}

struct Cancelled(Arc<AtomicU64>, bool);

impl Drop for Cancelled {
    fn drop(&mut self) {
        if !self.1 {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl FileSystem for Tree {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        match &*self.content(parent)? {
            Content::Directory(children) => self.attributes(*children.get(name).ok_or_else(absent)?),
            _ => Err(Error::new(ErrorKind::NotDirectory, "no directory")),
        }
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        let (kind, size, mode) = match &*self.content(inode)? {
            Content::Memory(bytes) => (FileKind::File, bytes.len() as u64, 0o444),
            Content::Disk { size, .. } => (FileKind::File, *size, 0o444),
            Content::Stuck { size } => (FileKind::File, *size, 0o444),
            Content::Link(target) => (FileKind::Symlink, target.len() as u64, 0o777),
            Content::Directory(_) => (FileKind::Directory, 4096, 0o555),
        };
        let links = self.nodes.read().expect("lock")[inode as usize - 1].links;
        let (uid, gid) = (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
        Ok(Attributes { inode, kind, size, mtime_ns: 1_700_000_000_123_456_789, mode, uid, gid, links })
    }

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>> {
        match &*self.content(inode)? {
            Content::Link(target) => Ok(target.clone()),
            _ => Err(Error::config("no link")),
        }
    }

    fn open(&self, inode: Inode) -> Result<Opened> {
        self.content(inode)?;
        self.knobs.opens.fetch_add(1, Ordering::SeqCst);
        Ok(Opened { handle: inode + 1000 })
    }

    fn release(&self, _handle: u64) {
        self.knobs.releases.fetch_add(1, Ordering::SeqCst);
    }

    fn backing(&self, inode: Inode) -> Option<Backing> {
        if self.knobs.no_backing.load(Ordering::Relaxed) {
            return None;
        }
        if self.knobs.flicker.load(Ordering::Relaxed)
            && self.knobs.counter.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
        {
            return None;
        }
        self.knobs.backings.fetch_add(1, Ordering::SeqCst);
        while self.knobs.backing_held.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (_, file) = self.file(inode).ok()?;
        let size = file.metadata().ok()?.len();
        Some(Backing { file, size, pin: Box::new(()) })
    }

    fn at_hand(
        &self,
        inode: Inode,
        _handle: u64,
        offset: u64,
        length: usize,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        assert!(!self.knobs.panic.load(Ordering::Relaxed), "a fault on purpose");
        if let Some((file, watch)) = &*self.knobs.disk.lock().expect("lock") {
            let found = DiskRead::of_file(file.clone(), offset, length, watch);
            return Ok(if takes_disk { AtHand::OnDisk(found) } else { AtHand::Missing });
        }
        if self.knobs.slow.load(Ordering::Relaxed) || matches!(&*self.content(inode)?, Content::Stuck { .. }) {
            return Ok(AtHand::Missing);
        }
        self.read_now(inode, offset, length).map(AtHand::Here)
    }

    fn in_memory(&self, inode: Inode, offset: u64, length: usize) -> Option<Vec<u8>> {
        if self.knobs.cold.load(Ordering::Relaxed) {
            return None;
        }
        let Content::Memory(bytes) = &*self.content(inode).ok()? else { return None };
        Some(cut(bytes, offset, length).to_vec())
    }

    fn read(
        self: Arc<Self>,
        inode: Inode,
        _handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async move {
            let mut cancelled = Cancelled(self.knobs.cancelled.clone(), false);
            if matches!(&*self.content(inode)?, Content::Stuck { .. }) {
                self.knobs.waiting.fetch_add(1, Ordering::SeqCst);
            }
            while matches!(&*self.content(inode)?, Content::Stuck { .. }) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            tokio::time::sleep(Duration::from_micros(100)).await;
            cancelled.1 = true;
            self.read_now(inode, offset, length)
        })
    }

    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let content = self.content(inode)?;
        let Content::Directory(children) = &*content else {
            return Err(Error::new(ErrorKind::NotDirectory, "no directory"));
        };
        // The cookie of an entry is its inode; where its name follows from that, the listing starts there.
        let start = self.quick_start(children, inode, cookie);
        let mut skipping = cookie != 0 && start.is_none();
        let from = start.map_or(Bound::Unbounded, Bound::Excluded);
        let iterator = children.range::<Vec<u8>, _>((from, Bound::Unbounded));
        for (name, child) in iterator {
            if skipping {
                skipping = *child != cookie;
                continue;
            }
            let attributes = self.attributes(*child)?;
            if !visit(DirectoryEntry { name, attributes, cookie: *child }) {
                break;
            }
        }
        Ok(())
    }

    fn parent(&self, inode: Inode) -> Result<Inode> {
        let nodes = self.nodes.read().expect("lock");
        nodes.get(inode as usize - 1).map(|node| node.parent).ok_or_else(absent)
    }

    fn statistics(&self) -> Statistics {
        Statistics { files: self.nodes.read().expect("lock").len() as u64, bytes: 123 << 20 }
    }
}

impl Tree {
    /// In the numbered directories of `put_many` the name follows from the inode.
    fn quick_start(&self, children: &BTreeMap<Vec<u8>, Inode>, directory: Inode, cookie: u64) -> Option<Vec<u8>> {
        let name = format!("{:09}", cookie.checked_sub(directory)?.checked_sub(1)?).into_bytes();
        (children.get(&name) == Some(&cookie)).then_some(name)
    }
}

impl Tree {
    /// Gives an inode another content, as if its bytes had arrived.
    pub fn replace(&self, inode: Inode, content: Content) {
        self.nodes.write().expect("lock")[inode as usize - 1].content = Arc::new(content);
    }
}
