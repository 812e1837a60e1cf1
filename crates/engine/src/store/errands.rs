//! The errands of a store's background thread, and the bounded way there. Knows nothing of how it is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};

use super::blocks::Pin;
use super::eviction::Use;
use super::folder::Folder;
use crate::ids::FileId;

/// Keeps a file in place, and asks for something to be done with it once it need not stay any longer.
pub struct Afterwards {
    pin: Option<Pin>,
    errands: Errands,
    errand: Option<Errand>,
}

/// Something to do in the background.
#[derive(Debug)]
pub enum Errand {
    /// A block was used in a slow level.
    Promote {
        folder: Arc<Folder>,
        id: FileId,
        index: u32,
        fresh: Use,
    },
    /// Some folder is over its high mark.
    Relieve,
    /// A whole file is wanted, but not yet verified.
    Verify {
        folder: Arc<Folder>,
        id: FileId,
    },
    Stop,
}

/// The way to the thread.
#[derive(Debug, Clone)]
pub struct Errands {
    sender: SyncSender<Errand>,
    relief_wanted: Arc<AtomicBool>,
}

impl Errands {
    pub fn new(sender: SyncSender<Errand>, relief_wanted: Arc<AtomicBool>) -> Self {
        Errands { sender, relief_wanted }
    }

    pub fn send(&self, errand: Errand) {
        if matches!(errand, Errand::Relieve) && self.relief_wanted.swap(true, Ordering::Relaxed) {
            return;
        }
        if let Err(error) = self.sender.try_send(errand) {
            let (TrySendError::Full(lost) | TrySendError::Disconnected(lost)) = error;
            if matches!(lost, Errand::Relieve) {
                self.relief_wanted.store(false, Ordering::Relaxed);
            }
        }
    }
}

impl Afterwards {
    pub fn new(pin: Pin, errands: Errands, errand: Errand) -> Self {
        Afterwards { pin: Some(pin), errands, errand: Some(errand) }
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        self.pin = None;
        if let Some(errand) = self.errand.take() {
            self.errands.send(errand);
        }
    }
}
