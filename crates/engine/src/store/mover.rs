//! The background thread of a store: moves blocks between levels, keeps water marks, compacts logs, verifies on request.
//!
//! Everything it does is optional for readers: its queue is bounded, and what does not fit is forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;

use super::closing::wait_unless;
use super::counters::DISK_ERROR;
use super::disk;
use super::errands::{Errand, Errands};
use super::eviction::Use;
use super::folder::{Content, Folder, Removal, Victim};
use super::levels::{Core, Level};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileId;
use crate::sync::Mutex;

const MAX_ERRANDS: usize = 256;
/// How often logs are looked at, and the least time between two rounds of relief.
const ROUND: Duration = Duration::from_millis(1000);
const RELIEF_PAUSE: Duration = Duration::from_millis(20);
/// A reader's hold on a block is short; that on a whole file is not worth waiting for.
const LEAVE_TRIES: usize = 10;
const LEAVE_PAUSE: Duration = Duration::from_millis(1);
/// Victims taken in one round of relief, so that other errands get their turn.
const MAX_VICTIMS: usize = 4096;

/// The thread, until stopped.
#[derive(Debug)]
pub struct Mover {
    sender: SyncSender<Errand>,
    stopping: Arc<AtomicBool>,
    thread: Mutex<Option<(JoinHandle<()>, Receiver<()>)>>,
}

