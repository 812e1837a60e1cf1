//! Messages that the daemon starts: "forget this name", "forget these pages". Sent from a thread of their own.
//!
//! The kernel may hold such a message until a reader lets go of a page or a directory, and that reader may be waiting
//! for an answer of ours. So no request thread ever sends one, and none is sent under a lock.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use super::abi::{OUT_HEADER_BYTES, notify};
use super::device::Device;
use super::ledger::Ledger;
use super::reply::Words;
use crate::error::{Error, Result};
use crate::vfs::Inode;

/// What the kernel shall forget.
#[derive(Debug)]
pub enum Notice {
    /// That `name` in `parent` is, or is not, what it was; open files stay as they are.
    Name { parent: Inode, name: Vec<u8> },
    /// Attributes and cached pages of an inode.
    Inode(Inode),
    /// Every name, when next used (Linux 6.16; older kernels: nothing happens and the caller is told).
    AllNames,
}

/// The thread that sends; ends when dropped, or with the mount.
#[derive(Debug)]
pub struct Notifier {
    queue: Option<Sender<Batch>>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Batch {
    notices: Vec<Notice>,
    /// The snapshot that the kernel knows of once all are delivered.
    announces: Option<u64>,
    done: tokio::sync::oneshot::Sender<Delivered>,
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
        let thread = std::thread::Builder::new()
            .name("headrace-notify".into())
            .spawn(move || deliver_all(&device, &ledger, &batches))
            .map_err(|error| Error::from_io("start a thread for", std::path::Path::new("/dev/fuse"), error))?;
        Ok(Notifier { queue: Some(queue), thread: Some(thread) })
    }

    /// Queues `notices` and returns at once. When they are delivered, the kernel counts as knowing snapshot `announces`.
    pub fn send(&self, notices: Vec<Notice>, announces: Option<u64>) -> Delivery {
        let (done, delivery) = tokio::sync::oneshot::channel();
        if let Some(queue) = &self.queue {
            // The thread ends only with the mount; then nobody needs to forget anything.
            let _ = queue.send(Batch { notices, announces, done });
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

fn deliver_all(device: &Device, ledger: &Ledger, batches: &Receiver<Batch>) {
    while let Ok(batch) = batches.recv() {
        let mut delivered = Delivered::default();
        for notice in &batch.notices {
            match deliver(device, notice) {
                Ok(()) => delivered.known += 1,
                Err(error) => match error.raw_os_error() {
                    // The kernel does not know the name or inode, or the mount is gone.
                    Some(libc::ENOENT | libc::ENOTDIR | libc::ENODEV | libc::ENOTCONN | libc::ENOTEMPTY) => {}
                    Some(libc::EINVAL | libc::ENOSYS) => delivered.unsupported += 1,
                    _ => tracing::warn!("fuse: the kernel did not take an invalidation: {error}"),
                },
            }
        }
        if let Some(version) = batch.announces {
            ledger.announced().store(version, Ordering::Release);
        }
        let _ = batch.done.send(delivered);
    }
}

fn deliver(device: &Device, notice: &Notice) -> io::Result<()> {
    match notice {
        Notice::Name { parent, name } => {
            let flags = 0;
            let fields = Words::new().u64(*parent).u32(name.len() as u32).u32(flags);
            send(device, notify::INVAL_ENTRY, &[fields.as_bytes(), name, &[0]])
        }
        Notice::Inode(inode) => {
            let (offset, whole) = (0, 0);
            send(device, notify::INVAL_INODE, &[Words::new().u64(*inode).u64(offset).u64(whole).as_bytes()])
        }
        Notice::AllNames => send(device, notify::INC_EPOCH, &[]),
    }
}

/// Asks the kernel to send again what was read but never answered, after a daemon died.
pub fn request_resend(device: &Device) -> io::Result<()> {
    send(device, notify::RESEND, &[])
}

/// A message has the header of an answer, with unique 0 and its code in the place of the error.
fn send(device: &Device, code: i32, parts: &[&[u8]]) -> io::Result<()> {
    let payload: usize = parts.iter().map(|part| part.len()).sum();
    let length = (OUT_HEADER_BYTES + payload) as u32;
    let head = Words::new().u32(length).u32(code as u32).u64(0);
    let mut slices = vec![IoSlice::new(head.as_bytes())];
    slices.extend(parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)));
    device.send(&slices)
}
