//! The room that eviction gives back to the file system, which only the folder itself can show.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use bytes::Bytes;

use super::place::charge;
use super::*;
use crate::budget::Budget;
use crate::config::{EvictionPolicy, Medium};
use crate::ids::{BlockSize, FileKey, Version};
use crate::metrics::Metrics;
use crate::store::counters::Counters;
use crate::store::part::OpenFile;
use crate::store::pins::Pins;
use crate::store::{disk, eviction};

const BLOCK: u64 = 64 << 10;

fn folder(place: &std::path::Path, quota_bytes: u64) -> Folder {
    let metrics = Metrics::new();
    let shared = StoreState {
        block_size: BlockSize::new(BLOCK as u32).unwrap_or(BlockSize::DEFAULT),
        policy: eviction::policy(EvictionPolicy::Lru),
        clock: AtomicU64::new(0),
        descriptors: Budget::count("descriptors", 10),
        lent: Budget::count("lent descriptors", 10),
        descriptor_share: 10,
        counters: Counters::new(&metrics),
        started: Instant::now(),
        proofs: Default::default(),
        pins: Pins::default(),
        wrong: Default::default(),
        list: Default::default(),
    };
    let gauges = LevelGauges::new(&metrics, 0, Medium::Ssd, quota_bytes);
    Folder::open(place, quota_bytes, 0, Arc::new(shared), gauges).unwrap_or_else(|error| panic!("{error}"))
}

fn put(folder: &Folder, name: &str, size: u64, index: u32) -> FileId {
    let version = Version::ModifiedNs(1);
    let key = FileKey { dataset: "d".into(), path: name.as_bytes().into(), size, version };
    let length = folder.place.length_of(size, index);
    let parts = [Bytes::from(vec![index as u8 + 1; length as usize])];
    assert!(folder.room.reserve(charge(length)));
    let crc = disk::checksum(&parts);
    let content = Content { key: &key, id: key.id(), index, parts: &parts, length, crc };
    assert_eq!(folder.writer.store(&content), Ok(()));
    key.id()
}

fn allocated(folder: &Folder, id: &FileId) -> u64 {
    let path = super::super::layout::data_file(&folder.place.path, id);
    std::fs::metadata(path).map_or(0, |data| std::os::unix::fs::MetadataExt::blocks(&data) * 512)
}

#[test]
fn a_file_that_others_remove_whenever_it_is_made_is_no_fault_of_the_disk() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    let of_errno = std::io::Error::from_raw_os_error;
    assert_eq!(folder.writer.fault(&of_errno(libc::EBUSY)), super::write::Fault::InProgress);
    assert!(!folder.aside.is_aside());
    assert_eq!(folder.writer.fault(&of_errno(libc::EIO)), super::write::Fault::Disk("disk-error"));
    assert!(folder.aside.is_aside());
}

#[test]
fn room_of_one_block_is_given_back_to_the_file_system() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    let size = 3 * BLOCK - 1000;
    let id = (0..3).map(|index| put(&folder, "large", size, index)).max();
    let Some(id) = id else { return };
    let before = allocated(&folder, &id);
    assert_eq!(folder.remover.remove(&id, Some(2), Removal::Evict), BLOCK);
    assert!(allocated(&folder, &id) <= before - BLOCK, "{before} before, {} after", allocated(&folder, &id));
    assert_eq!((folder.room.used(), folder.room.blocks()), (2 * BLOCK, 2));
    assert!(folder.reader.get(&id, 1).is_some() && folder.reader.get(&id, 2).is_none());
}

#[test]
fn without_holes_whole_files_go() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    folder.files.punches.store(false, Ordering::Relaxed);
    for name in ["a", "b"] {
        (0..3).for_each(|index| drop(vec![put(&folder, name, 3 * BLOCK, index)]));
    }
    let Some(victim) = folder.victim(folder.place.shared.now(), false) else { panic!("no victim") };
    assert_eq!(victim.index, None);
    assert_eq!(folder.remover.remove(&victim.id, victim.index, Removal::Evict), 3 * BLOCK);
    assert_eq!(folder.room.blocks(), 3);
}

#[test]
fn leftover_room_of_a_crash_is_trimmed_at_open() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let id = {
        let folder = folder(place.path(), 100 * BLOCK);
        let id = put(&folder, "torn", 4 * BLOCK, 0);
        // As if killed between the write of two blocks and their records.
        let path = super::super::layout::data_file(&folder.place.path, &id);
        let file = std::fs::File::options().write(true).open(path).unwrap_or_else(|error| panic!("{error}"));
        let written = std::os::unix::fs::FileExt::write_all_at(&file, &[9; 2 * BLOCK as usize], 2 * BLOCK);
        assert!(written.is_ok());
        id
    };
    let folder = folder(place.path(), 100 * BLOCK);
    assert!(allocated(&folder, &id) < 2 * BLOCK, "{}", allocated(&folder, &id));
    assert!(folder.reader.get(&id, 0).is_some());
}

