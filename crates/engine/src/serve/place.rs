//! The address of a state directory's owner, and its state: alive, gone for good, to be succeeded, or
//! standing still.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, getsockopt, setsockopt, socket, sockopt};
use nix::sys::time::{TimeVal, TimeValLike};

use super::frame::Kind;
use super::interrupt;
use super::patience::{Absence, Attempt, Failed, Patience};
use super::socket::{Line, SOCKET_NAME, address};
use crate::error::{Error, ErrorKind, Result};
use crate::local_peers::check_listener;
use crate::sync::{Mutex, MutexGuard};

/// The owner's place, as one client knows it.
#[derive(Debug)]
pub struct OwnerSocket {
    state_directory: PathBuf,
    patience: Patience,
    /// The owner's process number; 0 before it is known.
    owner: AtomicU32,
    attached: AtomicBool,
    /// When the owner was last asked whether it is there, and whether it was.
    probed: Mutex<Option<(Instant, bool)>>,
    /// When somebody last waited in vain for the next owner.
    given_up: Mutex<Option<Instant>>,
}

impl OwnerSocket {
    pub fn new(state_directory: &Path, patience: Patience) -> Self {
        OwnerSocket {
            state_directory: state_directory.to_owned(),
            patience,
            owner: AtomicU32::new(0),
            attached: AtomicBool::new(false),
            probed: Mutex::new(None),
            given_up: Mutex::new(None),
        }
    }

    pub fn note_attached(&self) {
        self.attached.store(true, Ordering::Relaxed);
    }

    pub fn note_owner(&self, pid: u32) {
        self.owner.store(pid, Ordering::Relaxed);
    }

    /// A connection to whoever listens. A socket's name without a listener is what an owner leaves that died or stepped
    /// back, and a missing name what one leaves that has ended in order.
    pub fn connect(&self) -> Attempt<UnixStream> {
        let (path, _directory) = address(&self.state_directory).map_err(|_| Failed::Final(self.absent()))?;
        match connect_within(&path, self.patience.answer) {
            Ok(stream) => {
                let socket = self.state_directory.join(SOCKET_NAME);
                check_listener(&stream, &socket)
                    .map_err(|error| Failed::Final(Error::from_io("attach to", &socket, error)))?;
                self.note_listener(&stream);
                Ok(stream)
            }
            Err(Errno::ENOENT | Errno::ENOTDIR) => Err(Failed::Final(self.absent())),
            Err(errno @ (Errno::EACCES | Errno::EPERM)) => {
                Err(Failed::Final(Error::from_io("connect to", &path, errno.into())))
            }
            Err(Errno::EAGAIN) => Err(Failed::Final(self.standing_still())),
            Err(errno) => {
                let error = Error::new(ErrorKind::Unreachable, "nobody listens");
                Err(Failed::Lost(error.with_source(std::io::Error::from(errno))))
            }
        }
    }

    /// Who listens is told by the kernel, also while he stands still and answers nothing: 0 from another pid namespace.
    fn note_listener(&self, stream: &UnixStream) {
        if let Ok(peer) = getsockopt(stream, sockopt::PeerCredentials)
            && let Ok(pid @ 1..) = u32::try_from(peer.pid())
        {
            self.note_owner(pid);
        }
    }

    /// Before another try; an error when nobody came for too long, or the wait shall end.
    pub fn wait(&self, absence: &mut Absence, error: Error) -> Result<()> {
        interrupt::check()?;
        if absence.is_new() {
            tracing::warn!(%error, "the process that owns the cache went away: waiting for the next");
        }
        match absence.next_pause(self.patience.successor) {
            Some(pause) => interrupt::pause(pause),
            None => {
                *self.given_up.lock() = Some(Instant::now());
                return Err(self.not_succeeded().with_source(error));
            }
        }
        Ok(())
    }

