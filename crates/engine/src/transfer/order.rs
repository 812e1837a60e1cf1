//! Known orders: the files that a client will read, in the order in which it will, fetched just ahead of it.
//!
//! The client's own reads move the window: what it has reached no longer counts as ahead, what it has read already is
//! skipped. How far ahead is bounded by the room in memory and cache, never by the length of the order.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::source::Source;
use crate::ids::FileId;
use crate::metrics::UnsignedGauge;
use crate::sync::Mutex;

/// Files in a given order, made one by one: an order may be millions long.
pub trait OrderedFiles: Send + Sync + 'static {
    /// How many there are.
    fn count(&self) -> usize;

    /// The file at `position`; `None` when it is no longer there, and is skipped.
    fn get(&self, position: usize) -> Option<Source>;

    /// Bytes of all files together.
    fn total_bytes(&self) -> u64 {
        (0..self.count()).filter_map(|position| self.get(position)).map(|source| source.size()).sum()
    }
}

impl OrderedFiles for Vec<Source> {
    fn count(&self) -> usize {
        self.len()
    }

    fn get(&self, position: usize) -> Option<Source> {
        self.as_slice().get(position).cloned()
    }
}

/// Readers of one order overtake each other by less than this many files. A file this far behind the furthest one
/// reached counts as left out.
const DISORDER: usize = 1024;

/// Files remembered as read before the prefetch came to them.
const MEMORY_OF_READS: usize = 8192;

/// An order being followed. It ends with its last file, when it is replaced, or by `cancel`.
#[derive(Debug)]
pub struct Prefetch {
    pub(super) files: usize,
    pub(super) position: AtomicUsize,
    pub(super) window: Mutex<Window>,
    moved: Notify,
    pub(super) cancelled: CancellationToken,
    ended: CancellationToken,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    ahead: HashMap<FileId, usize>,
    bytes_at: BTreeMap<usize, (FileId, u64)>,
    bytes: u64,
    read_before: HashSet<FileId>,
    read_order: VecDeque<FileId>,
}

impl Prefetch {
    pub(super) fn new(files: usize) -> Arc<Self> {
        Arc::new(Prefetch {
            files,
            position: AtomicUsize::new(0),
            window: Mutex::default(),
            moved: Notify::new(),
            cancelled: CancellationToken::new(),
            ended: CancellationToken::new(),
        })
    }

    /// How many files of the order have been asked for or skipped.
    pub fn position(&self) -> usize {
        self.position.load(Ordering::Relaxed)
    }

    /// Bytes that were fetched for files which the client has not reached.
    pub fn bytes_ahead(&self) -> u64 {
        self.window.lock().bytes
    }

    /// Stops fetching ahead; what is under way completes.
    pub fn cancel(&self) {
        self.cancelled.cancel();
    }

    /// Waits until nothing more will be fetched for this order.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }

    fn reached(&self, file: FileId) {
        let mut window = self.window.lock();
        match window.ahead.get(&file).copied() {
            Some(position) => window.forget_up_to(position),
            None => window.remember_read(file),
        }
        drop(window);
        self.moved.notify_one();
    }

    pub(super) async fn wait_for_room(&self, limit_bytes: u64) {
        while self.bytes_ahead() >= limit_bytes {
            self.moved.notified().await;
        }
    }
}

impl Window {
    pub(super) fn add(&mut self, position: usize, file: FileId, bytes: u64) {
        self.bytes += bytes;
        self.ahead.insert(file, position);
        self.bytes_at.insert(position, (file, bytes));
    }

    /// The file at `reached` is being read, and those far before it were left out.
    fn forget_up_to(&mut self, reached: usize) {
        self.forget(reached);
        while let Some((&oldest, _)) = self.bytes_at.first_key_value() {
            if oldest + DISORDER > reached {
                break;
            }
            self.forget(oldest);
        }
    }

    fn forget(&mut self, position: usize) {
        if let Some((file, bytes)) = self.bytes_at.remove(&position) {
            self.bytes -= bytes;
            if self.ahead.get(&file) == Some(&position) {
                self.ahead.remove(&file);
            }
        }
    }

    fn remember_read(&mut self, file: FileId) {
        if self.read_before.insert(file) {
            self.read_order.push_back(file);
        }
        if self.read_order.len() > MEMORY_OF_READS {
            self.read_order.pop_front().map(|oldest| self.read_before.remove(&oldest));
        }
    }

    /// True once for each time the file was read before its turn.
    pub(super) fn was_read(&mut self, file: &FileId) -> bool {
        self.read_before.remove(file)
    }
}

/// All orders being followed, one per client.
#[derive(Debug)]
pub(crate) struct Orders {
    by_client: Mutex<HashMap<u64, Arc<Prefetch>>>,
    active: AtomicUsize,
    pub(super) queue: UnsignedGauge,
}

impl Orders {
    pub(crate) fn new(queue: UnsignedGauge) -> Self {
        Orders { by_client: Mutex::default(), active: AtomicUsize::new(0), queue }
    }

    /// Somebody reads `file`. Costs nothing while no order is followed.
    pub(crate) fn reached(&self, file: FileId) {
        if self.active.load(Ordering::Relaxed) > 0 {
            self.by_client.lock().values().for_each(|order| order.reached(file));
        }
    }

    pub(super) fn begin(&self, client: u64, order: &Arc<Prefetch>) {
        let mut by_client = self.by_client.lock();
        if let Some(previous) = by_client.insert(client, order.clone()) {
            previous.cancel();
        }
        self.active.store(by_client.len(), Ordering::Relaxed);
        self.queue.inc_by(order.files as u64);
    }

    pub(super) fn end(&self, client: u64, order: &Arc<Prefetch>) {
        let mut by_client = self.by_client.lock();
        if by_client.get(&client).is_some_and(|current| Arc::ptr_eq(current, order)) {
            by_client.remove(&client);
        }
        self.active.store(by_client.len(), Ordering::Relaxed);
        self.queue.dec_by((order.files - order.position()) as u64);
        order.ended.cancel();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(number: usize) -> FileId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&number.to_le_bytes());
        FileId(id)
    }

    #[test]
    fn files_far_behind_the_reader_no_longer_count_as_ahead() {
        let mut window = Window::default();
        (0..3000).for_each(|position| window.add(position, file(position), 10));
        window.forget_up_to(2500);
        // 1477..=2499 and 2501..3000 remain.
        assert_eq!(window.bytes, (1023 + 499) * 10);
        assert!(window.ahead.contains_key(&file(1477)) && !window.ahead.contains_key(&file(1476)));
    }

    #[test]
    fn what_was_read_before_its_turn_is_skipped_once() {
        let mut window = Window::default();
        (0..MEMORY_OF_READS + 10).for_each(|number| window.remember_read(file(number)));
        assert!(!window.was_read(&file(3)), "forgotten: the memory of reads is bounded");
        assert!(window.was_read(&file(500)));
        assert!(!window.was_read(&file(500)), "a second pass fetches it");
    }
}
