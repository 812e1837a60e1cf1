//! What a read returns: bytes in memory, or places in cache files that hold them.

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

    /// The bytes themselves, read from the cache file. Waits for the disk.
    pub fn load(&self) -> Result<Bytes> {
        let mut buffer = vec![0; self.length];
        self.load_into(&mut buffer)?;
        Ok(Bytes::from(buffer))
    }

    /// The same, into a buffer of their length.
    pub(crate) fn load_into(&self, buffer: &mut [u8]) -> Result<()> {
        use std::os::unix::fs::FileExt;
        let mut offset = self.offset;
        for step in buffer.chunks_mut(STEP_BYTES) {
            let _operation = self.block.watch.as_ref().map(|watch| watch.begin());
            self.block.file.read_exact_at(step, offset).map_err(|error| {
                Error::new(ErrorKind::Corrupt, format!("cannot read a block back from the cache: {error}"))
            })?;
            offset += step.len() as u64;
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
