//! Who has which inode open how: through the page cache, or passed through to a local file.
//!
//! The kernel (fs/fuse/iomode.c) refuses with EIO an open that mixes both on one inode, or that names another backing
//! file than the opens before it. It counts a file closed before it sends RELEASE and open only after our answer, so an
//! account that counts from answer to RELEASE never promises what the kernel must refuse.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::device::Device;
use crate::budget::{Budget, Permit};
use crate::sync::Mutex;
use crate::vfs::{Backing, FileSystem, Inode};

const SHARDS: usize = 32;

/// The account of one mount.
#[derive(Debug)]
pub struct OpenModes {
    shards: Vec<Mutex<HashMap<Inode, Account>>>,
    device: Arc<Device>,
    descriptors: Budget,
    /// Cleared for good when the kernel refuses passthrough as such.
    allowed: AtomicBool,
    /// A refusal of single files is told once.
    complained: AtomicBool,
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
    device: Arc<Device>,
    owned: AtomicBool,
    /// `None` only after a hand-over, when the local file is gone and the kernel alone still holds it.
    _backing: Option<Backing>,
    _descriptor: Option<Permit>,
}

/// One inode's opens, in a form that may be handed to another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenState {
    pub inode: Inode,
    pub opens: u32,
    /// The kernel's number of the backing file; `None`: through the page cache.
    pub backing: Option<u32>,
}

impl OpenModes {
    /// `allowed`: whether passthrough was negotiated.
    pub fn new(device: Arc<Device>, descriptors: Budget, allowed: bool) -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let (allowed, complained) = (AtomicBool::new(allowed), AtomicBool::new(false));
        OpenModes { shards, device, descriptors, allowed, complained }
    }

    /// Whether opens may be passed through at all.
    pub fn allows_passthrough(&self) -> bool {
        self.allowed.load(Ordering::Relaxed)
    }

    /// Counts one open and answers the backing number to use, or `None` for the page cache.
    pub fn open(&self, filesystem: &dyn FileSystem, inode: Inode) -> Option<u32> {
        if let Some(decided) = self.join(inode) {
            return decided;
        }
        // Outside the lock: the file system may touch the disk, the kernel takes its own locks.
        let registered = self.register(filesystem, inode);
        self.enter(inode, registered)
    }

    /// Another open of the same inode has decided already.
    fn join(&self, inode: Inode) -> Option<Option<u32>> {
        let mut shard = self.shard(inode).lock();
        let account = shard.get_mut(&inode)?;
        account.opens += 1;
        Some(account.backing.as_ref().map(|backing| backing.id))
    }

    /// Decides, unless another open did meanwhile; then `registered` is given back after the lock.
    fn enter(&self, inode: Inode, registered: Option<Arc<Registered>>) -> Option<u32> {
        let mut shard = self.shard(inode).lock();
        let account = shard.entry(inode).or_insert_with(|| Account { opens: 0, backing: registered.clone() });
        account.opens += 1;
        let decided = account.backing.as_ref().map(|backing| backing.id);
        drop(shard);
        decided
    }

    /// Counts one RELEASE, or an open whose answer the kernel no longer wanted.
    pub fn close(&self, inode: Inode) {
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
        let backing = filesystem.backing(inode)?;
        let permit = self.descriptors.try_acquire(1)?;
        match self.device.open_backing(&backing.file) {
            Ok(id) => Some(self.registered(id, Some(backing), Some(permit))),
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

    /// Gives all accounts away; the kernel's registrations stay for whoever takes them over.
    pub fn hand_over(&self) -> Vec<OpenState> {
        let mut states = Vec::new();
        for shard in &self.shards {
            for (inode, account) in shard.lock().drain() {
                let backing = account.backing.as_ref().map(|registered| registered.disown());
                states.push(OpenState { inode, opens: account.opens, backing });
            }
        }
        states
    }

    /// Goes on with accounts that another session handed over. The local file behind a registration is pinned again;
    /// one that is gone stays readable for those who have it open, through the kernel's own reference.
    pub fn take_over(&self, filesystem: &dyn FileSystem, states: &[OpenState]) {
        for state in states {
            let backing = state.backing.map(|id| {
                let permit = self.descriptors.try_acquire(1);
                self.registered(id, filesystem.backing(state.inode), permit)
            });
            self.shard(state.inode).lock().insert(state.inode, Account { opens: state.opens, backing });
        }
    }

    fn registered(&self, id: u32, backing: Option<Backing>, descriptor: Option<Permit>) -> Arc<Registered> {
        let (device, owned) = (self.device.clone(), AtomicBool::new(true));
        Arc::new(Registered { id, device, owned, _backing: backing, _descriptor: descriptor })
    }
}

impl Registered {
    fn disown(&self) -> u32 {
        self.owned.store(false, Ordering::Relaxed);
        self.id
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.owned.load(Ordering::Relaxed) {
            // After an unmount the connection is gone, and its registrations with it.
            let _ = self.device.close_backing(self.id);
        }
    }
}

impl std::fmt::Debug for Registered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Registered({})", self.id)
    }
}