impl Mover {
    pub fn start(core: &Arc<Core>) -> Result<Self> {
        let (sender, receiver) = sync_channel(MAX_ERRANDS);
        let (stopping, relief_wanted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let errands = Errands::new(sender.clone(), relief_wanted.clone());
        let worker = Worker { core: Arc::downgrade(core), stopping: stopping.clone(), relief_wanted };
        let thread = if core.levels.is_empty() {
            None
        } else {
            let spawned = std::thread::Builder::new().name("headrace-store".to_owned());
            let (running, ended) = sync_channel(0);
            let spawned = spawned.spawn(move || {
                let _running: SyncSender<()> = running;
                worker.run(&receiver);
            });
            let failed = |error| {
                Error::new(ErrorKind::Unexpected, "cannot start the store's background thread").with_source(error)
            };
            Some((spawned.map_err(failed)?, ended))
        };
        // A core is given to one mover only.
        let _ = core.errands.set(errands);
        Ok(Mover { sender, stopping, thread: Mutex::new(thread) })
    }

    /// Waits for the errand at hand, unless that is `in_vain`, and ends the thread. Harmless when repeated.
    pub fn stop(&self, in_vain: impl Fn() -> bool) {
        self.stopping.store(true, Ordering::Relaxed);
        let _ = self.sender.try_send(Errand::Stop);
        let Some((thread, ended)) = self.thread.lock().take() else { return };
        wait_unless(&ended, &in_vain);
        if !thread.is_finished() && in_vain() {
            return;
        }
        if thread.join().is_err() {
            tracing::error!("the store's background thread ended with a fault");
        }
    }
}

/// Ends a move: the old place is given up, or, while somebody reads there, the new one; true when the block has moved.
fn leave(from: &Folder, to: &Folder, id: &FileId, index: u32) -> bool {
    let left =
        tries(|| from.remover.remove(id, Some(index), Removal::Move) > 0 || !from.contents.may_contain(id, index));
    if left {
        to.contents.note_proof(id);
    } else {
        to.remover.remove(id, Some(index), Removal::Move);
    }
    left
}

/// The same for all of a file that may be mapped, and so goes in one piece, if all that is there was copied.
fn leave_whole(from: &Folder, to: &Folder, id: &FileId, copied: &[u32]) -> bool {
    let left = from.contents.indices(id) == copied
        && tries(|| from.remover.remove(id, None, Removal::Move) > 0 || !from.contents.holds_file(id));
    if left {
        to.contents.note_proof(id);
        return true;
    }
    for index in copied {
        to.remover.remove(id, Some(*index), Removal::Move);
    }
    false
}

fn tries(leave: impl Fn() -> bool) -> bool {
    (0..LEAVE_TRIES).any(|number| {
        if number > 0 {
            std::thread::sleep(LEAVE_PAUSE);
        }
        leave()
    })
}

struct Worker {
    core: Weak<Core>,
    stopping: Arc<AtomicBool>,
    relief_wanted: Arc<AtomicBool>,
}

impl Worker {
    fn run(&self, receiver: &Receiver<Errand>) {
        while !self.is_stopping() {
            let errand = receiver.recv_timeout(ROUND);
            let Some(core) = self.core.upgrade() else { return };
            match errand {
                // One disk that hangs is not waited for on behalf of the others.
                Ok(Errand::Promote { folder, .. } | Errand::Verify { folder, .. }) if folder.place.watch.hangs() => {}
                Ok(Errand::Promote { folder, id, index, fresh }) => core.promote(&folder, &id, index, fresh),
                Ok(Errand::Relieve) => self.relieve(&core),
                Ok(Errand::Verify { folder, id }) => self.verify(&folder, &id),
                Ok(Errand::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
            compact_logs(&core);
        }
    }

    fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    fn relieve(&self, core: &Core) {
        self.relief_wanted.store(false, Ordering::Relaxed);
        for level in &core.levels {
            let usable = level.folders.iter().filter(|folder| !folder.place.watch.hangs());
            usable.for_each(|folder| core.relieve(level, folder, &self.stopping));
        }
        std::thread::sleep(RELIEF_PAUSE);
    }

    fn verify(&self, folder: &Folder, id: &FileId) {
        let mut indices = folder.contents.indices(id).into_iter();
        while let Some(index) = indices.next().filter(|_| !self.is_stopping()) {
            folder.reader.verify_block(id, index, false);
        }
    }
}

fn compact_logs(core: &Core) {
    for folder in core.usable_folders().filter(|folder| !folder.aside.is_aside() && folder.contents.wants_compaction())
    {
        if let Err(error) = folder.contents.compact() {
            folder.aside.set_aside(DISK_ERROR, &format!("its log could not be written anew ({error})"));
        }
    }
}

impl Core {
    /// Brings a folder that is over its high mark down to its low mark, as far as the policy gives blocks up.
    pub fn relieve(&self, level: &Level, folder: &Arc<Folder>, stopping: &AtomicBool) {
        let mark = |share: f64| (share * folder.room.quota_bytes as f64) as u64;
        if folder.room.used() <= mark(level.high) {
            return;
        }
        for _ in 0..MAX_VICTIMS {
            if folder.room.used() <= mark(level.low) || stopping.load(Ordering::Relaxed) {
                return;
            }
            let Some(victim) = folder.victim(self.shared.now(), false) else { return };
            self.give_up(folder, &victim);
        }
    }

    /// Moves a victim one level down, or evicts it where there is no lower level that takes it.
    fn give_up(&self, folder: &Arc<Folder>, victim: &Victim) {
        let indices = victim.index.map_or_else(|| folder.contents.indices(&victim.id), |index| vec![index]);
        let demoted = self.levels.get(folder.level + 1).and_then(|below| {
            below
                .folders
                .iter()
                .filter(|target| target.is_of_use())
                .max_by(|a, b| a.room.free_share().total_cmp(&b.room.free_share()))
        });
        if let Some(target) = demoted {
            let last = folder.level + 2 == self.levels.len();
            let moved = self.transplant(folder, target, &victim.id, &indices, last);
            self.shared.counters.demoted.inc_by(moved);
        }
        // What was moved is gone already; what was not is evicted.
        folder.remover.remove(&victim.id, victim.index, Removal::Evict);
    }

    /// Moves a block of a slow level up into the fastest level that pays, or its whole file: where there is free room for
    /// it, and where it goes in one piece anyway.
    pub fn promote(&self, folder: &Arc<Folder>, id: &FileId, index: u32, fresh: Use) {
        let indices = folder.contents.indices(id);
        let all = folder.contents.cached_bytes(id).next_multiple_of(4096);
        for level in self.levels.iter().take(folder.level) {
            for target in level.folders.iter().filter(|target| target.is_of_use()) {
                let most = (level.high * target.room.quota_bytes as f64) as u64;
                let whole = folder.contents.is_lent(id) || target.room.used() + all <= most;
                let bytes = if whole { all } else { u64::from(self.shared.block_size.bytes()) };
                if bytes <= most && self.makes_way(target, most, bytes, fresh) {
                    let chosen = if whole { &indices } else { &vec![index] };
                    let moved = self.transplant(folder, target, id, chosen, false);
                    self.shared.counters.promoted.inc_by(moved);
                    return;
                }
            }
        }
    }

    /// True when a promotion pays and finds its room below `most`; rivals that must go for it have gone then.
    fn makes_way(&self, target: &Arc<Folder>, most: u64, bytes: u64, fresh: Use) -> bool {
        let now = self.shared.now();
        let pays = |rival| self.shared.policy.promotes(fresh.mark, fresh.gap, rival, now);
        if target.room.used() + bytes <= most {
            return pays(None);
        }
        for _ in 0..MAX_VICTIMS {
            let Some(rival) = target.victim(now, false).filter(|rival| pays(Some(rival.mark))) else { return false };
            self.give_up(target, &rival);
            if target.room.used() + bytes <= most {
                return true;
            }
        }
        false
    }

    /// Copies blocks to another folder, each under its checksum, and removes what was copied; how many were.
    fn transplant(&self, from: &Folder, to: &Arc<Folder>, id: &FileId, indices: &[u32], may_evict: bool) -> u64 {
        let Some(key) = from.contents.key(id) else { return 0 };
        let copied = indices.iter().filter(|index| {
            let Some((bytes, crc)) = from.reader.read_block(id, **index) else { return false };
            let length = bytes.len() as u32;
            let room = disk::allocated(length);
            if !(to.room.reserve(room) || may_evict && self.make_room(to, room) && to.room.reserve(room)) {
                return false;
            }
            let content = Content { key: &key, id: *id, index: **index, parts: &[Bytes::from(bytes)], length, crc };
            to.writer.store(&content).is_ok()
        });
        let copied: Vec<u32> = copied.copied().collect();
        if from.contents.is_lent(id) {
            return if leave_whole(from, to, id, &copied) { copied.len() as u64 } else { 0 };
        }
        copied.into_iter().filter(|index| leave(from, to, id, *index)).count() as u64
    }
}
