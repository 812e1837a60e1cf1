//! The content of all files of one list (one snapshot) as one file, its blob, that an EROFS image of the list points into.
//!
//! The kernel makes names and attributes of the image, and asks here for content alone. The content of an image is
//! pinned: a refresh of the tree changes nothing in its blob. The next list has an image and a blob of its own, beside
//! the others that programs still use.

use std::collections::HashMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use futures::future::BoxFuture;
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::files::OpenFile;
use super::generation::Generation;
use super::tree::Tree;
use super::{
    AtHand, Attributes, Backing, DirectoryEntry, FileKind, FilePart, FileSystem, Inode, Opened, ROOT, ReadReply,
    Statistics,
};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::snapshot::erofs::{BLOCK_BYTES, BlobLayout};
use crate::sync::Mutex;

static ZEROS: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

/// What the blob of the list with that identity is called in its folder.
pub fn blob_name(identity: u64) -> String {
    format!("blob-{identity:016x}")
}

/// A folder with the blobs that the kernel has open, and nothing else.
pub struct Blobs {
    tree: Arc<Tree>,
    /// One block of them, for answers that end behind the end of a file.
    zeros: Arc<File>,
    used: Mutex<Uses>,
    when_unused: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// By the identity of its list, which is also the inode of its blob.
#[derive(Default)]
struct Uses {
    lists: HashMap<Inode, Used>,
    handles: HashMap<u64, Inode>,
    last_handle: u64,
}

struct Used {
    /// `None`: the list is gone.
    blob: Option<Arc<Blob>>,
    /// Handles, and offers.
    uses: usize,
}

/// The blob of one list.
struct Blob {
    generation: Arc<Generation>,
    layout: BlobLayout,
}

/// Keeps the blob of one list in the folder until the kernel has opened it.
pub struct Offer {
    blobs: Arc<Blobs>,
    handle: u64,
}

impl Drop for Offer {
    fn drop(&mut self) {
        self.blobs.release(self.handle);
    }
}

/// What a read of a blob asks for: bytes of one file, then zeros to the end of its last block.
struct Part {
    file: Arc<OpenFile>,
    range: ByteRange,
    padding: usize,
}

impl Blobs {
    pub fn new(tree: Arc<Tree>) -> Result<Arc<Self>> {
        let zeros = zeros()
            .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot make a block of zeros").with_source(error))?;
        let (used, when_unused) = (Mutex::default(), OnceLock::new());
        Ok(Arc::new(Blobs { tree, zeros: Arc::new(zeros), used, when_unused }))
    }

    /// The content of the snapshot with that identity, laid out as `layout` says, which is of this snapshot: there until
    /// nobody has it open and the offer is dropped. `Stale` when the tree has it no more.
    pub fn offer(self: &Arc<Self>, identity: u64, layout: BlobLayout) -> Result<Offer> {
        let generation = self.tree.generation(identity).ok_or_else(gone)?;
        let blob = Arc::new(Blob { generation, layout });
        let mut used = self.used.lock();
        used.lists.entry(identity).or_insert(Used { blob: None, uses: 0 }).blob.get_or_insert(blob);
        let handle = used.take(identity);
        Ok(Offer { blobs: self.clone(), handle })
    }

    /// Calls `then` once nobody has any of the blobs open: at once if that is so. May call it twice.
    pub fn when_unused(&self, then: impl Fn() + Send + Sync + 'static) {
        let then = self.when_unused.get_or_init(|| Box::new(then));
        if self.used.lock().lists.is_empty() {
            then();
        }
    }

    fn blob(&self, inode: Inode) -> Result<Arc<Blob>> {
        self.used.lock().lists.get(&inode).and_then(|used| used.blob.clone()).ok_or_else(gone)
    }

    fn describe(&self, inode: Inode) -> Result<Attributes> {
        let (kind, size, mode, links) = match inode {
            ROOT => (FileKind::Directory, 0, 0o500, 2),
            _ => (FileKind::File, self.blob(inode)?.layout.blob_bytes(), 0o400, 1),
        };
        let (uid, gid) = (self.tree.ownership().uid, self.tree.ownership().gid);
        Ok(Attributes { inode, kind, size, mtime_ns: 0, mode, uid, gid, links })
    }

