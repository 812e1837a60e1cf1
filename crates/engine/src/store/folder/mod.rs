//! One cache folder: its lock, log, data files, index and quota. Knows no levels and no other folder.
//!
//! - `place`, `room`, `contents`, `data_files`, `aside`: what there is, each with its own state;
//! - `remove`, `read`, `lend`, `write`: what is done with it, each with those of the above that it needs;
//! - `recover`: how it is opened.
//!
//! Lock order: a shard's lock is never held over I/O on data or log (but for one `fstat`); the log's lock may be held
//! while a shard's is taken, never the other way.

use std::path::Path;
use std::sync::Arc;

use super::counters::LevelGauges;
use super::eviction::Tick;
use super::lock::FolderLock;
use crate::error::Result;
use crate::ids::FileId;

mod aside;
mod contents;
mod data_files;
mod lend;
mod locked;
mod place;
mod promises;
mod read;
mod recover;
mod remove;
mod room;
#[cfg(test)]
mod tests;
mod uses;
mod victim;
mod write;

pub use place::StoreState;
pub use read::{FolderAnswer, Verdict};
pub use recover::make_directory;
pub use remove::Removal;
pub use victim::Victim;
pub use write::{Content, Fault};

use aside::Aside;
use contents::Contents;
use data_files::DataFiles;
use lend::Lender;
use place::Place;
use read::Reader;
use remove::Remover;
use room::Room;
use uses::Uses;
use write::Writer;

/// A file may have this many blocks at most.
pub const MAX_BLOCKS: u64 = 1 << 24;

/// One cache folder, as the parts that it is made of.
#[derive(Debug)]
pub struct Folder {
    pub level: usize,
    pub place: Arc<Place>,
    pub room: Arc<Room>,
    pub aside: Arc<Aside>,
    pub contents: Arc<Contents>,
    pub files: Arc<DataFiles>,
    pub remover: Arc<Remover>,
    pub reader: Arc<Reader>,
    pub lender: Lender,
    pub writer: Writer,
    lock: FolderLock,
}

impl Folder {
    /// Opens the folder at `path` and takes its lock.
    pub fn open(
        path: &Path,
        quota_bytes: u64,
        level: usize,
        shared: Arc<StoreState>,
        gauges: LevelGauges,
    ) -> Result<Self> {
        recover::open(path, quota_bytes, level, shared, gauges)
    }

    fn new(level: usize, place: &Arc<Place>, room: &Arc<Room>, contents: Contents, lock: FolderLock) -> Self {
        let (place, room, contents) = (place.clone(), room.clone(), Arc::new(contents));
        let aside = Arc::new(Aside::new(&place));
        let files = Arc::new(DataFiles::new(&place, &contents));
        let uses = Arc::new(Uses { place: place.clone(), room: room.clone() });
        let remover = Arc::new(Remover {
            place: place.clone(),
            room: room.clone(),
            contents: contents.clone(),
            files: files.clone(),
        });
        let reader = Arc::new(Reader {
            place: place.clone(),
            uses: uses.clone(),
            contents: contents.clone(),
            files: files.clone(),
            remover: remover.clone(),
        });
        let lender = Lender {
            place: place.clone(),
            uses,
            contents: contents.clone(),
            files: files.clone(),
            reader: reader.clone(),
        };
        let writer = Writer {
            place: place.clone(),
            room: room.clone(),
            aside: aside.clone(),
            contents: contents.clone(),
            files: files.clone(),
            remover: remover.clone(),
        };
        Folder { level, place, room, aside, contents, files, remover, reader, lender, writer, lock }
    }

    /// True when something new may be kept here.
    pub fn is_of_use(&self) -> bool {
        !self.aside.is_aside() && !self.place.watch.hangs()
    }

    /// True when a block of `id` may use free room because the whole file fits.
    pub fn admits_whole(&self, id: &FileId, size: u64, length: u32) -> bool {
        self.room.admits_whole(id, size.saturating_sub(self.contents.cached_bytes(id)), length)
    }

    /// The block that should give way first among some drawn at random, by the policy or, when `forced`, by age alone.
    pub fn victim(&self, now: Tick, forced: bool) -> Option<Victim> {
        victim::victim(self, now, forced)
    }

    /// Waits for those who change the folder, ends the log and gives the folder free. Nothing is changed afterwards.
    pub fn close(&self) -> std::io::Result<()> {
        let mut closed = self.contents.closed.write();
        *closed = true;
        // With one, the log does not say what is here.
        let result = if self.files.has_strays() { Ok(()) } else { self.contents.log.close() };
        self.place.watch.during(|| self.lock.release());
        result
    }
}
