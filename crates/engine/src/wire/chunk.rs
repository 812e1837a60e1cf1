//! The bytes that a service sends, and how they are cut into the parts that travel as one frame each.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::page_cache::{is_cached, read_cached};
use crate::wire::frame::{MAX_DATA_BYTES, PART_BYTES};

/// Content of an answer, in order.
pub enum Chunk {
    Memory(Bytes),
    /// Not more than 1 MiB, with the checksum that they should have.
    Checked {
        bytes: Bytes,
        crc: u32,
    },
    /// `length` bytes of `file` from `offset`, which must not change while `pin` lives.
    ///
    /// With `crc` (CRC32C of exactly these bytes, at most 1 MiB of them) and without TLS the kernel sends them from the
    /// page cache; otherwise they are read here, as are those that are not in the page cache.
    File {
        file: Arc<File>,
        offset: u64,
        length: u32,
        crc: Option<u32>,
        pin: Box<dyn Send + Sync>,
    },
}

/// The payload of one frame.
pub enum Part {
    Memory { bytes: Bytes, crc: u32 },
    File(FilePart),
}

/// A part of a file that the kernel can send by itself.
#[derive(Clone)]
pub struct FilePart {
    pub file: Arc<File>,
    pub offset: u64,
    pub length: u32,
    crc: Option<u32>,
    _pin: Arc<dyn Send + Sync>,
}

/// A part of a chunk before its bytes were looked at.
pub enum Slice {
    Memory(Bytes),
    Checked { bytes: Bytes, crc: u32 },
    File(FilePart),
}

impl Chunk {
    pub fn length(&self) -> u64 {
        match self {
            Chunk::Memory(bytes) | Chunk::Checked { bytes, .. } => bytes.len() as u64,
            Chunk::File { length, .. } => u64::from(*length),
        }
    }

    /// The chunk in frames: of one piece when its checksum is given and it is not too long, else finely cut.
    pub fn slices(self) -> Vec<Slice> {
        match self {
            Chunk::Memory(bytes) => cuts(bytes.len(), PART_BYTES)
                .map(|(from, length)| Slice::Memory(bytes.slice(from..from + length)))
                .collect(),
            Chunk::Checked { bytes, crc } => vec![Slice::Checked { bytes, crc }],
            Chunk::File { file, offset, length, crc, pin } => {
                let pin: Arc<dyn Send + Sync> = Arc::new(pin);
                let whole = crc.is_some() && length as usize <= MAX_DATA_BYTES;
                let size = if whole { MAX_DATA_BYTES } else { PART_BYTES };
                let crc = crc.filter(|_| whole);
                cuts(length as usize, size)
                    .map(|(from, length)| {
                        let (offset, length) = (offset + from as u64, length as u32);
                        Slice::File(FilePart { file: file.clone(), offset, length, crc, _pin: pin.clone() })
                    })
                    .collect()
            }
        }
    }
}

fn cuts(length: usize, size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..length).step_by(size).map(move |from| (from, size.min(length - from)))
}

impl Slice {
    pub fn length(&self) -> u32 {
        match self {
            Slice::Memory(bytes) | Slice::Checked { bytes, .. } => bytes.len() as u32,
            Slice::File(part) => part.length,
        }
    }

    /// Whether the kernel can send it from its own memory now, where that is allowed.
    pub fn is_for_kernel(&self, sends_files: bool) -> bool {
        matches!(self, Slice::File(part) if sends_files && part.crc.is_some() && part.is_ready())
    }

    /// The slice with its checksum, ready to be sent without waiting for a disk: `by_kernel`, or with its bytes in
    /// memory. Fails when a file is shorter than said.
    pub async fn prepare(self, by_kernel: bool) -> Result<Part> {
        match self {
            Slice::Memory(bytes) => Ok(Part::Memory { crc: crc32c::crc32c(&bytes), bytes }),
            Slice::Checked { bytes, crc } => Ok(Part::Memory { bytes, crc }),
            Slice::File(part) if by_kernel => Ok(Part::File(part)),
            Slice::File(part) => part.read().await,
        }
    }
}

