//! The server's side of one connection after the handshake: requests in, answers out in turn.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::{PeerMetrics, ReasonLabel};
use crate::wire::chunk::{Chunk, Part};
use crate::wire::failure;
use crate::wire::fields::Fields;
use crate::wire::frame::{ABSENT, Header, Kind, LAST, MAX_CONTROL_BYTES, control_frame, damaged};
use crate::wire::handshake::Agreement;
use crate::wire::limits::ServerLimits;
use crate::wire::message::{GetRequest, PeerCommand};
use crate::wire::outbox::{Item, Lane, Next, Outbox, Priority};
use crate::wire::read::{FrameReader, ended};
use crate::wire::service::PeerService;
use crate::wire::sink::{ChunkSink, Progress};
use crate::wire::token::Rights;
use crate::wire::transport::Transport;
use crate::wire::write::FrameWriter;

/// What all connections of a server share.
#[derive(Clone)]
pub struct PeerServerState {
    pub service: Arc<dyn PeerService>,
    pub limits: ServerLimits,
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
        outbox: Outbox::new(shared.metrics.queued_frames.clone()),
        version: agreement.version,
        rights: agreement.rights,
        sends_files: writer.sends_files(),
        permits: Arc::new(Semaphore::new(2 * shared.limits.requests as usize)),
        over: over.clone(),
        asked: AtomicU64::new(0),
        shared,
    };
    let limits = connection.shared.limits;
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
            let written = timeout(self.shared.limits.stall, self.write(&mut writer, next)).await;
            let written = written.map_err(|_| ended("because the client reads nothing", None))?;
            written.map_err(|error| ended("while sending", Some(error)))?;
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

/// The work for one request.
struct AnswerTask {
    lane: Arc<Lane>,
    outbox: Arc<Outbox>,
    service: Arc<dyn PeerService>,
    metrics: PeerMetrics,
    version: u16,
    rights: Rights,
    sends_files: bool,
}

impl AnswerTask {
    async fn get(&self, message: &[u8]) {
        let request = match GetRequest::decode(message, self.version) {
            Ok(request) => request,
            Err(error) => return self.fail(error),
        };
        let progress = Progress::of(request.range.length());
        let sink = ChunkSink::new(self.outbox.clone(), self.lane.clone(), progress.clone(), self.sends_files);
        let Some(outcome) = self.unless_gone(self.service.get(request, sink)).await else { return };
        let missing = progress.lock().await.missing_end(outcome);
        if let Some(error) = missing {
            self.fail(error);
        }
    }

    async fn command(&self, message: &[u8]) {
        let work = async {
            let command = PeerCommand::decode(message)?;
            self.check_rights(&command)?;
            let value = self.service.command(command).await?;
            let text = serde_json::to_vec(&value)
                .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot write a report").with_source(error))?;
            let progress = Progress::of(text.len() as u64);
            let sink = ChunkSink::new(self.outbox.clone(), self.lane.clone(), progress, self.sends_files);
            sink.send(Chunk::Memory(text.into())).await
        };
        if let Some(Err(error)) = self.unless_gone(work).await {
            self.fail(error);
        }
    }

    fn check_rights(&self, command: &PeerCommand) -> Result<()> {
        if self.rights >= command.needed_rights() {
            return Ok(());
        }
        let message = format!("a reader's token is not enough for {}", command.what());
        Err(Error::new(ErrorKind::PermissionDenied, message)
            .with_hint("order it from the master (`headrace load`), with the whole token of the cluster"))
    }

    /// The outcome of `work`, which is dropped when the client no longer wants it. A panic is an error of this answer.
    async fn unless_gone(&self, work: impl Future<Output = Result<()>>) -> Option<Result<()>> {
        tokio::select! {
            outcome = AssertUnwindSafe(work).catch_unwind() => Some(outcome.unwrap_or_else(|_| Err(panicked()))),
            () = self.lane.gone.cancelled() => None,
        }
    }

    fn fail(&self, error: Error) {
        self.metrics.served_errors.get_or_create(&ReasonLabel { reason: error.kind().name() }).inc();
        self.outbox.push(&self.lane, Item::Failure(error));
    }
}

fn panicked() -> Error {
    Error::new(ErrorKind::Unexpected, "a peer failed while it made an answer; its log says more")
        .with_retry(Retry::Temporary)
}

fn priority_of(kind: Kind) -> Priority {
    if kind == Kind::Command { Priority::Command } else { Priority::Content }
}

fn busy() -> Error {
    Error::new(ErrorKind::Busy, "a peer has too many requests of this process").with_retry(Retry::Temporary)
}
