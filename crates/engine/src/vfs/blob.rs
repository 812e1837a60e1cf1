//! The content of all files of one snapshot as one file, the blob, that an EROFS image of the snapshot points into.
//!
//! The kernel makes names and attributes of the image, and asks here for content alone. What is shown is pinned: a
//! refresh of the tree changes nothing here, until there is a new image.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::files::OpenFile;
use super::generation::Generation;
use super::tree::Tree;
use super::{
    Attributes, Backing, DirectoryEntry, DiskRead, FileKind, FilePart, FileSystem, Inode, Opened, ROOT, ReadReply,
    Statistics,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::snapshot::erofs::{BLOCK_BYTES, BlobLayout};

/// What the file is called in its folder.
pub const BLOB_NAME: &str = "blob";

const BLOB: Inode = 2;
static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

/// A folder with the blob in it, and nothing else.
pub struct Blob {
    tree: Arc<Tree>,
    generation: Arc<Generation>,
    layout: BlobLayout,
    /// One block of them, for answers that end behind the end of a file.
    zeros: Arc<File>,
}

/// What a read of the blob asks for: bytes of one file, then zeros to the end of its last block.
struct Part {
    file: Arc<OpenFile>,
    range: ByteRange,
    padding: usize,
}

impl Blob {
    /// The content of the snapshot with that identity, laid out as `layout` says, which is of this snapshot. `Stale` when
    /// `tree` has it no more.
    pub fn new(tree: Arc<Tree>, identity: u64, layout: BlobLayout) -> Result<Arc<Self>> {
        let generation = tree.generation(identity).ok_or_else(|| {
            Error::new(ErrorKind::Stale, "the list of files that the view shows is gone")
                .with_hint("unmount, and mount again")
        })?;
        let zeros = zeros()
            .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot make a block of zeros").with_source(error))?;
        Ok(Arc::new(Blob { tree, generation, layout, zeros: Arc::new(zeros) }))
    }

    fn describe(&self, inode: Inode) -> Result<Attributes> {
        let (kind, size, mode, links) = match inode {
            ROOT => (FileKind::Directory, 0, 0o500, 2),
            BLOB => (FileKind::File, self.layout.blob_bytes(), 0o400, 1),
            _ => return Err(absent()),
        };
        let (uid, gid) = (self.tree.ownership().uid, self.tree.ownership().gid);
        Ok(Attributes { inode, kind, size, mtime_ns: 0, mode, uid, gid, links })
    }

    /// `None` behind the end. The kernel reads within one file, whose blocks it knows from the image.
    fn part(&self, offset: u64, length: usize) -> Result<Option<Part>> {
        let Some((index, at)) = self.layout.locate(offset) else { return Ok(None) };
        let node = self.generation.snapshot.node(index).ok_or_else(absent)?;
        let end = at + length as u64;
        if end > node.size.next_multiple_of(BLOCK_BYTES) {
            return Err(Error::new(ErrorKind::Unsupported, "a read of the blob goes over the end of a file"));
        }
        let range = ByteRange { start: at.min(node.size), end: end.min(node.size) };
        let padding = length - range.length() as usize;
        Ok(Some(Part { file: self.tree.file_at(&self.generation, node)?, range, padding }))
    }

    fn padded(&self, found: ReadReply, padding: usize) -> ReadReply {
        match found {
            found if padding == 0 => found,
            ReadReply::Memory(mut pieces) => {
                pieces.push(Bytes::from_static(&ZEROS[..padding]));
                ReadReply::Memory(pieces)
            }
            ReadReply::Files(mut parts) => {
                parts.push(FilePart { file: self.zeros.clone(), offset: 0, length: padding, pin: Box::new(()) });
                ReadReply::Files(parts)
            }
        }
    }
}

impl FileSystem for Blob {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        if parent == ROOT && name == BLOB_NAME.as_bytes() { self.describe(BLOB) } else { Err(absent()) }
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        self.describe(inode)
    }

    fn read_link(&self, _inode: Inode) -> Result<Vec<u8>> {
        Err(absent())
    }

    /// Where its readers are is known by file, since the kernel opens the blob once.
    fn open(&self, inode: Inode) -> Result<Opened> {
        self.describe(inode).map(|_| Opened { handle: 0 })
    }

    fn release(&self, _handle: u64) {}

    fn backing(&self, _inode: Inode) -> Option<Backing> {
        None
    }

    fn read_cached(&self, _inode: Inode, _handle: u64, offset: u64, length: usize) -> Result<Option<ReadReply>> {
        let Some(part) = self.part(offset, length)? else { return Ok(Some(ReadReply::Memory(Vec::new()))) };
        let found = self.tree.cached(&part.file, 0, part.range)?;
        Ok(found.map(|found| self.padded(found, part.padding)))
    }

    fn read_from_disk(&self, _inode: Inode, _handle: u64, offset: u64, length: usize) -> Option<DiskRead> {
        let part = self.part(offset, length).ok()??;
        let found = self.tree.on_disk(&part.file, part.range)?;
        Some(if part.padding == 0 { found } else { found.followed_by(self.zeros.clone(), part.padding) })
    }

    fn read(
        self: Arc<Self>,
        _inode: Inode,
        _handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async move {
            let Some(part) = self.part(offset, length)? else { return Ok(ReadReply::Memory(Vec::new())) };
            let found = self.tree.fetched(&part.file, 0, part.range).await?;
            Ok(self.padded(found, part.padding))
        })
    }

    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        if inode == ROOT && cookie == 0 {
            visit(DirectoryEntry { name: BLOB_NAME.as_bytes(), attributes: self.describe(BLOB)?, cookie: 1 });
        }
        Ok(())
    }

    fn parent(&self, _inode: Inode) -> Result<Inode> {
        Ok(ROOT)
    }

    fn statistics(&self) -> Statistics {
        self.tree.statistics()
    }
}

fn zeros() -> std::io::Result<File> {
    let memory = File::from(memfd_create(c"headrace-zeros", MFdFlags::MFD_CLOEXEC)?);
    memory.set_len(BLOCK_BYTES)?;
    Ok(memory)
}

fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "no such file or directory")
}
