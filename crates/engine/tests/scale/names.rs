//! A snapshot of many files that are in no origin.

use std::path::Path;

use headrace_engine::origin::{ListedObject, ObjectKind};
use headrace_engine::snapshot::{Snapshot, SnapshotBuilder};

pub const FILES: u64 = 100_000;
const FOLDERS: u64 = 100;

/// Writes a snapshot whose files all have this time.
pub fn freeze(path: &Path, time: i64, previous: Option<&Snapshot>) -> Snapshot {
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    for number in 0..FILES {
        let key = format!("folder-{:03}/sample-{number:08}.jpeg", number / (FILES / FOLDERS));
        let (key, kind) = (key.into_bytes().into(), ObjectKind::File);
        builder
            .add(0, ListedObject { key, kind, size: 1000, mtime_ns: time, etag: None, stamp: None, permissions: None });
    }
    builder.finish(path, previous).unwrap().0
}
