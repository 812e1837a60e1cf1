//! The modes in which inodes are open: through the page cache, or passed through to a local file.
//!
//! The kernel (fs/fuse/iomode.c) refuses with EIO an open that mixes both on one inode, or that names another backing
//! file than the opens before it. It counts a file closed before it sends RELEASE and open only after our answer, so an
//! account that counts from answer to RELEASE never promises what the kernel must refuse. The accounts themselves follow
//! from the tickets, which outlive the daemon.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::device::Device;
use super::ledger::Ledger;
use super::patience::Places;
use super::tickets::Tickets;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::vfs::{FileSystem, Inode, WRITING};

const SHARDS: usize = 32;

/// The account of one mount.
#[derive(Debug)]
pub struct OpenModes {
    shards: Vec<Mutex<HashMap<Inode, Account>>>,
    tickets: Tickets,
    device: Arc<Device>,
    /// Whether the kernel knows two ways to open, so that they must not be mixed.
    mixed: bool,
    /// Cleared for good when the kernel refuses passthrough as such.
    allowed: AtomicBool,
    /// A refusal of single files is told once.
    complained: AtomicBool,
    places: Arc<Places>,
}

/// The opens of one inode: all of one kind at any time.
#[derive(Debug, Default)]
struct Account {
    opens: u32,
    /// `None`: through the page cache.
    backing: Option<Arc<Registered>>,
}

/// A local file that the kernel knows as backing number `id`.
pub struct Registered {
    id: u32,
    size: u64,
    device: Arc<Device>,
    /// Keeps the local file in place. `None` only after a take-over, when it is gone and the kernel alone still holds it.
    _pin: Option<Box<dyn Send + Sync>>,
}

/// A local file as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    /// The backing number.
    pub id: u32,
    /// Bytes of the file.
    pub size: u64,
}

/// What to answer to an OPEN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opened {
    /// What the kernel shall name the open file by.
    pub ticket: u64,
    /// The local file to use; `None`: the page cache.
    pub backing: Option<Passed>,
    /// The daemon before has done this already, and may have answered it.
    pub inherited: bool,
}

