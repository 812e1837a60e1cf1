//! Has the origin hold what a name stands for: whole, compared, and never over what somebody else put there.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;

use super::core::WritableTree;
use super::staged::LiveFile;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::{Expected, Layout, Notes, TargetEntry};
use crate::staging::{Content, Held, Kind, Node, Record, Stands};
use crate::vfs::{Inode, Refused};

/// An upload is begun anew when the file is written to meanwhile; at the last try writers wait.
const TRIES: u32 = 4;
/// S3 takes so many parts of one file.
const MOST_PARTS: u64 = 9_000;

impl WritableTree {
    /// The origin holds the file under its name when this returns, as it is then. A file that has lost its name has no
    /// need of that.
    pub(super) async fn publish(&self, inode: Inode) -> Result<()> {
        loop {
            let Some(path) = self.node(inode).ok().and_then(|node| node.path) else { return Ok(()) };
            let _lock = self.locks.lock(&path).await;
            // It may have been renamed before the lock was had.
            let Some(node) = self.node(inode).ok().filter(|node| node.path.as_ref() == Some(&path)) else { continue };
            if node.kind == Kind::Folder || node.content == Content::Published {
                return Ok(());
            }
            return self.publish_at(inode, &node, &path).await;
        }
    }

    /// The same under a name whose lock is held, and which the file need not have yet.
    pub(super) async fn publish_at(&self, inode: Inode, node: &Node, path: &[u8]) -> Result<()> {
        let outcome = self.put(inode, node, path).await;
        match &outcome {
            Ok(_) => drop(self.failures.lock().remove(&inode)),
            Err(error) => {
                self.metrics.write_failures.inc();
                tracing::error!(path = %String::from_utf8_lossy(path), "a written file is not in the origin: {error}");
                self.failures.lock().insert(inode, error.to_string());
                if let Err(error) = self.staged.keep(inode) {
                    tracing::error!("what was written may not outlast a loss of power: {error}");
                }
            }
        }
        outcome.map(drop)
    }

    async fn put(&self, inode: Inode, node: &Node, path: &[u8]) -> Result<()> {
        let live = self.staged.live(inode)?;
        for attempt in 1..=TRIES {
            let _still = if attempt == TRIES { Some(live.gate.write().await) } else { None };
            let (version, size) = (live.version(), live.size()?);
            let held = match self.there_already(&live, size, path).await? {
                Some(there) => there,
                None => match self.send(&live, version, size, node, path).await {
                    Ok(Some(entry)) => {
                        self.metrics.written_bytes.inc_by(size);
                        as_held(&entry)
                    }
                    Ok(None) => continue,
                    // It may have been put there by a request whose answer was lost.
                    Err(error) if error.kind() == ErrorKind::Stale => {
                        self.there_already(&live, size, path).await?.ok_or(error)?
                    }
                    Err(error) => return Err(error),
                },
            };
            return self.note_published(inode, path, held, || live.version() == version);
        }
        Err(Error::new(ErrorKind::Busy, format!("{} is written to all the time", shown(path))))
    }

    /// Whoever writes meanwhile first changes the version, and then looks what is noted here.
    fn note_published(&self, inode: Inode, path: &[u8], held: Held, is_newest: impl Fn() -> bool) -> Result<()> {
        self.staged.decide(|ledger| {
            ledger.commit(Record::Ended { path: path.to_vec() })?;
            ledger.commit(Record::Holds { path: path.to_vec(), held: Some(held.clone()) })?;
            // Under another name, the rename that this is for says so.
            let has_name = ledger.state().node(inode).is_some_and(|node| node.path.as_deref() == Some(path));
            if has_name && is_newest() {
                ledger.commit(Record::Published { inode, held })?;
            }
            Ok(())
        })
    }

    /// What the origin holds under the name, if that is this content already. `Stale` when it is neither this nor what is
    /// known of it.
    pub(super) async fn there_already(&self, live: &LiveFile, size: u64, path: &[u8]) -> Result<Option<Held>> {
        let known = self.known_at(path)?;
        let there = self.target.look(path).await?;
        match (&known, there) {
            (None, None) => Ok(None),
            (Some(known), Some(there)) if known.is_same(&as_held(&there)) => Ok(None),
            (_, Some(there)) if there.size == size && self.holds(live, path, &there).await? => {
                Ok(Some(as_held(&there)))
            }
            // Gone, so that nothing of anybody is overwritten.
            (Some(_), None) => {
                self.staged.note(Record::Holds { path: path.to_vec(), held: None })?;
                Ok(None)
            }
            (_, Some(_)) => Err(changed_by_another(path)),
        }
    }

    /// What the origin is known to hold under a name.
    pub(super) fn known_at(&self, path: &[u8]) -> Result<Option<Held>> {
        let known = self.staged.look(|state| {
            let name = state.name(path).filter(|name| name.held.is_some() || name.stands != Stands::AsListed);
            name.map(|name| name.held.clone())
        });
        match known {
            Some(held) => Ok(held),
            None => self.listed_at(path),
        }
    }

