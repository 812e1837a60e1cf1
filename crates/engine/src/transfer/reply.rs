//! The result of a read: bytes in memory, or places in cache files that hold them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::page_cache::{is_cached, read_cached};
use crate::store::BlockHandle;

/// Read by one call, so that a disk that is only slow answers often.
const STEP_BYTES: usize = 1 << 20;

/// One stretch of a reply.
#[derive(Debug)]
pub enum Piece {
    Memory(Bytes),
    Stored(StoredPart),
}

/// `length` bytes of a block's cache file from `offset` (counted in the cache file); the handle keeps them in place.
#[derive(Debug)]
pub struct StoredPart {
    pub block: BlockHandle,
    pub offset: u64,
    pub length: usize,
}

/// The bytes of one read, in order.
#[derive(Debug, Default)]
pub struct Reply {
    pub pieces: Vec<Piece>,
}

impl Piece {
    pub fn length(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len(),
            Piece::Stored(part) => part.length,
        }
    }
}

impl StoredPart {
    /// Whether the bytes are in memory, probably.
    pub fn is_at_once(&self) -> bool {
        let is_cached = |length| length == 0 || is_cached(&self.block.file, self.offset, length);
        u32::try_from(self.length).is_ok_and(is_cached)
    }

    /// The bytes if they are in memory.
    pub(crate) fn load_at_once(&self) -> Option<Result<Bytes>> {
        let mut buffer = vec![0; self.length];
        match read_cached(&self.block.file, &mut buffer, self.offset)? {
            Ok(count) if count == buffer.len() => Some(Ok(Bytes::from(buffer))),
            // Some of it is not, or the file ends early: whoever reads it finds out.
            _ => None,
        }
    }

    /// Fills `buffer`, which is as long as this, if all of it is in memory.
    fn copy_at_once(&self, buffer: &mut [u8]) -> Option<()> {
        let copied = read_cached(&self.block.file, buffer, self.offset)?;
        copied.is_ok_and(|count| count == buffer.len()).then_some(())
    }

    /// The bytes themselves, read from the cache file. Waits for the disk.
    pub fn load(&self) -> Result<Bytes> {
        let mut buffer = vec![0; self.length];
        self.load_into(&mut buffer)?;
        Ok(Bytes::from(buffer))
    }

    /// The same, into a buffer of their length.
    pub(crate) fn load_into(&self, buffer: &mut [u8]) -> Result<()> {
        let mut rest = buffer;
        self.in_calls(|file, offset, length| {
            let (now, later) =
                std::mem::take(&mut rest).split_at_mut_checked(length).ok_or(io::ErrorKind::UnexpectedEof)?;
            rest = later;
            file.read_exact_at(now, offset)
        })
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("cannot read a block back from the cache: {error}")))
    }

    /// Has all of it read by `read`, which is given file, offset and length: as one call on the disk each time.
    pub(crate) fn in_calls(&self, mut read: impl FnMut(&File, u64, usize) -> io::Result<()>) -> io::Result<()> {
        for done in (0..self.length).step_by(STEP_BYTES) {
            let _operation = self.block.watch.as_ref().map(|watch| watch.begin());
            let length = STEP_BYTES.min(self.length - done);
            read(&self.block.file, self.offset + done as u64, length)?;
        }
        Ok(())
    }
}

impl Reply {
    /// Bytes of all pieces.
    pub fn length(&self) -> usize {
        self.pieces.iter().map(Piece::length).sum()
    }

    /// Whether all of it is in memory, probably: no disk has to be waited for.
    pub fn is_at_once(&self) -> bool {
        self.pieces.iter().all(|piece| match piece {
            Piece::Memory(_) => true,
            Piece::Stored(part) => part.is_at_once(),
        })
    }

    /// Copies all bytes to the start of `buffer`, which has room for them; `None` when a disk would have to be waited for.
    pub(crate) fn copy_at_once(&self, buffer: &mut [u8]) -> Option<usize> {
        let mut done = 0;
        for piece in &self.pieces {
            let target = buffer.get_mut(done..done + piece.length())?;
            match piece {
                Piece::Memory(bytes) => target.copy_from_slice(bytes),
                Piece::Stored(part) => part.copy_at_once(target)?,
            }
            done += piece.length();
        }
        Some(done)
    }

    /// All bytes in one vector; reads cache files.
    pub fn to_vec(&self) -> Result<Vec<u8>> {
        let mut whole = Vec::with_capacity(self.length());
        for piece in &self.pieces {
            match piece {
                Piece::Memory(bytes) => whole.extend_from_slice(bytes),
                Piece::Stored(part) => whole.extend_from_slice(&part.load()?),
            }
        }
        Ok(whole)
    }
}
