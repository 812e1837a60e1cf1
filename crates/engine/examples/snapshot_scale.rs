//! Measures a snapshot of many names: build, refresh, map, look-ups and listing, in time and memory.
//!
//! `cargo run --release --example snapshot_scale -- FILES FOLDERS [DIRECTORY]` makes FILES names in FOLDERS folders (1:
//! all in one) in a listing's order, writes the snapshot to DIRECTORY (the working directory) and removes it.

use std::path::{Path, PathBuf};
use std::time::Instant;

use headrace_engine::error::{Error, Result};
use headrace_engine::origin::{ListedObject, ObjectKind};
use headrace_engine::snapshot::{Difference, NodeIndex, Snapshot, SnapshotBuilder};

const LOOKUPS: u64 = 2_000_000;

struct Shape {
    files: u64,
    folders: u64,
}

impl Shape {
    fn folder(&self, number: u64) -> String {
        format!("train/n{:08}", number % self.folders)
    }

    fn name(number: u64) -> String {
        format!("ILSVRC2012_val_{number:08}.JPEG")
    }

    fn object(&self, number: u64) -> ListedObject {
        // Neighbours in the listing are neighbours in a folder, as a bucket's listing has them.
        let folder = number / self.files.div_ceil(self.folders);
        let etag = format!("{:032x}", u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835));
        ListedObject {
            key: format!("{}/{}", self.folder(folder), Self::name(number)).into_bytes().into(),
            kind: ObjectKind::File,
            size: 110_000 + number % 1000,
            mtime_ns: 1_700_000_000_000_000_000,
            etag: Some(etag.into_bytes().into()),
            stamp: None,
            permissions: None,
        }
    }
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    let (Some(files), Some(folders)) = (number(0), number(1)) else {
        return Err(Error::config("usage: snapshot_scale FILES FOLDERS [DIRECTORY]"));
    };
    let path = arguments.get(2).map_or_else(PathBuf::new, PathBuf::from).join("snapshot_scale.snapshot");
    let measured = measure(&Shape { files, folders }, &path);
    let _ = std::fs::remove_file(&path);
    measured
}

fn measure(shape: &Shape, path: &Path) -> Result<()> {
    let anonymous_before = memory_kib("RssAnon:");
    timed("make the listing alone", shape.files, || {
        (0..shape.files).map(|number| shape.object(number).size).sum::<u64>()
    });
    let (snapshot, _) = build(shape, path, None)?;
    println!("peak memory: {} bytes/file", memory_kib("VmHWM:") * 1024 / shape.files);
    describe(&snapshot, shape);
    drop(snapshot);

    let snapshot = timed("open and verify", shape.files, || Snapshot::open(path))?;
    println!("anonymous memory when mapped: {} KiB", memory_kib("RssAnon:").saturating_sub(anonymous_before));
    read_everything(&snapshot, shape);

    let (refreshed, difference) = build(shape, path, Some(&snapshot))?;
    println!("{difference:?}");
    describe(&refreshed, shape);
    drop((snapshot, refreshed));
    let refreshed = timed("open and verify the refreshed", shape.files, || Snapshot::open(path))?;
    find_inodes(&refreshed);
    Ok(())
}

fn build(shape: &Shape, path: &Path, previous: Option<&Snapshot>) -> Result<(Snapshot, Difference)> {
    let mut builder = SnapshotBuilder::new(&[String::new()])?;
    timed("listing + add", shape.files, || (0..shape.files).for_each(|number| builder.add(0, shape.object(number))));
    timed("finish", shape.files, || builder.finish(path, previous))
}

fn describe(snapshot: &Snapshot, shape: &Shape) {
    let stored = snapshot.mapped_bytes() as f64 / shape.files as f64;
    println!("snapshot {}: {stored:.1} bytes/file with its name ({} bytes)", snapshot.version(), Shape::name(0).len());
}

fn read_everything(snapshot: &Snapshot, shape: &Shape) {
    let folders: Vec<Option<NodeIndex>> =
        (0..shape.folders).map(|folder| snapshot.find_path(shape.folder(folder).as_bytes())).collect();
    let mut entries = 0u64;
    timed("walk with attributes", shape.files, || {
        snapshot.walk(NodeIndex::ROOT, &mut |index, _| {
            entries += u64::from(snapshot.node(index).is_some());
            true
        });
    });
    assert!(entries >= shape.files);
    let wanted: Vec<(NodeIndex, String)> = (0..LOOKUPS)
        .map(|step| {
            let number = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % shape.files;
            let folder = number / shape.files.div_ceil(shape.folders);
            (folders[folder as usize].unwrap_or(NodeIndex::ROOT), Shape::name(number))
        })
        .collect();
    let found = timed("look-ups with attributes, random", LOOKUPS, || {
        let hits = |(folder, name): &(NodeIndex, String)| {
            snapshot.lookup(*folder, name.as_bytes()).and_then(|index| snapshot.node(index)).is_some()
        };
        wanted.iter().filter(|one| hits(one)).count() as u64
    });
    assert_eq!(found, LOOKUPS);
}

fn find_inodes(snapshot: &Snapshot) {
    let found = timed("find_inode, random", LOOKUPS, || {
        let inode = |step: u64| 1 + step.wrapping_mul(0x9e37_79b9_7f4a_7c15) % u64::from(snapshot.nodes());
        (0..LOOKUPS).filter(|step| snapshot.find_inode(inode(*step)).is_some()).count() as u64
    });
    assert_eq!(found, LOOKUPS);
}

fn timed<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    let seconds = start.elapsed().as_secs_f64();
    println!("{what}: {seconds:.3} s, {:.2} million/s", count as f64 / seconds / 1e6);
    result
}

/// A line of `/proc/self/status`, in KiB.
fn memory_kib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
