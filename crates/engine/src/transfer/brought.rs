//! Blocks that another process of this machine fetches and stores: read from its files, so that hardly a byte of them
//! comes through here.
//!
//! Nothing of such a block can be had before all of it is stored. So whoever waits for a small part of it gets that as ever,
//! beside the block. Where somebody has to wait long, or the block is not there in the end, the rest comes as ever, too,
//! and for a while nothing is brought.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::claim::Span;
use super::context::Context;
use super::control::Purpose;
use super::delivery::Delivery;
use super::flight::{Flight, Stretch};
use super::request::Requests;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::store::{Blocks, Put};
use crate::sync::Mutex;

/// Shorter blocks are here as soon as an answer that says where they are.
const LEAST_BYTES: u32 = 1 << 20;
/// The longest wait for bytes of a block that is not whole.
const PATIENCE: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long nothing is brought after it went badly: twice as long each time, up to the second.
const PAUSE: Duration = Duration::from_secs(30);
const LONGEST_PAUSE: Duration = Duration::from_secs(480);

/// Brings blocks, and remembers how that has gone so far.
pub(super) struct Bringer {
    context: Arc<Context>,
    delivery: Arc<Delivery>,
    requests: Arc<Requests>,
    patience: Mutex<Duration>,
    pausing: Pausing,
}

/// Until when nothing is brought, if it went badly, and how long that is from the beginning.
#[derive(Debug, Default)]
struct Pausing(Mutex<Option<Pause>>);

#[derive(Debug, Clone, Copy)]
struct Pause {
    until: Instant,
    length: Duration,
}

impl Pausing {
    fn begin(&self, now: Instant) {
        let mut pause = self.0.lock();
        let again = pause.filter(|last| now < last.until + last.length);
        let length = match again {
            // Several went badly at once.
            Some(last) if now < last.until => return,
            Some(last) => (last.length * 2).min(LONGEST_PAUSE),
            None => PAUSE,
        };
        *pause = Some(Pause { until: now + length, length });
    }

    fn lasts(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|pause| now < pause.until)
    }
}

impl Bringer {
    pub(super) fn new(context: &Arc<Context>, delivery: &Arc<Delivery>, requests: &Arc<Requests>) -> Arc<Self> {
        Arc::new(Bringer {
            context: context.clone(),
            delivery: delivery.clone(),
            requests: requests.clone(),
            patience: Mutex::new(PATIENCE),
            pausing: Pausing::default(),
        })
    }

    /// How long somebody may wait for bytes of a block that another process is storing, before they are fetched as ever.
    pub(super) fn set_patience(&self, patience: Duration) {
        *self.patience.lock() = patience;
    }