    /// The lock, which somebody else may hold while he waits for the owner. Whoever waits for him looks as he does, and
    /// gives up when he does: all of them hear of an owner that stands still, or has no successor, together and not one
    /// after the other.
    pub fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> Result<MutexGuard<'a, T>> {
        let began = Instant::now();
        let guard = interrupt::lock(mutex, || {
            self.check_given_up(began)?;
            self.look(began.elapsed())
        })?;
        self.check_given_up(began)?;
        Ok(guard)
    }

    /// An error when somebody waited in vain for the next owner since then.
    fn check_given_up(&self, since: Instant) -> Result<()> {
        let is_given_up = self.given_up.lock().is_some_and(|when| when >= since);
        if is_given_up { Err(self.not_succeeded()) } else { Ok(()) }
    }

    /// Called while the owner is silent, and when a signal came: `Timeout` when it does not even say that it is there.
    pub fn look(&self, silent: Duration) -> Result<()> {
        interrupt::check()?;
        if silent < self.patience.silence {
            return Ok(());
        }
        // One asks for all who wait.
        let mut probed = interrupt::lock(&self.probed, interrupt::check)?;
        let is_there = match *probed {
            Some((when, true)) if when.elapsed() < self.patience.silence => true,
            Some((when, false)) if when.elapsed() < self.patience.answer => false,
            _ => {
                let is_there = self.is_there();
                interrupt::check()?;
                *probed = Some((Instant::now(), is_there));
                is_there
            }
        };
        if is_there { Ok(()) } else { Err(self.standing_still()) }
    }

    /// Whether it answers a greeting in time. One that is gone stands not still: its connections end by themselves.
    fn is_there(&self) -> bool {
        let limit = self.patience.answer;
        let too_long = |silent| {
            interrupt::check()?;
            if silent < limit { Ok(()) } else { Err(self.standing_still()) }
        };
        let greet = |stream: UnixStream| -> Attempt<()> {
            let mut line = Line::new(&stream, &too_long)?;
            line.send(Kind::Hello, 0, &[], None)?;
            line.receive()?;
            Ok(())
        };
        let outcome = self.connect().and_then(greet);
        !matches!(outcome, Err(Failed::Final(error)) if error.kind() == ErrorKind::Timeout)
    }

    /// Nobody serves this state directory.
    pub fn nobody(&self) -> Error {
        Error::new(ErrorKind::NotFound, format!("no process serves the cache at {}", self.state_directory.display()))
            .with_hint("start `headrace mount` on it, or open the dataset first")
    }

    fn absent(&self) -> Error {
        if !self.attached.load(Ordering::Relaxed) {
            return self.nobody();
        }
        let message = format!("the process that owned the cache at {} has ended", self.state_directory.display());
        Error::new(ErrorKind::Unreachable, message)
            .with_hint("mount it again (`headrace mount`), and open the dataset again")
    }

    fn not_succeeded(&self) -> Error {
        let (place, seconds) = (self.state_directory.display(), self.patience.successor.as_secs());
        let message = format!(
            "the process that owned the cache at {place} went away, and for {seconds} s no other took its place"
        );
        Error::new(ErrorKind::Timeout, message)
            .with_hint("`headrace status` tells of the mount; mount it again (`headrace mount`) and read again")
    }

    /// Its hint names the process where that is known: `kill` would take a 0 for the whole process group of who calls it.
    pub fn standing_still(&self) -> Error {
        let place = self.state_directory.display();
        let (name, way_out) = match self.owner.load(Ordering::Relaxed) {
            0 => ("the process".to_owned(), "let it go on, or end it; `headrace status` tells of it".to_owned()),
            pid => {
                let way_out = format!("let it go on (`kill -CONT {pid}`), or end it (`kill -KILL {pid}`)");
                (format!("the process {pid}"), way_out)
            }
        };
        let message = format!("{name} that owns the cache at {place} stands still: it answers nothing");
        Error::new(ErrorKind::Timeout, message)
            .with_hint(format!("{way_out}: the supervisor of a mount starts another"))
    }
}

/// Waits no longer than that when as many as the kernel queues wait to be let in: `EAGAIN` then.
fn connect_within(path: &Path, limit: Duration) -> nix::Result<UnixStream> {
    let stream = socket(AddressFamily::Unix, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&stream, sockopt::SendTimeout, &TimeVal::milliseconds(limit.as_millis() as i64))?;
    connect(stream.as_raw_fd(), &UnixAddr::new(path)?)?;
    Ok(UnixStream::from(stream))
}
