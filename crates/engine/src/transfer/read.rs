//! Reads: from the store, from a block on its way, or by starting to fetch what nobody fetches yet.

use std::sync::Arc;

use tokio::time::Instant;

use super::Transfer;
use super::claim::Run;
use super::control::{FlightAnswer, FlightWaiter, Purpose};
use super::disk::Found;
use super::flight::{Asked, Flight};
use super::reader::ReaderState;
use super::reply::{Piece, Reply, StoredPart};
use super::source::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::metrics::ReasonLabel;
use crate::store::{AtOnce, BlockHandle};

/// How often a read looks again for a block that was there and is gone, before it gives up. Each time means that the
/// block was fetched and dropped within the same moment: memory far too small for the readers at work.
const ATTEMPTS: usize = 32;

/// Fetches may start here: smaller steps would only make more heads.
const START_ALIGNMENT: u32 = 64 << 10;

/// The bytes of one block that a read wants, counted from the block's start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    pub(crate) index: u32,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

/// Where a block's bytes are.
enum Located {
    Here(Vec<Piece>),
    Coming(FlightWaiter, Arc<Flight>),
    Missing,
}

/// One block's share of a read.
enum Share {
    Here(Vec<Piece>),
    Coming(FlightWaiter, Arc<Flight>, Within),
}

impl Share {
    fn missed_bytes(&self) -> u64 {
        match self {
            Share::Here(_) => 0,
            Share::Coming(_, _, within) => u64::from(within.to - within.from),
        }
    }
}

impl Transfer {
    /// The bytes of `range` (cut off at the end of the file) if all of them are on this machine: in the store or in
    /// memory. Never waits; `None` when `read` would have to. What is in the store may yet have to be read from disk.
    pub fn read_cached(
        self: &Arc<Self>,
        source: &Source,
        range: ByteRange,
        reader: &ReaderState,
    ) -> Result<Option<Reply>> {
        let range = range.clamp_to(source.size());
        Ok(self.collect(source, range).inspect(|_| self.note_hit(source, range, reader)))
    }

    /// The same, for callers that must not wait for a disk either.
    pub fn read_at_once(
        self: &Arc<Self>,
        source: &Source,
        range: ByteRange,
        reader: &ReaderState,
    ) -> Result<Option<Reply>> {
        let range = range.clamp_to(source.size());
        let reply = self.collect(source, range).filter(Reply::is_at_once);
        Ok(reply.inspect(|_| self.note_hit(source, range, reader)))
    }

    /// The same, copied into `buffer`: how many bytes, fewer than it holds only at the end of the file.
    pub fn copy_at_once(
        self: &Arc<Self>,
        source: &Source,
        offset: u64,
        buffer: &mut [u8],
        reader: &ReaderState,
    ) -> Option<usize> {
        let range = ByteRange::new(offset, buffer.len() as u64).clamp_to(source.size());
        let copied = self.collect(source, range)?.copy_at_once(buffer)?;
        self.note_hit(source, range, reader);
        Some(copied)
    }

    /// The bytes of `range` (cut off at the end of the file) if all of them are in memory. Nothing is counted or fetched
    /// for it.
    pub fn in_memory(&self, source: &Source, range: ByteRange) -> Option<Vec<u8>> {
        let reply = self.collect(source, range.clamp_to(source.size())).filter(Reply::is_at_once)?;
        let mut bytes = vec![0; reply.length()];
        reply.copy_at_once(&mut bytes)?;
        Some(bytes)
    }

    pub(super) fn collect(&self, source: &Source, range: ByteRange) -> Option<Reply> {
        let mut reply = Reply::default();
        for index in self.block_size.indices(range) {
            let within = self.within(index, range);
            if !self.collect_stored(source, within, &[], &mut reply.pieces)
                && !self.collect_from_memory(source, within, &mut reply.pieces)
            {
                return None;
            }
        }
        Some(reply)
    }

    pub(crate) fn note_hit(self: &Arc<Self>, source: &Source, range: ByteRange, reader: &ReaderState) {
        self.metrics.read_requests.inc();
        self.metrics.read_hit_bytes.inc_by(range.length());
        self.advance(source, range, 0, reader);
    }

