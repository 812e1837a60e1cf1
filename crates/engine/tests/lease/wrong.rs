//! Files of the worker of which something turns out to be wrong while they are on lease.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::*;
use headrace_engine::ids::{FileId, FileKey};
use headrace_engine::lease::LeaseOptions;
use headrace_engine::store::{Blocks, WrongFile};

/// Damages a byte of the only data file, behind the worker's back.
fn damage(place: &Path, offset: u64) {
    let data = store_files::data_files(&place.join("cache"));
    assert_eq!(data.len(), 1);
    assert!(store_files::flip_byte(&data[0], offset));
}

fn damage_file(cache: &Path, id: &FileId, offset: u64) {
    let data = store_files::data_files(cache);
    let name = id.to_string();
    let path = data.iter().find(|path| path.ends_with(&name));
    assert!(store_files::flip_byte(path.unwrap(), offset));
}

fn is_damaged(file: &FileKey, whole: &File) -> bool {
    read_whole(whole, file.size) != content_of(file)
}

#[test]
fn what_the_worker_drops_as_wrong_is_asked_for_again_by_who_has_it_on_lease() {
    for (size, order) in [(1000, "discard"), (1000, "verify"), (300_000, "discard"), (300_000, "verify")] {
        let place = tempfile::tempdir().unwrap();
        let mut worker = Worker::start(place.path());
        let (file, count) = (file("f", size), block_size_count(size));
        worker.tell(&format!("put f {size} 0 {count}"));
        let blocks = leased(place.path(), LeaseOptions { absence: Duration::from_millis(1), ..patient() });
        let whole = blocks.whole_file(&file.id(), size).unwrap();
        damage(place.path(), 500);
        assert!(is_damaged(&file, &whole.file), "the damage is seen through the lease");
        drop(whole);
        worker.tell(&format!("{order} f {size}"));
        assert!(!has(&*blocks, &file, 0), "size {size}, {order}: wrong bytes stay on lease");
        assert!(!blocks.may_contain(&file.id(), 0) && blocks.whole_file(&file.id(), size).is_none());
        worker.tell(&format!("put f {size} 0 {count}"));
        eventually("the right bytes are on lease", || blocks.whole_file(&file.id(), size).is_some());
        for _ in 0..2 {
            assert!(!is_damaged(&file, &blocks.whole_file(&file.id(), size).unwrap().file));
            assert!((0..count).all(|index| has(&*blocks, &file, index)));
        }
        assert_eq!((blocks.leased_files(), worker.number("leases")), (1, 1), "the lease before is given back");
    }
}

fn block_size_count(size: u64) -> u32 {
    store_files::block_size().count(size)
}

/// Whoever reads a file from pages of the kernel's does not come here: what is on lease is looked at all the same.
#[test]
fn files_on_lease_that_turn_out_to_be_wrong_are_told_of_though_nobody_reads_them() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let (wrong, right) = (file("wrong", 300_000), file("right", 1000));
    worker.tell("put wrong 300000 0 5");
    worker.tell("put right 1000 0 1");
    let blocks = leased(place.path(), LeaseOptions { idle: Duration::from_millis(10), ..patient() });
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    blocks.on_wrong_content(Arc::new(move |file| hears.lock().unwrap().push(file)));
    let held = [get(&*blocks, &wrong, 0).unwrap(), get(&*blocks, &right, 0).unwrap()];
    worker.tell("verify wrong 300000");
    assert!(has(&*blocks, &wrong, 0) && told.lock().unwrap().is_empty(), "nothing is wrong");
    damage_file(&place.path().join("cache"), &wrong.id(), 500);
    assert_eq!(worker.number("verify wrong 300000"), 1);
    eventually("told", || !told.lock().unwrap().is_empty());
    worker.tell("put wrong 300000 0 1");
    // The healed file keeps its mark.
    eventually("healed", || has(&*blocks, &wrong, 0));
    let expected = WrongFile { id: wrong.id(), size: wrong.size };
    assert!(told.lock().unwrap().iter().all(|file| *file == expected));
    drop(held);
}
