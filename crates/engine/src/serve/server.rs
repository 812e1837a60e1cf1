//! The owner's side of the local socket: one thread a connection, reads through the file system, verbs through `Control`.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use nix::sys::socket::{Shutdown, shutdown};
use tokio::runtime::Handle;

use super::direct::decode_count;
use super::frame::{Kind, MAX_PAYLOAD_BYTES};
use super::message::{ReadItem, Welcome, decode_inode, decode_inodes, decode_items, encode_error};
use super::socket::{Frame, Line, Patient, address};
use crate::budget::{Budget, Permit};
use crate::error::{Error, ErrorKind, Result};
use crate::local_peers::friend;
use crate::metrics::Counter;
use crate::sync::Mutex;
use crate::vfs::{AtHand, Backing, FileSystem, ReadReply};

/// Connections at the same time; one more is refused. A data loader has one or two a worker.
const MAX_CONNECTIONS: usize = 512;
/// Cold items of one batch that are fetched at the same time.
const BATCH_WINDOW: usize = 64;
/// Files one connection may keep leased; a lease pins its file in the cache.
const MAX_LEASES: usize = 1024;

/// What clients may cost.
#[derive(Debug, Clone)]
pub struct ServeLimits {
    /// For the bytes of answers under way. Fills must not need it: an answer holds its share while it waits for them.
    pub memory: Budget,
    /// A client that takes nothing of its answer for this long is cut off. It may ask again.
    pub stall: Duration,
    /// The same while another client waits for memory.
    pub stall_in_want: Duration,
}

impl Default for ServeLimits {
    fn default() -> Self {
        ServeLimits {
            memory: Budget::memory(64 << 20),
            stall: Duration::from_secs(30),
            stall_in_want: Duration::from_secs(2),
        }
    }
}

/// What the server counts.
#[derive(Debug, Clone, Default)]
pub struct ServeCounters {
    /// Clients that were cut off.
    pub stalled: Counter,
    /// Bytes that clients read themselves, from files on lease.
    pub direct_bytes: Counter,
}

/// What the server asks of the engine beside file operations.
pub trait Control: Send + Sync + 'static {
    fn welcome(&self) -> Result<Welcome>;

    /// Carries out one JSON verb.
    fn control(&self, request: serde_json::Value) -> Result<serde_json::Value>;

    /// Takes a known order of whole-file reads, replacing the one that the same client (a process) gave before.
    fn prefetch(&self, client: u64, inodes: Vec<u64>) -> Result<()>;
}

/// A running server; dropping it closes the socket and ends all connections.
#[derive(Debug)]
pub struct Server {
    state_directory: PathBuf,
    listener: Arc<UnixListener>,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
    streams: Streams,
    leaves_socket: bool,
}

/// The connections that there are: each as long as somebody has its stream.
type Streams = Arc<Mutex<Vec<Weak<UnixStream>>>>;

struct OwnerServerState {
    filesystem: Arc<dyn FileSystem>,
    control: Arc<dyn Control>,
    runtime: Handle,
    stopping: Arc<AtomicBool>,
    streams: Streams,
    limits: ServeLimits,
    /// Connections that wait for memory.
    waiting: AtomicUsize,
    counters: ServeCounters,
}

impl Server {
    /// Listens in `state_directory`. Only processes of this user, and root, are answered.
    pub fn start(
        state_directory: &Path,
        filesystem: Arc<dyn FileSystem>,
        control: Arc<dyn Control>,
        runtime: Handle,
        limits: ServeLimits,
        counters: ServeCounters,
    ) -> Result<Server> {
        let (path, _directory) = address(state_directory)?;
        let new = path.with_extension("new");
        let listener = listen(&new)?;
        // The owner's lock is ours, so a socket left here belongs to a process that is gone. It is replaced in one step:
        // clients of that process shall not take the moment between for an end.
        std::fs::rename(&new, &path).map_err(|error| Error::from_io("listen on", &path, error))?;
        let stopping = Arc::new(AtomicBool::new(false));
        let streams = Streams::default();
        let shared = Arc::new(OwnerServerState {
            filesystem,
            control,
            runtime,
            stopping: stopping.clone(),
            streams: streams.clone(),
            limits,
            waiting: AtomicUsize::new(0),
            counters,
        });
        let listener = Arc::new(listener);
        let accepting = listener.clone();
        let acceptor = std::thread::Builder::new()
            .name("headrace-serve".into())
            .spawn(move || accept(&accepting, &shared))
            .map_err(|error| Error::from_io("start a thread for", &path, error))?;
        let (state_directory, acceptor) = (state_directory.to_owned(), Some(acceptor));
        Ok(Server { state_directory, listener, stopping, acceptor, streams, leaves_socket: false })
    }

    /// Leaves the socket's name where it is when this ends, as a process that dies does: clients take that for a sign
    /// that another one will take its place.
    pub fn expect_successor(&mut self) {
        self.leaves_socket = true;
    }
}

