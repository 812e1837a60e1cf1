//! The owner's side of the local socket: one thread a connection, reads through the file system, verbs through `Control`.

use std::collections::{HashMap, VecDeque};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use nix::sys::socket::{Shutdown, shutdown};
use tokio::runtime::Handle;

use super::frame::{Kind, MAX_PAYLOAD_BYTES};
use super::message::{ReadItem, Welcome, decode_inode, decode_inodes, decode_items, encode_error};
use super::socket::{Frame, address, receive, send};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::{Backing, FileSystem, ReadReply};

/// Connections at the same time; one more is refused. A data loader has one or two a worker.
const MAX_CONNECTIONS: usize = 512;
/// Cold items of one batch that are fetched at the same time.
const BATCH_WINDOW: usize = 64;
/// Files one connection may keep leased; a lease pins its file in the cache.
const MAX_LEASES: usize = 1024;

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
}

struct Shared {
    filesystem: Arc<dyn FileSystem>,
    control: Arc<dyn Control>,
    runtime: Handle,
    stopping: Arc<AtomicBool>,
    connections: AtomicUsize,
}

impl Server {
    /// Listens in `state_directory`. Only processes of this user, and root, are answered.
    pub fn start(
        state_directory: &Path,
        filesystem: Arc<dyn FileSystem>,
        control: Arc<dyn Control>,
        runtime: Handle,
    ) -> Result<Server> {
        let (path, _directory) = address(state_directory)?;
        // The owner's lock is ours, so a socket left here belongs to a process that is gone.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(|error| Error::from_io("listen on", &path, error))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| Error::from_io("protect", &path, error))?;
        let stopping = Arc::new(AtomicBool::new(false));
        let connections = AtomicUsize::new(0);
        let shared = Arc::new(Shared { filesystem, control, runtime, stopping: stopping.clone(), connections });
        let listener = Arc::new(listener);
        let accepting = listener.clone();
        let acceptor = std::thread::Builder::new()
            .name("headrace-serve".into())
            .spawn(move || accept(&accepting, &shared))
            .map_err(|error| Error::from_io("start a thread for", &path, error))?;
        Ok(Server { state_directory: state_directory.to_owned(), listener, stopping, acceptor: Some(acceptor) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor whether or not the socket's folder is still there.
        let _ = shutdown(self.listener.as_raw_fd(), Shutdown::Both);
        if let Ok((path, _directory)) = address(&self.state_directory) {
            let _ = std::fs::remove_file(&path);
        }
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept(listener: &UnixListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Some(client) = friend(&stream) else { continue };
        if shared.connections.load(Ordering::Relaxed) >= MAX_CONNECTIONS {
            continue;
        }
        let shared = shared.clone();
        shared.connections.fetch_add(1, Ordering::Relaxed);
        let spawned = std::thread::Builder::new().name("headrace-client".into()).spawn(move || {
            // An error ends this connection only; the client reports it.
            if let Err(error) = (Connection { shared: shared.clone(), stream, client, leases: HashMap::new() }).run() {
                tracing::debug!(%error, "a local connection ended");
            }
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread for a local connection");
        }
    }
}

/// The process at the other end, if it is of our own user or of root.
fn friend(stream: &UnixStream) -> Option<u64> {
    let peer = nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::PeerCredentials).ok()?;
    let is_friend = peer.uid() == 0 || peer.uid() == nix::unistd::geteuid().as_raw();
    is_friend.then_some(peer.pid() as u64)
}

struct Connection {
    shared: Arc<Shared>,
    stream: UnixStream,
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
            let Some(frame) = receive(&mut self.stream)? else { return Ok(()) };
            self.answer(frame)?;
        }
        Ok(())
    }

    fn answer(&mut self, frame: Frame) -> Result<()> {
        let request = frame.header.request;
        let outcome = match frame.header.kind {
            Kind::Hello => self.welcome(request),
            Kind::Read => decode_items(&frame.payload).and_then(|items| self.read(request, items)),
            Kind::Open => decode_inode(&frame.payload).and_then(|inode| self.lease(request, inode)),
            Kind::Close => decode_inode(&frame.payload).map(|inode| drop(self.leases.remove(&inode))),
            Kind::Prefetch => decode_inodes(&frame.payload).and_then(|inodes| {
                self.shared.control.prefetch(self.client, inodes)?;
                send(&mut self.stream, Kind::Data, request, &[], None)
            }),
            Kind::Control => self.control(request, &frame.payload),
            other => Err(Error::new(ErrorKind::Corrupt, format!("{other:?} is not a client's message"))),
        };
        match outcome {
            // A lost stream cannot be told about it.
            Err(error) if error.kind() == ErrorKind::Unreachable => Err(error),
            Err(error) => send(&mut self.stream, Kind::Failure, request, &encode_error(&error), None),
            Ok(()) => Ok(()),
        }
    }

    fn welcome(&mut self, request: u64) -> Result<()> {
        let bytes = serde_json::to_vec(&self.shared.control.welcome()?).map_err(unencodable)?;
        send(&mut self.stream, Kind::Welcome, request, &bytes, None)
    }

    fn control(&mut self, request: u64, payload: &[u8]) -> Result<()> {
        let verb = serde_json::from_slice(payload).map_err(|error| {
            Error::new(ErrorKind::Corrupt, "a verb on the local socket is not JSON").with_source(error)
        })?;
        let report = self.shared.control.control(verb)?;
        let bytes = serde_json::to_vec(&report).map_err(unencodable)?;
        send(&mut self.stream, Kind::Report, request, &bytes, None)
    }

    /// Hands out a file that is whole here, or says that it is not.
    fn lease(&mut self, request: u64, inode: u64) -> Result<()> {
        let backing = if self.leases.len() < MAX_LEASES { self.shared.filesystem.backing(inode) } else { None };
        match backing {
            None => send(&mut self.stream, Kind::Data, request, &[], None),
            Some(backing) => {
                let descriptor = backing.file.as_raw_fd();
                send(&mut self.stream, Kind::Lease, request, &[], Some(descriptor))?;
                self.leases.insert(inode, backing);
                Ok(())
            }
        }
    }

    /// Answers each item in order; misses of the batch are fetched side by side.
    fn read(&mut self, request: u64, items: Vec<ReadItem>) -> Result<()> {
        let mut items = items.into_iter();
        let mut window = VecDeque::new();
        loop {
            while window.len() < BATCH_WINDOW {
                let Some(item) = items.next() else { break };
                window.push_back(self.start(item));
            }
            let Some(pending) = window.pop_front() else { return Ok(()) };
            let reply = match pending {
                Pending::Here(reply) => reply,
                Pending::Coming(task) => self.shared.runtime.block_on(task).unwrap_or_else(|_| Err(closing())),
            };
            match reply.and_then(|reply| collect(&reply)) {
                Ok(bytes) => send(&mut self.stream, Kind::Data, request, &bytes, None)?,
                Err(error) => send(&mut self.stream, Kind::Failure, request, &encode_error(&error), None)?,
            }
        }
    }

    fn start(&self, item: ReadItem) -> Pending {
        let length = (item.length as usize).min(MAX_PAYLOAD_BYTES);
        let filesystem = self.shared.filesystem.clone();
        match filesystem.read_cached(item.inode, 0, item.offset, length) {
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

/// All bytes of a reply in one piece.
fn collect(reply: &ReadReply) -> Result<Vec<u8>> {
    match reply {
        ReadReply::Memory(parts) => Ok(parts.concat()),
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
            Ok(bytes)
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