    /// `None` behind the end. The kernel reads within one file, whose blocks it knows from the image.
    fn part(&self, inode: Inode, offset: u64, length: usize) -> Result<Option<Part>> {
        let blob = self.blob(inode)?;
        let Some((index, at)) = blob.layout.locate(offset) else { return Ok(None) };
        let node = blob.generation.snapshot.node(index).ok_or_else(absent)?;
        let end = at + length as u64;
        if end > node.size.next_multiple_of(BLOCK_BYTES) {
            return Err(Error::new(ErrorKind::Unsupported, "a read of the blob goes over the end of a file"));
        }
        let range = ByteRange { start: at.min(node.size), end: end.min(node.size) };
        let padding = length - range.length() as usize;
        Ok(Some(Part { file: self.tree.file_at(&blob.generation, node)?, range, padding }))
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

impl Uses {
    /// A handle, never 0, on a list, also on one that is gone.
    fn take(&mut self, identity: Inode) -> u64 {
        self.lists.entry(identity).or_insert(Used { blob: None, uses: 0 }).uses += 1;
        self.last_handle += 1;
        self.handles.insert(self.last_handle, identity);
        self.last_handle
    }

    /// True when that was the last handle of all.
    fn give_back(&mut self, handle: u64) -> bool {
        let Some(identity) = self.handles.remove(&handle) else { return false };
        let Some(used) = self.lists.get_mut(&identity) else { return false };
        used.uses -= 1;
        if used.uses == 0 {
            self.lists.remove(&identity);
        }
        self.lists.is_empty()
    }
}

impl FileSystem for Blobs {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        let known = self.used.lock().lists.keys().copied().find(|identity| blob_name(*identity).as_bytes() == name);
        known.filter(|_| parent == ROOT).ok_or_else(absent).and_then(|inode| self.describe(inode))
    }

    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        self.describe(inode)
    }

    fn read_link(&self, _inode: Inode) -> Result<Vec<u8>> {
        Err(absent())
    }

    /// Also of a list that is gone: a process before may have had it open. Where readers are is known by file, since the
    /// kernel opens a blob once.
    fn open(&self, inode: Inode) -> Result<Opened> {
        Ok(Opened { handle: self.used.lock().take(inode) })
    }

    fn release(&self, handle: u64) {
        let is_last = self.used.lock().give_back(handle);
        self.when_unused.get().filter(|_| is_last).into_iter().for_each(|then| then());
    }

    fn backing(&self, _inode: Inode) -> Option<Backing> {
        None
    }

    fn at_hand(
        &self,
        inode: Inode,
        _handle: u64,
        offset: u64,
        length: usize,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        let Some(part) = self.part(inode, offset, length)? else {
            return Ok(AtHand::Here(ReadReply::Memory(Vec::new())));
        };
        Ok(match self.tree.at_hand_of(&part.file, 0, part.range, takes_disk)? {
            AtHand::Here(found) => AtHand::Here(self.padded(found, part.padding)),
            AtHand::OnDisk(found) if part.padding > 0 => {
                AtHand::OnDisk(found.followed_by(self.zeros.clone(), part.padding))
            }
            answer => answer,
        })
    }

    fn read(
        self: Arc<Self>,
        inode: Inode,
        _handle: u64,
        offset: u64,
        length: usize,
    ) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async move {
            let Some(part) = self.part(inode, offset, length)? else { return Ok(ReadReply::Memory(Vec::new())) };
            let found = self.tree.fetched(&part.file, 0, part.range).await?;
            Ok(self.padded(found, part.padding))
        })
    }

    fn read_directory(
        &self,
        _inode: Inode,
        _cookie: u64,
        _visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        // Only who mounts an image looks for its blob, by its name.
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

fn gone() -> Error {
    Error::new(ErrorKind::Stale, "the list of files that the view shows is gone").with_hint("unmount, and mount again")
}

fn absent() -> Error {
    Error::new(ErrorKind::NotFound, "no such file or directory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_there_until_its_last_handle_is_given_back() {
        let mut uses = Uses::default();
        let (first, second, other) = (uses.take(7), uses.take(7), uses.take(8));
        assert!(first != 0 && first != second && second != other);
        assert!(!uses.give_back(first));
        assert!(uses.lists.contains_key(&7));
        assert!(!uses.give_back(second));
        assert!(!uses.lists.contains_key(&7) && uses.lists.contains_key(&8));
        assert!(uses.give_back(other), "nobody has anything open");
    }

    #[test]
    fn a_handle_counts_once() {
        let mut uses = Uses::default();
        let (first, _second) = (uses.take(7), uses.take(7));
        assert!(!uses.give_back(first) && !uses.give_back(first) && !uses.give_back(0));
        assert_eq!(uses.lists[&7].uses, 1);
    }
}
