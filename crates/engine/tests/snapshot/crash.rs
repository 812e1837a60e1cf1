//! A snapshot is replaced whole or not at all: kill -9 at any moment, two builders at once, a folder that refuses.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{object, temporary};
use headrace_engine::error::ErrorKind;
use headrace_engine::origin::ObjectKind;
use headrace_engine::snapshot::{Snapshot, SnapshotBuilder};

const PLACE: &str = "HEADRACE_TEST_SNAPSHOT_PLACE";
const FILES: u64 = 20_000;

/// Every file of version V has size V, so that a mixture of two versions would show.
fn builder_of(version: u64) -> SnapshotBuilder {
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    (0..FILES).for_each(|number| builder.add(0, sized(number, version)));
    builder
}

fn sized(number: u64, size: u64) -> headrace_engine::origin::ListedObject {
    headrace_engine::origin::ListedObject { size, ..object(&format!("d{}/f{number}", number % 9), ObjectKind::File, 1) }
}

fn refresh(path: &Path) {
    let previous = Snapshot::open(path).ok();
    let version = previous.as_ref().map_or(0, Snapshot::version) + 1;
    builder_of(version).finish(path, previous.as_ref()).unwrap();
}

/// Not a test of its own: what the killed process does.
#[test]
fn child_refreshes_until_killed() {
    let Some(place) = std::env::var_os(PLACE) else { return };
    for _ in 0..10_000 {
        refresh(Path::new(&place));
    }
}

#[test]
fn a_killed_build_leaves_a_whole_snapshot() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    refresh(&path);
    let version = || Snapshot::open(&path).unwrap().version();
    for round in 0..25u64 {
        let before = version();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "crash::child_refreshes_until_killed"])
            .env(PLACE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now();
        while version() == before && patience.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        // At work on the next one by now; each round stops it somewhere else.
        std::thread::sleep(Duration::from_millis(round * 7 % 50));
        child.kill().unwrap();
        child.wait().unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert!(snapshot.version() > before, "the child wrote nothing in a minute");
        assert_eq!((snapshot.files(), snapshot.total_bytes()), (FILES, FILES * snapshot.version()));
    }
    let last = version();
    refresh(&path);
    assert_eq!(Snapshot::open(&path).unwrap().version(), last + 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "an unfinished file was left behind");
}

#[test]
fn a_second_builder_is_told_that_the_first_is_at_work() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    refresh(&path);
    let first = std::fs::File::create(folder.path().join(".snapshot.building")).unwrap();
    first.lock().unwrap();
    let error = builder_of(2).finish(&path, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert_eq!(Snapshot::open(&path).unwrap().total_bytes(), FILES);
    // Closing is not enough: a child that another test is just starting has a copy.
    first.unlock().unwrap();
    builder_of(2).finish(&path, None).unwrap();
    assert_eq!(Snapshot::open(&path).unwrap().total_bytes(), FILES * 2);
}

#[test]
fn builders_at_once_never_mix_their_snapshots() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    refresh(&path);
    std::thread::scope(|scope| {
        for size in 1..5 {
            let path = &path;
            scope.spawn(move || {
                for _ in 0..15 {
                    if let Err(error) = builder_of(size).finish(path, None) {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error:?}");
                    }
                    let seen = Snapshot::open(path).unwrap();
                    assert!(seen.files() == FILES && seen.total_bytes().is_multiple_of(FILES));
                }
            });
        }
    });
}

#[test]
fn a_mapped_snapshot_outlives_its_replacement() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    refresh(&path);
    let old = Snapshot::open(&path).unwrap();
    refresh(&path);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(old.total_bytes(), FILES);
    assert!(old.find_path(b"d0/f9").is_some());
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let folder = temporary();
    let error = builder_of(1).finish(&folder.path().join("none/snapshot"), None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("none"), "{error}");
    assert_eq!(builder_of(1).finish(Path::new("/"), None).unwrap_err().kind(), ErrorKind::Config);
}
