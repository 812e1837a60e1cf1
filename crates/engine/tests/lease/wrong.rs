//! Files of the worker of which something turns out to be wrong while they are on lease.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use crate::support::*;
use headrace_engine::ids::FileKey;
use headrace_engine::lease::LeaseOptions;
use headrace_engine::store::Blocks;

/// Damages a byte of the only data file, behind the worker's back.
fn damage(place: &Path, offset: u64) {
    let data = store_files::data_files(&place.join("cache"));
    assert_eq!(data.len(), 1);
    assert!(store_files::flip_byte(&data[0], offset));
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
