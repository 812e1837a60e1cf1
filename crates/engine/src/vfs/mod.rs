//! The file system as such: inodes, handles and directories over snapshot and transfer. Knows no FUSE and no Python.
//!
//! `FileSystem` is the seam: the FUSE session, the local server and the SDK all answer from the same implementation, so
//! they cannot disagree.

mod blob;
mod catalogue;
mod files;
mod generation;
mod replies;
mod selection;
mod siblings;
mod tree;
mod writable;

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::error::Result;

pub use crate::transfer::{AtHand, DiskRead, Disks};
pub use blob::{Blobs, Offer, blob_name};
pub use catalogue::{Catalogue, has_checksums};
pub(crate) use replies::{reply_from_cache, reply_when_ready};
pub use selection::Selection;
pub use tree::{Ownership, Tree};
pub use writable::{
    Changes, Creation, OpenedToWrite, Refused, Rename, Requester, Space, WRITING, Writable, Writer, Written,
};

/// The number of a file or directory. 1 is the root; a changed file gets a new number, an unchanged one keeps its own.
pub type Inode = u64;

pub const ROOT: Inode = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Symlink,
}

/// What `stat` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub inode: Inode,
    pub kind: FileKind,
    pub size: u64,
    pub mtime_ns: i64,
    /// Permission bits; the tree is read-only whatever they say.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
}

/// One name in a directory. `cookie` is what a later `read_directory` continues after.
#[derive(Debug, Clone, Copy)]
pub struct DirectoryEntry<'a> {
    pub name: &'a [u8],
    pub attributes: Attributes,
    pub cookie: u64,
}

/// Where the bytes of a read are: in memory, or in a cache file that may be spliced from without waiting for its disk.
pub enum ReadReply {
    /// Pieces in order.
    Memory(Vec<Bytes>),
    /// Consecutive parts of open cache files; `pin` keeps the bytes in place until dropped.
    Files(Vec<FilePart>),
}

/// `length` bytes of `file` from `offset`.
pub struct FilePart {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: usize,
    /// Keeps the range from being evicted while it is read.
    pub pin: Box<dyn Send + Sync>,
}

/// A local file that holds exactly the content of one file version, from byte 0, and will not change while `pin` lives.
pub struct Backing {
    pub file: Arc<File>,
    pub size: u64,
    pub pin: Box<dyn Send + Sync>,
}

/// An open file: `handle` names it in reads, for the sake of its read-ahead state.
pub struct Opened {
    pub handle: u64,
}

/// What `statfs` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    pub files: u64,
    pub bytes: u64,
}

/// A read-only tree. Methods that are not futures never wait for an origin, nor for a disk, but for `backing` and `hold`.
pub trait FileSystem: Send + Sync + 'static {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes>;

    fn attributes(&self, inode: Inode) -> Result<Attributes>;

    fn read_link(&self, inode: Inode) -> Result<Vec<u8>>;

    /// Starts a handle on a file. Handles are optional: `read` takes 0 for "none" (open elision).
    fn open(&self, inode: Inode) -> Result<Opened>;

    fn release(&self, handle: u64);

    /// The local file for kernel passthrough, when the whole version is on this machine and verified.
    fn backing(&self, inode: Inode) -> Option<Backing>;

    /// Keeps the local file of a passthrough that another daemon began in place, verified or not, while the answer lives:
    /// its readers read on whatever becomes of it here.
    fn hold(&self, inode: Inode) -> Option<Box<dyn Send + Sync>> {
        self.backing(inode).map(|backing| backing.pin)
    }

    /// The bytes at `offset`, at most `length`, fewer only at the end of the file, as far as they can be had without an
    /// origin; what is here and answered with files can be read from memory. `takes_disk`: the caller has a thread that may
    /// wait for a disk; what lies on one is missing otherwise.
    fn at_hand(
        &self,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>>;

    /// The same bytes, for whoever may want them soon: only those that are in memory, and counted as no read.
    fn in_memory(&self, _inode: Inode, _offset: u64, _length: usize) -> Option<Vec<u8>> {
        None
    }

    /// The bytes at `offset`, fetching what is missing. Dropping the future cancels this reader's interest, nobody else's.
    fn read(
        self: Arc<Self>,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>>;

    /// Calls `visit` for each entry after `cookie` (0: from the start) until it answers false. `.` and `..` are not
    /// among them.
    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()>;

    /// The directory that holds `inode`; the root's is itself.
    fn parent(&self, inode: Inode) -> Result<Inode>;

    fn statistics(&self) -> Statistics;

    /// What can be written by, where files can be written at all.
    fn writable(self: Arc<Self>) -> Option<Arc<dyn Writable>> {
        None
    }

    /// Whether reads of the file must come here each time: somebody writes it.
    fn is_written(&self, _inode: Inode) -> bool {
        false
    }
}
