//! The server's side of one connection after the handshake: requests in, answers out in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::PeerMetrics;
use crate::wire::answer_memory::AnswerMemory;
use crate::wire::answer_task::AnswerTask;
use crate::wire::chunk::Part;
use crate::wire::failure;
use crate::wire::fields::Fields;
use crate::wire::frame::{ABSENT, Header, Kind, LAST, MAX_CONTROL_BYTES, control_frame, damaged};
use crate::wire::handshake::Agreement;
use crate::wire::limits::ServerLimits;
use crate::wire::outbox::{Item, Lane, Next, Outbox, Priority};
use crate::wire::read::{FrameReader, ended};
use crate::wire::service::PeerService;
use crate::wire::token::Rights;
use crate::wire::transport::Transport;
use crate::wire::write::FrameWriter;

/// What all connections of a server share.
#[derive(Clone)]
pub struct PeerServerState {
    pub service: Arc<dyn PeerService>,
    pub limits: ServerLimits,
    pub memory: Arc<AnswerMemory>,
    pub metrics: PeerMetrics,
    pub tasks: TaskTracker,
    /// Cancelled when the server closes.
    pub closing: CancellationToken,
}

struct Connection {
    shared: PeerServerState,
    outbox: Arc<Outbox>,
    version: u16,
    rights: Rights,
    sends_files: bool,
    /// Tasks of answers; twice what the client may ask for, since it may hear of an answer's end before its task ends.
    permits: Arc<Semaphore>,
    /// Cancelled when this connection is over.
    over: CancellationToken,
    asked: AtomicU64,
}

/// Serves until either side ends the connection.
pub async fn serve(transport: Transport, agreement: Agreement, shared: PeerServerState) -> Result<()> {
    let Transport { reader, writer, heard, .. } = transport;
    let over = shared.closing.child_token();
    let _ends_all_answers = over.clone().drop_guard();
    let connection = Connection {
        outbox: Outbox::new(shared.metrics.queued_frames.clone(), shared.memory.clone(), shared.limits.unread),
        version: agreement.version,
        rights: agreement.rights,
        sends_files: writer.sends_files(),
        permits: Arc::new(Semaphore::new(2 * shared.limits.requests as usize)),
        over: over.clone(),
        asked: AtomicU64::new(0),
        shared,
    };
    let limits = &connection.shared.limits;
    let ping = || connection.say(Kind::Ping);
    tokio::select! {
        outcome = connection.receive(reader.expecting_small_frames()) => outcome,
        outcome = connection.send(writer) => outcome,
        () = heard.watch(limits.silence, || true, || drop(ping())) => Err(ended("in silence", None)),
        () = connection.idle(limits.idle) => Ok(()),
        () = over.cancelled() => Ok(()),
    }
}

impl Connection {
    async fn receive(&self, mut reader: FrameReader) -> Result<()> {
        while let Some(frame) = reader.next(MAX_CONTROL_BYTES).await? {
            let header = frame.header;
            self.handle(header, frame.payload()?)?;
        }
        Ok(())
    }

    /// An error ends the connection.
    fn handle(&self, header: Header, payload: Bytes) -> Result<()> {
        if header.version != self.version {
            return Err(damaged(format!("a frame of version {} on a connection of another", header.version)));
        }
        match header.kind {
            Kind::Get | Kind::Command => self.start(header, &payload),
            Kind::Cancel => {
                self.outbox.cancel(header.request);
                Ok(())
            }
            Kind::Credit => {
                let mut fields = Fields::new(&payload);
                let bytes = fields.u32()?;
                if let Some(lane) = self.outbox.lane(header.request) {
                    lane.add_credit(bytes);
                }
                fields.end()
            }
            Kind::Ping => self.say(Kind::Pong),
            Kind::Pong => Ok(()),
            other => Err(damaged(format!("a client sent a {other:?} frame"))),
        }
    }

    fn say(&self, kind: Kind) -> Result<()> {
        match self.outbox.push_control(&control_frame(self.version, kind, 0, &[])) {
            true => Ok(()),
            false => Err(damaged("a client asks for signs of life without reading them")),
        }
    }

