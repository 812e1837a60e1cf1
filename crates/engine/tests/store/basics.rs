//! What the store promises one block at a time: content, restart, verification, pins, errors of configuration.

#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::error::ErrorKind;
use headrace_engine::store::{Put, Store};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

#[test]
fn block_comes_back_as_put() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 * MIB);
    let file = key("a/b.jpg", 150 * KIB);
    assert!(store.get(&file.id(), 0).is_none());
    put_all(&store, &file);
    assert_eq!(store.put(&file, 0, &content(&file, 0)), Put::Present);
    for index in 0..3 {
        assert_eq!(read(&store, &file, index), Some(bytes(&file, index)));
    }
    assert!(store.get(&file.id(), 3).is_none());
    assert_eq!(store.cached_bytes(&file.id()), 150 * KIB);
    assert_eq!(store.usage()[0].used_bytes, 152 * KIB);
    assert_eq!(store.usage()[0].blocks, 3);
}

#[test]
fn whole_file_is_the_content_and_nothing_more() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 * MIB);
    let file = key("whole", 150 * KIB);
    store.put(&file, 2, &content(&file, 2));
    store.put(&file, 0, &content(&file, 0));
    assert!(store.whole_file(&file.id(), file.size).is_none());
    store.put(&file, 1, &content(&file, 1));
    let whole = store.whole_file(&file.id(), file.size).unwrap();
    let mut all = vec![0; whole.size as usize];
    whole.file.read_exact_at(&mut all, 0).unwrap();
    assert_eq!(all, (0..3).flat_map(|index| bytes(&file, index)).collect::<Vec<_>>());
    assert_eq!(whole.file.metadata().unwrap().len(), file.size);
    assert!(store.whole_file(&file.id(), file.size + 1).is_none());
}

#[test]
fn restart_keeps_blocks_and_keys() {
    let place = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..20).map(|number| key(&format!("file {number}"), 70 * KIB + number)).collect();
    for clean in [true, false] {
        let store = open_one(place.path(), 10 * MIB);
        files.iter().for_each(|file| drop(put_all(&store, file)));
        store.evict(&files[3].id());
        if clean {
            store.close().unwrap();
        }
    }
    let store = open_one(place.path(), 10 * MIB);
    for (number, file) in files.iter().enumerate() {
        let expected = (number != 3).then(|| bytes(file, 1));
        assert_eq!(read(&store, file, 1), expected, "file {number}");
        assert_eq!(store.whole_file(&file.id(), file.size).is_some(), number != 3);
    }
    let mut listed = Vec::new();
    store.files(|file| listed.push((file.key.path.to_vec(), file.cached_bytes)));
    assert_eq!(listed.len(), 19);
    assert!(listed.contains(&(b"file 7".to_vec(), 70 * KIB + 7)));
}

#[test]
fn pinned_blocks_stay_in_place() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 * MIB);
    let file = key("pinned", 150 * KIB);
    put_all(&store, &file);
    let handle = store.get(&file.id(), 1).unwrap();
    assert_eq!(store.evict(&file.id()), 0);
    assert_eq!(read_handle(&handle), bytes(&file, 1));
    drop(handle);
    assert_eq!(store.evict(&file.id()), 152 * KIB);
    assert_eq!(store.usage()[0].used_bytes, 0);
    assert_eq!(data_files(place.path()).len(), 0);
}

#[test]
fn eviction_by_rule_takes_only_what_was_chosen() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 * MIB);
    let (old, new) = (key("old/a", 64 * KIB), key("new/a", 64 * KIB));
    put_all(&store, &old);
    put_all(&store, &new);
    assert_eq!(store.evict_where(|key| key.path.starts_with(b"old/")), 64 * KIB);
    assert!(read(&store, &old, 0).is_none());
    assert!(read(&store, &new, 0).is_some());
}

#[test]
fn changed_data_file_is_verified_again() {
    let place = tempfile::tempdir().unwrap();
    let (store, metrics) = open_counted(place.path(), 10 * MIB, EvictionPolicy::ScanResistant);
    let file = key("changed", 150 * KIB);
    put_all(&store, &file);
    assert!(read(&store, &file, 0).is_some());
    wait_for_clock_tick();
    assert!(flip_byte(&data_files(place.path())[0], 70 * KIB));
    assert_eq!(read(&store, &file, 0), Some(bytes(&file, 0)), "the other blocks are still right");
    assert_eq!(read(&store, &file, 1), None);
    assert_eq!(metrics.store_corrupt_blocks.get(), 1);
    assert!(store.whole_file(&file.id(), file.size).is_none());
    assert_eq!(store.put(&file, 1, &content(&file, 1)), Put::Stored);
    assert!(store.whole_file(&file.id(), file.size).is_some());
}

#[test]
fn missing_or_short_data_file_is_a_miss() {
    for harm in [
        |path: &std::path::Path| std::fs::remove_file(path).unwrap(),
        |path: &std::path::Path| {
            std::fs::File::options().write(true).open(path).unwrap().set_len(1000).unwrap();
        },
    ] {
        let place = tempfile::tempdir().unwrap();
        let file = key("harmed", 60 * KIB);
        put_all(&open_one(place.path(), 10 * MIB), &file);
        let (store, metrics) = open_counted(place.path(), 10 * MIB, EvictionPolicy::ScanResistant);
        harm(&data_files(place.path())[0]);
        assert_eq!(read(&store, &file, 0), None);
        assert_eq!(metrics.store_corrupt_blocks.get(), 1);
        assert_eq!(store.usage()[0].used_bytes, 0);
    }
}

