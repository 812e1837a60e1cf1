//! The sink for a service's answer.

use std::sync::Arc;

use tokio::sync::Mutex;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::wire::chunk::{Chunk, Slice};
use crate::wire::outbox::{Item, Lane, Outbox};

/// Takes the content of one answer, in order. Waits while the client does not consume.
pub struct ChunkSink {
    outbox: Arc<Outbox>,
    lane: Arc<Lane>,
    progress: Arc<Mutex<Progress>>,
    sends_files: bool,
}

/// How far an answer is. Shared with the connection, which ends what the service did not.
#[derive(Debug)]
pub struct Progress {
    sent: u64,
    /// What was asked for.
    total: u64,
    ended: bool,
}

impl Progress {
    pub fn of(total: u64) -> Arc<Mutex<Progress>> {
        Arc::new(Mutex::new(Progress { sent: 0, total, ended: false }))
    }

    /// What is still to be said when the service is done; `None` when all is said.
    pub fn missing_end(&self, outcome: Result<()>) -> Option<Error> {
        match outcome {
            _ if self.ended => None,
            Err(error) => Some(error),
            Ok(()) => {
                let message = format!("a peer sent {} of {} bytes", self.sent, self.total);
                Some(Error::new(ErrorKind::Unexpected, message).with_retry(Retry::Temporary))
            }
        }
    }
}

impl ChunkSink {
    pub(super) fn new(
        outbox: Arc<Outbox>,
        lane: Arc<Lane>,
        progress: Arc<Mutex<Progress>>,
        sends_files: bool,
    ) -> ChunkSink {
        ChunkSink { outbox, lane, progress, sends_files }
    }

    /// Sends the next bytes of the answer; returns when they are queued, which waits for the client's credit.
    ///
    /// `Cancelled` when the client is gone, `Timeout` when it takes nothing for too long; `Unexpected` when more is sent than was asked for; `Corrupt` when a file is
    /// shorter than said. The answer is complete when all bytes of the range were sent.
    pub async fn send(&self, chunk: Chunk) -> Result<()> {
        let mut progress = self.progress.lock().await;
        if chunk.length() > progress.total - progress.sent {
            return Err(Error::new(ErrorKind::Unexpected, "more bytes than a peer asked for"));
        }
        for slice in chunk.slices() {
            tokio::select! {
                sent = self.send_slice(&mut progress, slice) => sent?,
                () = self.lane.gone.cancelled() => return Err(cancelled()),
            }
        }
        Ok(())
    }

    /// Waits until the client takes more of the answer. To be called before content is read that would have to wait for
    /// that in memory; fails as `send` does.
    pub async fn ready(&self) -> Result<()> {
        tokio::select! {
            ready = self.lane.take_credit(0) => ready,
            () = self.lane.gone.cancelled() => Err(cancelled()),
        }
    }

    /// Says that nothing is here: the answer to a `cached_only` request for what is not cached.
    pub async fn absent(&self) -> Result<()> {
        let mut progress = self.progress.lock().await;
        if progress.sent > 0 || progress.ended {
            return Err(Error::new(ErrorKind::Unexpected, "an answer that has begun cannot be absent"));
        }
        progress.ended = true;
        if self.outbox.push(&self.lane, Item::Absent) { Ok(()) } else { Err(cancelled()) }
    }

    async fn send_slice(&self, progress: &mut Progress, slice: Slice) -> Result<()> {
        let length = slice.length();
        self.lane.take_credit(length).await?;
        let mut place = self.outbox.place(&self.lane).await.ok_or_else(cancelled)?;
        let by_kernel = slice.is_for_kernel(self.sends_files);
        if !by_kernel {
            self.outbox.take_memory(&mut place, &self.lane, length).await;
        }
        let part = slice.prepare(by_kernel).await?;
        progress.sent += u64::from(length);
        let last = progress.sent == progress.total;
        progress.ended |= last;
        if self.outbox.push(&self.lane, Item::Data { part, last, _place: place }) { Ok(()) } else { Err(cancelled()) }
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the peer that asked is gone")
}
