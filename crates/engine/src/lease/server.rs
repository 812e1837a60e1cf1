//! The worker's side: one thread a connection, each with the leases that its client has. A connection's end gives all of
//! its leases back, so a client that is killed holds nothing but what its copies of descriptors hold.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use nix::sys::socket::MsgFlags;

use super::message::Message;
use super::socket::{Inbox, accept_from, end, listen_at, receive, send};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, FileId};
use crate::store::{BlockMap, LoanHold, Store};
use crate::sync::Mutex;

/// What clients may have at most.
#[derive(Debug, Clone, Copy)]
pub struct LeaseLimits {
    pub connections: usize,
    /// Each costs a descriptor of the store's budget. No connection gets more than half of what the store can lend.
    pub leases_per_connection: u32,
}

impl Default for LeaseLimits {
    fn default() -> Self {
        LeaseLimits { connections: 64, leases_per_connection: 2048 }
    }
}

/// A running server; dropping it closes the socket and ends all connections.
#[derive(Debug)]
pub struct LeaseServer {
    path: PathBuf,
    shared: Arc<LeaseServerState>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct LeaseServerState {
    listener: OwnedFd,
    store: Arc<Store>,
    block_size: BlockSize,
    limits: LeaseLimits,
    stopping: AtomicBool,
    /// By number, to end them.
    connections: Mutex<HashMap<u64, Arc<OwnedFd>>>,
    leases: AtomicUsize,
}

impl LeaseServer {
    /// Listens at `socket`, for processes of this user and of root. A socket left there is replaced: call it as the
    /// owner of the store and of the folder.
    pub fn start(socket: &Path, store: Arc<Store>, limits: LeaseLimits) -> Result<LeaseServer> {
        let half = u32::try_from(store.most_loans() / 2).unwrap_or(u32::MAX).max(1);
        let limits = LeaseLimits { leases_per_connection: limits.leases_per_connection.min(half), ..limits };
        let listener = listen_at(socket).map_err(|error| {
            Error::from_io("listen on", socket, error).with_hint("choose a state directory that this user may write to")
        })?;
        let block_size = store.block_size();
        let shared = Arc::new(LeaseServerState {
            listener,
            store,
            block_size,
            limits,
            stopping: AtomicBool::new(false),
            connections: Mutex::default(),
            leases: AtomicUsize::new(0),
        });
        let accepting = shared.clone();
        let acceptor = std::thread::Builder::new()
            .name("headrace-leases".into())
            .spawn(move || accept_all(&accepting))
            .map_err(|error| Error::from_io("start a thread for", socket, error))?;
        Ok(LeaseServer { path: socket.to_owned(), shared, acceptor: Some(acceptor) })
    }

