//! The task behind every fetch: one request for several blocks in a row, the asked-for offset first, each block handed
//! on as it completes. A fetch belongs to nobody: readers come and go.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::OwnedSemaphorePermit;

use super::Transfer;
use super::control::{Purpose, SpanControl, Way};
use super::flight::{Flight, Stretch};
use super::source::Source;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::ByteStream;

/// Blocks in a row that one task fetches.
pub(crate) struct Span {
    pub(crate) source: Source,
    /// At least one, of consecutive blocks; only the first may have a head.
    pub(crate) flights: Vec<Arc<Flight>>,
    pub(crate) control: Arc<SpanControl>,
    /// The right to use the origin for something that no reader waits for.
    pub(crate) slots: Vec<OwnedSemaphorePermit>,
}

/// Ends every block that is still filling when the task ends, however it ends.
struct Unfinished<'a> {
    transfer: &'a Transfer,
    flights: &'a [Arc<Flight>],
    reason: Option<Error>,
    abandoned: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let reason = self.reason.take();
        let error = reason.unwrap_or_else(|| Error::new(ErrorKind::Unexpected, "a fetch ended without a result"));
        for flight in self.flights.iter().filter(|flight| flight.is_filling()) {
            self.transfer.flights.remove(flight);
            if self.abandoned { flight.abandon(&error) } else { flight.fail(&error) }
        }
    }
}

impl Transfer {
    /// Starts fetching `span` in a task of its own.
    pub(crate) fn start(self: &Arc<Self>, span: Span) {
        let (transfer, asker) = (self.clone(), span.control.asker);
        self.tasks.spawn_on(asker.ask(async move { transfer.run(span).await }), &self.runtime);
    }

    async fn run(self: Arc<Self>, span: Span) {
        let mut unfinished = Unfinished { transfer: &self, flights: &span.flights, reason: None, abandoned: false };
        tokio::select! {
            biased;
            () = self.closing.cancelled() => unfinished.reason = Some(closing_error()),
            () = span.control.stop.cancelled() => {
                unfinished.reason = Some(Error::new(ErrorKind::Cancelled, "nobody waits for this fetch any more"));
                unfinished.abandoned = true;
            }
            result = self.fetch_all(&span) => unfinished.reason = result.err(),
        }
    }

    /// Fetches the blocks in as few requests as memory allows. Only a request's own memory is ever held while waiting
    /// for the origin, and none while waiting for memory, or for what another process fetches for both (`shared`), so
    /// that fetches cannot wait for each other in a circle.
    async fn fetch_all(self: &Arc<Self>, span: &Span) -> Result<()> {
        if self.doubts.refuses(&span.source.id()) {
            return Err(wrong_content(&span.source));
        }
        let mut rest = self.bring_what_may(span).await?;
        while !rest.is_empty() {
            let (way, run) = self.way(&span.source, rest);
            let ready = match way {
                Way::Shared => {
                    // Those after it, too: they wait as long.
                    rest.iter().for_each(|flight| flight.give_memory_back());
                    run
                }
                Way::Alone => self.secure_memory(&rest[..run]).await,
            };
            // Who owns what may have changed while it waited.
            if way == Way::Alone && self.shared_until(&span.source, &rest[0]).is_some() {
                continue;
            }
            self.fetch_run(span, &rest[..ready], way).await?;
            rest = &rest[ready..];
        }
        Ok(())
    }

    /// Waits for the memory of the first block, takes what is free for those after it; how many blocks have theirs.
    pub(crate) async fn secure_memory(&self, flights: &[Arc<Flight>]) -> usize {
        for (position, flight) in flights.iter().enumerate() {
            let bytes = u64::from(flight.length);
            if flight.has_memory() {
                continue;
            }
            match position {
                0 => flight.set_memory(self.memory.acquire(bytes).await),
                _ => match self.memory.try_acquire(bytes) {
                    Some(memory) => flight.set_memory(memory),
                    None => return position,
                },
            }
        }
        flights.len()
    }

    async fn fetch_run(self: &Arc<Self>, span: &Span, flights: &[Arc<Flight>], way: Way) -> Result<()> {
        let (Some(first), Some(last)) = (flights.first(), flights.last()) else { return Ok(()) };
        let start = self.block_start(first);
        let asked = start + u64::from(first.tail_start);
        let end = self.block_start(last) + u64::from(last.length);
        // What somebody waited for may have come before the rest.
        let rest = ByteRange { start: start + u64::from(first.tail_end()), end };
        let tail =
            async { if rest.is_empty() { Ok(()) } else { self.stream(span, flights, way, Stretch::Tail, rest).await } };
        if first.tail_start == 0 {
            return tail.await;
        }
        let head = async {
            first.head_wanted.notified().await;
            first.wait_for_memory().await;
            self.stream(span, &flights[..1], way, Stretch::Head, ByteRange { start, end: asked }).await
        };
        tokio::try_join!(tail, head).map(|_| ())
    }