/// Damages block 0, which was trusted, and lets the store itself change the same file before anybody looks again.
fn damage_then(change: impl Fn(&Folder, &FileId)) -> Option<bool> {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    let id = (0..2).map(|index| put(&folder, "large", 3 * BLOCK, index)).max()?;
    assert!(folder.reader.get(&id, 0).is_some());
    std::thread::sleep(std::time::Duration::from_millis(15));
    let path = super::super::layout::data_file(&folder.place.path, &id);
    let file = std::fs::File::options().write(true).open(path).ok()?;
    std::os::unix::fs::FileExt::write_all_at(&file, &[0xff], 100).ok()?;
    change(&folder, &id);
    Some(folder.reader.get(&id, 0).is_none())
}

#[test]
fn damage_is_noticed_though_the_store_changed_the_file_since() {
    let evict = |folder: &Folder, id: &FileId| assert!(folder.remover.remove(id, Some(1), Removal::Evict) > 0);
    let add = |folder: &Folder, id: &FileId| assert_eq!(put(folder, "large", 3 * BLOCK, 2), *id);
    let close = |folder: &Folder, id: &FileId| assert!(folder.contents.index.shard(id).close_one());
    assert_eq!(damage_then(evict), Some(true), "evicting a block of an open file");
    assert_eq!(damage_then(add), Some(true), "adding a block to an open file");
    let closed_evict = |folder: &Folder, id: &FileId| {
        close(folder, id);
        evict(folder, id);
    };
    assert_eq!(damage_then(closed_evict), Some(true), "evicting a block of a closed file");
    let closed_add = |folder: &Folder, id: &FileId| {
        close(folder, id);
        add(folder, id);
    };
    assert_eq!(damage_then(closed_add), Some(true), "adding a block to a closed file");
}

#[test]
fn damage_is_noticed_though_two_writers_reopen_the_file_at_once() {
    let two_writers = |folder: &Folder, id: &FileId| {
        assert!(folder.contents.index.shard(id).close_one());
        // The second writer is at work between the first one's claim and its opening of the file.
        folder.contents.index.shard(id).find_mut(id).into_iter().for_each(|part| part.busy += 1);
        put(folder, "large", 3 * BLOCK, 2);
        folder.remover.finish(id);
    };
    assert_eq!(damage_then(two_writers), Some(true));
}

#[test]
fn what_was_lent_is_remembered_through_a_compaction_and_forgotten_with_the_file() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let id = {
        let folder = folder(place.path(), 100 * BLOCK);
        let id = (0..4).map(|index| put(&folder, "large", 4 * BLOCK, index)).max().unwrap_or(FileId([0; 16]));
        assert!(folder.reader.whole_file(&id, 4 * BLOCK).is_some());
        assert!(folder.contents.compact().is_ok());
        id
    };
    let folder = folder(place.path(), 100 * BLOCK);
    assert!(folder.contents.is_lent(&id));
    assert_eq!(folder.remover.remove(&id, Some(2), Removal::Evict), 0, "not in pieces");
    assert_eq!(folder.remover.remove(&id, None, Removal::Evict), 4 * BLOCK);
    put(&folder, "large", 4 * BLOCK, 0);
    assert!(!folder.contents.is_lent(&id), "that is another inode");
}

/// A folder that was closed in good order a while ago, and the data file of an unknown file version in it.
fn closed_with_orphan(before_close: impl Fn(&Folder)) -> (tempfile::TempDir, std::path::PathBuf) {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let closing = folder(place.path(), 100 * BLOCK);
    let id = put(&closing, "kept", BLOCK, 0);
    before_close(&closing);
    assert!(closing.close().is_ok());
    let kept = super::super::layout::data_file(place.path(), &id);
    let orphan = kept.with_file_name(format!("{}{}", &id.to_string()[..2], "0".repeat(30)));
    assert!(std::fs::write(&orphan, b"of nobody").is_ok());
    (place, orphan)
}

/// Makes the directories of data files look as if nothing had come or gone since.
fn make_untouched(place: &std::path::Path) {
    let data = place.join(super::super::layout::DATA);
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    let directories = std::fs::read_dir(&data).into_iter().flatten().flatten().map(|entry| entry.path());
    for path in directories.chain([data.clone()]) {
        let set = std::fs::File::open(&path).and_then(|directory| directory.set_modified(long_ago));
        assert!(set.is_ok(), "{}: {set:?}", path.display());
    }
}

