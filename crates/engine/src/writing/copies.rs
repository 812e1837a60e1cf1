//! Content of files that are in the origin: read from there, or brought into the staging folder to be changed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::core::WritableTree;
use super::found::nameless;
use super::settled::Settled;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ByteRange, FileKey};
use crate::origin::ObjectVersion;
use crate::staging::{Held, Kind, Record, Stands};
use crate::transfer::{ReaderState, Source};
use crate::vfs::{AtHand, Attributes, Inode, ReadReply, reply_from_cache, reply_when_ready};

/// Copied in pieces of this size.
const PIECE_BYTES: u64 = 1 << 20;

impl WritableTree {
    /// The content of a file that is settled, to read.
    pub(super) fn settled(&self, inode: Inode) -> Result<Arc<Settled>> {
        if let Some(found) = self.settled.lock().get(&inode) {
            return Ok(found.clone());
        }
        let node = self.node(inode)?;
        let (Some(path), Some(held)) = (node.path, node.published) else { return Err(nameless()) };
        let Held { size, version } = held;
        let object = ObjectVersion { key: path.clone(), size, version: version.clone() };
        let key = FileKey { dataset: self.origin.name().into(), path, size, version };
        let source = Source::new(key, object, self.origin.clone());
        let settled = Arc::new(Settled { source, reader: ReaderState::new() });
        Ok(self.settled.lock().entry(inode).or_insert(settled).clone())
    }

    pub(super) fn settled_at_hand(
        &self,
        file: &Settled,
        range: ByteRange,
        takes_disk: bool,
    ) -> Result<AtHand<ReadReply>> {
        self.tree.transfer().at_hand(&file.source, range, &file.reader, takes_disk).try_map(reply_from_cache)
    }

    pub(super) async fn settled_read(&self, file: &Settled, range: ByteRange) -> Result<ReadReply> {
        let transfer = self.tree.transfer();
        let reply = transfer.read(&file.source, range, &file.reader).await?;
        reply_when_ready(transfer, reply).await
    }

    /// Makes a written file of one of the snapshot, with its content up to `limit`; its inode. To be called with the lock of
    /// its path.
    pub(super) async fn copy_up(&self, path: &[u8], listed: Attributes, limit: u64) -> Result<Inode> {
        let source = self.tree.source(listed.inode)?;
        let held = Held { size: source.size(), version: source.object().version.clone() };
        let inode = self.next_inode()?;
        let copied = self.copy(inode, &source, limit).await;
        let outcome = copied.and_then(|()| {
            self.staged.decide(|ledger| {
                if ledger.state().name(path).is_some_and(|name| name.stands != Stands::AsListed) {
                    return Err(nameless());
                }
                let (kind, path) = (Kind::File, path.to_vec());
                let Attributes { mode, uid, gid, .. } = listed;
                ledger.commit(Record::Made { inode, kind, mode, uid, gid, path, request: 0 })?;
                ledger.commit(Record::Published { inode, held: held.clone() })?;
                if limit < held.size {
                    return ledger.commit(Record::Changed { inode });
                }
                let mtime_ns = Some(listed.mtime_ns);
                ledger.commit(Record::Attributes { inode, mode, uid, gid, mtime_ns })
            })
        });
        if let Err(error) = outcome {
            self.staged.remove(inode);
            return Err(error);
        }
        Ok(inode)
    }

    /// Brings the content of a settled file back. To be called with the lock of its path.
    pub(super) async fn fetch(&self, inode: Inode) -> Result<()> {
        if !self.node(inode)?.settled {
            return Ok(());
        }
        let settled = self.settled(inode)?;
        if let Err(error) = self.copy(inode, &settled.source, u64::MAX).await {
            self.staged.remove(inode);
            return Err(error);
        }
        self.staged.note(Record::Fetched { inode })?;
        self.settled.lock().remove(&inode);
        Ok(())
    }

    async fn copy(&self, inode: Inode, source: &Source, limit: u64) -> Result<()> {
        let (live, reader) = (self.staged.make(inode)?, ReaderState::new());
        let end = source.size().min(limit);
        let transfer = self.tree.transfer();
        let mut offset = 0;
        while offset < end {
            let range = ByteRange::new(offset, PIECE_BYTES.min(end - offset));
            let reply = transfer.read(source, range, &reader).await?;
            let written = put(&live.file, offset, reply_when_ready(transfer, reply).await?);
            offset += written.map_err(|error| Error::from_io("write", &self.staged.file_path(inode), error))?;
            if offset < range.end {
                return Err(Error::new(ErrorKind::Unexpected, "a file is shorter than it was listed"));
            }
        }
        Ok(())
    }

    /// A number that no file has had.
    pub(super) fn next_inode(&self) -> Result<Inode> {
        self.staged.decide(|ledger| {
            let inode = ledger.state().next_inode();
            ledger.commit(Record::Numbered { inode })?;
            Ok(inode)
        })
    }
}

/// Writes what was read to `offset`; how many bytes.
fn put(file: &File, offset: u64, reply: ReadReply) -> std::io::Result<u64> {
    let mut end = offset;
    let mut write = |bytes: &[u8]| {
        file.write_all_at(bytes, end)?;
        end += bytes.len() as u64;
        std::io::Result::Ok(())
    };
    match reply {
        ReadReply::Memory(pieces) => pieces.iter().try_for_each(|piece| write(piece))?,
        ReadReply::Files(parts) => {
            for part in parts {
                let mut bytes = vec![0; part.length];
                part.file.read_exact_at(&mut bytes, part.offset)?;
                write(&bytes)?;
            }
        }
    }
    Ok(end - offset)
}
