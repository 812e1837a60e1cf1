//! The mount's connections to the worker: a few, made when needed, so that one slow answer holds up one thread. When the
//! worker does not answer, asking is left alone for a while, longer each time.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::socket::MsgFlags;

use super::message::Message;
use super::socket::{Inbox, connect_to, receive, send};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, FileId};
use crate::store::BlockMap;
use crate::sync::{Mutex, MutexGuard};

const LANES: usize = 4;
/// How long asking is left alone after the first failure, and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Which connection a lease came by, and in answer to which of its requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ticket {
    pub(super) lane: usize,
    /// Counts connections: a lane's next connection knows nothing of what the last one leased.
    pub(super) connection: u64,
    pub(super) request: u32,
}

impl Ticket {
    /// True when the worker has put the lease of this ticket in the place of that one, both being of one file.
    pub fn replaces(&self, other: Ticket) -> bool {
        let is_later = (self.request.wrapping_sub(other.request) as i32) > 0;
        (self.lane, self.connection) == (other.lane, other.connection) && is_later
    }
}

/// What the worker said.
#[derive(Debug)]
pub enum LeaseAnswer {
    Lent { file: File, whole: bool, unverified: bool, blocks: BlockMap, ticket: Ticket },
    Absent,
}

/// Where the worker of this machine listens, as far as is known now.
pub type LeaseSocket = Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>;

/// All connections of one mount to one worker.
pub struct Lanes {
    place: LeaseSocket,
    block_size: BlockSize,
    patience: Duration,
    lanes: [Mutex<Option<Connection>>; LANES],
    next_lane: AtomicUsize,
    connections: AtomicU64,
    most_leases: AtomicU32,
    pause: Mutex<Pause>,
}

#[derive(Debug, Default)]
struct Pause {
    until: Option<Instant>,
    length: Duration,
}

#[derive(Debug)]
struct Connection {
    number: u64,
    socket: OwnedFd,
    inbox: Inbox,
    requests: u32,
}

impl Lanes {
    pub fn new(place: LeaseSocket, block_size: BlockSize, patience: Duration) -> Self {
        Lanes {
            place,
            block_size,
            patience,
            lanes: Default::default(),
            next_lane: AtomicUsize::new(0),
            connections: AtomicU64::new(0),
            most_leases: AtomicU32::new(u32::MAX),
            pause: Mutex::default(),
        }
    }

    /// Most files that the worker lends at a time, as far as it has said so.
    pub fn most_leases(&self) -> usize {
        self.most_leases.load(Ordering::Relaxed) as usize
    }

    /// False while asking is left alone, or nobody is known who could be asked.
    pub fn may_ask(&self) -> bool {
        !self.is_paused() && (self.place)().is_some()
    }

    /// Asks for a file; waits for the answer at most as long as the worker may be silent. `None` when there is no worker,
    /// at once while asking is left alone.
    pub fn ask(&self, id: &FileId, size: u64, wanted: Option<u32>) -> Option<LeaseAnswer> {
        if self.is_paused() {
            return None;
        }
        let (number, mut lane) = self.free_lane();
        // Whoever had the lane may have found out that there is nobody.
        if self.is_paused() {
            return None;
        }
        let message = Message::Ask { id: *id, size, wanted };
        let answer = match lane.take() {
            // A worker that has been started anew is tried at once.
            Some(connection) => match self.exchange(&mut lane, connection, &message) {
                Err(error) if error.kind() != ErrorKind::Timeout => self.anew(&mut lane, &message),
                answer => answer,
            },
            None => self.anew(&mut lane, &message),
        };
        let (connection, request) = lane.as_ref().map_or((0, 0), |connection| (connection.number, connection.requests));
        drop(lane);
        let ticket = Ticket { lane: number, connection, request };
        let answer = answer.and_then(|(answer, descriptor)| understand(answer, descriptor, ticket));
        self.note(&answer);
        answer.ok()
    }

    /// Ends a lease, as far as the worker still knows of it; never one that came later.
    pub fn release(&self, ticket: Ticket, id: &FileId) {
        let mut lane = self.lanes[ticket.lane].lock();
        let Some(connection) = lane.as_ref().filter(|connection| connection.number == ticket.connection) else {
            return;
        };
        let packet = Message::Release { id: *id }.encode(ticket.request);
        if send(&connection.socket, &packet, None, MsgFlags::MSG_DONTWAIT).is_err() {
            // The worker does not listen; the connection's end tells it, whenever it looks.
            *lane = None;
        }
    }

