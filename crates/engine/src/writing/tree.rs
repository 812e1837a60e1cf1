//! Reading: the file system of what was written, over that of a snapshot.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use super::core::WritableTree;
use super::found::{Found, absent};
use super::handles::Handles;
use crate::error::{Error, Result};
use crate::ids::ByteRange;
use crate::staging::{is_written, split};
use crate::vfs::{
    AtHand, Attributes, Backing, DirectoryEntry, FileKind, FileSystem, Inode, Opened, ROOT, ReadReply, Statistics,
    Writable,
};

impl WritableTree {
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

    fn at_hand(
        &self,
        inode: Inode,
        handle: u64,
        offset: u64,
        length: usize,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        if !is_written(inode) {
            return self.tree.at_hand(inode, handle, offset, length, takes_disk);
        }
        if self.node(inode)?.settled {
            let range = ByteRange::new(offset, length as u64);
            return self.settled_at_hand(&*self.settled(inode)?, range, takes_disk);
        }
        self.read_staged(inode, offset, length).map(AtHand::Here)
    }

    fn in_memory(&self, inode: Inode, offset: u64, length: usize) -> Option<Vec<u8>> {
        if is_written(inode) { None } else { self.tree.in_memory(inode, offset, length) }
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
