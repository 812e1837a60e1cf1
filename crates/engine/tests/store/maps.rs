//! Maps that have no descriptor any more: the store cannot see them, and changes no byte under them.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::metrics::Metrics;
use headrace_engine::store::Store;

const QUOTA: u64 = 4 << 20;
const SIZE: u64 = 1 << 20;

/// A shared map of a file whose descriptor is closed.
struct Map(*mut libc::c_void);

impl Map {
    /// Through a description of its own, without a lock, as the kernel maps what is passed through.
    fn of(file: &File) -> Map {
        let file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
        // SAFETY: a new map at an address of the kernel's choice; the descriptor is open during the call.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), SIZE as usize, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(start, libc::MAP_FAILED);
        Map(start)
    }

    fn content(&self) -> Vec<u8> {
        // SAFETY: the map is as long as the file, which nobody truncates, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.cast::<u8>(), SIZE as usize) }.to_vec()
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and nothing borrows from it any more.
        unsafe { libc::munmap(self.0, SIZE as usize) };
    }
}

fn content_of(file: &FileKey) -> Vec<u8> {
    (0..block_size().count(file.size)).flat_map(|index| bytes(file, index)).collect()
}

fn open(place: &Path) -> Arc<Store> {
    open_counted(place, QUOTA, EvictionPolicy::Lru).0
}

fn map_of(store: &Store, file: &FileKey) -> Map {
    Map::of(&store.whole_file(&file.id(), SIZE).unwrap().file)
}

/// Fills the store until the file has lost something.
fn press_out(store: &Store, file: &FileKey) {
    for number in 0..400 {
        put_all(store, &key(&format!("pressure {number}"), 512 << 10));
        if store.cached_bytes(&file.id()) < SIZE {
            return;
        }
    }
    panic!("never evicted");
}

#[test]
fn eviction_changes_no_byte_under_a_map_and_takes_the_whole_file() {
    let place = tempfile::tempdir().unwrap();
    let (store, file) = (open(place.path()), key("mapped", SIZE));
    put_all(&store, &file);
    let map = map_of(&store, &file);
    press_out(&store, &file);
    assert!(map.content() == content_of(&file));
    assert_eq!(store.cached_bytes(&file.id()), 0);
    put_all(&store, &file);
    assert!(store.cached_bytes(&file.id()) > 0 && map.content() == content_of(&file));
}

#[test]
fn a_file_that_was_never_lent_still_loses_single_blocks() {
    let place = tempfile::tempdir().unwrap();
    let (store, file) = (open(place.path()), key("not mapped", SIZE));
    put_all(&store, &file);
    press_out(&store, &file);
    assert!(store.cached_bytes(&file.id()) > 0);
}

#[test]
fn the_next_process_knows_what_was_lent() {
    let place = tempfile::tempdir().unwrap();
    let file = key("mapped", SIZE);
    let store = open(place.path());
    put_all(&store, &file);
    let map = map_of(&store, &file);
    store.close().unwrap();
    let store = open(place.path());
    press_out(&store, &file);
    assert!(map.content() == content_of(&file));
}

#[test]
fn a_log_without_notes_of_lending_says_nothing_against_maps() {
    let place = tempfile::tempdir().unwrap();
    let file = key("mapped", SIZE);
    let store = open(place.path());
    put_all(&store, &file);
    let map = map_of(&store, &file);
    store.close().unwrap();
    without_notes(&place.path().join("index.log"));
    for _ in 0..2 {
        // The second time the log has been written anew.
        open(place.path()).close().unwrap();
    }
    let store = open(place.path());
    assert_eq!(store.cached_bytes(&file.id()), SIZE);
    press_out(&store, &file);
    assert!(map.content() == content_of(&file));
}

/// Makes a log what an older version would have written: the same without records of kinds 6 and 7.
fn without_notes(path: &Path) {
    let log = std::fs::read(path).unwrap();
    let (mut kept, mut rest) = (log[..32].to_vec(), &log[32..]);
    while !rest.is_empty() {
        let length = 9 + u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
        if rest[8] < 6 {
            kept.extend_from_slice(&rest[..length]);
        }
        rest = &rest[length..];
    }
    assert!(kept.len() < log.len());
    std::fs::write(path, kept).unwrap();
}

#[test]
fn a_corrupt_block_is_healed_under_its_map_and_no_other_byte_changes() {
    let place = tempfile::tempdir().unwrap();
    let (store, file) = (open(place.path()), key("mapped", SIZE));
    put_all(&store, &file);
    let map = map_of(&store, &file);
    assert!(flip_byte(&data_files(place.path())[0], 5 * BLOCK));
    assert_eq!(store.verify(&file.id()), (15, 1));
    let wrong = map.content().iter().zip(content_of(&file)).filter(|(here, right)| **here != *right).count();
    assert_eq!(wrong, 1, "the damage is what it was, and nothing was taken away");
    store.put(&file, 5, &content(&file, 5));
    assert!(map.content() == content_of(&file));
    drop(store);
    // Killed without a clean end: forgotten blocks are not trimmed either.
    assert!(flip_byte(&data_files(place.path())[0], 7 * BLOCK));
    let store = open(place.path());
    assert_eq!(store.verify(&file.id()).1, 1);
    drop(store);
    drop(open(place.path()));
    let wrong = map.content().iter().zip(content_of(&file)).filter(|(here, right)| **here != *right).count();
    assert_eq!(wrong, 1);
}

#[test]
fn moves_between_levels_change_no_byte_under_a_map() {
    let place = tempfile::tempdir().unwrap();
    let paths = [place.path().join("fast"), place.path().join("slow")];
    let levels = vec![level(&[(&paths[0], SIZE + SIZE / 2)]), level(&[(&paths[1], QUOTA)])];
    let store = patient(Store::open(config(levels, EvictionPolicy::Lru), budgets(200), Metrics::new()).unwrap());
    let file = key("mapped", SIZE);
    put_all(&store, &file);
    let lies_in = |path: &Path| data_files(path).iter().any(|data| data.ends_with(file.id().to_string()));
    let mut maps = vec![map_of(&store, &file)];
    for round in 0..3 {
        let mut others = (0..).map(|number| key(&format!("other {round} {number}"), 2 * BLOCK));
        // Down by pressure, and up again by use.
        eventually("the file sinks", || {
            put_all(&store, &others.next().unwrap());
            lies_in(&paths[1]) && !lies_in(&paths[0])
        });
        maps.push(map_of(&store, &file));
        store.evict_where(|other| other.path != file.path);
        eventually("the file rises", || {
            put_all(&store, &others.next().unwrap());
            store.evict_where(|other| other.path != file.path);
            let loan = store.lend(&file.id(), SIZE, Some(3));
            loan.into_iter().for_each(|loan| store.give_back(loan.into_hold()));
            lies_in(&paths[0]) && !lies_in(&paths[1])
        });
        maps.push(map_of(&store, &file));
        assert!(maps.iter().all(|map| map.content() == content_of(&file)), "round {round}");
    }
}
