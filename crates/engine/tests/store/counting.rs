//! What of a list is here, counted as blocks come and go, is what a look at each file finds.

#![allow(clippy::unwrap_used)]

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::*;
use headrace_engine::config::{EvictionPolicy, LevelConfig};
use headrace_engine::ids::{FileId, FileKey};
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{Catalogue, Listed, Store};

const LISTS: usize = 40;
/// So that a failed test ends, too.
const MOST_STEPS: u64 = 1_000_000;

/// A list of files, of which every other one has checksums.
struct Chosen(HashSet<FileId>);

impl Catalogue for Chosen {
    fn has_checksums(&self, key: &FileKey) -> Option<bool> {
        let id = key.id();
        self.0.contains(&id).then_some(has_checksums(&id))
    }
}

fn has_checksums(id: &FileId) -> bool {
    id.0[0].is_multiple_of(2)
}

fn count_by(store: &Store, files: &[Arc<FileKey>], count: u64) {
    let ids: HashSet<FileId> = files.iter().map(|file| file.id()).collect();
    store.count_by(Arc::new(Chosen(ids.clone())), count, ids.into_iter().map(|id| (id, has_checksums(&id))));
}

fn looked_up(store: &Store, files: &[Arc<FileKey>]) -> Listed {
    let mut listed = Listed::default();
    for file in files {
        let (id, here) = (file.id(), store.cached_bytes(&file.id()));
        if here < file.size {
            listed.partial_bytes += here;
            continue;
        }
        listed.files += 1;
        let share = if has_checksums(&id) { &mut listed.uncompared_bytes } else { &mut listed.unsummed_bytes };
        *share += here;
    }
    listed
}

#[test]
fn a_file_whose_blocks_lie_in_two_folders_counts_once_and_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let (one, two) = (place.path().join("one"), place.path().join("two"));
    // Nothing goes in the background to make room.
    let level = LevelConfig { high: 1.0, low: 1.0, ..level(&[(&one, 10 * BLOCK), (&two, 10 * BLOCK)]) };
    let store = Store::open(config(vec![level], EvictionPolicy::Lru), budgets(100), Metrics::new()).unwrap();
    let store = patient(store);
    let file = key("wide", 16 * BLOCK);
    count_by(&store, std::slice::from_ref(&file), 1);
    for index in 0..15 {
        store.put(&file, index, &content(&file, index));
    }
    assert!(!data_files(&one).is_empty() && !data_files(&two).is_empty(), "one folder has no room for it");
    assert_eq!(store.listed(), Listed { partial_bytes: 15 * BLOCK, ..Listed::default() });
    store.put(&file, 15, &content(&file, 15));
    assert_eq!(store.listed(), looked_up(&store, std::slice::from_ref(&file)));
    assert_eq!((store.listed().files, store.listed().bytes()), (1, 16 * BLOCK));
    store.evict(&file.id());
    assert_eq!(store.listed(), Listed::default());
}

#[test]
fn files_that_come_and_go_while_the_list_is_replaced_are_counted_by_the_last_one() {
    come_and_go_by_lists_of(0);
}

#[test]
fn so_are_they_when_each_is_looked_up_in_a_list_of_very_many() {
    come_and_go_by_lists_of(1_000_000);
}

/// Lists that say they have `count` files.
fn come_and_go_by_lists_of(count: u64) {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 64 << 20);
    let files: Vec<_> = (0..60).map(|number| key(&format!("file/{number}"), 1 + number * 4_001)).collect();
    // Each list has two thirds of the files, and other ones than the list before it.
    let chosen = |list: usize| {
        let chosen = files.iter().enumerate().filter(|(number, _)| !(number + list).is_multiple_of(3));
        chosen.map(|(_, file)| file.clone()).collect::<Vec<_>>()
    };
    let (steps, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for seed in 1..=4 {
            let (store, files, steps, ended) = (&store, &files, &steps, &ended);
            scope.spawn(move || come_and_go(store, files, seed, steps, ended));
        }
        let goes_on = || {
            let before = steps.load(Ordering::Relaxed);
            eventually("files come and go", || steps.load(Ordering::Relaxed) >= before + 20);
        };
        for list in 0..LISTS {
            goes_on();
            count_by(&store, &chosen(list), count);
        }
        (0..10).for_each(|_| goes_on());
        ended.store(true, Ordering::Relaxed);
    });
    assert_eq!(store.listed(), looked_up(&store, &chosen(LISTS - 1)));
}

/// Puts and evicts at random until told to end.
fn come_and_go(store: &Store, files: &[Arc<FileKey>], seed: u64, steps: &AtomicU64, ended: &AtomicBool) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in (0..MOST_STEPS).take_while(|_| !ended.load(Ordering::Relaxed)) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let file = &files[(random >> 8) as usize % files.len()];
        let index = (random >> 24) as u32 % block_size().count(file.size);
        if random >> 40 & 3 == 0 {
            store.evict(&file.id());
        } else {
            store.put(file, index, &content(file, index));
        }
        steps.fetch_add(1, Ordering::Relaxed);
    }
}

/// A list that fails when it is gone through.
fn never() -> impl Iterator<Item = (FileId, bool)> {
    std::iter::from_fn(|| panic!("a list of very many files was gone through"))
}

#[test]
fn a_few_cached_files_are_looked_up_in_a_list_of_very_many_which_is_not_gone_through() {
    let place = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..7).map(|number| key(&format!("file/{number}"), 1 + number * 40_000)).collect();
    let store = open_one(place.path(), 64 << 20);
    files.iter().for_each(|file| drop(put_all(&store, file)));
    store.close().unwrap();
    drop(store);
    let store = open_one(place.path(), 64 << 20);
    let listed: HashSet<FileId> = files[..5].iter().map(|file| file.id()).collect();
    store.count_by(Arc::new(Chosen(listed)), 1_000_000, never());
    assert_eq!(store.listed().files, 5);
    assert_eq!(store.listed(), looked_up(&store, &files[..5]));
    store.count_by(Arc::new(Chosen(HashSet::new())), 1_000_000, never());
    assert_eq!(store.listed(), Listed::default());
}
