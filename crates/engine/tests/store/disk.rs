//! Disks that are full or read-only cost caching, never a read. Needs root, for a small file system of its own.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::error::ErrorKind;
use headrace_engine::store::Put;

const SIZE: u64 = 4 << 20;

/// A tmpfs of 4 MiB, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=4m", "none"]).arg(place.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(place));
        }
        eprintln!("skipped: only root can mount a small tmpfs");
        None
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn remount(&self, option: &str) {
        let done = Command::new("mount").args(["-o", &format!("remount,{option}")]).arg(self.path()).status();
        assert!(done.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.path()).status();
    }
}

#[test]
fn full_disk_declines_and_reads_go_on() {
    let Some(disk) = SmallDisk::mount() else { return };
    let (store, metrics) = open_counted(disk.path(), SIZE, EvictionPolicy::ScanResistant);
    let good = key("good", 100_000);
    put_all(&store, &good);
    std::fs::write(disk.path().join("foreign"), vec![1; 3_500_000]).unwrap();
    let files: Vec<_> = (0..20).map(|number| key(&format!("{number}"), 60_000)).collect();
    let puts: Vec<Put> = files.iter().flat_map(|file| put_all(&store, file)).collect();
    assert!(puts.contains(&Put::Declined("disk-full")), "{puts:?}");
    assert_eq!(puts.last(), Some(&Put::Declined("set-aside")));
    assert!(metrics.encode().contains("store_declined_blocks_total{reason=\"disk-full\"} 1"));
    for (file, put) in files.iter().zip(&puts) {
        assert_eq!(read(&store, file, 0), (*put == Put::Stored).then(|| bytes(file, 0)));
    }
    assert_eq!(read(&store, &good, 0), Some(bytes(&good, 0)));
    let blocks = 2 + puts.iter().filter(|put| **put == Put::Stored).count() as u64;
    assert_eq!(store.usage()[0].blocks, blocks);
    drop(store);
    assert_eq!(open_one(disk.path(), SIZE).usage()[0].blocks, blocks, "the log is whole");
}

#[test]
fn another_folder_takes_over_from_a_full_disk() {
    let (Some(disk), other) = (SmallDisk::mount(), tempfile::tempdir().unwrap()) else { return };
    let levels = vec![level(&[(disk.path(), SIZE)]), level(&[(other.path(), SIZE)])];
    let store =
        headrace_engine::store::Store::open(config(levels, EvictionPolicy::Lru), budgets(50), Default::default());
    let store = store.unwrap();
    std::fs::write(disk.path().join("foreign"), vec![1; 4_000_000]).unwrap();
    let files: Vec<_> = (0..20).map(|number| key(&format!("{number}"), 60_000)).collect();
    for file in &files {
        assert_eq!(put_all(&store, file), [Put::Stored]);
        assert_eq!(read(&store, file, 0), Some(bytes(file, 0)));
    }
    assert!(store.usage()[1].blocks >= 15);
}

#[test]
fn read_only_disk_declines_and_reads_go_on() {
    let Some(disk) = SmallDisk::mount() else { return };
    let file = key("there", 100_000);
    put_all(&open_one(disk.path(), SIZE), &file);
    let store = open_one(disk.path(), SIZE);
    // Files that are open for writing forbid a plain remount: the log is. A bind mount turned read-only does not.
    let bind = Command::new("mount").arg("--bind").args([disk.path(), disk.path()]).status().unwrap();
    assert!(bind.success());
    disk.remount("bind,ro");
    let new = key("new", 1000);
    assert_eq!(read(&store, &file, 1), Some(bytes(&file, 1)));
    // The store's own paths were resolved before the bind mount; a new process sees the read-only one.
    drop(store);
    let error = open_error(vec![level(&[(disk.path(), SIZE)])]);
    assert!(error.kind() == ErrorKind::ReadOnly && error.hint().is_some(), "{error:?}");
    assert!(error.message().contains(&disk.path().display().to_string()));
    let _ = Command::new("umount").arg("-l").arg(disk.path()).status();
    assert_eq!(put_all(&open_one(disk.path(), SIZE), &new), [Put::Stored]);
}

#[test]
fn quota_larger_than_the_disk_names_both() {
    let Some(disk) = SmallDisk::mount() else { return };
    let error = open_error(vec![level(&[(disk.path(), SIZE + 1)])]);
    assert_eq!(error.kind(), ErrorKind::Config);
    let text = error.message();
    assert!(text.contains(&(SIZE + 1).to_string()) && text.contains(&SIZE.to_string()), "{text}");
    let (first, second) = (disk.path().join("a"), disk.path().join("b"));
    let error = open_error(vec![level(&[(&first, SIZE / 2), (&second, SIZE)])]);
    assert!(error.kind() == ErrorKind::Config && error.message().contains(&(SIZE / 2 + SIZE).to_string()), "{error}");
}