/// A listener at `path` that only this user, and root, can connect to.
fn listen(path: &Path) -> Result<UnixListener> {
    let _ = std::fs::remove_file(path);
    let listener = UnixListener::bind(path).map_err(|error| Error::from_io("listen on", path, error))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(|error| Error::from_io("protect", path, error))?;
    Ok(listener)
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor whether or not the socket's folder is still there.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        if let (false, Ok((path, _directory))) = (self.leaves_socket, address(&self.state_directory)) {
            let _ = std::fs::remove_file(&path);
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        // Answers under way are completed; nothing more is heard.
        for stream in self.streams.lock().iter().filter_map(Weak::upgrade) {
            let _ = stream.shutdown(std::net::Shutdown::Read);
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<OwnerServerState>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match stream {
            Ok(stream) => begin(shared, Arc::new(stream)),
            Err(error) => {
                tracing::debug!(%error, "a local connection was not accepted");
                // Out of descriptors, most likely: the next try must not come at once.
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Answers `stream` on a thread of its own, if there is room for one more.
fn begin(shared: &Arc<OwnerServerState>, stream: Arc<UnixStream>) {
    let Ok(Some(peer)) = friend(&*stream) else { return };
    let client = peer.pid() as u64;
    if !note(&shared.streams, &stream, MAX_CONNECTIONS) {
        return;
    }
    let shared = shared.clone();
    let spawned = std::thread::Builder::new().name("headrace-client".into()).spawn(move || {
        // An error ends this connection only; the client reports it.
        if let Err(error) = (Connection { shared, stream, client, leases: HashMap::new() }).run() {
            tracing::debug!(%error, "a local connection ended");
        }
    });
    if let Err(error) = spawned {
        tracing::warn!(%error, "cannot start a thread for a local connection");
    }
}

/// Notes one more connection; false when there are `most` already.
fn note(streams: &Mutex<Vec<Weak<UnixStream>>>, stream: &Arc<UnixStream>, most: usize) -> bool {
    let mut streams = streams.lock();
    streams.retain(|stream| stream.strong_count() > 0);
    let has_room = streams.len() < most;
    if has_room {
        streams.push(Arc::downgrade(stream));
    }
    has_room
}

impl OwnerServerState {
    /// Memory for an answer; for whom all is free it is never too much.
    fn memory(&self, bytes: u64) -> Permit {
        let bytes = bytes.min(self.limits.memory.limit());
        self.limits.memory.try_acquire(bytes).unwrap_or_else(|| {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let permit = self.runtime.block_on(self.limits.memory.acquire(bytes));
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            permit
        })
    }
}

impl Patient for OwnerServerState {
    /// A client neither takes nor sends the rest of what was begun.
    fn endure(&self, silent: Duration) -> Result<()> {
        let is_wanted = self.waiting.load(Ordering::Relaxed) > 0;
        let limit = if is_wanted { self.limits.stall_in_want } else { self.limits.stall };
        if silent < limit {
            return Ok(());
        }
        self.counters.stalled.inc();
        Err(Error::new(ErrorKind::Unreachable, "a program does not take its answer"))
    }
}

struct Connection {
    shared: Arc<OwnerServerState>,
    stream: Arc<UnixStream>,
    /// The other process's number.
    client: u64,
    leases: HashMap<u64, Backing>,
}

impl Connection {
    fn run(mut self) -> Result<()> {
        // Wakes up now and then to notice that the engine is closing.
        while !self.shared.stopping.load(Ordering::SeqCst) {
            if !readable_within(&self.stream, 500) {
                continue;
            }
            let Some(frame) = self.line()?.receive()? else { return Ok(()) };
            self.answer(frame)?;
        }
        Ok(())
    }

    fn line(&self) -> Result<Line<'_>> {
        Line::new(&self.stream, &*self.shared)
    }

    /// Fails only when the client cannot be told anything any more.
    fn answer(&mut self, frame: Frame) -> Result<()> {
        let request = frame.header.request;
        match frame.header.kind {
            Kind::Hello => self.tell(request, Kind::Welcome, self.welcome()),
            Kind::Count => {
                self.shared.counters.direct_bytes.inc_by(decode_count(&frame.payload)?);
                Ok(())
            }
            Kind::Read => match decode_items(&frame.payload) {
                Ok(items) => self.read(request, items),
                Err(error) => self.refuse(request, &error),
            },
            Kind::Open => match decode_inode(&frame.payload) {
                Ok(inode) => self.lease(request, inode),
                Err(error) => self.refuse(request, &error),
            },
            Kind::Close => match decode_inode(&frame.payload) {
                Ok(inode) => {
                    self.leases.remove(&inode);
                    Ok(())
                }
                Err(error) => self.refuse(request, &error),
            },
            Kind::Prefetch => {
                let outcome =
                    decode_inodes(&frame.payload).and_then(|inodes| self.shared.control.prefetch(self.client, inodes));
                self.tell(request, Kind::Data, outcome.map(|()| Vec::new()))
            }
            Kind::Control => self.tell(request, Kind::Report, self.control(&frame.payload)),
            other => {
                let message = format!("{other:?} is not a client's message");
                self.refuse(request, &Error::new(ErrorKind::Corrupt, message))
            }
        }
    }

    fn tell(&self, request: u64, kind: Kind, outcome: Result<Vec<u8>>) -> Result<()> {
        match outcome {
            Ok(bytes) => self.line()?.send(kind, request, &bytes, None),
            Err(error) => self.refuse(request, &error),
        }
    }

    fn refuse(&self, request: u64, error: &Error) -> Result<()> {
        self.line()?.send(Kind::Failure, request, &encode_error(error), None)
    }

    fn welcome(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(&self.shared.control.welcome()?).map_err(unencodable)
    }

    fn control(&self, payload: &[u8]) -> Result<Vec<u8>> {
        let verb = serde_json::from_slice(payload).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a verb on the local socket is not JSON").with_source(error)
        })?;
        serde_json::to_vec(&self.shared.control.control(verb)?).map_err(unencodable)
    }

    /// Hands out a file that is whole here, or says that it is not.
    fn lease(&mut self, request: u64, inode: u64) -> Result<()> {
        let backing = if self.leases.len() < MAX_LEASES { self.shared.filesystem.backing(inode) } else { None };
        match backing {
            None => self.line()?.send(Kind::Data, request, &[], None),
            Some(backing) => {
                let descriptor = backing.file.as_raw_fd();
                self.line()?.send(Kind::Lease, request, &[], Some(descriptor))?;
                self.leases.insert(inode, backing);
                Ok(())
            }
        }
    }

    /// Answers each item in order; misses of the batch are fetched side by side, as far as memory for them is free.
    fn read(&mut self, request: u64, items: Vec<ReadItem>) -> Result<()> {
        let mut items = items.into_iter().peekable();
        let mut window = VecDeque::new();
        loop {
            while let Some(item) = items.peek() {
                let bytes = u64::from(item.length).min(MAX_PAYLOAD_BYTES as u64);
                // Who holds none may wait for some.
                let memory = match window.len() {
                    0 => Some(self.shared.memory(bytes)),
                    BATCH_WINDOW.. => None,
                    _ => self.shared.limits.memory.try_acquire(bytes.min(self.shared.limits.memory.limit())),
                };
                let Some((memory, item)) = memory.zip(items.next_if(|_| true)) else { break };
                window.push_back((self.start(item), memory));
            }
            let Some((pending, _memory)) = window.pop_front() else { return Ok(()) };
            let reply = match pending {
                Pending::Here(reply) => reply,
                Pending::Coming(task) => self.shared.runtime.block_on(task).unwrap_or_else(|_| Err(closing())),
            };
            match reply.and_then(collect) {
                Ok(bytes) => self.line()?.send(Kind::Data, request, &bytes, None)?,
                Err(error) => self.refuse(request, &error)?,
            }
        }
    }

    fn start(&self, item: ReadItem) -> Pending {
        let length = (item.length as usize).min(MAX_PAYLOAD_BYTES);
        let filesystem = self.shared.filesystem.clone();
        match filesystem.at_hand(item.inode, 0, item.offset, length, false).map(AtHand::here) {
            Ok(Some(reply)) => Pending::Here(Ok(reply)),
            Err(error) => Pending::Here(Err(error)),
            Ok(None) => Pending::Coming(self.shared.runtime.spawn(filesystem.read(item.inode, 0, item.offset, length))),
        }
    }
}

enum Pending {
    Here(Result<ReadReply>),
    Coming(tokio::task::JoinHandle<Result<ReadReply>>),
}

/// All bytes of a reply in one piece, which is then the only one.
fn collect(reply: ReadReply) -> Result<Bytes> {
    match reply {
        ReadReply::Memory(mut parts) if parts.len() == 1 => Ok(parts.remove(0)),
        ReadReply::Memory(parts) => Ok(parts.concat().into()),
        ReadReply::Files(parts) => {
            let mut bytes = vec![0; parts.iter().map(|part| part.length).sum()];
            let mut done = 0;
            for part in parts {
                let target = &mut bytes[done..done + part.length];
                part.file.read_exact_at(target, part.offset).map_err(|error| {
                    Error::new(ErrorKind::Unexpected, "cannot read a cache file").with_source(error)
                })?;
                done += part.length;
            }
            Ok(bytes.into())
        }
    }
}

fn readable_within(stream: &UnixStream, milliseconds: u16) -> bool {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::AsFd;
    let mut descriptors = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
    // A failed poll lets the read itself tell what is wrong.
    poll(&mut descriptors, PollTimeout::from(milliseconds)).map_or(true, |ready| ready > 0)
}

fn unencodable(error: serde_json::Error) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot write a report").with_source(error)
}

fn closing() -> Error {
    Error::new(ErrorKind::Cancelled, "the engine is closing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_whose_thread_could_not_be_started_takes_no_room() {
        let streams = Streams::default();
        for _ in 0..10 {
            let stream = Arc::new(UnixStream::pair().expect("a pair").0);
            assert!(note(&streams, &stream, 2), "what was dropped unheard is counted");
        }
        let kept: Vec<_> = (0..3).map(|_| Arc::new(UnixStream::pair().expect("a pair").0)).collect();
        let noted: Vec<_> = kept.iter().map(|stream| note(&streams, stream, 2)).collect();
        assert_eq!(noted, [true, true, false]);
    }
}
