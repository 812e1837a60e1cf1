//! Hands the bytes of a read to the kernel, from memory or from cache files. Knows no file system.

use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::pipe::{Filling, Pipe, WORTHWHILE_BYTES};
use super::reply::Pending;
use crate::error::Result;
use crate::vfs::{DiskRead, FilePart, ReadReply};

/// `writev` takes 1024 pieces; one is the header.
const MOST_PIECES: usize = 1000;

/// What a thread keeps to answer reads with; grows to the largest read and is used again.
#[derive(Default)]
pub struct ReadBuffers {
    copy: Vec<u8>,
    pipe: Pipe,
}

/// Answers a read of `length` bytes with what the file system found: never more than was asked for.
pub fn answer(pending: Pending, reply: ReadReply, length: usize, buffers: &mut ReadBuffers) {
    match reply {
        ReadReply::Memory(pieces) => answer_memory(pending, &pieces, length, buffers),
        ReadReply::Files(parts) => answer_files(pending, &parts, length, buffers),
    }
}

fn answer_memory(pending: Pending, pieces: &[Bytes], length: usize, buffers: &mut ReadBuffers) {
    if pieces.len() > MOST_PIECES {
        buffers.copy.clear();
        pieces.iter().for_each(|piece| buffers.copy.extend_from_slice(piece));
        buffers.copy.truncate(length);
        pending.bytes(&buffers.copy);
        return;
    }
    let mut left = length;
    let slices: Vec<IoSlice<'_>> = pieces
        .iter()
        .map(|piece| {
            let taken = piece.len().min(left);
            left -= taken;
            IoSlice::new(&piece[..taken])
        })
        .collect();
    pending.slices(length - left, &slices);
}

fn answer_files(pending: Pending, parts: &[FilePart], length: usize, buffers: &mut ReadBuffers) {
    let total = parts.iter().map(|part| part.length).sum::<usize>().min(length);
    if total >= WORTHWHILE_BYTES {
        match pass(&pending, parts, total, &mut buffers.pipe) {
            Ok(true) => return pending.written(),
            Ok(false) => {}
            Err(error) => tracing::debug!("fuse: splicing failed ({error}), copying instead"),
        }
    }
    match copy(parts, total, &mut buffers.copy) {
        Ok(()) => pending.bytes(&buffers.copy[..total]),
        Err(error) => {
            tracing::error!("fuse: a cache file could not be read: {error}");
            pending.error(libc::EIO)
        }
    };
}

/// Answers through the pipe, or returns false when that cannot hold so much.
fn pass(pending: &Pending, parts: &[FilePart], total: usize, pipe: &mut Pipe) -> io::Result<bool> {
    let lengths = parts.iter().map(|part| part.length);
    let Some(mut filling) = pipe.begin(pending.unique(), lengths, total)? else { return Ok(false) };
    for part in parts {
        filling.take(&part.file, part.offset, part.length)?;
    }
    filling.send(pending.device()).map(|()| true)
}

/// Reads all parts, one after the other, into the start of `buffer`. A part that ends early is an error: its length was
/// promised.
fn copy(parts: &[FilePart], total: usize, buffer: &mut Vec<u8>) -> io::Result<()> {
    if buffer.len() < total {
        buffer.resize(total, 0);
    }
    let mut rest = &mut buffer[..total];
    for part in parts {
        let (now, later) = std::mem::take(&mut rest).split_at_mut_checked(part.length).unwrap_or((&mut [], &mut []));
        part.file.read_exact_at(now, part.offset)?;
        rest = later;
    }
    Ok(())
}

/// What a read has found on disks, on its way to the kernel.
pub struct Loaded<'a> {
    found: &'a DiskRead,
    /// `None`: all of it is in `copy`.
    piped: Option<Filling<'a>>,
    copy: &'a mut Vec<u8>,
}

/// Brings what is on disks to where the kernel takes it from, as the answer to the request `unique`. Waits for the disks.
pub fn load<'a>(unique: u64, found: &'a DiskRead, buffers: &'a mut ReadBuffers) -> Result<Loaded<'a>> {
    let ReadBuffers { copy, pipe } = buffers;
    let piped = fill(unique, found, pipe).unwrap_or_else(|error| {
        tracing::debug!("fuse: splicing from a disk failed ({error}), copying instead");
        None
    });
    if piped.is_none() {
        found.load_into(copy)?;
    }
    Ok(Loaded { found, piped, copy })
}

fn fill<'a>(unique: u64, found: &DiskRead, pipe: &'a mut Pipe) -> io::Result<Option<Filling<'a>>> {
    let total = found.lengths().sum();
    if total < WORTHWHILE_BYTES {
        return Ok(None);
    }
    let Some(mut filling) = pipe.begin(unique, found.lengths(), total)? else { return Ok(None) };
    found.in_calls(|file, offset, length| filling.take(file, offset, length))?;
    Ok(Some(filling))
}

impl Loaded<'_> {
    /// Answers the request that it was loaded for.
    pub fn answer(self, pending: Pending) {
        let Loaded { found, piped, copy } = self;
        if let Some(filling) = piped {
            match filling.send(pending.device()) {
                Ok(()) => return pending.written(),
                Err(error) => tracing::debug!("fuse: splicing failed ({error}), copying instead"),
            }
            if let Err(error) = found.load_into(copy) {
                pending.error(error.errno());
                return;
            }
        }
        pending.bytes(copy);
    }
}
