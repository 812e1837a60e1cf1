//! Many threads at one store: nothing wrong, nothing lost from the accounts, no deadlock.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{Put, Store};

const THREADS: u64 = 8;
const STEPS: u64 = 1500;

fn files() -> Vec<Arc<FileKey>> {
    (0..24).map(|number| key(&format!("shared/{number}"), 1 + number * 13_007)).collect()
}

fn check_whole(store: &Store, file: &FileKey) {
    let Some(whole) = store.whole_file(&file.id(), file.size) else { return };
    let mut all = vec![0; file.size as usize];
    whole.file.read_exact_at(&mut all, 0).unwrap();
    let expected: Vec<u8> = (0..block_size().count(file.size)).flat_map(|index| bytes(file, index)).collect();
    assert!(all == expected, "a whole file is wrong");
}

fn hammer(store: &Store, files: &[Arc<FileKey>], seed: u64, hits: &AtomicU64) {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for _ in 0..STEPS {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let file = &files[(random >> 8) as usize % files.len()];
        let index = (random >> 24) as u32 % block_size().count(file.size);
        match random >> 40 & 15 {
            0 => drop(store.evict(&file.id())),
            1 => check_whole(store, file),
            2..8 => drop(store.put(file, index, &content(file, index))),
            _ => {
                if let Some(handle) = store.get(&file.id(), index) {
                    std::thread::yield_now();
                    assert!(read_handle(&handle) == bytes(file, index), "a pinned block is wrong");
                    hits.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

fn run(quotas: &[u64], policy: EvictionPolicy, descriptors: u64) {
    let place = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..quotas.len()).map(|number| place.path().join(number.to_string())).collect();
    let levels: Vec<_> = paths.iter().zip(quotas).map(|(path, quota)| level(&[(path, *quota)])).collect();
    let limits = budgets(descriptors);
    let metrics = Metrics::new();
    let store = patient(Store::open(config(levels.clone(), policy), limits.clone(), metrics.clone()).unwrap());
    let (files, hits) = (files(), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for seed in 1..=THREADS {
            let (store, files, hits) = (&store, &files, &hits);
            scope.spawn(move || hammer(store, files, seed, hits));
        }
    });
    assert!(hits.load(Ordering::Relaxed) > STEPS, "{} hits", hits.load(Ordering::Relaxed));
    assert_eq!(metrics.store_corrupt_blocks.get(), 0, "nothing was ever corrupt");
    store.close().unwrap();
    let before: Vec<_> = store.usage().iter().map(|usage| (usage.used_bytes, usage.blocks)).collect();
    drop(store);
    assert_eq!(limits.descriptors.used(), 0);
    let store = patient(Store::open(config(levels, policy), budgets(10), Metrics::new()).unwrap());
    let after: Vec<_> = store.usage().iter().map(|usage| (usage.used_bytes, usage.blocks)).collect();
    assert_eq!(before, after, "what was counted is what lies on the disk");
    for file in &files {
        assert_eq!(store.verify(&file.id()).1, 0);
    }
}

#[test]
fn many_threads_with_room() {
    run(&[64 << 20], EvictionPolicy::ScanResistant, 100);
}

#[test]
fn many_threads_under_pressure() {
    run(&[1 << 20], EvictionPolicy::Lru, 100);
}

#[test]
fn many_threads_with_few_descriptors_and_two_levels() {
    run(&[512 << 10, 1 << 20], EvictionPolicy::Lfu, 12);
}

/// Files go, and come again, while others are about to open them.
#[test]
fn what_comes_again_at_once_is_not_taken_for_damage() {
    let place = tempfile::tempdir().unwrap();
    let limits = budgets(THREADS);
    let metrics = Metrics::new();
    let levels = vec![level(&[(place.path(), 64 << 20)])];
    let store = patient(Store::open(config(levels, EvictionPolicy::Lru), limits, metrics.clone()).unwrap());
    let files: Vec<_> = (0..12).map(|number| key(&format!("again/{number}"), 100 + number)).collect();
    std::thread::scope(|scope| {
        for seed in 1..=THREADS as usize {
            let (store, files) = (&store, &files);
            scope.spawn(move || {
                for step in 0..4000 {
                    let file = &files[(step * seed + step / 7) % files.len()];
                    match step % 5 {
                        0 => drop(store.evict(&file.id())),
                        1 | 2 => drop(store.put(file, 0, &content(file, 0))),
                        _ => drop(store.get(&file.id(), 0)),
                    }
                }
            });
        }
    });
    assert_eq!(metrics.store_corrupt_blocks.get(), 0, "nothing was ever corrupt");
}

#[test]
fn one_block_put_by_all_threads_is_stored_once() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 << 20);
    let (file, stored) = (key("same", 60_000), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                if store.put(&file, 0, &content(&file, 0)) == Put::Stored {
                    stored.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(stored.load(Ordering::Relaxed), 1);
    assert_eq!((store.usage()[0].blocks, store.usage()[0].used_bytes), (1, 61_440));
}
