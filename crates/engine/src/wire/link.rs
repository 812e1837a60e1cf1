//! The client's side of one connection after the handshake: requests out, answers in, each to whoever asked.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::{PeerMetrics, ReasonLabel};
use crate::sync::Mutex;
use crate::wire::failure;
use crate::wire::frame::{ABSENT, Kind, LAST, MAX_CONTROL_BYTES, control_frame, damaged};
use crate::wire::handshake::Agreement;
use crate::wire::pending::{Event, Pending};
use crate::wire::read::{Frame, FrameReader, ended};
use crate::wire::transport::Transport;
use crate::wire::write::FrameWriter;

/// One answer may have this much on its way or waiting to be consumed: a round trip of 3 ms at 10 Gbit/s.
const MAX_WINDOW_BYTES: usize = 4 << 20;
/// With many requests each gets less, down to this.
const MIN_WINDOW_BYTES: usize = 64 << 10;
/// What the windows of one connection should not exceed together.
const ALL_WINDOWS_BYTES: usize = 64 << 20;
/// Frames that may wait to be sent: far more than all requests, cancellations and credits need.
const OUTGOING_FRAMES: usize = 16 << 10;
/// Small frames are sent together up to this.
const BATCH_BYTES: usize = 64 << 10;
/// A connection that nobody used for this long is closed.
const IDLE: Duration = Duration::from_secs(60);
/// Requests under way on one connection, whatever the server allows.
const MAX_REQUESTS: u32 = 4096;

/// An open connection to a peer; it ends when the last of its users is gone.
pub struct Link {
    state: Arc<State>,
    _over: DropGuard,
}

struct State {
    version: u16,
    pending: Mutex<Pending>,
    outgoing: mpsc::Sender<Vec<u8>>,
    slots: Arc<Semaphore>,
    metrics: PeerMetrics,
    over: CancellationToken,
}

/// A request that was sent.
pub struct Asked {
    pub id: u32,
    pub window: u32,
    pub events: mpsc::UnboundedReceiver<Event>,
}

impl Link {
    /// Starts the connection's task. `silence` is what a peer may be silent for while it owes an answer.
    pub fn start(transport: Transport, agreement: Agreement, silence: Duration, metrics: PeerMetrics) -> Arc<Link> {
        let (outgoing, queue) = mpsc::channel(OUTGOING_FRAMES);
        let over = CancellationToken::new();
        let state = Arc::new(State {
            version: agreement.version,
            pending: Mutex::default(),
            outgoing,
            slots: Arc::new(Semaphore::new(agreement.requests.min(MAX_REQUESTS) as usize)),
            metrics,
            over: over.clone(),
        });
        tokio::spawn(state.clone().run(transport, queue, silence));
        Arc::new(Link { state, _over: over.drop_guard() })
    }

    /// Sends a request as soon as the peer takes one more. `expected` is the length of the answer, where it is known.
    /// `None` when the connection is over and nothing was sent.
    pub async fn ask(&self, kind: Kind, message: &[u8], expected: Option<u64>) -> Option<Asked> {
        let slot = self.state.slots.clone().acquire_owned().await.ok()?;
        let (id, window, events) = {
            let mut pending = self.state.pending.lock();
            let window = (ALL_WINDOWS_BYTES / (pending.len() + 1)).clamp(MIN_WINDOW_BYTES, MAX_WINDOW_BYTES) as u32;
            let (id, events) = pending.open(window, expected, slot)?;
            (id, window, events)
        };
        self.state.metrics.requests.inc();
        let payload = [&window.to_le_bytes(), message].concat();
        self.state.say(kind, id, &payload);
        Some(Asked { id, window, events })
    }

    /// Lets the peer send more of an answer.
    pub fn give_credit(&self, id: u32, bytes: u32) {
        if self.state.pending.lock().add_credit(id, bytes) {
            self.state.say(Kind::Credit, id, &bytes.to_le_bytes());
        }
    }

    /// Tells the peer that nobody waits for an answer any more.
    pub fn cancel(&self, id: u32) {
        if self.state.pending.lock().remove(id) {
            self.state.say(Kind::Cancel, id, &[]);
        }
    }

    /// What the peer and we speak.
    pub fn version(&self) -> u16 {
        self.state.version
    }