    /// Begins an answer. What is wrong with one request fails that request only.
    fn start(&self, header: Header, payload: &[u8]) -> Result<()> {
        let (credit, message) =
            payload.split_first_chunk().ok_or_else(|| damaged("a request without a credit window"))?;
        let lane = self
            .outbox
            .open(header.request, priority_of(header.kind), u32::from_le_bytes(*credit), self.over.child_token())
            .ok_or_else(|| damaged(format!("request number {} is in use", header.request)))?;
        self.asked.fetch_add(1, Ordering::Relaxed);
        self.shared.metrics.served_requests.inc();
        let Ok(permit) = self.permits.clone().try_acquire_owned() else {
            self.fail(&lane, busy());
            return Ok(());
        };
        let answer = self.answer(&lane);
        let message = Bytes::copy_from_slice(message);
        self.shared.tasks.spawn(async move {
            let _permit = permit;
            match header.kind {
                Kind::Get => answer.get(&message).await,
                _ => answer.command(&message).await,
            }
        });
        Ok(())
    }

    fn answer(&self, lane: &Arc<Lane>) -> AnswerTask {
        let (lane, outbox) = (lane.clone(), self.outbox.clone());
        let (service, metrics) = (self.shared.service.clone(), self.shared.metrics.clone());
        let (version, rights, sends_files) = (self.version, self.rights, self.sends_files);
        AnswerTask { lane, outbox, service, metrics, version, rights, sends_files }
    }

    fn fail(&self, lane: &Arc<Lane>, error: Error) {
        self.answer(lane).fail(error);
    }

    async fn send(&self, mut writer: FrameWriter) -> Result<()> {
        loop {
            let next = self.outbox.next().await;
            tokio::select! {
                written = self.write(&mut writer, next) => written.map_err(|error| ended("while sending", Some(error)))?,
                () = self.stalled() => return Err(ended("because the client reads nothing", None)),
            }
        }
    }

    /// Returns when a write has lasted for as long as it may.
    async fn stalled(&self) {
        let (begun, limits) = (Instant::now(), &self.shared.limits);
        sleep(limits.stall_in_want.min(limits.stall)).await;
        while begun.elapsed() < limits.stall && !self.shared.memory.is_wanted() {
            sleep(limits.stall_in_want / 4).await;
        }
    }

    async fn write(&self, writer: &mut FrameWriter, next: Next) -> std::io::Result<()> {
        let (lane, item) = match next {
            Next::Control(frames) => return writer.write_all(&frames).await,
            Next::Item(lane, item) => (lane, item),
        };
        match item {
            Item::Absent => writer.write_all(&control_frame(self.version, Kind::End, lane.id, &[ABSENT])).await,
            Item::Failure(error) => {
                let frame = control_frame(self.version, Kind::Failure, lane.id, &failure::encode(&error));
                writer.write_all(&frame).await
            }
            Item::Data { part, last, _place } => self.write_data(writer, &lane, part, last).await,
        }
    }

    async fn write_data(
        &self,
        writer: &mut FrameWriter,
        lane: &Arc<Lane>,
        part: Part,
        last: bool,
    ) -> std::io::Result<()> {
        let (length, payload_crc) = (part.length(), part.crc());
        let flags = if last { LAST } else { 0 };
        let header = Header { version: self.version, kind: Kind::Data, flags, request: lane.id, length, payload_crc };
        match part {
            Part::Memory { bytes, .. } => writer.write(&header.encode(), &bytes).await?,
            Part::File(file) => {
                if !writer.write_file(&header.encode(), &file.file, file.offset, length).await? {
                    // The client notices by the checksum; the service need not go on.
                    self.fail(lane, file.too_short());
                    lane.gone.cancel();
                }
            }
        }
        self.shared.metrics.sent_bytes.inc_by(u64::from(length));
        Ok(())
    }

    /// Returns when nothing was asked for during `patience`.
    async fn idle(&self, patience: Duration) {
        let mut before = u64::MAX;
        loop {
            let asked = self.asked.load(Ordering::Relaxed);
            if asked == before && !self.outbox.is_busy() {
                return;
            }
            before = asked;
            sleep(patience).await;
        }
    }
}

fn priority_of(kind: Kind) -> Priority {
    if kind == Kind::Command { Priority::Command } else { Priority::Content }
}

fn busy() -> Error {
    Error::new(ErrorKind::Busy, "a peer has too many requests of this process").with_retry(Retry::Temporary)
}