    /// Files lent now, each counted once a connection.
    pub fn leases(&self) -> usize {
        self.shared.leases.load(Ordering::Relaxed)
    }
}

impl Drop for LeaseServer {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        end(&self.shared.listener);
        self.shared.connections.lock().values().for_each(|connection| end(connection));
        let _ = std::fs::remove_file(&self.path);
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

fn accept_all(shared: &Arc<LeaseServerState>) {
    for number in 0.. {
        let accepted = accept_from(&shared.listener);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok(Some(socket)) => start(shared, number, socket),
            Ok(None) => tracing::warn!("a process of another user asked for leases and was turned away"),
            Err(error) => {
                tracing::debug!(%error, "a connection for leases was not accepted");
                // Out of descriptors, most likely: the next try must not come at once.
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

fn start(shared: &Arc<LeaseServerState>, number: u64, socket: OwnedFd) {
    let socket = Arc::new(socket);
    let mut connections = shared.connections.lock();
    if connections.len() >= shared.limits.connections {
        return;
    }
    connections.insert(number, socket.clone());
    drop(connections);
    let shared = shared.clone();
    let serve = {
        let shared = shared.clone();
        move || {
            let mut connection = Connection { shared: &shared, socket: &socket, leases: HashMap::new() };
            if let Err(error) = connection.run() {
                tracing::debug!(%error, "a connection for leases ended");
            }
            drop(connection);
            shared.connections.lock().remove(&number);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("headrace-lease".into()).spawn(serve) {
        tracing::warn!(%error, "cannot start a thread for leases");
        shared.connections.lock().remove(&number);
    }
}

struct Connection<'a> {
    shared: &'a LeaseServerState,
    socket: &'a OwnedFd,
    /// With the number of the request that each was answered to.
    leases: HashMap<FileId, (u32, LoanHold)>,
}

impl Connection<'_> {
    /// Answers until the client goes away; what is not of the protocol is told and ends the connection.
    fn run(&mut self) -> Result<()> {
        let mut inbox = Inbox::default();
        let mut greeted = false;
        while !self.shared.stopping.load(Ordering::SeqCst) {
            let (packet, _) = receive(self.socket, &mut inbox).map_err(lost)?;
            if packet.is_empty() {
                return Ok(());
            }
            let answered = Message::decode(packet).and_then(|(message, request)| match message {
                Message::Hello { block_size } => self.greet(request, block_size).inspect(|()| greeted = true),
                Message::Ask { id, size, wanted } if greeted => self.lend(request, id, size, wanted),
                Message::Release { id } if greeted => {
                    self.release(request, &id);
                    Ok(())
                }
                _ => Err(Error::new(ErrorKind::Corrupt, "not a message that a client may send now")),
            });
            if let Err(error) = answered {
                let text = error.to_string();
                let _ = send(self.socket, &Message::Failure { text }.encode(0), None, MsgFlags::MSG_DONTWAIT);
                return Err(error);
            }
        }
        Ok(())
    }

    fn greet(&self, request: u32, block_size: u32) -> Result<()> {
        let ours = self.shared.block_size.bytes();
        if block_size != ours {
            let message = format!("this cache has blocks of {ours} bytes, not of {block_size}");
            return Err(Error::config(message));
        }
        let most_leases = self.shared.limits.leases_per_connection;
        self.send(request, &Message::Welcome { most_leases }, None)
    }

    fn lend(&mut self, request: u32, id: FileId, size: u64, wanted: Option<u32>) -> Result<()> {
        let room = self.leases.len() < self.shared.limits.leases_per_connection as usize;
        let room = room || self.leases.contains_key(&id);
        let loan = if room { self.shared.store.lend(&id, size, wanted) } else { None };
        let Some(loan) = loan else { return self.send(request, &Message::Absent, None) };
        // Of a whole file all blocks are meant.
        let blocks = if loan.whole { BlockMap::default() } else { loan.blocks.clone() };
        let answer = Message::Lent { whole: loan.whole, unverified: loan.unverified, blocks };
        // Before the answer: who has it finds its lease counted.
        if !self.leases.contains_key(&id) {
            self.shared.leases.fetch_add(1, Ordering::Relaxed);
        }
        let sent = self.send(request, &answer, Some(&loan.file));
        // The hold before, if any, is not given back: the file stays on lease.
        self.leases.insert(id, (request, loan.into_hold()));
        sent
    }

    /// Ends the lease that was the answer to `request` (0: to any), unless a later one has its place.
    fn release(&mut self, request: u32, id: &FileId) {
        if self.leases.get(id).is_some_and(|(asked, _)| request == 0 || request == *asked) {
            self.give_back(id);
        }
    }

    fn give_back(&mut self, id: &FileId) {
        if let Some((_, hold)) = self.leases.remove(id) {
            self.shared.leases.fetch_sub(1, Ordering::Relaxed);
            self.shared.store.give_back(hold);
        }
    }

    fn send(&self, request: u32, message: &Message, file: Option<&std::fs::File>) -> Result<()> {
        let descriptor = file.map(|file| file.as_raw_fd());
        send(self.socket, &message.encode(request), descriptor, MsgFlags::empty()).map_err(lost)
    }
}

impl Drop for Connection<'_> {
    fn drop(&mut self) {
        let ids: Vec<FileId> = self.leases.keys().copied().collect();
        ids.iter().for_each(|id| self.give_back(id));
    }
}

fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unreachable, "the process that leases files went away").with_source(error)
}

#[cfg(test)]
mod tests;
