//! The mount's side: `Blocks` of the worker on this machine, read from its own data files. One round trip for a file
//! that is not on lease, none for one that is; without a worker nothing is here, and what was on lease stays right.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::lanes::{Lanes, LeaseAnswer, LeaseSocket, Ticket};
use super::marks::Marks;
use super::table::{Lease, Left, Table};
use crate::budget::{Budget, Permit};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, FileId, FileKey};
use crate::store::{BlockHandle, BlockMap, Blocks, DiskWatch, Put, TellWrong, WholeFile, WrongFile, mark_of};

/// Which blocks the worker of this machine is asked for. Called for every block that is not on lease: must be quick.
pub type IsLocal = Arc<dyn Fn(&FileId, u32) -> bool + Send + Sync>;

/// How a mount leases.
#[derive(Clone)]
pub struct LeaseOptions {
    /// Most files on lease at a time; the worker may allow fewer.
    pub files: usize,
    /// How long "that is not here" is believed, unless `note_stored` comes first.
    pub absence: Duration,
    /// A lease is given back after one to two times as long without use.
    pub idle: Duration,
    /// Longest wait for an answer.
    pub patience: Duration,
    pub is_local: IsLocal,
}

impl Default for LeaseOptions {
    /// Asks for every block.
    fn default() -> Self {
        LeaseOptions {
            files: 2048,
            absence: Duration::from_secs(1),
            idle: Duration::from_secs(20),
            patience: Duration::from_secs(1),
            is_local: Arc::new(|_, _| true),
        }
    }
}

/// The blocks of this machine's worker. Safe to share between threads; its methods never wait for anything but the
/// worker, and for that at most `LeaseOptions::patience`.
pub struct LeasedBlocks {
    shared: Arc<LeaseClientState>,
    /// Dropping it ends the thread that gives idle leases back.
    _ending: SyncSender<()>,
}

struct LeaseClientState {
    lanes: Lanes,
    table: Table,
    marks: Marks,
    block_size: BlockSize,
    descriptors: Budget,
    options: LeaseOptions,
    /// Of the disks that the worker's files are on, all of them: it does not say which is where.
    watch: Arc<DiskWatch>,
}

/// Why `put` takes nothing.
const KEPT_BY_WORKER: &str = "kept-by-worker";

impl LeasedBlocks {
    /// Blocks of the worker that listens at `place`, now or later; it may come to be known later, and move. Each file on lease takes one of `descriptors`.
    pub fn new(
        place: LeaseSocket,
        block_size: BlockSize,
        descriptors: Budget,
        options: LeaseOptions,
    ) -> Result<Arc<Self>> {
        let lanes = Lanes::new(place, block_size, options.patience);
        let (table, idle) = (Table::new(options.files), options.idle);
        let watch = DiskWatch::new(Path::new("of the worker"));
        let marks = Marks::default();
        let shared = Arc::new(LeaseClientState { lanes, table, marks, block_size, descriptors, options, watch });
        let (ending, ended) = sync_channel(0);
        let tidied = Arc::downgrade(&shared);
        std::thread::Builder::new()
            .name("headrace-tidy".into())
            .spawn(move || while ended.recv_timeout(idle) == Err(RecvTimeoutError::Timeout) && tidy(&tidied) {})
            .map_err(|error| {
                Error::new(ErrorKind::Unexpected, "cannot start the thread that gives leases back").with_source(error)
            })?;
        Ok(Arc::new(LeasedBlocks { shared, _ending: ending }))
    }

    /// The worker has just got more blocks of a file: the next look asks again.
    pub fn note_stored(&self, file: &FileId) {
        self.shared.table.outdate(file);
    }

    /// Files on lease now.
    pub fn leased_files(&self) -> usize {
        self.shared.table.len()
    }
}

fn tidy(shared: &Weak<LeaseClientState>) -> bool {
    let Some(shared) = shared.upgrade() else { return false };
    // Before leases go: of what is not on lease nothing is heard. A file may be read from the kernel's pages alone.
    for (file, lease) in shared.table.all() {
        shared.trust(&file, &lease);
    }
    shared.give_back(shared.table.grow_older());
    true
}

impl LeaseClientState {
    /// The lease of a file, unless the worker has dropped something of the file as wrong: then it is given back, and
    /// what is right of the file is asked for anew.
    fn trusted(&self, file: &FileId) -> Option<Arc<Lease>> {
        let lease = self.table.find(file)?;
        self.trust(file, &lease).then_some(lease)
    }

    fn trust(&self, file: &FileId, lease: &Arc<Lease>) -> bool {
        let Some(mark) = mark_of(&lease.file) else { return true };
        self.give_back(self.table.remove(file, lease));
        self.marks.note(WrongFile { id: *file, size: lease.size }, mark);
        false
    }

    /// The lease that holds the block.
    fn holding(&self, file: &FileId, index: u32, size: u64) -> Option<Arc<Lease>> {
        if self.watch.hangs() {
            return None;
        }
        let known = self.trusted(file);
        if let Some(lease) = known.as_ref().filter(|lease| lease.holds(index, self.block_size)) {
            return Some(lease.clone());
        }
        if !self.is_worth_asking(file, known.as_deref()) || !(self.options.is_local)(file, index) {
            return None;
        }
        drop(known);
        self.ask(file, size, Some(index)).filter(|lease| lease.holds(index, self.block_size))
    }

