//! Hands the bytes of a read to the kernel, from memory or from cache files. Knows no file system.

use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;

use bytes::Bytes;

use super::pipe::Pipe;
use super::reply::Pending;
use crate::vfs::{FilePart, ReadReply};

/// `writev` takes 1024 pieces; one is the header.
const MOST_PIECES: usize = 1000;

/// What a thread keeps to answer reads with; grows to the largest read and is used again.
#[derive(Default)]
pub struct ReadBuffers {
    copy: Vec<u8>,
    pipe: Option<Pipe>,
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
    if total >= super::pipe::WORTHWHILE_BYTES {
        let pipe = buffers.pipe.get_or_insert_with(Pipe::default);
        match pipe.send(pending.device(), pending.unique(), parts, total) {
            Ok(true) => return pending.written(),
            Ok(false) => {}
            Err(error) => {
                // The pipe may hold half an answer: a new one next time, and a plain copy now.
                buffers.pipe = None;
                tracing::debug!("fuse: splicing failed ({error}), copying instead");
            }
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