impl Part {
    pub fn length(&self) -> u32 {
        match self {
            Part::Memory { bytes, .. } => bytes.len() as u32,
            Part::File(part) => part.length,
        }
    }

    pub fn crc(&self) -> u32 {
        match self {
            Part::Memory { crc, .. } => *crc,
            Part::File(part) => part.crc.unwrap_or_default(),
        }
    }
}

impl FilePart {
    /// Whether the kernel can send it now, without the disk.
    fn is_ready(&self) -> bool {
        is_cached(&self.file, self.offset, self.length)
    }

    /// The bytes in memory: at once if they are cached, else by a thread that may wait for the disk. A checksum that was
    /// given is kept, so that the receiver notices what changed since it was made.
    async fn read(self) -> Result<Part> {
        let mut buffer = vec![0; self.length as usize];
        let cached =
            matches!(read_cached(&self.file, &mut buffer, self.offset), Some(Ok(count)) if count == buffer.len());
        let (part, bytes) = if cached {
            (self, Ok(buffer))
        } else {
            let reading = move || {
                let read = self.file.read_exact_at(&mut buffer, self.offset);
                (self, read.map(|()| buffer))
            };
            tokio::task::spawn_blocking(reading).await.map_err(|_| stopping())?
        };
        let bytes = Bytes::from(bytes.map_err(|error| part.unreadable(error))?);
        Ok(Part::Memory { crc: part.crc.unwrap_or_else(|| crc32c::crc32c(&bytes)), bytes })
    }

    /// Another replica may have the bytes.
    fn unreadable(&self, error: io::Error) -> Error {
        let error = match error.kind() {
            io::ErrorKind::UnexpectedEof => self.too_short(),
            _ => Error::new(ErrorKind::Unexpected, format!("a peer cannot read its cache: {error}")).with_source(error),
        };
        error.with_retry(Retry::Temporary)
    }

    pub fn too_short(&self) -> Error {
        let end = self.offset + u64::from(self.length);
        Error::new(ErrorKind::Corrupt, format!("a cache file of a peer ends before byte {end}"))
            .with_retry(Retry::Temporary)
    }
}

fn stopping() -> Error {
    Error::new(ErrorKind::Cancelled, "the peer is stopping").with_retry(Retry::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// A file in memory: its pages are always there.
    fn chunk(length: u32, crc: Option<u32>) -> Chunk {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let descriptor: OwnedFd = memfd_create(c"chunk", MFdFlags::empty()).expect("a memory file");
        let file = File::from(descriptor);
        file.write_all_at(&vec![7; length as usize], 0).expect("written");
        Chunk::File { file: Arc::new(file), offset: 0, length, crc, pin: Box::new(()) }
    }

    async fn parts(chunk: Chunk, sends_files: bool) -> Vec<Part> {
        let mut parts = Vec::new();
        for slice in chunk.slices() {
            let by_kernel = slice.is_for_kernel(sends_files);
            parts.push(slice.prepare(by_kernel).await.expect("readable"));
        }
        parts
    }

    #[tokio::test]
    async fn the_kernel_sends_what_has_a_checksum_and_is_in_memory() {
        let crc = crc32c::crc32c(&[7; 300_000]);
        let given = parts(chunk(300_000, Some(crc)), true).await;
        assert!(matches!(&given[..], [Part::File(part)] if part.length == 300_000) && given[0].crc() == crc);
        let covered = parts(chunk(300_000, Some(crc)), false).await;
        assert!(matches!(&covered[..], [Part::Memory { bytes, crc: kept }] if bytes.len() == 300_000 && *kept == crc));
        let unknown = parts(chunk(300_000, None), true).await;
        assert_eq!(unknown.iter().map(Part::length).collect::<Vec<_>>(), [131_072, 131_072, 37_856]);
        assert!(
            unknown.iter().all(|part| matches!(part, Part::Memory { bytes, crc } if crc32c::crc32c(bytes) == *crc))
        );
        let long = parts(chunk((1 << 20) + 1, Some(crc)), true).await;
        assert!(long.len() == 9 && long.iter().all(|part| matches!(part, Part::Memory { .. })));
    }
}