    /// Requests under way.
    pub fn load(&self) -> usize {
        self.state.pending.lock().len()
    }

    /// False when it is over and must be replaced.
    pub fn is_usable(&self) -> bool {
        !self.state.pending.lock().is_spent()
    }
}

impl State {
    async fn run(self: Arc<Self>, transport: Transport, queue: mpsc::Receiver<Vec<u8>>, silence: Duration) {
        self.metrics.connections.inc();
        let Transport { reader, writer, heard, .. } = transport;
        let error = tokio::select! {
            outcome = self.receive(reader) => outcome.err().unwrap_or_else(|| ended("by the peer", None)),
            error = send(writer, queue) => error,
            () = heard.watch(silence, || !self.pending.lock().is_empty(), || self.say(Kind::Ping, 0, &[])) => silent(silence),
            () = self.idle() => ended("since nobody used it", None),
            () = self.over.cancelled() => ended("since nobody uses it", None),
        };
        let failed = self.pending.lock().close(&error);
        self.slots.close();
        self.metrics.connections.dec();
        self.count_failures(&error, failed);
    }

    fn count_failures(&self, error: &Error, count: usize) {
        if count > 0 {
            let label = ReasonLabel { reason: error.kind().name() };
            self.metrics.errors.get_or_create(&label).inc_by(count as u64);
        }
    }

    /// Queues a frame; a queue that is full means that the peer reads nothing, and ends the connection.
    fn say(&self, kind: Kind, id: u32, payload: &[u8]) {
        if self.outgoing.try_send(control_frame(self.version, kind, id, payload)).is_err() {
            self.over.cancel();
        }
    }

    async fn receive(&self, mut reader: FrameReader) -> Result<()> {
        while let Some(frame) = reader.next(MAX_CONTROL_BYTES).await? {
            if frame.header.version != self.version {
                return Err(damaged(format!("a peer sent a frame of version {}", frame.header.version)));
            }
            match frame.header.kind {
                Kind::Data => self.data(frame)?,
                _ => self.control(frame)?,
            }
        }
        Ok(())
    }

    fn data(&self, frame: Frame) -> Result<()> {
        let (id, last) = (frame.header.request, frame.header.flags & LAST != 0);
        match frame.payload() {
            Ok(bytes) => {
                self.metrics.received_bytes.inc_by(bytes.len() as u64);
                self.pending.lock().data(id, bytes, last)
            }
            Err(error) => {
                // The header was right, so the stream of frames is, too: only this answer is lost.
                self.fail(id, error);
                self.say(Kind::Cancel, id, &[]);
                Ok(())
            }
        }
    }

    fn control(&self, frame: Frame) -> Result<()> {
        let header = frame.header;
        let payload = frame.payload()?;
        match header.kind {
            Kind::End if payload[..] == [ABSENT] => {
                self.pending.lock().end(header.request, Event::Absent);
            }
            Kind::Failure => self.fail(header.request, failure::decode(&payload)?),
            Kind::Ping => self.say(Kind::Pong, 0, &[]),
            Kind::Pong => {}
            other => return Err(damaged(format!("a peer sent a {other:?} frame that makes no sense"))),
        }
        Ok(())
    }

    fn fail(&self, id: u32, error: Error) {
        if self.pending.lock().end(id, Event::Failed(error.clone())) {
            self.count_failures(&error, 1);
        }
    }

    async fn idle(&self) {
        let mut before = None;
        loop {
            let opened = {
                let pending = self.pending.lock();
                pending.is_empty().then(|| pending.opened())
            };
            if opened.is_some() && opened == before {
                return;
            }
            before = opened;
            sleep(IDLE).await;
        }
    }
}

/// Sends what is queued, many small frames at once; returns when the connection breaks.
async fn send(mut writer: FrameWriter, mut queue: mpsc::Receiver<Vec<u8>>) -> Error {
    while let Some(mut batch) = queue.recv().await {
        while batch.len() < BATCH_BYTES
            && let Ok(frame) = queue.try_recv()
        {
            batch.extend_from_slice(&frame);
        }
        if let Err(error) = writer.write_all(&batch).await {
            return ended("while sending", Some(error));
        }
    }
    ended("since nobody uses it", None)
}

fn silent(silence: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("a peer gave no sign of life for {:.1} s", silence.as_secs_f64()))
        .with_retry(Retry::Temporary)
}