impl OpenModes {
    /// `passthrough`: whether it was negotiated; `places`: for threads that look for a file's place in the cache.
    pub fn new(device: Arc<Device>, ledger: Arc<Ledger>, passthrough: bool, places: Arc<Places>) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (allowed, complained) = (AtomicBool::new(passthrough), AtomicBool::new(false));
        OpenModes { shards, tickets: Tickets::new(ledger), device, mixed: passthrough, allowed, complained, places }
    }

    /// Whether opens may be passed through at all.
    pub fn allows_passthrough(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }

    /// The file system's handle of an open file; 0 when it has none.
    pub fn handle(&self, ticket: u64) -> u64 {
        self.tickets.handle(ticket)
    }

    /// Counts one open, request `unique` of the kernel; `again`: the daemon before may have begun it.
    pub fn open(&self, filesystem: &dyn FileSystem, inode: Inode, unique: u64, again: bool) -> Result<Opened> {
        if again && let Some(record) = self.tickets.issued_for(unique).filter(|record| record.inode == inode) {
            let size = || filesystem.attributes(inode).map_or(0, |attributes| attributes.size);
            let backing = record.backing.map(|id| Passed { id, size: size() });
            return Ok(Opened { ticket: record.ticket, backing, inherited: true });
        }
        let backing = if self.mixed { self.enter(filesystem, inode) } else { None };
        let handle = match backing {
            Some(_) => Ok(0),
            None => filesystem.open(inode).map(|opened| opened.handle),
        };
        let issued = handle.and_then(|handle| {
            let ticket = self.tickets.issue(inode, unique, backing.map(|passed| passed.id), handle);
            ticket.ok_or_else(|| {
                release(filesystem, handle);
                Error::new(ErrorKind::NoSpace, "more files are open in one mount than can be accounted for")
            })
        });
        match issued {
            Ok(ticket) => Ok(Opened { ticket, backing, inherited: false }),
            Err(error) => {
                self.leave(inode);
                Err(error)
            }
        }
    }

    /// Counts one open of a file that programs write, by a handle that it has already: through neither the page cache nor a
    /// local file. The ticket, and whether the daemon before had issued it, so that `handle` is one too many.
    pub fn open_to_write(&self, inode: Inode, unique: u64, again: bool, handle: u64) -> Result<(u64, bool)> {
        if again && let Some(record) = self.tickets.issued_for(unique).filter(|record| record.inode == inode) {
            return Ok((record.ticket, true));
        }
        if self.mixed {
            self.decide(inode, None);
        }
        match self.tickets.issue(inode, unique, None, handle) {
            Some(ticket) => Ok((ticket, false)),
            None => {
                self.leave(inode);
                let message = "more files are open in one mount than can be accounted for";
                Err(Error::new(ErrorKind::NoSpace, message))
            }
        }
    }

    /// Counts one RELEASE, or an open whose answer the kernel no longer wanted. A second time it does nothing.
    pub fn close(&self, filesystem: &dyn FileSystem, ticket: u64) {
        // The one moment at which the file counts as closed, for this daemon and for one that comes after it.
        let Some(record) = self.tickets.end(ticket) else { return };
        release(filesystem, record.handle);
        self.leave(record.inode);
    }

    /// The local file for one more open of `inode`.
    fn enter(&self, filesystem: &dyn FileSystem, inode: Inode) -> Option<Passed> {
        if let Some(decided) = self.join(inode) {
            return decided;
        }
        // Outside the lock: the file system may touch the disk, the kernel takes its own locks.
        let registered = self.register(filesystem, inode);
        self.decide(inode, registered)
    }

    /// Another open of the same inode has decided already.
    fn join(&self, inode: Inode) -> Option<Option<Passed>> {
        let mut shard = self.shard(inode).lock();
        let account = shard.get_mut(&inode)?;
        account.opens += 1;
        Some(account.backing.as_ref().map(|backing| backing.passed()))
    }

    /// Decides, unless another open did meanwhile; then `registered` is given back after the lock.
    fn decide(&self, inode: Inode, registered: Option<Arc<Registered>>) -> Option<Passed> {
        let mut shard = self.shard(inode).lock();
        let account = shard.entry(inode).or_insert_with(|| Account { opens: 0, backing: registered.clone() });
        account.opens += 1;
        let decided = account.backing.as_ref().map(|backing| backing.passed());
        drop(shard);
        decided
    }

    fn leave(&self, inode: Inode) {
        let mut shard = self.shard(inode).lock();
        let Some(account) = shard.get_mut(&inode) else { return };
        account.opens -= 1;
        let last = if account.opens == 0 { shard.remove(&inode) } else { None };
        drop(shard);
        drop(last);
    }

    fn shard(&self, inode: Inode) -> &Mutex<HashMap<Inode, Account>> {
        &self.shards[inode as usize % SHARDS]
    }

    fn register(&self, filesystem: &dyn FileSystem, inode: Inode) -> Option<Arc<Registered>> {
        if !self.allows_passthrough() {
            return None;
        }
        // Looking for the file may wait for its disk. Without one it is read through the daemon.
        let _place = self.places.take()?;
        let backing = filesystem.backing(inode)?;
        match self.device.open_backing(&backing.file) {
            Ok(id) => Some(self.registered(Passed { id, size: backing.size }, Some(Box::new(backing)))),
            Err(error) => {
                self.refused(&error);
                None
            }
        }
    }

    /// EPERM and ENOTTY hold for every file; the rest (a backing file on an overlay, for one) only for this one.
    fn refused(&self, error: &io::Error) {
        if matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOTTY | libc::ENOSYS)) {
            if self.allowed.swap(false, Ordering::Relaxed) {
                tracing::info!("fuse: the kernel refuses passthrough ({error}); files are read through the daemon");
            }
        } else if !self.complained.swap(true, Ordering::Relaxed) {
            tracing::warn!("fuse: a cache file cannot be passed through ({error}); is the cache on an overlay?");
        }
    }

    /// Goes on with what the daemon before had open. The local file behind a registration is held in place again; one
    /// that is gone stays readable for those who have it open, through the kernel's own reference.
    pub fn take_over(&self, filesystem: &Arc<dyn FileSystem>) {
        let writable = filesystem.clone().writable();
        let filesystem = &**filesystem;
        for record in self.tickets.live() {
            if self.mixed {
                let mut shard = self.shard(record.inode).lock();
                let backing = || record.backing.map(|id| self.registered_before(filesystem, record.inode, id));
                let account = shard.entry(record.inode).or_insert_with(|| Account { opens: 0, backing: backing() });
                account.opens += 1;
            }
            // The old number means nothing to this process, or another file.
            let handle = match record.backing {
                Some(_) => 0,
                // What stays right of it is its kind.
                None if record.handle & WRITING != 0 => {
                    writable.as_ref().map_or(0, |writable| writable.open_again(record.inode))
                }
                None => filesystem.open(record.inode).map_or(0, |opened| opened.handle),
            };
            self.tickets.set_handle(record.ticket, handle);
        }
    }

    fn registered_before(&self, filesystem: &dyn FileSystem, inode: Inode, id: u32) -> Arc<Registered> {
        let size = filesystem.attributes(inode).map_or(0, |attributes| attributes.size);
        self.registered(Passed { id, size }, filesystem.hold(inode))
    }

    fn registered(&self, passed: Passed, pin: Option<Box<dyn Send + Sync>>) -> Arc<Registered> {
        let Passed { id, size } = passed;
        Arc::new(Registered { id, size, device: self.device.clone(), _pin: pin })
    }
}

fn release(filesystem: &dyn FileSystem, handle: u64) {
    if handle != 0 {
        filesystem.release(handle);
    }
}

impl Registered {
    fn passed(&self) -> Passed {
        Passed { id: self.id, size: self.size }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // After an unmount the connection is gone, and its registrations with it; after a hand-over they belong to the
        // next daemon, and the device says nothing.
        let _ = self.device.close_backing(self.id);
    }
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registered({})", self.id)
    }
}
