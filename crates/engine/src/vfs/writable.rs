//! Requests to a tree beyond reading: the calls of programs that write, as the kernel hands them on.

use futures::future::BoxFuture;

use super::{Attributes, FileSystem, Inode};
use crate::error::Error;

/// The bit that marks handles that are written by.
pub const WRITING: u64 = 1 << 61;

/// Who asks, and by which request: one that the process before may have carried out already is `again`.
#[derive(Debug, Clone, Copy)]
pub struct Requester {
    pub uid: u32,
    pub gid: u32,
    /// The thread that waits for the answer.
    pub thread: u32,
    /// The kernel's number of the request.
    pub request: u64,
    pub again: bool,
}

/// A file that is to be made.
#[derive(Debug, Clone)]
pub struct Creation {
    pub parent: Inode,
    pub name: Vec<u8>,
    pub mode: u32,
    /// Of `open`.
    pub flags: i32,
}

/// A change of a name.
#[derive(Debug, Clone)]
pub struct Rename {
    pub parent: Inode,
    pub name: Vec<u8>,
    pub new_parent: Inode,
    pub new_name: Vec<u8>,
    /// Of `renameat2`.
    pub flags: u32,
}

/// Attributes that are to be changed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Changes {
    pub size: Option<u64>,
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub mtime_ns: Option<i64>,
    /// The handle and the writer that it is asked by, if it is.
    pub by: Option<Writer>,
}

/// A handle, and the kernel's word for the descriptor table that it is used by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writer {
    pub handle: u64,
    pub owner: u64,
}

/// A file that is open to be written.
#[derive(Debug, Clone, Copy)]
pub struct OpenedToWrite {
    pub handle: u64,
    pub attributes: Attributes,
}

/// What there is room for, on the disk that is written to first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub files: u64,
    pub free_files: u64,
}

/// Why something is not done, as the kernel tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused(pub i32);

/// The outcome of a change.
pub type Written<T> = std::result::Result<T, Refused>;

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Refused(error.errno())
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Refused(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A tree that programs may write to. Futures may wait for an origin; they go on to their end also when nobody waits.
pub trait Writable: FileSystem {
    fn create(&self, file: Creation, by: Requester) -> BoxFuture<'static, Written<OpenedToWrite>>;

    fn make_folder(&self, folder: Creation, by: Requester) -> BoxFuture<'static, Written<Attributes>>;

    /// ESTALE when the name stands for another inode by now, which the kernel is to look up.
    fn open_to_write(&self, inode: Inode, flags: i32, by: Requester) -> BoxFuture<'static, Written<OpenedToWrite>>;

    /// The handle of a file that the process before had open to be written.
    fn open_again(&self, inode: Inode) -> u64;

    /// Writes all of `bytes`, or none that count.
    fn write(&self, inode: Inode, by: Writer, offset: u64, bytes: &[u8]) -> Written<()>;

    fn change(&self, inode: Inode, changes: Changes) -> BoxFuture<'static, Written<Attributes>>;

    /// A descriptor of the handle is closed: once no handle writes the file any more, the origin holds it.
    fn flush(&self, inode: Inode, by: Writer) -> BoxFuture<'static, Written<()>>;

    /// The origin holds what was written until now.
    fn sync(&self, inode: Inode) -> BoxFuture<'static, Written<()>>;

    fn unlink(&self, parent: Inode, name: Vec<u8>, by: Requester) -> BoxFuture<'static, Written<()>>;

    fn remove_folder(&self, parent: Inode, name: Vec<u8>, by: Requester) -> BoxFuture<'static, Written<()>>;

    fn rename(&self, rename: Rename, by: Requester) -> BoxFuture<'static, Written<()>>;

    fn space(&self) -> Written<Space>;
}
