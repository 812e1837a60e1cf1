//! The source that a transfer reads before it fetches: the store of this process, or one that another process of this
//! machine owns. Knows neither.

use std::any::Any;
use std::fmt::Debug;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use super::watch::DiskWatch;
use super::wrong::TellWrong;
use crate::error::Error;
use crate::ids::{FileId, FileKey};

/// Whatever keeps bytes in place as long as somebody holds it.
pub(crate) type Pin = Arc<dyn Any + Send + Sync>;

/// A block that is here and verified: `length` bytes of `file` from `offset`. Stays in place until dropped.
#[derive(Debug, Clone)]
pub struct BlockHandle {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: u32,
    /// Of the disk that it is on, where this process knows that.
    pub watch: Option<Arc<DiskWatch>>,
    _pin: Pin,
}

/// What is known of a block without waiting for a disk.
#[derive(Debug)]
pub enum AtOnce {
    Here(BlockHandle),
    Absent,
    /// `get` has to wait for this disk first.
    After(Arc<DiskWatch>),
}

/// A whole file version in one local file, from byte 0, verified. Stays in place until dropped, and longer: as long as
/// any copy of the descriptor is open, in whatever process.
#[derive(Debug, Clone)]
pub struct WholeFile {
    pub file: Arc<File>,
    pub size: u64,
    _pin: Pin,
}

/// What became of a block that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Put {
    Stored,
    /// It was there already.
    Present,
    /// Served but not kept: no level, no room that may be taken, or the disk failed. Never an error for the reader.
    Declined(&'static str),
}

/// How a whole file version compares with the checksum that its origin keeps of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Proven,
    /// The origin keeps none.
    NoChecksum,
}

/// Blocks of this machine. `size` is always that of the file version.
pub trait Blocks: Debug + Send + Sync + 'static {
    /// The block, if here and right.
    fn get(&self, file: &FileId, index: u32, size: u64) -> Option<BlockHandle>;

    /// The same for callers that must not wait for a disk.
    fn get_at_once(&self, file: &FileId, index: u32, size: u64) -> AtOnce {
        self.get(file, index, size).map_or(AtOnce::Absent, AtOnce::Here)
    }

    /// True when what has been waiting since then for one of the disks may wait for one that hangs.
    fn waits_in_vain(&self, _since: std::time::Instant) -> bool {
        false
    }

    /// What is to be said of a disk that hangs, if one does.
    fn hanging(&self) -> Option<Error> {
        None
    }

    /// True when `get` would probably answer, as far as is known in this process: never waits, for callers under locks.
    fn may_contain(&self, file: &FileId, index: u32) -> bool;

    /// The same for callers that may wait for another process of this machine.
    fn expects(&self, file: &FileId, index: u32, size: u64) -> bool;

    /// True when another process of this machine is to keep the block, and shows it here as soon as it has it.
    fn shows_later(&self, _file: &FileId, _index: u32) -> bool {
        false
    }

    /// Another process of this machine has got more of the file: what is known of it here is the past.
    fn look_again(&self, _file: &FileId) {}

    /// Takes a block whose content is `parts` in order, or says why not.
    fn put(&self, key: &Arc<FileKey>, index: u32, parts: &[Bytes]) -> Put;

    /// Free bytes of the folder that has most of them, among those whose disk would take something now: `None` for none.
    /// May wait for a disk.
    fn room_now(&self) -> Option<u64> {
        None
    }

    /// The whole file version, if all of it is here in one file, and right.
    fn whole_file(&self, file: &FileId, size: u64) -> Option<WholeFile>;

    /// Keeps what is here of the file version in its place, verified or not, while the answer lives. `None` where nothing
    /// is here, or where an open descriptor alone keeps it in place.
    fn hold(&self, _file: &FileId) -> Option<Box<dyn Any + Send + Sync>> {
        None
    }

    /// True when every block of the file version is here.
    fn is_whole(&self, _file: &FileId, _size: u64) -> bool {
        false
    }

    /// The CRC32Cs of all blocks of the file version; `None` unless all are here.
    fn crc32cs(&self, _file: &FileId, _size: u64) -> Option<Vec<u32>> {
        None
    }

    /// What is known of the file version; forgotten when any of it goes.
    fn proof(&self, _file: &FileId) -> Option<Proof> {
        None
    }

    fn note_proof(&self, _file: &FileId, _proof: Proof) {}

    /// Drops the file version, which is wrong, whoever reads it.
    fn discard(&self, _file: &FileId) {}

    /// From now on `tell` hears of each file version of which something is dropped because it is wrong: who read it may
    /// have wrong bytes.
    fn on_wrong_content(&self, _tell: TellWrong) {}

    /// Most bytes that `put` takes.
    fn quota_bytes(&self) -> u64;
}

impl BlockHandle {
    pub(crate) fn new(file: Arc<File>, offset: u64, length: u32, pin: Pin) -> Self {
        BlockHandle { file, offset, length, watch: None, _pin: pin }
    }

    pub(crate) fn on(self, watch: &Arc<DiskWatch>) -> Self {
        BlockHandle { watch: Some(watch.clone()), ..self }
    }
}

impl WholeFile {
    pub(crate) fn new(file: Arc<File>, size: u64, pin: Pin) -> Self {
        WholeFile { file, size, _pin: pin }
    }

    /// The same with something more that keeps it: `wrap` gets what did so far.
    pub(crate) fn kept_by(self, wrap: impl FnOnce(Pin) -> Pin) -> Self {
        WholeFile { _pin: wrap(self._pin), ..self }
    }
}
