//! The attached side: requests to the process that owns the cache, over a small pool of connections.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::frame::Kind;
use super::message::{ReadItem, Welcome, decode_error, encode_inodes, encode_items};
use super::socket::{Frame, address, receive, receive_into, send};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// Idle connections kept for the next request.
const MAX_IDLE: usize = 16;
/// Leased files kept open; the oldest is given back first.
const MAX_LEASED: usize = 256;

/// An attached process's way to the owner. Safe to share between threads.
#[derive(Debug)]
pub struct Client {
    state_directory: PathBuf,
    idle: Mutex<Vec<UnixStream>>,
    leases: Mutex<Leases>,
    next_request: AtomicU64,
}

/// Leases live on a connection of their own: the owner takes them back when it closes.
#[derive(Debug, Default)]
struct Leases {
    stream: Option<UnixStream>,
    files: HashMap<u64, (u64, Arc<LeasedFile>)>,
    clock: u64,
}

/// A file of the cache, opened by the owner, whole and verified; reads of it are plain system calls.
#[derive(Debug)]
pub struct LeasedFile {
    file: File,
}

impl LeasedFile {
    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Error::new(ErrorKind::Unexpected, "cannot read a cache file").with_source(error));
                }
            }
        }
        Ok(done)
    }
}

impl Client {
    /// Greets the owner of `state_directory`; `NotFound` when no process serves it.
    pub fn connect(state_directory: &Path) -> Result<(Client, Welcome)> {
        let client = Client {
            state_directory: state_directory.to_owned(),
            idle: Mutex::new(Vec::new()),
            leases: Mutex::new(Leases::default()),
            next_request: AtomicU64::new(1),
        };
        let welcome = client.welcome()?;
        Ok((client, welcome))
    }

    /// What the owner says of itself now; its snapshot moves on at each refresh.
    pub fn welcome(&self) -> Result<Welcome> {
        let frame = self.ask(Kind::Hello, &[])?;
        serde_json::from_slice(&frame.payload).map_err(|error| unexpected(Kind::Welcome).with_source(error))
    }

    /// Reads each item into its buffer; the bytes read of each, fewer than asked only at the end of a file.
    pub fn read_many(&self, items: &[ReadItem], buffers: &mut [&mut [u8]]) -> Result<Vec<usize>> {
        self.with_stream(|stream, request| {
            send(stream, Kind::Read, request, &encode_items(items), None)?;
            let mut counts = Vec::with_capacity(items.len());
            let mut failure = None;
            // Every answer is taken even after a failure, so that the connection stays usable.
            for buffer in buffers.iter_mut() {
                match receive_into(stream, buffer)? {
                    (count, None) => counts.push(count),
                    (_, Some(frame)) => failure = failure.or(Some(failure_of(&frame))),
                }
            }
            Ok(failure.map_or(Ok(counts), Err))
        })?
    }

    /// The open cache file of `inode` if it is whole there; remembered for the next call.
    pub fn lease(&self, inode: u64) -> Result<Option<Arc<LeasedFile>>> {
        let mut leases = self.leases.lock();
        leases.clock += 1;
        let clock = leases.clock;
        if let Some((used, file)) = leases.files.get_mut(&inode) {
            *used = clock;
            return Ok(Some(file.clone()));
        }
        let stream = match &mut leases.stream {
            Some(stream) => stream,
            none => none.insert(self.open_stream()?),
        };
        send(stream, Kind::Open, 0, &inode.to_le_bytes(), None)?;
        let frame = receive(stream)?.ok_or_else(|| unexpected(Kind::Open))?;
        let Some(descriptor) = frame.descriptor else {
            return if frame.header.kind == Kind::Failure { Err(failure_of(&frame)) } else { Ok(None) };
        };
        let file = Arc::new(LeasedFile { file: File::from(descriptor) });
        leases.files.insert(inode, (clock, file.clone()));
        leases.shrink()?;
        Ok(Some(file))
    }

    /// Tells the order in which whole files will be read.
    pub fn prefetch(&self, inodes: &[u64]) -> Result<()> {
        // The order of a long epoch is cut to what one frame holds: two million files, hours of reading.
        let inodes = &inodes[..inodes.len().min(super::frame::MAX_PAYLOAD_BYTES / 8)];
        self.ask(Kind::Prefetch, &encode_inodes(inodes)).map(drop)
    }

    /// Carries out a JSON verb in the owner.
    pub fn control(&self, verb: &serde_json::Value) -> Result<serde_json::Value> {
        let frame = self.ask(Kind::Control, verb.to_string().as_bytes())?;
        serde_json::from_slice(&frame.payload).map_err(|error| unexpected(Kind::Report).with_source(error))
    }

    fn ask(&self, kind: Kind, payload: &[u8]) -> Result<Frame> {
        let frame = self.with_stream(|stream, request| {
            send(stream, kind, request, payload, None)?;
            receive(stream)?.ok_or_else(|| unexpected(kind))
        })?;
        if frame.header.kind == Kind::Failure { Err(failure_of(&frame)) } else { Ok(frame) }
    }

    /// Runs one exchange on a connection of its own; the connection is kept only if the exchange went well.
    fn with_stream<T>(&self, exchange: impl FnOnce(&mut UnixStream, u64) -> Result<T>) -> Result<T> {
        let idle = self.idle.lock().pop();
        let mut stream = match idle {
            Some(stream) => stream,
            None => self.open_stream()?,
        };
        let request = self.next_request.fetch_add(1, Ordering::Relaxed);
        let outcome = exchange(&mut stream, request)?;
        let mut idle = self.idle.lock();
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
        Ok(outcome)
    }

    fn open_stream(&self) -> Result<UnixStream> {
        let (path, _directory) = address(&self.state_directory)?;
        UnixStream::connect(path).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::NotFound,
            };
            let message = format!("no process serves the cache at {}", self.state_directory.display());
            Error::new(kind, message)
                .with_hint("start `headrace mount` on it, or open the dataset first")
                .with_source(error)
        })
    }
}

impl Leases {
    fn shrink(&mut self) -> Result<()> {
        while self.files.len() > MAX_LEASED {
            // A file that another thread is reading right now keeps its lease: giving it back would let it be evicted.
            let unused = self.files.iter().filter(|(_, (_, file))| Arc::strong_count(file) == 1);
            let oldest = unused.min_by_key(|(_, (used, _))| *used).map(|(inode, _)| *inode);
            let Some(inode) = oldest else { return Ok(()) };
            self.files.remove(&inode);
            if let Some(stream) = &mut self.stream {
                send(stream, Kind::Close, 0, &inode.to_le_bytes(), None)?;
            }
        }
        Ok(())
    }
}

fn failure_of(frame: &Frame) -> Error {
    if frame.header.kind == Kind::Failure { decode_error(&frame.payload) } else { unexpected(frame.header.kind) }
}

fn unexpected(kind: Kind) -> Error {
    Error::new(ErrorKind::Unexpected, format!("the process that owns the cache gave no fitting answer to {kind:?}"))
}
