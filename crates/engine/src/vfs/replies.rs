//! Turns what the transfer returns into what `FileSystem` promises: all in memory, or all in cache files.

use super::{FilePart, ReadReply};
use crate::error::{Error, ErrorKind, Result};
use crate::transfer::{Piece, Reply};

/// For a caller that may read cache files itself.
pub(super) fn reply_from_cache(reply: Reply) -> Result<ReadReply> {
    match sort(reply) {
        Sorted::Pure(reply) => Ok(reply),
        Sorted::Mixed(reply) => load(reply),
    }
}

/// The same inside the runtime: a thread that may block reads the cache files where it must be.
pub(super) async fn reply_when_ready(reply: Reply) -> Result<ReadReply> {
    match sort(reply) {
        Sorted::Pure(reply) => Ok(reply),
        Sorted::Mixed(reply) => tokio::task::spawn_blocking(|| load(reply))
            .await
            .unwrap_or_else(|_| Err(Error::new(ErrorKind::Cancelled, "the engine is closing"))),
    }
}

enum Sorted {
    Pure(ReadReply),
    Mixed(Reply),
}

fn sort(reply: Reply) -> Sorted {
    let stored = reply.pieces.iter().filter(|piece| matches!(piece, Piece::Stored(_))).count();
    if stored > 0 && stored < reply.pieces.len() {
        return Sorted::Mixed(reply);
    }
    if stored == 0 {
        let memory = reply.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Memory(bytes) => Some(bytes),
            Piece::Stored(_) => None,
        });
        return Sorted::Pure(ReadReply::Memory(memory.collect()));
    }
    let parts = reply.pieces.into_iter().filter_map(|piece| match piece {
        Piece::Stored(part) => Some(FilePart {
            file: part.block.file.clone(),
            offset: part.offset,
            length: part.length,
            pin: Box::new(part.block),
        }),
        Piece::Memory(_) => None,
    });
    Sorted::Pure(ReadReply::Files(parts.collect()))
}

/// A read over the border of a block that is kept and one that is still on its way.
fn load(reply: Reply) -> Result<ReadReply> {
    let pieces = reply.pieces.into_iter().map(|piece| match piece {
        Piece::Memory(bytes) => Ok(bytes),
        Piece::Stored(part) => part.load(),
    });
    Ok(ReadReply::Memory(pieces.collect::<Result<_>>()?))
}