    async fn stream(
        self: &Arc<Self>,
        span: &Span,
        flights: &[Arc<Flight>],
        way: Way,
        stretch: Stretch,
        range: ByteRange,
    ) -> Result<()> {
        match way {
            Way::Shared => self.stream_shared(span, flights, stretch, range).await,
            Way::Alone => self.stream_alone(span, flights, stretch, range).await,
        }
    }

    /// One request: hands every piece to its block and checks that exactly the range came.
    pub(crate) async fn stream_alone(
        self: &Arc<Self>,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        range: ByteRange,
    ) -> Result<()> {
        let source = &span.source;
        if range.length() == source.size() && self.comes_with_checksum(source) {
            return self.stream_whole(span, &flights[0]).await;
        }
        let asked = Instant::now();
        let stream = source.origin().read(source.object(), range).await?;
        self.answer_time.note(asked.elapsed());
        self.pour(span, flights, stretch, range, stream).await
    }

    /// Hands every piece of an answer to its block as it comes.
    pub(crate) async fn pour(
        self: &Arc<Self>,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        range: ByteRange,
        mut stream: ByteStream,
    ) -> Result<()> {
        let source = &span.source;
        let mut position = range.start;
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            if piece.len() as u64 > range.end - position {
                return Err(wrong_length(source, range, "more"));
            }
            let length = piece.len() as u64;
            self.arrived(span, flights, stretch, position, piece);
            position += length;
        }
        if position < range.end { Err(wrong_length(source, range, "fewer")) } else { Ok(()) }
    }

    pub(crate) fn arrived(
        self: &Arc<Self>,
        span: &Span,
        flights: &[Arc<Flight>],
        stretch: Stretch,
        position: u64,
        piece: Bytes,
    ) {
        self.count_ahead(span.control.purpose, piece.len());
        self.deliver(flights, stretch, position, piece);
    }

    /// Cuts `piece` at block borders.
    fn deliver(self: &Arc<Self>, flights: &[Arc<Flight>], stretch: Stretch, mut position: u64, mut piece: Bytes) {
        while let (false, Some(first)) = (piece.is_empty(), flights.first()) {
            let index = self.block_size.index_of(position) - first.id.index;
            let Some(flight) = flights.get(index as usize) else { return };
            let left = self.block_start(flight) + u64::from(flight.length) - position;
            let part = piece.split_to(piece.len().min(left as usize));
            position += part.len() as u64;
            let reached_end = part.len() as u64 == left;
            if flight.append(stretch, part) {
                self.finish(flight);
            } else if reached_end && stretch == Stretch::Tail {
                flight.head_wanted.notify_one();
            }
        }
    }

    pub(super) fn count_ahead(&self, purpose: Purpose, bytes: usize) {
        match purpose {
            Purpose::Demand => {}
            Purpose::ReadAhead => drop(self.metrics.readahead_bytes.inc_by(bytes as u64)),
            Purpose::Prefetch | Purpose::Warm => drop(self.metrics.prefetch_bytes.inc_by(bytes as u64)),
        }
    }

    pub(crate) fn block_start(&self, flight: &Flight) -> u64 {
        u64::from(flight.id.index) * u64::from(self.block_size.bytes())
    }
}

pub(crate) fn closing_error() -> Error {
    Error::new(ErrorKind::Cancelled, "the engine is closing")
}

pub(crate) fn wrong_length(source: &Source, range: ByteRange, than: &str) -> Error {
    let message = format!("the origin sent {than} bytes of {} than were asked for", source.path());
    Error::new(ErrorKind::Corrupt, message)
        .with_retry(Retry::Exhausted)
        .with_context("range", format!("{}..{}", range.start, range.end))
        .with_hint("something between here and the origin cuts or pads answers; reading again asks for all of it")
}

/// Why a file is refused.
pub(crate) fn wrong_content(source: &Source) -> Error {
    let message = format!("the origin sends other bytes of {} than its checksum says", source.path());
    Error::new(ErrorKind::Corrupt, message).with_retry(Retry::Exhausted).with_hint(
        "something between here and the origin changes bytes (a proxy, a gateway), or the object is damaged there; \
         a storage of S3 or OSS whose checksums are wrong is read without them by --option ignore-checksums=true",
    )
}