    /// The bytes of `range` (cut off at the end of the file), fetching what is missing. Dropping the future takes this
    /// reader away and nobody else. Bytes that are not in the store yet come back in memory, outside of the budget:
    /// read long ranges in steps of some megabytes.
    pub async fn read(self: &Arc<Self>, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Reply> {
        let range = range.clamp_to(source.size());
        let started = Instant::now();
        self.metrics.read_requests.inc();
        let result = self.gather(source, range, reader).await;
        match &result {
            Ok(_) => self.metrics.read_seconds.observe(started.elapsed().as_secs_f64()),
            Err(error) => {
                let reason = ReasonLabel { reason: error.kind().name() };
                self.metrics.read_errors.get_or_create(&reason).inc();
            }
        }
        result
    }

    async fn gather(self: &Arc<Self>, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Reply> {
        // What this reader waits for is asked for first, what it will want next after that, and only then it waits.
        let found = self.find_on_disk(source, range).await;
        let shares = self.request(source, range, &found)?;
        let missed = shares.iter().map(Share::missed_bytes).sum();
        self.advance(source, range, missed, reader);
        let mut reply = Reply::default();
        for share in shares {
            match share {
                Share::Here(pieces) => reply.pieces.extend(pieces),
                Share::Coming(waiting, flight, within) => {
                    reply.pieces.extend(self.wait_for(source, within, waiting, flight).await?);
                }
            }
        }
        self.metrics.read_miss_bytes.inc_by(missed);
        self.metrics.read_hit_bytes.inc_by(range.length() - missed);
        Ok(reply)
    }

    /// Takes what is here, joins what is coming, and starts fetching the rest with as few requests as possible.
    fn request(self: &Arc<Self>, source: &Source, range: ByteRange, found: &Found) -> Result<Vec<Share>> {
        let mut indices = self.block_size.indices(range);
        let mut shares = Vec::with_capacity(indices.len());
        while let Some(index) = indices.next() {
            let within = self.within(index, range);
            match self.locate(source, within, found)? {
                Located::Here(pieces) => shares.push(Share::Here(pieces)),
                Located::Coming(waiting, flight) => {
                    self.metrics.fills_joined.inc();
                    shares.push(Share::Coming(waiting, flight, within));
                }
                Located::Missing => {
                    let run = Run { first: index, most: indices.len() as u32 + 1, start: within.from };
                    let started = self.fetch_for_reader(source, run, range, &mut shares)?;
                    // The first block of the run is `index` itself.
                    indices.by_ref().take(started as usize - 1).for_each(|_| {});
                }
            }
        }
        Ok(shares)
    }

    /// Starts fetching a run of missing blocks, with this reader in each queue before the fetch begins. How many blocks
    /// of the read are taken care of: at least one.
    fn fetch_for_reader(
        self: &Arc<Self>,
        source: &Source,
        run: Run,
        range: ByteRange,
        shares: &mut Vec<Share>,
    ) -> Result<u32> {
        // The only block of a file is compared with the file's checksum: it comes in one answer.
        let at_once = self.comes_with_checksum(source);
        let aligned = Run { start: if at_once { 0 } else { run.start / START_ALIGNMENT * START_ALIGNMENT }, ..run };
        for attempt in 0..ATTEMPTS {
            let Some(span) = self.claim(source, aligned, Purpose::Demand, attempt > 2) else {
                // Somebody was faster: it is here or coming by now.
                let within = self.within(run.first, range);
                match self.locate(source, within, &Found::new())? {
                    Located::Here(pieces) => shares.push(Share::Here(pieces)),
                    Located::Coming(waiting, flight) => shares.push(Share::Coming(waiting, flight, within)),
                    Located::Missing => continue,
                }
                return Ok(1);
            };
            for flight in &span.flights {
                let within = self.within(flight.id.index, range);
                if let Asked::Later(waiting) = flight.ask(within.from, within.to) {
                    shares.push(Share::Coming(waiting, flight.clone(), within));
                }
            }
            let blocks = span.flights.len() as u32;
            self.start(span);
            return Ok(blocks);
        }
        Err(vanishing(source))
    }

    async fn wait_for(
        self: &Arc<Self>,
        source: &Source,
        within: Within,
        waiting: FlightWaiter,
        flight: Arc<Flight>,
    ) -> Result<Vec<Piece>> {
        let (mut waiting, mut flight) = (waiting, flight);
        for _ in 0..ATTEMPTS {
            match waiting.answer().await {
                FlightAnswer::Ready(bytes) => {
                    self.note_end(&flight, within);
                    return Ok(bytes.into_iter().map(Piece::Memory).collect());
                }
                FlightAnswer::Failed(error) => return Err(error),
                FlightAnswer::Gone => {}
            }
            let start = u64::from(within.index) * u64::from(self.block_size.bytes());
            let range = ByteRange { start: start + u64::from(within.from), end: start + u64::from(within.to) };
            let found = self.find_on_disk(source, range).await;
            match self.request(source, range, &found)?.pop() {
                Some(Share::Coming(next, coming, _)) => (waiting, flight) = (next, coming),
                Some(Share::Here(pieces)) => return Ok(pieces),
                None => return Ok(Vec::new()),
            }
        }
        Err(vanishing(source))
    }

    fn locate(&self, source: &Source, within: Within, found: &Found) -> Result<Located> {
        for _ in 0..ATTEMPTS {
            let mut pieces = Vec::new();
            if self.collect_stored(source, within, found, &mut pieces) {
                return Ok(Located::Here(pieces));
            }
            let Some(flight) = self.flights.find(&source.block(within.index)) else { return Ok(Located::Missing) };
            match flight.ask(within.from, within.to) {
                Asked::Now(FlightAnswer::Ready(bytes)) => {
                    self.note_end(&flight, within);
                    return Ok(Located::Here(bytes.into_iter().map(Piece::Memory).collect()));
                }
                Asked::Now(FlightAnswer::Failed(error)) => return Err(error),
                Asked::Now(FlightAnswer::Gone) => {}
                Asked::Later(waiting) => return Ok(Located::Coming(waiting, flight)),
            }
        }
        Ok(Located::Missing)
    }

    /// From those `found` already, or from the store as far as no disk has to be waited for.
    pub(crate) fn collect_stored(
        &self,
        source: &Source,
        within: Within,
        found: &[(u32, BlockHandle)],
        pieces: &mut Vec<Piece>,
    ) -> bool {
        let Some(block) = self.stored_at_once(source, within.index, found) else { return false };
        // A block that is not as long as the file says is not this block; reading it would give wrong bytes.
        if block.length < within.to {
            return false;
        }
        let offset = block.offset + u64::from(within.from);
        pieces.push(Piece::Stored(StoredPart { block, offset, length: (within.to - within.from) as usize }));
        true
    }

    fn stored_at_once(&self, source: &Source, index: u32, found: &[(u32, BlockHandle)]) -> Option<BlockHandle> {
        if let Some((_, block)) = found.iter().find(|(known, _)| *known == index) {
            return Some(block.clone());
        }
        match self.blocks.as_ref()?.get_at_once(&source.id(), index, source.size()) {
            AtOnce::Here(block) => Some(block),
            AtOnce::Absent | AtOnce::After(_) => None,
        }
    }

    fn collect_from_memory(&self, source: &Source, within: Within, pieces: &mut Vec<Piece>) -> bool {
        let Some(flight) = self.flights.find(&source.block(within.index)) else { return false };
        let Some(bytes) = flight.peek(within.from, within.to) else { return false };
        self.note_end(&flight, within);
        pieces.extend(bytes.into_iter().map(Piece::Memory));
        true
    }

    pub(crate) fn note_end(&self, flight: &Arc<Flight>, within: Within) {
        if within.to == flight.length {
            self.memory.consumed(flight);
        }
    }

    pub(crate) fn within(&self, index: u32, range: ByteRange) -> Within {
        let block = u64::from(self.block_size.bytes());
        let start = u64::from(index) * block;
        let from = range.start.saturating_sub(start) as u32;
        Within { index, from, to: range.end.saturating_sub(start).min(block) as u32 }
    }
}

fn vanishing(source: &Source) -> Error {
    Error::new(ErrorKind::Unexpected, format!("blocks of {} vanish as fast as they are fetched", source.path()))
        .with_hint("the memory limit is too small for so many readers: raise it")
}
