//! Messages that the daemon starts: "forget this name", "forget these pages", "here are pages". Sent from a thread of
//! their own.
//!
//! The kernel may hold such a message until a reader lets go of a page or a directory, and that reader may be waiting
//! for an answer of ours. So no request thread ever sends one, and none is sent under a lock that one could want.

use std::io::{self, IoSlice};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use super::abi::{OUT_HEADER_BYTES, notify};
use super::device::Device;
use super::ledger::Ledger;
use super::relay::{Outcome, PACKET_BYTES, Relay};
use super::reply::Words;
use crate::error::{Error, Result};
use crate::sync::Mutex;
use crate::vfs::Inode;

/// What the kernel shall forget, or know.
#[derive(Debug)]
pub enum Notice<'a> {
    /// That `name` in `parent` is, or is not, what it was; open files stay as they are.
    Name { parent: Inode, name: &'a [u8] },
    /// Attributes and cached pages of an inode.
    Inode(Inode),
    /// Bytes of an inode's content, from the start of a page to the end of one or of the file: for the page cache.
    /// Only through a supervisor: the kernel holds who brings pages that somebody else is reading at the moment.
    Pages { inode: Inode, offset: u64, bytes: &'a [u8] },
    /// Every name, when next used (Linux 6.16; older kernels: nothing happens and the caller is told).
    AllNames,
}

/// Gives notices to who sends them, one after the other. A refresh can have as many as there are files, so they are made
/// when they are sent, and none is kept.
pub type Notices = Box<dyn FnOnce(&mut dyn FnMut(Notice<'_>)) + Send>;

/// Takes a name and the directory that it is in.
pub type TellName<'a> = &'a mut dyn FnMut(Inode, &[u8]);

/// The thread that sends; ends when dropped, or with the mount.
#[derive(Debug)]
pub struct Notifier {
    queue: Option<Arc<Sender<Batch>>>,
    thread: Option<JoinHandle<()>>,
    way: Arc<Way>,
}

/// Where notices of this mount's threads are left, for as long as the notifier lives.
#[derive(Debug)]
pub struct NoticeQueue {
    queue: Weak<Sender<Batch>>,
    way: Arc<Way>,
}

impl NoticeQueue {
    /// Whether a supervisor sends, which the kernel may hold without harm.
    pub fn is_relayed(&self) -> bool {
        self.way.relay.lock().is_some()
    }

    /// Queues `notices` and returns at once. `until` is dropped when they are delivered, or never will be.
    pub fn send(&self, notices: Notices, until: impl Send + 'static) {
        if let Some(queue) = self.queue.upgrade() {
            let (done, until): (_, Box<dyn Send>) = (tokio::sync::oneshot::channel().0, Box::new(until));
            let _ = queue.send(Batch { notices, announces: None, until: Some(until), done });
        }
    }
}

/// How messages get to the kernel: through a supervisor if there is one.
#[derive(Debug)]
struct Way {
    device: Arc<Device>,
    relay: Mutex<Option<Arc<Relay>>>,
    /// Held while one message is said without a relay: who does so must not be left in the kernel.
    speaking: Mutex<()>,
}

struct Batch {
    notices: Notices,
    /// The snapshot that the kernel knows of once all are delivered.
    announces: Option<u64>,
    /// Dropped when all are delivered.
    until: Option<Box<dyn Send>>,
    done: tokio::sync::oneshot::Sender<Delivered>,
}

/// What makes the kernel forget the names that `walk` tells, and the lists of the directories that they are in: of a name
/// that it never asked for it knows nothing that could be forgotten, and goes on showing a list without it. A directory
/// follows its names, each time that `walk` leaves it.
pub fn notices_of(walk: impl FnOnce(TellName<'_>) + Send + 'static) -> Notices {
    Box::new(move |tell| {
        let mut directory = None;
        walk(&mut |parent, name| {
            if let Some(left) = directory.replace(parent).filter(|left| *left != parent) {
                tell(Notice::Inode(left));
            }
            tell(Notice::Name { parent, name });
        });
        directory.map(Notice::Inode).into_iter().for_each(tell);
    })
}

/// What came of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Delivered {
    /// Names and inodes that the kernel knew and forgot.
    pub known: usize,
    /// Messages that this kernel does not have.
    pub unsupported: usize,
}

/// Resolves when the kernel has forgotten; dropping it is fine.
pub type Delivery = tokio::sync::oneshot::Receiver<Delivered>;

impl Notifier {
    /// Starts the thread.
    pub fn start(device: Arc<Device>, ledger: Arc<Ledger>) -> Result<Notifier> {
        let (queue, batches) = channel();
        let way = Arc::new(Way { device, relay: Mutex::default(), speaking: Mutex::default() });
        let ours = way.clone();
        let thread = std::thread::Builder::new()
            .name("headrace-notify".into())
            .spawn(move || deliver_all(&ours, &ledger, &batches))
            .map_err(|error| Error::from_io("start a thread for", std::path::Path::new("/dev/fuse"), error))?;
        Ok(Notifier { queue: Some(Arc::new(queue)), thread: Some(thread), way })
    }

    /// From now on messages go through a supervisor.
    pub fn go_through(&self, relay: Relay) {
        *self.way.relay.lock() = Some(Arc::new(relay));
    }

    /// Calls `stop`, after which nobody answers here, at a moment in which no message of ours waits in the kernel for an
    /// answer: its thread could not end any more, nor this process. One that a relay has under way is none of ours.
    pub fn stop_in_silence(&self, stop: impl FnOnce()) {
        let _nobody_speaks = self.way.speaking.lock();
        stop();
    }

    /// For threads that may outlive it.
    pub fn queue(&self) -> NoticeQueue {
        let queue = self.queue.as_ref().map(Arc::downgrade).unwrap_or_default();
        NoticeQueue { queue, way: self.way.clone() }
    }

    /// What has not been delivered yet is left to the next daemon: the device is retired.
    pub fn abandon(&self) {
        if let Some(relay) = self.way.relay.lock().take() {
            relay.abandon();
        }
    }

    /// Queues `notices` and returns at once. When they are delivered, the kernel counts as knowing snapshot `announces`.
    pub fn send(&self, notices: Notices, announces: Option<u64>) -> Delivery {
        let (done, delivery) = tokio::sync::oneshot::channel();
        if let Some(queue) = &self.queue {
            // The thread ends only with the mount; then nobody needs to forget anything.
            let _ = queue.send(Batch { notices, announces, until: None, done });
        }
        delivery
    }
}

impl Drop for Notifier {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn deliver_all(way: &Way, ledger: &Ledger, batches: &Receiver<Batch>) {
    while let Ok(batch) = batches.recv() {
        let delivered = way.deliver(batch.notices);
        if let Some(identity) = batch.announces.filter(|_| !way.device.is_retired()) {
            ledger.announced().store(identity, Ordering::Release);
        }
        drop(batch.until);
        let _ = batch.done.send(delivered);
    }
}

impl Way {
    fn deliver(&self, notices: Notices) -> Delivered {
        let mut delivered = Delivered::default();
        let mut packet = Vec::new();
        notices(&mut |notice| {
            let message = notice.message();
            if packet.len() + message.len() > PACKET_BYTES {
                self.deliver_packet(&packet, &mut delivered);
                packet.clear();
            }
            packet.extend_from_slice(&message);
        });
        if !packet.is_empty() {
            self.deliver_packet(&packet, &mut delivered);
        }
        delivered
    }

    fn deliver_packet(&self, packet: &[u8], delivered: &mut Delivered) {
        let relay = self.relay.lock().clone();
        let outcome = relay.map(|relay| relay.pass(packet)).unwrap_or_else(|| Ok(self.deliver_directly(packet)));
        let outcome = outcome.unwrap_or_else(|_| {
            // The supervisor has died, or we are to stop: then nothing is said to the device either.
            *self.relay.lock() = None;
            self.deliver_directly(packet)
        });
        delivered.known += outcome.taken as usize;
        delivered.unsupported += outcome.unsupported as usize;
        if outcome.refused > 0 {
            tracing::warn!("fuse: the kernel did not take {} invalidations", outcome.refused);
        }
    }

    fn deliver_directly(&self, packet: &[u8]) -> Outcome {
        let mut outcome = Outcome::default();
        let mut rest = packet;
        while let Some(length) = rest.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes) as usize) {
            let Some((message, later)) = rest.split_at_checked(length.max(OUT_HEADER_BYTES)) else { break };
            rest = later;
            if message[4..8] == notify::STORE.to_ne_bytes() {
                continue;
            }
            let _speaking = self.speaking.lock();
            match self.device.send(&[IoSlice::new(message)]).map_err(|error| error.raw_os_error()) {
                Ok(()) => outcome.taken += 1,
                // The kernel does not know the name or inode, or the mount is gone.
                Err(Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENOTCONN | libc::ENOTEMPTY)) => {}
                Err(Some(libc::EINVAL | libc::ENOSYS)) => outcome.unsupported += 1,
                Err(_) => outcome.refused += 1,
            }
        }
        outcome
    }
}

impl Notice<'_> {
    fn message(&self) -> Vec<u8> {
        match self {
            Notice::Name { parent, name } => {
                let flags = 0;
                let fields = Words::new().u64(*parent).u32(name.len() as u32).u32(flags);
                message(notify::INVAL_ENTRY, &[fields.as_bytes(), name, &[0]])
            }
            Notice::Inode(inode) => {
                let (offset, whole) = (0, 0);
                message(notify::INVAL_INODE, &[Words::new().u64(*inode).u64(offset).u64(whole).as_bytes()])
            }
            Notice::Pages { inode, offset, bytes } => {
                let (length, padding) = (bytes.len() as u32, 0);
                let fields = Words::new().u64(*inode).u64(*offset).u32(length).u32(padding);
                message(notify::STORE, &[fields.as_bytes(), bytes])
            }
            Notice::AllNames => message(notify::INC_EPOCH, &[]),
        }
    }
}

/// Asks the kernel to send again what was read but never answered, after a daemon died.
pub fn request_resend(device: &Device) -> io::Result<()> {
    device.send(&[IoSlice::new(&message(notify::RESEND, &[]))])
}

/// A message has the header of an answer, with unique 0 and its code in the place of the error.
fn message(code: i32, parts: &[&[u8]]) -> Vec<u8> {
    let length = OUT_HEADER_BYTES + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut message = Vec::with_capacity(length);
    message.extend_from_slice(Words::new().u32(length as u32).u32(code as u32).u64(0).as_bytes());
    parts.iter().for_each(|part| message.extend_from_slice(part));
    message
}
