//! A snapshot is replaced whole or not at all: kill -9 at any moment, two builders at once, a folder that refuses.
#![allow(clippy::unwrap_used)]

mod snapshot_support;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use headrace_engine::error::ErrorKind;
use headrace_engine::origin::ObjectKind;
use headrace_engine::snapshot::{Snapshot, SnapshotBuilder};
use snapshot_support::{object, temporary};

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
    let mut last = 1;
    for round in 0..40u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_refreshes_until_killed"])
            .env(PLACE, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(15 + round * 7 % 90));
        child.kill().unwrap();
        child.wait().unwrap();
        let snapshot = Snapshot::open(&path).unwrap();
        assert!(snapshot.version() >= last);
        last = snapshot.version();
        assert_eq!((snapshot.files(), snapshot.total_bytes()), (FILES, FILES * last));
    }
    assert!(last > 5, "the child was killed before it wrote anything");
    refresh(&path);
    assert_eq!(Snapshot::open(&path).unwrap().version(), last + 1);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "an unfinished file was left behind");
}

#[test]
fn of_two_builders_at_once_one_is_told_that_it_is_busy() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    let busy = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for version in 1..20 {
                    match builder_of(version).finish(&path, None) {
                        Ok(_) => {}
                        Err(error) if error.kind() == ErrorKind::Busy => {
                            busy.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        }
                        Err(error) => panic!("{error:?}"),
                    }
                    let seen = Snapshot::open(&path);
                    assert!(seen.is_ok() || seen.is_err_and(|error| error.kind() == ErrorKind::NotFound));
                }
            });
        }
    });
    assert!(busy.into_inner() > 0);
    assert_eq!(Snapshot::open(&path).unwrap().files(), FILES);
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
