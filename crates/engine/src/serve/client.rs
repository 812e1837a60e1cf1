//! The attached side: requests to the process that owns the cache, over a small pool of connections.
//!
//! An owner that dies is waited for: what it had not answered is asked of its successor. All requests can be asked twice.

use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::direct::DirectReads;
use super::frame::Kind;
use super::leased::{LeasedFile, Leases, Lent};
use super::message::{ReadItem, Welcome, decode_error, encode_inodes, encode_items};
use super::patience::{Absence, Attempt, Failed, Patience};
use super::place::OwnerSocket;
use super::socket::{Frame, Line, ended};
use crate::error::{Error, ErrorKind, Result};
use crate::store::is_distrusted;
use crate::sync::{Mutex, MutexGuard};

/// Idle connections kept for the next request.
const MAX_IDLE: usize = 16;

/// An attached process's way to the owner. Safe to share between threads.
#[derive(Debug)]
pub struct Client {
    place: OwnerSocket,
    idle: Mutex<Vec<UnixStream>>,
    leases: Mutex<Leases>,
    next_request: AtomicU64,
    generation: AtomicU64,
    direct: DirectReads,
    /// The owner takes counts.
    owner_counts: AtomicBool,
}

impl Client {
    /// Greets the owner of `state_directory`; `NotFound` when no process serves it. With `waits`, one that has just died
    /// is waited for as in every later request.
    pub fn connect(state_directory: &Path, patience: Patience, waits: bool) -> Result<(Client, Welcome)> {
        let client = Client {
            place: OwnerSocket::new(state_directory, patience),
            idle: Mutex::new(Vec::new()),
            leases: Mutex::new(Leases::default()),
            next_request: AtomicU64::new(1),
            generation: AtomicU64::new(0),
            direct: DirectReads::default(),
            owner_counts: AtomicBool::new(false),
        };
        let welcome = if waits { client.welcome()? } else { client.first_welcome()? };
        client.place.note_attached();
        Ok((client, welcome))
    }

    fn first_welcome(&self) -> Result<Welcome> {
        match self.open_stream() {
            Ok((stream, welcome)) => {
                self.keep(stream);
                Ok(welcome)
            }
            Err(Failed::Final(error)) => Err(error),
            Err(Failed::Lost(error)) => Err(self.place.nobody().with_source(error)),
        }
    }

    /// What the owner says of itself now; its snapshot moves on at each refresh.
    pub fn welcome(&self) -> Result<Welcome> {
        self.with_owner(|line, request| {
            let welcome = greet(line, request)?;
            self.note_owner(&welcome);
            Ok(welcome)
        })
    }

    /// The owner's `Welcome::instance`: another one means that the owner before has died or stepped back, and that inodes
    /// which it told may mean other files now.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    /// Reads each item into its buffer; the bytes read of each, fewer than asked only at the end of a file. Here and below,
    /// `None` when the owner is not the one of `generation` any more, who told the inodes.
    pub fn read_many(
        &self,
        generation: u64,
        items: &[ReadItem],
        buffers: &mut [&mut [u8]],
    ) -> Result<Option<Vec<usize>>> {
        let payload = encode_items(items);
        self.with_this_owner(generation, |line, request| {
            line.send(Kind::Read, request, &payload, None)?;
            let mut counts = Vec::with_capacity(items.len());
            let mut failure = None;
            // Every answer is taken even after a failure, so that the connection stays usable.
            for buffer in buffers.iter_mut() {
                match line.receive_into(buffer)? {
                    (count, None) => counts.push(count),
                    (_, Some(frame)) => failure = failure.or(Some(failure_of(&frame))),
                }
            }
            failure.map_or(Ok(counts), |error| Err(Failed::told(error)))
        })
    }

