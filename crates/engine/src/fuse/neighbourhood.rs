//! Pages that are asked for one by one, as maps with MADV_RANDOM have it: the kernel reads nothing ahead for these. Where
//! many pages of a region were, it is given the others unasked, as far as they are in memory here.
//!
//! A message costs many times what a page does (`docs/decisions/0032-random-maps.md`), and where access is dense most
//! pages of a region are wanted sooner or later. Where it is sparse nothing is given, and no disk is ever asked.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use prometheus_client::metrics::counter::Counter;

use super::abi::PAGE_BYTES;
use super::notify::{Notice, NoticeQueue};
use crate::sync::Mutex;
use crate::vfs::{FileSystem, Inode};

/// A page each for the bits of a word.
const REGION_BYTES: u64 = 64 * PAGE_BYTES;
/// So many pages of a region make it dense: an eighth, so that never more than eight times of what was asked is given.
const DENSE_PAGES: u32 = 8;
/// Regions that are watched; another one of the same place in the table takes it. 400 KiB, once pages are asked for singly.
const SHARDS: usize = 16;
const SHARD_REGIONS: usize = 1024;
/// Notices of other kinds wait behind no more of these.
const MOST_AT_ONCE: usize = 4;
/// Bytes of one message: it fits a packet of the relay.
const MESSAGE_BYTES: usize = 15 * PAGE_BYTES as usize;

/// What of which files was asked for page by page.
pub struct Neighbourhood {
    shards: Vec<Mutex<Vec<Region>>>,
    at_once: AtomicUsize,
    queue: OnceLock<NoticeQueue>,
    given_bytes: Counter,
}

#[derive(Debug, Clone, Copy, Default)]
struct Region {
    inode: Inode,
    number: u64,
    /// A bit for each page.
    asked: u64,
    is_on_its_way: bool,
}

/// A dense region; it is watched anew once this is dropped.
struct Dense {
    home: Arc<Neighbourhood>,
    inode: Inode,
    number: u64,
    given_bytes: AtomicU64,
}

impl Neighbourhood {
    pub fn new(given_bytes: Counter) -> Arc<Self> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Arc::new(Neighbourhood { shards, at_once: AtomicUsize::new(0), queue: OnceLock::new(), given_bytes })
    }

    /// What is given goes this way from now on; nothing is before.
    pub fn give_through(&self, queue: NoticeQueue) {
        let _ = self.queue.set(queue);
    }

    /// Notes that `length` bytes were asked for; where that makes a region dense, the rest of it is on its way.
    pub fn note(self: &Arc<Self>, filesystem: &Arc<dyn FileSystem>, inode: Inode, offset: u64, length: u32) {
        if u64::from(length) > PAGE_BYTES || !offset.is_multiple_of(PAGE_BYTES) {
            return;
        }
        let Some(queue) = self.queue.get().filter(|queue| queue.is_relayed()) else { return };
        let Some(dense) = self.dense(inode, offset) else { return };
        let (filesystem, dense) = (filesystem.clone(), Arc::new(dense));
        let region = dense.clone();
        queue.send(Box::new(move |tell| region.give(&*filesystem, tell)), dense);
    }

    fn dense(self: &Arc<Self>, inode: Inode, offset: u64) -> Option<Dense> {
        let (number, page) = (offset / REGION_BYTES, offset % REGION_BYTES / PAGE_BYTES);
        let begins = self.with_region(inode, number, |region| {
            region.asked |= 1 << page;
            let is_dense = region.asked.count_ones() >= DENSE_PAGES;
            let begins = is_dense && !region.is_on_its_way && self.takes_place();
            region.is_on_its_way |= begins;
            begins
        });
        begins.then(|| Dense { home: self.clone(), inode, number, given_bytes: AtomicU64::new(0) })
    }

    fn takes_place(&self) -> bool {
        let room = |count: usize| (count < MOST_AT_ONCE).then_some(count + 1);
        self.at_once.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    fn with_region<T>(&self, inode: Inode, number: u64, change: impl FnOnce(&mut Region) -> T) -> T {
        let hash = (inode.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mut shard = self.shards[hash as usize % SHARDS].lock();
        if shard.is_empty() {
            shard.resize(SHARD_REGIONS, Region::default());
        }
        let region = &mut shard[(hash >> 32) as usize % SHARD_REGIONS];
        if (region.inode, region.number) != (inode, number) {
            *region = Region { inode, number, ..Region::default() };
        }
        change(region)
    }
}

impl Dense {
    /// Looks for it only now: what was found to be wrong meanwhile is not there any more.
    fn give(&self, filesystem: &dyn FileSystem, tell: &mut dyn FnMut(Notice<'_>)) {
        let start = self.number * REGION_BYTES;
        let Some(bytes) = filesystem.in_memory(self.inode, start, REGION_BYTES as usize) else { return };
        for (offset, piece) in (start..).step_by(MESSAGE_BYTES).zip(bytes.chunks(MESSAGE_BYTES)) {
            tell(Notice::Pages { inode: self.inode, offset, bytes: piece });
        }
        self.given_bytes.store(bytes.len() as u64, Ordering::Relaxed);
    }
}

impl Drop for Dense {
    fn drop(&mut self) {
        self.home.given_bytes.inc_by(*self.given_bytes.get_mut());
        self.home.with_region(self.inode, self.number, |region| (region.asked, region.is_on_its_way) = (0, false));
        self.home.at_once.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dense_after(home: &Arc<Neighbourhood>, offsets: impl IntoIterator<Item = u64>) -> Option<Dense> {
        offsets.into_iter().find_map(|offset| home.dense(7, offset))
    }

    #[test]
    fn a_region_is_dense_once_an_eighth_of_its_pages_was_asked_for() {
        let home = Neighbourhood::new(Counter::default());
        assert!(dense_after(&home, (0..7).map(|page| page * 9 * PAGE_BYTES)).is_none());
        assert!(dense_after(&home, [0, 0, 0]).is_none(), "the same page again is none more");
        let dense = dense_after(&home, [63 * PAGE_BYTES]).expect("dense");
        assert!(dense_after(&home, (0..64).map(|page| page * PAGE_BYTES)).is_none(), "it is on its way");
        drop(dense);
        assert!(dense_after(&home, (0..7).map(|page| page * PAGE_BYTES)).is_none(), "it begins anew");
    }

    #[test]
    fn sparse_pages_are_never_dense() {
        let home = Neighbourhood::new(Counter::default());
        assert!(dense_after(&home, (0..100_000).map(|page| page * 10 * PAGE_BYTES)).is_none());
    }

    #[test]
    fn a_few_regions_are_given_at_once_and_no_more() {
        let home = Neighbourhood::new(Counter::default());
        let region = |number: u64| (0..8).map(move |page| number * REGION_BYTES + page * PAGE_BYTES);
        let all: Vec<Dense> = (0..20).filter_map(|number| dense_after(&home, region(number))).collect();
        assert_eq!(all.len(), MOST_AT_ONCE);
        drop(all);
        assert!(dense_after(&home, region(30)).is_some());
    }
}