#[test]
fn a_folder_that_nobody_touched_since_it_was_closed_is_opened_without_a_look_at_its_files() {
    let (place, orphan) = closed_with_orphan(|_| ());
    make_untouched(place.path());
    let opened = folder(place.path(), 100 * BLOCK);
    assert_eq!((opened.room.blocks(), opened.room.used()), (1, BLOCK));
    assert!(orphan.exists(), "it was looked for");
}

#[test]
fn a_process_that_was_killed_before_it_changed_anything_leaves_the_folder_closed_in_good_order() {
    let (place, orphan) = closed_with_orphan(|_| ());
    make_untouched(place.path());
    drop(folder(place.path(), 100 * BLOCK));
    let opened = folder(place.path(), 100 * BLOCK);
    assert!(orphan.exists() && opened.room.blocks() == 1, "it was looked for");
    put(&opened, "new", BLOCK, 0);
    drop(opened);
    make_untouched(place.path());
    drop(folder(place.path(), 100 * BLOCK));
    assert!(!orphan.exists(), "a process that changed something was killed");
}

#[test]
fn a_log_that_lost_all_since_its_opening_is_not_taken_for_one_closed_in_good_order() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let log = place.path().join(super::super::layout::LOG);
    let closing = folder(place.path(), 100 * BLOCK);
    put(&closing, "kept", BLOCK, 0);
    assert!(closing.close().is_ok());
    drop(closing);
    let closed_bytes = std::fs::metadata(&log).map_or(0, |data| data.len());
    let lost = put(&folder(place.path(), 100 * BLOCK), "lost", BLOCK, 0);
    make_untouched(place.path());
    // What a power loss leaves that came before the log's end was on the disk; the log is the newest of all then.
    let bytes = std::fs::read(&log).unwrap_or_default();
    assert!(std::fs::write(&log, bytes.get(..closed_bytes as usize).unwrap_or(&bytes)).is_ok());
    drop(folder(place.path(), 100 * BLOCK));
    assert!(!super::super::layout::data_file(place.path(), &lost).exists(), "its room would be taken for good");
}

#[test]
fn files_that_came_or_went_while_a_folder_was_closed_are_noticed_when_it_is_opened() {
    let (place, orphan) = closed_with_orphan(|_| ());
    drop(folder(place.path(), 100 * BLOCK));
    assert!(!orphan.exists(), "nobody knows it");

    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let closing = folder(place.path(), 100 * BLOCK);
    let lost = put(&closing, "lost", BLOCK, 0);
    assert!(closing.close().is_ok());
    drop(closing);
    assert!(std::fs::remove_file(super::super::layout::data_file(place.path(), &lost)).is_ok());
    assert_eq!(folder(place.path(), 100 * BLOCK).room.blocks(), 0);
}

#[test]
fn a_data_file_that_could_not_be_removed_is_looked_for_when_the_folder_is_opened_again() {
    let (place, orphan) = closed_with_orphan(|folder| folder.files.note_stray());
    make_untouched(place.path());
    drop(folder(place.path(), 100 * BLOCK));
    assert!(!orphan.exists());
}

fn closed(folder: &Folder, id: &FileId) {
    while folder.contents.index.shard(id).close_one() {}
}

#[test]
fn a_file_that_was_removed_since_it_was_opened_is_not_the_file_of_the_next_one() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    let id = put(&folder, "again", 100, 0);
    closed(&folder, &id);
    // Another thread is about to use what it has opened.
    let path = super::super::layout::data_file(&folder.place.path, &id);
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{error}"));
    let Some(descriptor) = folder.files.descriptor(&id) else { panic!("no descriptor") };
    let opened = Arc::new(OpenFile { file: Arc::new(file), _descriptor: descriptor });
    assert!(folder.remover.remove(&id, None, Removal::Evict) > 0);
    put(&folder, "again", 100, 0);
    closed(&folder, &id);
    assert!(folder.files.attach(&id, opened).is_none());
    assert!(folder.reader.get(&id, 0).is_some());
    assert_eq!(folder.place.shared.counters.corrupt.get(), 0);
}

#[test]
fn a_file_that_is_there_again_is_not_missing_and_one_that_is_not_is_damage() {
    let place = tempfile::tempdir().unwrap_or_else(|error| panic!("{error}"));
    let folder = folder(place.path(), 10 * BLOCK);
    let id = put(&folder, "again", 100, 0);
    closed(&folder, &id);
    assert_eq!(folder.remover.remove(&id, None, Removal::Missing), 0);
    assert!(folder.reader.get(&id, 0).is_some());
    assert_eq!(folder.place.shared.counters.corrupt.get(), 0);
    closed(&folder, &id);
    std::fs::remove_file(super::super::layout::data_file(&folder.place.path, &id))
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(folder.reader.get(&id, 0).is_none());
    assert_eq!((folder.place.shared.counters.corrupt.get(), folder.room.used()), (1, 0));
}
