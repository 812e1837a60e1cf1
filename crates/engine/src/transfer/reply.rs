//! What a read returns: bytes in memory, or places in cache files that hold them.

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::store::BlockHandle;

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
    /// The bytes themselves, read from the cache file.
    pub fn load(&self) -> Result<Bytes> {
        use std::os::unix::fs::FileExt;
        let mut buffer = vec![0; self.length];
        self.block.file.read_exact_at(&mut buffer, self.offset).map_err(|error| {
            Error::new(ErrorKind::Corrupt, format!("cannot read a block back from the cache: {error}"))
        })?;
        Ok(Bytes::from(buffer))
    }
}

impl Reply {
    /// Bytes of all pieces.
    pub fn length(&self) -> usize {
        self.pieces.iter().map(Piece::length).sum()
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