#[test]
fn verify_and_scrub_find_what_is_wrong() {
    let place = tempfile::tempdir().unwrap();
    let file = key("verified", 150 * KIB);
    put_all(&open_one(place.path(), 10 * MIB), &file);
    let store = open_one(place.path(), 10 * MIB);
    assert_eq!(store.verify(&file.id()), (3, 0));
    wait_for_clock_tick();
    assert!(flip_byte(&data_files(place.path())[0], 140 * KIB));
    assert_eq!(store.scrub(u64::MAX, || true), (2, 1));
    assert_eq!(store.scrub(u64::MAX, || false), (0, 0));
}

#[test]
fn wrong_content_is_declined() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 * MIB);
    let file = key("odd", 150 * KIB);
    let short = bytes::Bytes::from(vec![0; 100]);
    assert_eq!(store.put(&file, 0, &[short]), Put::Declined("wrong-length"));
    assert_eq!(store.put(&file, 9, &content(&file, 0)), Put::Declined("wrong-length"));
    assert_eq!(store.put(&key("empty", 0), 0, &[]), Put::Declined("wrong-length"));
    assert_eq!(store.put(&key("huge", u64::MAX), 0, &content(&file, 0)), Put::Declined("file-too-large"));
    store.close().unwrap();
    assert_eq!(store.put(&file, 0, &content(&file, 0)), Put::Declined("closed"));
    let without =
        patient(Store::open(config(Vec::new(), EvictionPolicy::Lru), budgets(100), Default::default()).unwrap());
    assert_eq!(without.put(&file, 0, &content(&file, 0)), Put::Declined("no-cache"));
}

#[test]
fn second_opener_is_told_who_holds_the_folder() {
    let place = tempfile::tempdir().unwrap();
    assert!(Store::is_free(place.path()));
    let store = open_one(place.path(), MIB);
    assert!(!Store::is_free(place.path()));
    let error = open_error(vec![level(&[(place.path(), MIB)])]);
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.message().contains(&format!("process {}", std::process::id())), "{error}");
    store.close().unwrap();
    assert!(Store::is_free(place.path()));
    drop(open_one(place.path(), MIB));
}

#[test]
fn wrong_configurations_are_named() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = open_error(vec![level(&[(&file, MIB)])]);
    assert_eq!(error.kind(), ErrorKind::NotDirectory, "{error}");
    let error = open_error(vec![level(&[(place.path(), 1 << 60)])]);
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.message().contains(&(1u64 << 60).to_string()), "{error}");
    let link = place.path().join("link");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let error = open_error(vec![level(&[(place.path(), MIB)]), level(&[(&link, MIB)])]);
    assert!(error.kind() == ErrorKind::Config && error.message().contains("twice"), "{error}");
    let mut marks = level(&[(place.path(), MIB)]);
    (marks.high, marks.low) = (0.5, 0.9);
    assert_eq!(open_error(vec![marks]).kind(), ErrorKind::Config);
    let error = open_error(vec![level(&[(std::path::Path::new("/proc/nothing/cache"), MIB)])]);
    assert!(error.message().contains("/proc/nothing/cache"), "{error}");
}

#[test]
fn other_block_size_discards_and_newer_format_refuses() {
    let place = tempfile::tempdir().unwrap();
    let file = key("old", 64 * KIB);
    put_all(&open_one(place.path(), MIB), &file);
    let mut larger = config(vec![level(&[(place.path(), MIB)])], EvictionPolicy::Lru);
    larger.block_size = headrace_engine::ids::BlockSize::new(128 << 10).unwrap();
    let store = patient(Store::open(larger, budgets(100), Default::default()).unwrap());
    assert!(read(&store, &file, 0).is_none());
    assert_eq!((store.usage()[0].used_bytes, data_files(place.path()).len()), (0, 0));
    drop(store);
    let mut log = std::fs::read(place.path().join("index.log")).unwrap();
    log[8] = 9;
    let crc = crc32c::crc32c(&log[..28]);
    log[28..32].copy_from_slice(&crc.to_le_bytes());
    std::fs::write(place.path().join("index.log"), log).unwrap();
    let error = open_error(vec![level(&[(place.path(), MIB)])]);
    assert!(error.kind() == ErrorKind::Unsupported && error.message().contains("newer"), "{error}");
}

#[test]
fn foreign_files_are_never_removed() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("index.log"), "my own notes").unwrap();
    let error = open_error(vec![level(&[(place.path(), MIB)])]);
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert_eq!(std::fs::read(place.path().join("index.log")).unwrap(), b"my own notes");
    std::fs::remove_file(place.path().join("index.log")).unwrap();
    std::fs::create_dir_all(place.path().join("data/ab")).unwrap();
    std::fs::write(place.path().join("data/ab/photo.jpg"), "mine").unwrap();
    drop(open_one(place.path(), MIB));
    assert!(place.path().join("data/ab/photo.jpg").exists());
}

#[test]
fn few_descriptors_suffice() {
    let place = tempfile::tempdir().unwrap();
    let config = config(vec![level(&[(place.path(), 100 * MIB)])], EvictionPolicy::ScanResistant);
    let limits = budgets(8);
    let store = patient(Store::open(config, limits.clone(), Default::default()).unwrap());
    let files: Vec<_> = (0..200).map(|number| key(&format!("{number}"), 10 * KIB)).collect();
    files.iter().for_each(|file| drop(put_all(&store, file)));
    for file in &files {
        assert_eq!(read(&store, file, 0), Some(bytes(file, 0)));
        assert!(limits.descriptors.used() <= 8);
    }
    let pins: Vec<_> = files.iter().map_while(|file| store.get(&file.id(), 0)).collect();
    assert!(pins.len() >= 7 && limits.descriptors.used() <= 8, "{} pins", pins.len());
    drop(pins);
    assert!(files.iter().all(|file| read(&store, file, 0).is_some()));
    drop(store);
    assert_eq!(limits.descriptors.used(), 0);
}
