//! Turns what the transfer returns into what `FileSystem` promises: all in memory, or all in cache files that need no
//! disk now.

use super::{FilePart, ReadReply};
use crate::error::Result;
use crate::transfer::{Piece, Reply, Transfer};

/// For a reply that needs no disk.
pub(crate) fn reply_from_cache(reply: Reply) -> Result<ReadReply> {
    match sort(reply) {
        Sorted::Pure(reply) => Ok(reply),
        Sorted::Mixed(reply) => {
            let load = |piece| match piece {
                Piece::Memory(bytes) => Ok(bytes),
                Piece::Stored(part) => part.load(),
            };
            Ok(ReadReply::Memory(reply.pieces.into_iter().map(load).collect::<Result<_>>()?))
        }
    }
}

/// For any other, inside the runtime: threads that may wait read the cache files. `Timeout` when their disk hangs.
pub(crate) async fn reply_when_ready(transfer: &Transfer, reply: Reply) -> Result<ReadReply> {
    if reply.is_at_once() {
        return reply_from_cache(reply);
    }
    let mut memory = Vec::with_capacity(reply.pieces.len());
    for piece in reply.pieces {
        memory.push(match piece {
            Piece::Memory(bytes) => bytes,
            Piece::Stored(part) => transfer.load(part).await?,
        });
    }
    Ok(ReadReply::Memory(memory))
}

enum Sorted {
    Pure(ReadReply),
    /// A read over the border of a block that is kept and one that is still on its way.
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