    /// The open cache file of `inode` if it is whole there; remembered for the next call, unless the owner has dropped
    /// something of it as wrong by then.
    pub fn lease(&self, generation: u64, inode: u64) -> Result<Option<Lent>> {
        let mut leases = self.lock(&self.leases)?;
        self.persist(|| {
            leases.renew(self.generation());
            let known = if leases.generation == generation { leases.find(inode) } else { None };
            if let Some(file) = known.filter(|file| !is_distrusted(&file.file)) {
                return Ok(Some(Some(file)));
            }
            let stream = leases.stream.take().map_or_else(|| self.open_stream().map(|opened| opened.0), Ok)?;
            leases.renew(self.generation());
            if leases.generation != generation {
                return Ok(None);
            }
            let distrusted = leases.files.remove(&inode).is_some();
            let file = self.exchange(&stream, |line, _| {
                if distrusted {
                    line.send(Kind::Close, 0, &inode.to_le_bytes(), None)?;
                }
                ask_for_lease(line, inode)
            })?;
            leases.stream = Some(stream);
            if let Some(file) = &file {
                leases.add(inode, file.clone());
                self.give_back(&mut leases)?;
            }
            Ok(Some(file))
        })
    }

    /// The lock, which another thread may hold while it waits for the owner.
    pub fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> Result<MutexGuard<'a, T>> {
        self.place.lock(mutex)
    }

    fn give_back(&self, leases: &mut Leases) -> Result<()> {
        let unused = leases.shrink();
        let Some(stream) = &leases.stream else { return Ok(()) };
        let look = |silent| self.place.look(silent);
        let mut line = Line::new(stream, &look)?;
        unused.into_iter().try_for_each(|inode| line.send(Kind::Close, 0, &inode.to_le_bytes(), None))
    }

    /// Tells the order in which whole files will be read.
    pub fn prefetch(&self, generation: u64, inodes: &[u64]) -> Result<Option<()>> {
        // The order of a long epoch is cut to what one frame holds: two million files, hours of reading.
        let inodes = &inodes[..inodes.len().min(super::frame::MAX_PAYLOAD_BYTES / 8)];
        let payload = encode_inodes(inodes);
        let told = self.with_this_owner(generation, |line, request| ask(line, request, Kind::Prefetch, &payload))?;
        Ok(told.map(drop))
    }

    /// Carries out a JSON verb in the owner, whoever that is.
    pub fn control(&self, verb: &serde_json::Value) -> Result<serde_json::Value> {
        let payload = verb.to_string();
        report_of(&self.with_owner(|line, request| ask(line, request, Kind::Control, payload.as_bytes()))?)
    }

    /// The same for verbs with inodes or numbers of jobs.
    pub fn control_in(&self, generation: u64, verb: &serde_json::Value) -> Result<Option<serde_json::Value>> {
        let payload = verb.to_string();
        let ask = |line: &mut Line<'_>, request| ask(line, request, Kind::Control, payload.as_bytes());
        self.with_this_owner(generation, ask)?.as_ref().map(report_of).transpose()
    }

    /// Every connection has greeted, so a change of owners is known before anything else is asked.
    fn with_this_owner<T>(
        &self,
        generation: u64,
        mut exchange: impl FnMut(&mut Line<'_>, u64) -> Attempt<T>,
    ) -> Result<Option<T>> {
        self.with_owner(
            |line, request| {
                if self.generation() == generation { exchange(line, request).map(Some) } else { Ok(None) }
            },
        )
    }

    /// Runs one exchange on a connection of its own, with the next owner if this one goes away; the connection is kept
    /// only if the exchange went well.
    fn with_owner<T>(&self, mut exchange: impl FnMut(&mut Line<'_>, u64) -> Attempt<T>) -> Result<T> {
        self.persist(|| {
            let idle = self.idle.lock().pop();
            let stream = idle.map_or_else(|| self.open_stream().map(|opened| opened.0), Ok)?;
            let outcome = self.exchange(&stream, &mut exchange)?;
            self.keep(stream);
            Ok(outcome)
        })
    }

    /// Repeats `attempt` until an owner has answered, or none has come for too long.
    fn persist<T>(&self, mut attempt: impl FnMut() -> Attempt<T>) -> Result<T> {
        let mut absence = Absence::default();
        loop {
            match attempt() {
                Ok(outcome) => return Ok(outcome),
                Err(Failed::Final(error)) => return Err(error),
                Err(Failed::Lost(error)) => {
                    // The others are of the same owner.
                    self.idle.lock().clear();
                    self.place.wait(&mut absence, error)?;
                }
            }
        }
    }

    fn exchange<T>(
        &self,
        stream: &UnixStream,
        mut exchange: impl FnMut(&mut Line<'_>, u64) -> Attempt<T>,
    ) -> Attempt<T> {
        let look = |silent| self.place.look(silent);
        exchange(&mut Line::new(stream, &look)?, self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    fn keep(&self, stream: UnixStream) {
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
    }

    /// A new connection, which has greeted: a change of owners is never missed.
    fn open_stream(&self) -> Attempt<(UnixStream, Welcome)> {
        let stream = self.place.connect()?;
        let welcome = self.exchange(&stream, greet)?;
        self.note_owner(&welcome);
        Ok((stream, welcome))
    }

    /// Reads from a file on lease, as `LeasedFile::read_at`, and counts it for the owner, who does not see it.
    pub fn read_leased(&self, file: &LeasedFile, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let bytes = file.read_at(buffer, offset)?;
        if self.direct.add(bytes) {
            self.tell_direct_reads();
        }
        Ok(bytes)
    }

    /// As far as that keeps nobody waiting.
    fn tell_direct_reads(&self) {
        if !self.owner_counts.load(Ordering::Relaxed) {
            return;
        }
        if let Some(stream) = self.leases.try_lock().as_ref().and_then(|leases| leases.stream.as_ref()) {
            self.direct.tell(stream);
        }
    }

    fn note_owner(&self, welcome: &Welcome) {
        self.owner_counts.store(welcome.counts, Ordering::Relaxed);
        let before = self.generation.swap(welcome.generation(), Ordering::SeqCst);
        if before != 0 && before != welcome.generation() {
            tracing::info!(pid = welcome.pid, "another process owns the cache now");
            self.idle.lock().clear();
        }
        self.place.note_owner(welcome.pid);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.tell_direct_reads();
    }
}

fn greet(line: &mut Line<'_>, request: u64) -> Attempt<Welcome> {
    let frame = ask(line, request, Kind::Hello, &[])?;
    let unreadable = |error| Failed::Final(unexpected(Kind::Welcome).with_source(error));
    serde_json::from_slice(&frame.payload).map_err(unreadable)
}

fn ask(line: &mut Line<'_>, request: u64, kind: Kind, payload: &[u8]) -> Attempt<Frame> {
    line.send(kind, request, payload, None)?;
    let frame = line.receive()?.ok_or_else(ended)?;
    if frame.header.kind == Kind::Failure { Err(Failed::told(failure_of(&frame))) } else { Ok(frame) }
}

fn ask_for_lease(line: &mut Line<'_>, inode: u64) -> Attempt<Lent> {
    let frame = ask(line, 0, Kind::Open, &inode.to_le_bytes())?;
    Ok(frame.descriptor.map(|descriptor| Arc::new(LeasedFile { file: File::from(descriptor) })))
}

fn report_of(frame: &Frame) -> Result<serde_json::Value> {
    serde_json::from_slice(&frame.payload).map_err(|error| unexpected(Kind::Report).with_source(error))
}

fn failure_of(frame: &Frame) -> Error {
    if frame.header.kind == Kind::Failure { decode_error(&frame.payload) } else { unexpected(frame.header.kind) }
}

fn unexpected(kind: Kind) -> Error {
    Error::new(ErrorKind::Unexpected, format!("the process that owns the cache gave no fitting answer to {kind:?}"))
}
