//! Data files that other processes hold: whatever becomes of the store, what they see does not change.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::store::{Put, Store};

/// Large enough beside the quota that blocks of it are evicted one by one.
const QUOTA: u64 = 4 << 20;
const SIZE: u64 = 2 << 20;

/// A process of its own that holds a descriptor (as its standard input) and does nothing else.
struct Holder(Child);

impl Holder {
    fn of(file: &File) -> Holder {
        let child = Command::new("sleep").arg("600").stdin(Stdio::from(file.try_clone().unwrap())).spawn();
        Holder(child.unwrap())
    }

    /// The bytes that the process would read.
    fn content(&self, size: u64) -> Vec<u8> {
        let file = File::open(format!("/proc/{}/fd/0", self.0.id())).unwrap();
        let mut content = vec![0; size as usize];
        file.read_exact_at(&mut content, 0).unwrap();
        content
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn content_of(file: &FileKey) -> Vec<u8> {
    (0..block_size().count(file.size)).flat_map(|index| bytes(file, index)).collect()
}

/// Fills the store several times over; blocks that it took.
fn press(store: &Store, round: u32) -> usize {
    let files = (0..24).map(|number| key(&format!("pressure {round} {number}"), 512 << 10));
    files.map(|file| put_all(store, &file).into_iter().filter(|put| *put == Put::Stored).count()).sum()
}

fn open_lru(place: &Path) -> Arc<Store> {
    open_counted(place, QUOTA, EvictionPolicy::Lru).0
}

#[test]
fn restarted_store_changes_no_byte_under_a_process_that_holds_a_file() {
    let place = tempfile::tempdir().unwrap();
    let file = key("held", SIZE);
    let store = open_lru(place.path());
    put_all(&store, &file);
    let holder = Holder::of(&store.whole_file(&file.id(), file.size).unwrap().file);
    for round in 0..3 {
        store.close().unwrap();
        let store = open_lru(place.path());
        assert!(press(&store, round) > 0, "what is not held gives way");
        assert!(holder.content(SIZE) == content_of(&file), "round {round}: bytes changed under the holder");
        store.close().unwrap();
    }
    drop(holder);
    let store = open_lru(place.path());
    press(&store, 9);
    assert!(store.cached_bytes(&file.id()) < SIZE, "given back, it is evicted like any other");
}

#[test]
fn other_blocks_of_a_held_file_come_in_and_corrupt_ones_go() {
    let place = tempfile::tempdir().unwrap();
    let file = key("partly here", SIZE);
    let store = open_lru(place.path());
    (0..8).for_each(|index| assert_eq!(store.put(&file, index, &content(&file, index)), Put::Stored));
    let holder = Holder::of(&store.lend(&file.id(), SIZE, Some(3)).unwrap().file);
    store.close().unwrap();
    let store = open_lru(place.path());
    (8..32).for_each(|index| assert_eq!(store.put(&file, index, &content(&file, index)), Put::Stored));
    assert!(holder.content(SIZE) == content_of(&file));
    assert!(flip_byte(&data_files(place.path())[0], 5 * BLOCK));
    assert_eq!(store.verify(&file.id()), (31, 1));
    assert_eq!(store.put(&file, 5, &content(&file, 5)), Put::Stored);
    assert!(holder.content(SIZE) == content_of(&file), "healed under the holder, too");
}

#[test]
fn room_of_forgotten_blocks_is_not_trimmed_under_a_holder() {
    let place = tempfile::tempdir().unwrap();
    let file = key("forgotten", SIZE);
    let store = open_lru(place.path());
    put_all(&store, &file);
    let holder = Holder::of(&store.whole_file(&file.id(), SIZE).unwrap().file);
    store.close().unwrap();
    // As after a crash that lost the end of the log: half of the blocks, and the clean record.
    let log = std::fs::File::options().write(true).open(place.path().join("index.log")).unwrap();
    log.set_len(log.metadata().unwrap().len() * 3 / 5).unwrap();
    let store = open_lru(place.path());
    let kept = store.cached_bytes(&file.id());
    assert!(kept > 0 && kept < SIZE, "{kept} bytes are still known");
    assert!(holder.content(SIZE) == content_of(&file));
}

#[test]
fn a_store_over_its_quota_opens_though_everything_is_held() {
    let place = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..2).map(|number| key(&format!("held {number}"), SIZE - BLOCK)).collect();
    let store = open_lru(place.path());
    files.iter().for_each(|file| drop(put_all(&store, file)));
    let hold = |file: &Arc<FileKey>| Holder::of(&store.whole_file(&file.id(), file.size).unwrap().file);
    let holders: Vec<_> = files.iter().map(hold).collect();
    store.close().unwrap();
    let small = open_counted(place.path(), QUOTA / 4, EvictionPolicy::Lru).0;
    assert!(matches!(small.put(&key("new", BLOCK), 0, &content(&key("new", BLOCK), 0)), Put::Declined(_)));
    for (holder, file) in holders.iter().zip(&files) {
        assert!(holder.content(file.size) == content_of(file));
    }
}

#[test]
fn a_loan_names_what_is_verified_the_wanted_block_first() {
    let place = tempfile::tempdir().unwrap();
    let file = key("large", 16 << 20);
    let quota = 64 << 20;
    let store = open_one(place.path(), quota);
    assert!(store.lend(&file.id(), file.size, Some(0)).is_none());
    put_all(&store, &file);
    assert!(store.lend(&file.id(), file.size, None).is_some_and(|loan| loan.whole && !loan.unverified));
    store.close().unwrap();
    let store = open_one(place.path(), quota);
    let loan = store.lend(&file.id(), file.size, Some(200)).unwrap();
    assert!(loan.blocks.contains(200) && !loan.whole && loan.unverified, "16 MiB are not verified at once");
    let named = (0..256).filter(|index| loan.blocks.contains(*index)).count();
    assert!((2..=129).contains(&named), "{named}");
    store.give_back(loan.into_hold());
    eventually("the whole file is lent", || store.lend(&file.id(), file.size, None).is_some_and(|loan| loan.whole));
}

#[test]
fn a_loan_keeps_its_file_until_it_is_given_back() {
    let place = tempfile::tempdir().unwrap();
    let file = key("lent", SIZE);
    let store = open_lru(place.path());
    put_all(&store, &file);
    let loan = store.lend(&file.id(), SIZE, Some(0)).unwrap();
    press(&store, 0);
    assert_eq!((store.evict(&file.id()), store.cached_bytes(&file.id())), (0, SIZE));
    store.give_back(loan.into_hold());
    // A program that another test is just starting has a copy of the descriptor, and so of its lock, until it runs.
    eventually("what was given back may go", || {
        store.evict(&file.id());
        store.cached_bytes(&file.id()) == 0
    });
}

#[test]
fn what_is_pinned_by_name_survives_pressure_until_it_is_unpinned() {
    let place = tempfile::tempdir().unwrap();
    let (large, small) = (key("large", SIZE), key("small", 100 << 10));
    let store = open_lru(place.path());
    // Before it is here, and after.
    store.set_pinned(large.id(), true);
    put_all(&store, &large);
    put_all(&store, &small);
    store.set_pinned(small.id(), true);
    assert_eq!(store.pinned_bytes(), SIZE + (100 << 10));
    for round in 0..3 {
        assert!(press(&store, round) > 0, "what is not pinned gives way");
    }
    assert_eq!(store.cached_bytes(&large.id()) + store.cached_bytes(&small.id()), store.pinned_bytes());
    assert_eq!((store.evict(&small.id()), store.pinned_bytes()), (0, SIZE + (100 << 10)));
    store.set_pinned(small.id(), false);
    assert!(store.evict(&small.id()) > 0);
    store.set_pinned(large.id(), false);
    press(&store, 9);
    assert!(store.cached_bytes(&large.id()) < SIZE);
}

#[test]
fn a_store_full_of_pins_declines_new_blocks_and_drops_corrupt_ones() {
    let place = tempfile::tempdir().unwrap();
    let store = open_lru(place.path());
    let files: Vec<_> = (0..8).map(|number| key(&format!("pinned {number}"), QUOTA / 8)).collect();
    for file in &files {
        store.set_pinned(file.id(), true);
        put_all(&store, file);
    }
    assert_eq!(store.pinned_bytes(), QUOTA);
    let new = key("new", BLOCK);
    assert_eq!(store.put(&new, 0, &content(&new, 0)), Put::Declined("no-room"));
    assert_eq!(store.pinned_bytes(), QUOTA);
    data_files(place.path()).iter().for_each(|path| assert!(flip_byte(path, 10)));
    assert_eq!(files.iter().map(|file| store.verify(&file.id()).1).sum::<u64>(), 8);
    assert_eq!(store.put(&new, 0, &content(&new, 0)), Put::Stored);
}
