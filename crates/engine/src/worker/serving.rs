//! Sending a range: piece by piece, from the cache file where the block is there, else as its bytes arrive.

use super::checksums::PIECE_BYTES;
use super::frames;
use super::service::BlockService;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::{BlockId, ByteRange};
use crate::transfer::{Piece, ReaderState, Reply, Source, StoredPart};
use crate::wire::{Chunk, ChunkSink, Fill, GetRequest};

impl BlockService {
    /// Sends the bytes that are asked for; what is missing is fetched and kept, and sent as it arrives.
    pub(super) async fn serve(&self, source: &Source, request: &GetRequest, sink: &ChunkSink) -> Result<()> {
        // Who asks reads ahead itself, and asks each owner for its own blocks.
        let reader = ReaderState::still();
        let block_bytes = u64::from(self.transfer.block_size().bytes());
        let mut at = request.range.start;
        while at < request.range.end {
            // What waits for the client to take it is not in memory.
            sink.ready().await?;
            let long = frames::stored(request.range, at, block_bytes);
            let short = frames::fine(request.range, at, block_bytes);
            let (piece, cached) = match self.transfer.read_cached(source, long, &reader)? {
                Some(reply) => (long, Some(reply)),
                // Of a block that is still arriving the short piece may be there already.
                None if short != long => (short, self.transfer.read_cached(source, short, &reader)?),
                None => (short, None),
            };
            let reply = match cached {
                Some(reply) => reply,
                None if self.must_be_at_hand(request, piece) => {
                    self.transfer.read_at_hand(source, piece, &reader).await?.ok_or_else(|| went_meanwhile(source))?
                }
                None => self.read_missing(source, request.range, piece, &reader).await?,
            };
            let chunks = match self.chunks(source, piece, reply).await {
                // Its disk hangs, and counts as not there from now on.
                Err(error) if error.kind() == ErrorKind::Timeout && !self.must_be_at_hand(request, piece) => {
                    let reply = self.read_missing(source, request.range, piece, &reader).await?;
                    self.chunks(source, piece, reply).await?
                }
                chunks => chunks?,
            };
            for chunk in chunks {
                sink.send(chunk).await?;
            }
            at = piece.end;
        }
        Ok(())
    }

    /// True when whoever asks must not be kept waiting by our lack of memory: it wants what is cached only, or it is a
    /// worker that holds memory for this block already, since its first byte was sent.
    fn must_be_at_hand(&self, request: &GetRequest, piece: ByteRange) -> bool {
        let index_of = |offset| self.transfer.block_size().index_of(offset);
        let begins_its_block = piece.start == request.range.start || index_of(piece.start) != index_of(piece.start - 1);
        let of_first = index_of(piece.start) == index_of(request.range.start);
        let is_held = |fill: &Fill| !begins_its_block || (fill.has_begun && of_first);
        request.cached_only || request.fill.as_ref().is_some_and(is_held)
    }

    /// Waits for `piece`, with all of `range` from there on asked for: one request to the origin instead of many.
    async fn read_missing(
        &self,
        source: &Source,
        range: ByteRange,
        piece: ByteRange,
        reader: &ReaderState,
    ) -> Result<Reply> {
        self.transfer.fetch_soon(source, ByteRange { start: piece.start, end: range.end });
        self.transfer.read(source, piece, reader).await
    }

    async fn chunks(&self, source: &Source, piece: ByteRange, reply: Reply) -> Result<Vec<Chunk>> {
        let is_single = reply.pieces.len() == 1;
        let mut chunks = Vec::with_capacity(reply.pieces.len());
        for part in reply.pieces {
            chunks.push(match part {
                Piece::Memory(bytes) => Chunk::Memory(bytes),
                Piece::Stored(part) if is_single => self.stored(source, piece, part).await?,
                Piece::Stored(part) => Chunk::Memory(self.transfer.load(part).await?),
            });
        }
        Ok(chunks)
    }

    /// A piece of a cache file: sent as it lies there when its checksum is known, else read once to compute it.
    async fn stored(&self, source: &Source, piece: ByteRange, part: StoredPart) -> Result<Chunk> {
        let block_size = self.transfer.block_size();
        let block = BlockId { file: source.id(), index: block_size.index_of(piece.start) };
        let bounds = block_size.range(block.index, source.size());
        let (from, to) = (piece.start - bounds.start, piece.end - bounds.start);
        let is_aligned =
            from.is_multiple_of(PIECE_BYTES) && (to.is_multiple_of(PIECE_BYTES) || piece.end == bounds.end);
        if !is_aligned {
            return self.transfer.load(part).await.map(Chunk::Memory);
        }
        let numbers = (from / PIECE_BYTES) as usize..to.div_ceil(PIECE_BYTES) as usize;
        if let Some(checksum) = self.checksums.find(&block, numbers.clone(), to - from) {
            if !part.is_at_once() {
                return Ok(Chunk::Checked { bytes: self.transfer.load(part).await?, crc: checksum });
            }
            let (file, offset, length) = (part.block.file.clone(), part.offset, part.length as u32);
            return Ok(Chunk::File { file, offset, length, crc: Some(checksum), pin: Box::new(part) });
        }
        let bytes = self.transfer.load(part).await?;
        let count = bounds.length().div_ceil(PIECE_BYTES) as usize;
        let crc = self.checksums.note(block, numbers.start, count, &bytes);
        Ok(Chunk::Checked { bytes, crc })
    }
}

/// Another worker, or the origin, has what went from here while it was sent.
fn went_meanwhile(source: &Source) -> Error {
    Error::new(ErrorKind::Busy, format!("a block of {} went from this worker while it was sent", source.path()))
        .with_retry(Retry::Temporary)
}
