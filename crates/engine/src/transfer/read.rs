//! Reads: from the store, from a block on its way, or by starting to fetch what nobody fetches yet.

use std::sync::Arc;

use tokio::time::Instant;

use super::ahead::ReadAhead;
use super::claim::Run;
use super::context::Context;
use super::control::{FlightAnswer, FlightWaiter, Purpose};
use super::disk_read::{AtHand, DiskRead};
use super::fetch::Fetcher;
use super::flight::{Asked, Flight};
use super::lookup::{ATTEMPTS, Found, Located, Lookup, Within};
use super::reader::ReaderState;
use super::reply::{Piece, Reply};
use super::source::Source;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::metrics::ReasonLabel;

/// Fetches may start here: smaller steps would only make more heads.
const START_ALIGNMENT: u32 = 64 << 10;

/// How often a read looks again for a block that goes from one place to the next meanwhile.
const LOOKS: usize = 4;

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

/// Answers readers.
pub(super) struct Reads {
    pub(super) context: Arc<Context>,
    pub(super) lookup: Lookup,
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) ahead: Arc<ReadAhead>,
}

impl Reads {
    /// The bytes of `range` (cut off at the end of the file) if all of them are on this machine: in the store or in
    /// memory. Never waits; `None` when `read` would have to. What is in the store may yet have to be read from disk.
    pub(super) fn read_cached(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Option<Reply>> {
        let range = range.clamp_to(source.size());
        Ok(self.lookup.collect(source, range).inspect(|_| self.note_hit(source, range, reader)))
    }

    /// The bytes of `range` (cut off at the end of the file) as far as they can be had without an origin. `takes_disk`: the
    /// caller has a thread that may wait for a disk; what lies on one is missing otherwise.
    pub(super) fn at_hand(
        &self,
        source: &Source,
        range: ByteRange,
        reader: &ReaderState,
        takes_disk: bool,
    ) -> AtHand<Reply> {
        let range = range.clamp_to(source.size());
        let answer = match self.lookup.collect(source, range) {
            Some(reply) if reply.is_at_once() => AtHand::Here(reply),
            Some(reply) if takes_disk => DiskRead::of_reply(reply).map_or(AtHand::Missing, AtHand::OnDisk),
            _ => AtHand::Missing,
        };
        if !matches!(answer, AtHand::Missing) {
            self.note_hit(source, range, reader);
        }
        answer
    }

    /// Copies the bytes from `offset` on into `buffer`, if neither an origin nor a disk is needed for them: how many bytes,
    /// fewer than it holds only at the end of the file.
    pub(super) fn copy_at_once(
        &self,
        source: &Source,
        offset: u64,
        buffer: &mut [u8],
        reader: &ReaderState,
    ) -> Option<usize> {
        let range = ByteRange::new(offset, buffer.len() as u64).clamp_to(source.size());
        let copied = self.lookup.collect(source, range)?.copy_at_once(buffer)?;
        self.note_hit(source, range, reader);
        Some(copied)
    }

    /// The bytes of `range` (cut off at the end of the file) if all of them are in memory. Nothing is counted or fetched
    /// for it.
    pub(super) fn in_memory(&self, source: &Source, range: ByteRange) -> Option<Vec<u8>> {
        let reply = self.lookup.collect(source, range.clamp_to(source.size())).filter(Reply::is_at_once)?;
        let mut bytes = vec![0; reply.length()];
        reply.copy_at_once(&mut bytes)?;
        Some(bytes)
    }

    fn note_hit(&self, source: &Source, range: ByteRange, reader: &ReaderState) {
        self.context.metrics.read_requests.inc();
        self.context.metrics.read_hit_bytes.inc_by(range.length());
        self.ahead.advance(source, range, 0, reader);
    }

    /// The bytes of `range` (cut off at the end of the file), fetching what is missing. Dropping the future takes this
    /// reader away and nobody else. Bytes that are not in the store yet come back in memory, outside of the budget:
    /// read long ranges in steps of some megabytes.
    pub(super) async fn read(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Reply> {
        let range = range.clamp_to(source.size());
        let started = Instant::now();
        self.context.metrics.read_requests.inc();
        let result = self.gather(source, range, reader).await;
        match &result {
            Ok(_) => self.context.metrics.read_seconds.observe(started.elapsed().as_secs_f64()),
            Err(error) => {
                let reason = ReasonLabel { reason: error.kind().name() };
                self.context.metrics.read_errors.get_or_create(&reason).inc();
            }
        }
        result
    }

    async fn gather(&self, source: &Source, range: ByteRange, reader: &ReaderState) -> Result<Reply> {
        // What this reader waits for is asked for first, what it will want next after that, and only then it waits.
        let found = self.lookup.find_on_disk(source, range).await;
        let shares = self.request(source, range, &found)?;
        let missed = shares.iter().map(Share::missed_bytes).sum();
        self.ahead.advance(source, range, missed, reader);
        let mut reply = Reply::default();
        for share in shares {
            match share {
                Share::Here(pieces) => reply.pieces.extend(pieces),
                Share::Coming(waiting, flight, within) => {
                    reply.pieces.extend(self.wait_for(source, within, waiting, flight).await?);
                }
            }
        }
        self.context.metrics.read_miss_bytes.inc_by(missed);
        self.context.metrics.read_hit_bytes.inc_by(range.length() - missed);
        Ok(reply)
    }

    /// Takes what is here, joins what is coming, and starts fetching the rest with as few requests as possible.
    fn request(&self, source: &Source, range: ByteRange, found: &Found) -> Result<Vec<Share>> {
        let mut indices = self.context.block_size.indices(range);
        let mut shares = Vec::with_capacity(indices.len());
        while let Some(index) = indices.next() {
            let within = self.lookup.within(index, range);
            match self.lookup.locate(source, within, found)? {
                Located::Here(pieces) => shares.push(Share::Here(pieces)),
                Located::Coming(waiting, flight) => {
                    self.context.metrics.fills_joined.inc();
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
    fn fetch_for_reader(&self, source: &Source, run: Run, range: ByteRange, shares: &mut Vec<Share>) -> Result<u32> {
        // The only block of a file is compared with the file's checksum: it comes in one answer.
        let at_once = self.context.comes_with_checksum(source);
        let aligned = Run { start: if at_once { 0 } else { run.start / START_ALIGNMENT * START_ALIGNMENT }, ..run };
        for attempt in 0..ATTEMPTS {
            let Some(span) = aligned.claim(&self.context, source, Purpose::Demand, attempt > 2) else {
                // Somebody was faster: it is here or coming by now.
                let within = self.lookup.within(run.first, range);
                match self.lookup.locate(source, within, &Found::new())? {
                    Located::Here(pieces) => shares.push(Share::Here(pieces)),
                    Located::Coming(waiting, flight) => shares.push(Share::Coming(waiting, flight, within)),
                    Located::Missing => continue,
                }
                return Ok(1);
            };
            for flight in &span.flights {
                let within = self.lookup.within(flight.id.index, range);
                if let Asked::Later(waiting) = flight.ask(within.from, within.to) {
                    shares.push(Share::Coming(waiting, flight.clone(), within));
                }
            }
            let blocks = span.flights.len() as u32;
            self.fetcher.start(span);
            return Ok(blocks);
        }
        Err(vanishing(source))
    }

    async fn wait_for(
        &self,
        source: &Source,
        within: Within,
        waiting: FlightWaiter,
        flight: Arc<Flight>,
    ) -> Result<Vec<Piece>> {
        let (mut waiting, mut flight) = (waiting, flight);
        for _ in 0..ATTEMPTS {
            match waiting.answer().await {
                FlightAnswer::Ready(bytes) => {
                    self.lookup.note_end(&flight, within);
                    return Ok(bytes.into_iter().map(Piece::Memory).collect());
                }
                FlightAnswer::Failed(error) => return Err(error),
                FlightAnswer::Gone => {}
            }
            let start = u64::from(within.index) * u64::from(self.context.block_size.bytes());
            let range = ByteRange { start: start + u64::from(within.from), end: start + u64::from(within.to) };
            let found = self.lookup.find_on_disk(source, range).await;
            match self.request(source, range, &found)?.pop() {
                Some(Share::Coming(next, coming, _)) => (waiting, flight) = (next, coming),
                Some(Share::Here(pieces)) => return Ok(pieces),
                None => return Ok(Vec::new()),
            }
        }
        Err(vanishing(source))
    }

    /// The bytes of `range`, which lies in one block, if they are here or on their way with memory of their own: waits
    /// for those, and never for memory. `None` when it would have to.
    pub(super) async fn read_at_hand(
        &self,
        source: &Source,
        range: ByteRange,
        reader: &ReaderState,
    ) -> Result<Option<Reply>> {
        for _ in 0..LOOKS {
            if let Some(reply) = self.read_cached(source, range, reader)? {
                return Ok(Some(reply));
            }
            let within = self.lookup.within(self.context.block_size.index_of(range.start), range);
            let (found, mut pieces) = (self.lookup.find_on_disk(source, range).await, Vec::new());
            if self.lookup.collect_stored(source, within, &found, &mut pieces) {
                self.note_hit(source, range, reader);
                return Ok(Some(Reply { pieces }));
            }
            let coming = self.context.flights.find(&source.block(within.index)).filter(|flight| flight.has_memory());
            let Some(flight) = coming else { continue };
            match self.bytes_of(&flight, within).await {
                FlightAnswer::Ready(bytes) => {
                    self.context.metrics.read_requests.inc();
                    self.context.metrics.read_miss_bytes.inc_by(range.length());
                    return Ok(Some(Reply { pieces: bytes.into_iter().map(Piece::Memory).collect() }));
                }
                FlightAnswer::Failed(error) => return Err(error),
                FlightAnswer::Gone => {}
            }
        }
        Ok(None)
    }

    async fn bytes_of(&self, flight: &Arc<Flight>, within: Within) -> FlightAnswer {
        let answer = match flight.ask(within.from, within.to) {
            Asked::Now(answer) => answer,
            Asked::Later(waiting) => waiting.answer().await,
        };
        if matches!(answer, FlightAnswer::Ready(_)) {
            self.lookup.note_end(flight, within);
        }
        answer
    }
}

fn vanishing(source: &Source) -> Error {
    Error::new(ErrorKind::Unexpected, format!("blocks of {} vanish as fast as they are fetched", source.path()))
        .with_hint("the memory limit is too small for so many readers: raise it")
}