    /// Has blocks brought as far as that may be, one after the other; those that are left to be fetched. Fails as a fetch
    /// does, for what somebody waits for.
    pub(super) async fn bring_what_may<'a>(&self, span: &'a Span) -> Result<&'a [Arc<Flight>]> {
        let mut rest = &span.flights[..];
        while let Some(blocks) = self.bringer(span, rest) {
            let here = self.bring_some(span, rest, &**blocks).await?;
            if here == 0 {
                break;
            }
            for flight in &rest[..here] {
                self.context.metrics.fills.inc();
                self.delivery.count_ahead(span.control.purpose, flight.length as usize);
                self.delivery.settler.settle(flight, Put::Present);
            }
            rest = &rest[here..];
        }
        Ok(rest)
    }

    /// How many of `flights` are here, from the first on; what of that one is waited for comes meanwhile.
    async fn bring_some(&self, span: &Span, flights: &[Arc<Flight>], blocks: &dyn Blocks) -> Result<usize> {
        let wanted = self.stream_wanted(span, flights);
        let brought = self.brought(span, flights, blocks);
        tokio::pin!(wanted, brought);
        tokio::select! {
            biased;
            came = &mut wanted => {
                came?;
                Ok(brought.await)
            }
            here = &mut brought => {
                if here == 0 {
                    wanted.await?;
                }
                Ok(here)
            }
        }
    }

    /// Where the first of `rest` would be seen, if it may be brought.
    fn bringer(&self, span: &Span, rest: &[Arc<Flight>]) -> Option<&Arc<dyn Blocks>> {
        let first = rest.first()?;
        // Not by a warm-up, which tells of each block whether this process has it.
        let is_read = span.control.purpose != Purpose::Warm;
        let may = is_read && first.length >= LEAST_BYTES && !self.pausing.lasts(Instant::now());
        self.context.blocks.as_ref().filter(|blocks| may && blocks.shows_later(&first.id.file, first.id.index))
    }

    /// The part of the first block that somebody waits for already, unless that is most of it.
    async fn stream_wanted(&self, span: &Span, flights: &[Arc<Flight>]) -> Result<()> {
        let Some(first) = flights.first() else { return Ok(()) };
        let end = first.wanted_to().filter(|to| (to.saturating_sub(first.tail_start)) * 2 <= first.length);
        let Some(end) = end.filter(|end| *end > first.tail_start) else { return Ok(()) };
        self.context.memory.secure(&flights[..1]).await;
        let start = self.context.block_start(first);
        let range = ByteRange { start: start + u64::from(first.tail_start), end: start + u64::from(end) };
        self.requests.stream(span, &flights[..1], Stretch::Tail, range).await
    }

    /// How many of `flights` are here, from the first on. Where that is none, nothing is brought for a while, unless the
    /// object itself cannot be had.
    async fn brought(&self, span: &Span, flights: &[Arc<Flight>], blocks: &dyn Blocks) -> usize {
        match self.try_to_bring(span, flights, blocks).await {
            Ok(here) => {
                if here == 0 {
                    self.pausing.begin(Instant::now());
                }
                here
            }
            Err(error) => {
                tracing::debug!(path = span.source.path(), %error, "there is nothing to be brought");
                0
            }
        }
    }

    /// The same; 0 as soon as somebody has waited for one of them too long. Fails as `Origin::bring` does.
    async fn try_to_bring(&self, span: &Span, flights: &[Arc<Flight>], blocks: &dyn Blocks) -> Result<usize> {
        let (Some(first), Some(last)) = (flights.first(), flights.last()) else { return Ok(0) };
        let source = &span.source;
        let range = ByteRange {
            start: self.context.block_start(first),
            end: self.context.block_start(last) + u64::from(last.length),
        };
        let patience = *self.patience.lock();
        let bytes = tokio::select! {
            biased;
            bytes = source.origin().bring(source.object(), range) => bytes?,
            () = somebody_waits(flights, patience) => 0,
        };
        if bytes == 0 {
            return Ok(0);
        }
        blocks.look_again(&source.id());
        let is_here = |flight: &&Arc<Flight>| {
            let end = self.context.block_start(flight) + u64::from(flight.length) - range.start;
            end <= bytes && self.context.expects(source, flight.id.index)
        };
        Ok(flights.iter().take_while(is_here).count())
    }
}

/// Waits until somebody has waited so long for one of them.
async fn somebody_waits(flights: &[Arc<Flight>], long: Duration) {
    while flights.iter().all(|flight| flight.waited_for() < long) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_is_twice_as_long_when_it_goes_badly_right_after_one() {
        let (pausing, start) = (Pausing::default(), Instant::now());
        assert!(!pausing.lasts(start));
        let mut at = start;
        for length_s in [30, 60, 120, 240, 480, 480] {
            pausing.begin(at);
            pausing.begin(at + Duration::from_secs(1));
            let end = at + Duration::from_secs(length_s);
            assert!(pausing.lasts(end - Duration::from_secs(1)) && !pausing.lasts(end), "{length_s} s");
            at = end;
        }
        at += LONGEST_PAUSE;
        pausing.begin(at);
        assert!(!pausing.lasts(at + PAUSE));
    }
}