    fn free_lane(&self) -> (usize, MutexGuard<'_, Option<Connection>>) {
        let first = self.next_lane.load(Ordering::Relaxed);
        let free = (first..first + LANES).find_map(|lane| Some((lane % LANES, self.lanes[lane % LANES].try_lock()?)));
        free.unwrap_or_else(|| {
            let lane = self.next_lane.fetch_add(1, Ordering::Relaxed) % LANES;
            (lane, self.lanes[lane].lock())
        })
    }

    fn anew(&self, lane: &mut Option<Connection>, message: &Message) -> Result<(Message, Option<OwnedFd>)> {
        let connection = self.connect()?;
        self.exchange(lane, connection, message)
    }

    /// One question and its answer; the connection is kept only if that went well.
    fn exchange(
        &self,
        lane: &mut Option<Connection>,
        mut connection: Connection,
        message: &Message,
    ) -> Result<(Message, Option<OwnedFd>)> {
        let answer = connection.ask(message)?;
        *lane = Some(connection);
        Ok(answer)
    }

    fn connect(&self) -> Result<Connection> {
        let nobody = || Error::new(ErrorKind::Unreachable, "no worker of this machine lends its files");
        let path = (self.place)().ok_or_else(nobody)?;
        let socket = connect_to(&path, self.patience).map_err(silent)?;
        let number = self.connections.fetch_add(1, Ordering::Relaxed) + 1;
        let mut connection = Connection { number, socket, inbox: Inbox::default(), requests: 0 };
        match connection.ask(&Message::Hello { block_size: self.block_size.bytes() })? {
            (Message::Welcome { most_leases }, _) => self.most_leases.store(most_leases, Ordering::Relaxed),
            (other, _) => return Err(unfit(other)),
        }
        Ok(connection)
    }

    fn is_paused(&self) -> bool {
        self.pause.lock().until.is_some_and(|until| Instant::now() < until)
    }

    /// Begins, lengthens or ends the pause.
    fn note(&self, answer: &Result<LeaseAnswer>) {
        let mut pause = self.pause.lock();
        match answer {
            Ok(_) => *pause = Pause::default(),
            Err(error) => {
                if pause.length.is_zero() {
                    let place = (self.place)().unwrap_or_default();
                    let place = place.display();
                    tracing::warn!(%error, "leases: the worker at {place} does not answer; its blocks come over the network");
                }
                pause.length = (pause.length * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
                pause.until = Some(Instant::now() + pause.length);
            }
        }
    }
}

impl Connection {
    fn ask(&mut self, message: &Message) -> Result<(Message, Option<OwnedFd>)> {
        // 0 is no number of a request.
        self.requests = self.requests.wrapping_add(1).max(1);
        send(&self.socket, &message.encode(self.requests), None, MsgFlags::empty()).map_err(silent)?;
        let (packet, descriptor) = receive(&self.socket, &mut self.inbox).map_err(silent)?;
        if packet.is_empty() {
            return Err(silent(io::ErrorKind::UnexpectedEof.into()));
        }
        match Message::decode(packet)? {
            (Message::Failure { text }, _) => Err(Error::new(ErrorKind::Unsupported, text)),
            (message, request) if request == self.requests => Ok((message, descriptor)),
            (other, _) => Err(unfit(other)),
        }
    }
}

fn understand(message: Message, descriptor: Option<OwnedFd>, ticket: Ticket) -> Result<LeaseAnswer> {
    match (message, descriptor) {
        (Message::Lent { whole, unverified, blocks }, Some(file)) => {
            Ok(LeaseAnswer::Lent { file: file.into(), whole, unverified, blocks, ticket })
        }
        (Message::Absent, _) => Ok(LeaseAnswer::Absent),
        (other, _) => Err(unfit(other)),
    }
}

fn silent(error: io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::new(ErrorKind::Timeout, "no answer on the lease socket in time")
        }
        _ => Error::new(ErrorKind::Unreachable, format!("no answer on the lease socket: {error}")),
    }
}

fn unfit(message: Message) -> Error {
    Error::new(ErrorKind::Corrupt, format!("not an answer to what was asked on the lease socket: {message:?}"))
}