    /// What the snapshot says that it holds there.
    pub(super) fn listed_at(&self, path: &[u8]) -> Result<Option<Held>> {
        let Ok(listed) = self.tree.find(path) else { return Ok(None) };
        if listed.kind != crate::vfs::FileKind::File {
            return Ok(None);
        }
        let source = self.tree.source(listed.inode)?;
        Ok(Some(Held { size: source.size(), version: source.object().version.clone() }))
    }

    async fn holds(&self, live: &LiveFile, path: &[u8], there: &TargetEntry) -> Result<bool> {
        let mut stream = self.target.read(path, there, ByteRange::new(0, there.size)).await?;
        let mut offset = 0;
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if read(live, offset, piece.len())? != piece {
                return Ok(false);
            }
            offset += piece.len() as u64;
        }
        Ok(offset == there.size)
    }

    /// Uploads the content of that version; `None` when it has changed meanwhile, and nothing was put under the name.
    async fn send(
        &self,
        live: &LiveFile,
        version: u64,
        size: u64,
        node: &Node,
        path: &[u8],
    ) -> Result<Option<TargetEntry>> {
        // What an upload left that a killed process began.
        self.give_up(path).await;
        let part_bytes = self.options.part_bytes.max(size.div_ceil(MOST_PARTS)).max(1);
        let expected = self.known_at(path)?.map_or(Expected::Nothing, |held| Expected::This(held.version));
        let notes = Arc::new(UploadNotes { tree: self.myself(), path: path.to_vec() });
        let mut writing = self.target.write_over(path, Layout { size, part_bytes }, expected, notes).await?;
        let outcome = async {
            let of = node.attributes;
            writing.belongs_to((of.uid, of.gid), of.mode).await?;
            let mut offset = 0;
            while offset < size {
                let length = part_bytes.min(size - offset) as usize;
                let _memory = self.memory.acquire(length as u64).await;
                let bytes = read(live, offset, length)?;
                if live.version() != version || bytes.len() != length {
                    return Ok(None);
                }
                writing.part(bytes).await?;
                offset += length as u64;
            }
            if live.version() != version {
                return Ok(None);
            }
            writing.finish().await.map(Some)
        }
        .await;
        drop(writing);
        if !matches!(outcome, Ok(Some(_))) {
            self.give_up(path).await;
        }
        outcome
    }

    /// Takes away what an upload under the name left.
    pub(super) async fn give_up(&self, path: &[u8]) {
        let Some(token) = self.staged.look(|state| state.name(path).and_then(|name| name.upload.clone())) else {
            return;
        };
        let gone = self.target.abandon(path, &token).await;
        if let Err(error) = gone.and_then(|()| self.staged.note(Record::Ended { path: path.to_vec() })) {
            tracing::warn!(path = %shown(path), "what an upload left is still there: {error}");
        }
    }

    /// Deletes what the origin holds under a name whose lock is held; `Stale` for what somebody else put there.
    pub(super) async fn delete(&self, path: &[u8]) -> Result<()> {
        self.give_up(path).await;
        let Some(known) = self.known_at(path)? else { return Ok(()) };
        match self.target.look(path).await? {
            Some(there) if !known.is_same(&as_held(&there)) => Err(changed_by_another(path)),
            Some(_) => self.target.remove(path).await,
            None => Ok(()),
        }
    }
}

/// Notes of an upload go into the ledger.
struct UploadNotes {
    tree: std::sync::Weak<WritableTree>,
    path: Vec<u8>,
}

impl Notes for UploadNotes {
    fn begun(&self, token: &str) {
        let record = Record::Began { path: self.path.clone(), token: token.to_owned() };
        let noted = self.tree.upgrade().map_or(Ok(()), |tree| tree.staged.note(record));
        if let Err(error) = noted {
            tracing::warn!("an upload that is cut off would stay in the storage: {error}");
        }
    }

    fn kept(&self, _part: u32, _tag: &str) {}
}

/// At most `length` bytes of a staged file.
fn read(live: &LiveFile, offset: u64, length: usize) -> Result<Bytes> {
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match live.file.read_at(&mut bytes[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let message = format!("cannot read a staged file: {error}");
                return Err(Error::new(ErrorKind::Unexpected, message).with_source(error));
            }
        }
    }
    bytes.truncate(filled);
    Ok(bytes.into())
}

/// A failure to have the origin hold something, as a program hears of it. Never a refusal of rights: those of the
/// storage are no business of a program, and some take such a word for "leave it as it is".
pub(super) fn refused(error: Error) -> Refused {
    Refused(match error.errno() {
        errno @ (libc::ESTALE | libc::ENOSPC | libc::EBUSY) => errno,
        _ => libc::EIO,
    })
}

pub(super) fn as_held(entry: &TargetEntry) -> Held {
    Held { size: entry.size, version: entry.version.clone() }
}

fn changed_by_another(path: &[u8]) -> Error {
    let message = format!("{} was changed in the storage by somebody else", shown(path));
    Error::new(ErrorKind::Stale, message).with_hint("`headrace status` names the copy that was written here")
}

pub(super) fn shown(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}
