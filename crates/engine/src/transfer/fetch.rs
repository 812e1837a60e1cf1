//! The task behind every fetch: one request for several blocks in a row, the asked-for offset first, each block handed
//! on as it completes. A fetch belongs to nobody: readers come and go.

use std::sync::Arc;

use super::brought::Bringer;
use super::claim::Span;
use super::context::Context;
use super::control::Way;
use super::faults::{closing_error, wrong_content};
use super::flight::{Flight, Stretch};
use super::flights::Flights;
use super::proof::Comparisons;
use super::request::Requests;
use super::shared::SharedFetches;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;

/// Fetches blocks, each span in a task of its own.
pub(super) struct Fetcher {
    pub(super) context: Arc<Context>,
    pub(super) comparisons: Arc<Comparisons>,
    pub(super) requests: Arc<Requests>,
    pub(super) shared: SharedFetches,
    pub(super) bringer: Arc<Bringer>,
}

/// Ends every block that is still filling when the task ends, however it ends.
struct Unfinished<'a> {
    known: &'a Flights,
    flights: &'a [Arc<Flight>],
    reason: Option<Error>,
    abandoned: bool,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let reason = self.reason.take();
        let error = reason.unwrap_or_else(|| Error::new(ErrorKind::Unexpected, "a fetch ended without a result"));
        for flight in self.flights.iter().filter(|flight| flight.is_filling()) {
            self.known.remove(flight);
            if self.abandoned { flight.abandon(&error) } else { flight.fail(&error) }
        }
    }
}

impl Fetcher {
    /// Starts fetching `span` in a task of its own.
    pub(super) fn start(self: &Arc<Self>, span: Span) {
        let (fetcher, asker) = (self.clone(), span.control.asker);
        self.context.spawn(asker.ask(async move { fetcher.run(span).await }));
    }

    async fn run(self: Arc<Self>, span: Span) {
        let mut unfinished =
            Unfinished { known: &self.context.flights, flights: &span.flights, reason: None, abandoned: false };
        tokio::select! {
            biased;
            () = self.context.closing.cancelled() => unfinished.reason = Some(closing_error()),
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
    async fn fetch_all(&self, span: &Span) -> Result<()> {
        if self.comparisons.refuses(&span.source.id()) {
            return Err(wrong_content(&span.source));
        }
        let mut rest = self.bringer.bring_what_may(span).await?;
        while !rest.is_empty() {
            let (way, run) = self.shared.way(&span.source, rest);
            let ready = match way {
                Way::Shared => {
                    // Those after it, too: they wait as long.
                    rest.iter().for_each(|flight| flight.give_memory_back());
                    run
                }
                Way::Alone => self.context.memory.secure(&rest[..run]).await,
            };
            // Who owns what may have changed while it waited.
            if way == Way::Alone && self.shared.shared_until(&span.source, &rest[0]).is_some() {
                continue;
            }
            self.fetch_run(span, &rest[..ready], way).await?;
            rest = &rest[ready..];
        }
        Ok(())
    }

    async fn fetch_run(&self, span: &Span, flights: &[Arc<Flight>], way: Way) -> Result<()> {
        let (Some(first), Some(last)) = (flights.first(), flights.last()) else { return Ok(()) };
        let start = self.context.block_start(first);
        let asked = start + u64::from(first.tail_start);
        let end = self.context.block_start(last) + u64::from(last.length);
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
        &self,
        span: &Span,
        flights: &[Arc<Flight>],
        way: Way,
        stretch: Stretch,
        range: ByteRange,
    ) -> Result<()> {
        match way {
            Way::Shared => self.shared.stream(span, flights, stretch, range).await,
            Way::Alone => self.requests.stream(span, flights, stretch, range).await,
        }
    }
}