    fn whole(&self, file: &FileId, size: u64) -> Option<Arc<Lease>> {
        if self.watch.hangs() {
            return None;
        }
        let known = self.trusted(file);
        if let Some(lease) = known.as_ref().filter(|lease| lease.whole) {
            return Some(lease.clone());
        }
        let is_local = |index| (self.options.is_local)(file, index);
        if !self.is_worth_asking(file, known.as_deref()) || !(0..self.block_size.count(size)).all(is_local) {
            return None;
        }
        drop(known);
        self.ask(file, size, None).filter(|lease| lease.whole)
    }

    fn is_worth_asking(&self, file: &FileId, known: Option<&Lease>) -> bool {
        let (now, absence) = (Instant::now(), self.options.absence);
        match known {
            Some(lease) => lease.is_old(now, absence),
            None => !self.table.is_absent(file, now, absence),
        }
    }

    fn ask(&self, file: &FileId, size: u64, wanted: Option<u32>) -> Option<Arc<Lease>> {
        let permit = self.descriptor(file)?;
        let asked = Instant::now();
        match self.lanes.ask(file, size, wanted)? {
            LeaseAnswer::Absent => {
                self.table.note_absent(file, asked);
                None
            }
            LeaseAnswer::Lent { file: descriptor, whole, unverified, blocks, ticket } => {
                let terms = Terms { whole, unverified, blocks, ticket, asked };
                let lease = Arc::new(lease(descriptor, size, terms, permit)?);
                let limit = self.options.files.min(self.lanes.most_leases());
                let mut left = self.table.insert(*file, lease.clone(), limit);
                // The worker has put the new lease in the place of that one.
                left.retain(|(id, old)| id != file || !ticket.replaces(old.ticket));
                self.give_back(left);
                Some(lease)
            }
        }
    }

    fn descriptor(&self, near: &FileId) -> Option<Permit> {
        self.descriptors.try_acquire(1).or_else(|| {
            let left = self.table.remove_one(near)?;
            self.give_back([left]);
            self.descriptors.try_acquire(1)
        })
    }

    fn give_back(&self, left: impl IntoIterator<Item = Left>) {
        left.into_iter().for_each(|(id, lease)| self.lanes.release(lease.ticket, &id));
    }

    fn handle(&self, lease: Arc<Lease>, index: u32) -> BlockHandle {
        let range = self.block_size.range(index, lease.size);
        BlockHandle::new(lease.file.clone(), range.start, range.length() as u32, lease).on(&self.watch)
    }
}

/// What the worker said of a file that it lent.
struct Terms {
    whole: bool,
    unverified: bool,
    blocks: BlockMap,
    ticket: Ticket,
    asked: Instant,
}

/// `None` for what is no data file, whatever the other side says.
fn lease(file: File, size: u64, terms: Terms, descriptor: Permit) -> Option<Lease> {
    let data = file.metadata().ok().filter(|data| data.is_file())?;
    Some(Lease {
        file: Arc::new(file),
        size,
        length: data.len(),
        whole: terms.whole && data.len() == size,
        blocks: terms.blocks,
        unverified: terms.unverified,
        asked: terms.asked,
        outdated: false.into(),
        ticket: terms.ticket,
        _descriptor: descriptor,
    })
}

impl Blocks for LeasedBlocks {
    fn get(&self, file: &FileId, index: u32, size: u64) -> Option<BlockHandle> {
        let lease = self.shared.holding(file, index, size)?;
        Some(self.shared.handle(lease, index))
    }

    fn may_contain(&self, file: &FileId, index: u32) -> bool {
        let is_lent = |lease: Arc<Lease>| lease.holds(index, self.shared.block_size);
        !self.shared.watch.hangs() && self.shared.trusted(file).is_some_and(is_lent)
    }

    fn expects(&self, file: &FileId, index: u32, size: u64) -> bool {
        self.shared.holding(file, index, size).is_some()
    }

    fn shows_later(&self, file: &FileId, index: u32) -> bool {
        let shared = &self.shared;
        (shared.options.is_local)(file, index) && shared.lanes.may_ask() && !shared.watch.hangs()
    }

    fn look_again(&self, file: &FileId) {
        self.note_stored(file);
    }

    /// Nothing is kept here: what came through the worker is in its store now, or soon.
    fn put(&self, key: &Arc<FileKey>, index: u32, _parts: &[Bytes]) -> Put {
        let file = key.id();
        if (self.shared.options.is_local)(&file, index) {
            self.note_stored(&file);
        }
        Put::Declined(KEPT_BY_WORKER)
    }

    fn whole_file(&self, file: &FileId, size: u64) -> Option<WholeFile> {
        let lease = self.shared.whole(file, size)?;
        Some(WholeFile::new(lease.file.clone(), size, lease))
    }

    /// Of files on lease: at their next use, or within `LeaseOptions::idle`.
    fn on_wrong_content(&self, tell: TellWrong) {
        self.shared.marks.listen(tell);
    }

    fn quota_bytes(&self) -> u64 {
        0
    }
}

impl std::fmt::Debug for LeasedBlocks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LeasedBlocks({} files)", self.leased_files())
    }
}
