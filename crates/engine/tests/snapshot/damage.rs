//! Damaged, foreign and half-written files: `open` says `Corrupt`, and nothing ever panics, loops or answers nonsense.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::support::{Listing, build, listing, object, temporary};
use headrace_engine::error::{ErrorKind, Result};
use headrace_engine::ids::{Stamp, Version};
use headrace_engine::origin::{ListedObject, ObjectKind, Permissions};
use headrace_engine::snapshot::{Difference, NodeIndex, Snapshot, SnapshotBuilder, difference_inodes};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// A refreshed snapshot, so that every section has content.
fn sample(folder: &Path) -> Vec<u8> {
    let path = folder.join("sample");
    let mut runner = TestRunner::deterministic();
    let mut draw = |strategy: BoxedStrategy<Listing>| strategy.new_tree(&mut runner).unwrap().current();
    let first = loop {
        let drawn = draw(listing().boxed());
        if drawn.len() > 60 {
            break drawn;
        }
    };
    let (one, _) = build(&first, &path, None);
    let second = crate::support::blend(&first, &draw(listing().boxed()), 0x1234_5678_9abc_def0);
    build(&second, &path, Some(&one));
    std::fs::read(&path).unwrap()
}

fn open_bytes(folder: &Path, bytes: &[u8]) -> Result<Snapshot> {
    // Written over, not anew: ext4 flushes a file that was emptied and written, which costs more than all else here.
    let path = folder.join("damaged");
    let file = std::fs::OpenOptions::new().create(true).write(true).truncate(false).open(&path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    Snapshot::open(&path)
}

/// Asks everything that can be asked. Bounded: a tree of `nodes` entries is walked in so many steps.
fn ask_everything(snapshot: &Snapshot) {
    let nodes = snapshot.nodes();
    for index in (0..nodes).chain([nodes, nodes + 1, u32::MAX - 1, u32::MAX]).map(NodeIndex) {
        let (path, key) = (snapshot.path(index), snapshot.origin_key(index));
        assert!(path.len() <= 4096 + 256 && key.len() <= path.len());
        let _ = (snapshot.node(index), snapshot.file_version(index), snapshot.symlink_target(index));
        let _ = snapshot.name(index).map(|name| snapshot.lookup(index, name.as_bytes()));
        for name in [&b"a"[..], b"", b"\xff\xff", b"img_1"] {
            assert!(snapshot.lookup(index, name).is_none_or(|found| found.0 < nodes));
        }
        for skip in [0, 3, u32::MAX] {
            let mut seen = 0;
            snapshot.children(index, skip, &mut |child, _| {
                seen += 1;
                child.0 < nodes
            });
            assert!(seen <= nodes);
        }
    }
    for inode in [0, 1, 2, 50, u64::from(nodes), u64::MAX - 1, u64::MAX] {
        assert!(snapshot.find_inode(inode).is_none_or(|found| found.0 < nodes));
    }
    let mut visited = 0;
    snapshot.walk(NodeIndex::ROOT, &mut |_, _| {
        visited += 1;
        true
    });
    assert!(visited < nodes);
    let _ = snapshot.rejections();
}

/// Makes checksums and lengths right again, so that damage reaches the accessors as a forger's would.
fn forge(bytes: &mut [u8]) {
    for entry in (96..96 + 7 * 24).step_by(24) {
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let (offset, length) = (number(entry) as usize, number(entry + 8) as usize);
        if let Some(section) = offset.checked_add(length).and_then(|end| bytes.get(offset..end)) {
            let sum = crc32c::crc32c(section).to_le_bytes();
            bytes[entry + 16..entry + 20].copy_from_slice(&sum);
        }
    }
    let sum = crc32c::crc32c(&bytes[..508]).to_le_bytes();
    bytes[508..512].copy_from_slice(&sum);
}

#[test]
fn every_flipped_byte_is_noticed() {
    let folder = temporary();
    let good = sample(folder.path());
    let path = folder.path().join("damaged");
    std::fs::write(&path, &good).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let mut harmless = 0;
    for at in 0..good.len() {
        file.write_all_at(&[good[at] ^ (1 << (at % 8))], at as u64).unwrap();
        match Snapshot::open(&path) {
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}: {error}"),
            // Only padding between sections is covered by no checksum.
            Ok(snapshot) => {
                harmless += 1;
                assert_eq!(good[at], 0);
                ask_everything(&snapshot);
            }
        }
        file.write_all_at(&good[at..=at], at as u64).unwrap();
    }
    assert!(harmless <= 7 * 7, "{harmless} bytes are covered by no checksum");
    Snapshot::open(&path).unwrap();
}

#[test]
fn every_truncation_and_extension_is_noticed() {
    let folder = temporary();
    let good = sample(folder.path());
    for length in (0..good.len()).rev().step_by(7).chain(0..520) {
        let error = open_bytes(folder.path(), &good[..length]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{length} bytes: {error}");
    }
    for more in [1, 7, 8, 4096] {
        let error = open_bytes(folder.path(), &[&good[..], &vec![0; more]].concat()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn damage_with_matching_checksums_answers_nothing_worse_than_nothing() {
    let folder = temporary();
    let good = sample(folder.path());
    let (whole, _) = build(&Listing::new(), &folder.path().join("empty"), None);
    let damage = prop::collection::vec((0..good.len(), any::<u8>()), 1..6);
    let mut runner = TestRunner::new(Config { cases: 10_000, failure_persistence: None, ..Config::default() });
    runner
        .run(&damage, |changes| {
            let mut bytes = good.clone();
            changes.iter().for_each(|(at, value)| bytes[*at] = *value);
            forge(&mut bytes);
            if let Ok(snapshot) = open_bytes(folder.path(), &bytes) {
                ask_everything(&snapshot);
                let _ = Difference::between(&snapshot, &whole);
                difference_inodes(&snapshot, &snapshot, &mut |_| {});
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn every_record_word_can_say_anything() {
    let folder = temporary();
    let good = sample(folder.path());
    let sections = (96..96 + 7 * 24).step_by(24).map(|entry| {
        let number = |at: usize| u64::from_le_bytes(good[at..at + 8].try_into().unwrap()) as usize;
        (number(entry), number(entry) + number(entry + 8))
    });
    for (start, end) in sections {
        for at in (start..end.saturating_sub(3)).step_by(4) {
            for value in [0u32, 1, 2, u32::MAX, 1 << 31, 0x0101_0101] {
                let mut bytes = good.clone();
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                forge(&mut bytes);
                let Ok(snapshot) = open_bytes(folder.path(), &bytes) else { continue };
                let mut visited = 0;
                snapshot.walk(NodeIndex::ROOT, &mut |index, name| {
                    visited += 1;
                    snapshot.lookup(index, name);
                    snapshot.path(index).len() <= 4096 + 256
                });
                assert!(visited < snapshot.nodes());
            }
        }
    }
}

#[test]
fn garbage_is_not_a_snapshot() {
    let folder = temporary();
    let garbage = (prop::collection::vec(any::<u8>(), 0..2000), any::<bool>());
    let mut runner = TestRunner::new(Config { cases: 2000, failure_persistence: None, ..Config::default() });
    runner
        .run(&garbage, |(mut bytes, with_magic)| {
            if with_magic && bytes.len() >= 512 {
                bytes[..16].copy_from_slice(b"\x89HRSNP\r\n\x01\0\0\0\0\x02\0\0");
                forge(&mut bytes);
            }
            let error = open_bytes(folder.path(), &bytes).unwrap_err();
            prop_assert_eq!(error.kind(), ErrorKind::Corrupt);
            prop_assert!(error.hint().is_some() && error.message().contains("damaged"));
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_newer_format_is_named_not_guessed_at() {
    let folder = temporary();
    let mut bytes = sample(folder.path());
    bytes[8] = 4;
    forge(&mut bytes);
    assert_eq!(open_bytes(folder.path(), &bytes).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn a_missing_snapshot_is_not_found_and_a_folder_is_no_snapshot() {
    let folder = temporary();
    assert_eq!(Snapshot::open(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    assert!(Snapshot::open(folder.path()).is_err());
}

/// What is written today must open for ever. A new format version brings a new sample; this one stays.
#[test]
fn the_samples_of_all_formats_still_open() {
    let owned = Some(Permissions { mode: 0o640, uid: 1000, gid: 100 });
    for (format, permissions) in [(1, None), (2, owned), (3, owned)] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/snapshot-{format}.bin"));
        if std::env::var_os("HEADRACE_WRITE_SAMPLES").is_some() {
            write_sample(&path, permissions, format == 3);
        }
        assert_eq!(std::fs::read(&path).unwrap()[8], format);
        check_sample(&Snapshot::open(&path).unwrap(), permissions, format == 3);
    }
}

fn check_sample(snapshot: &Snapshot, permissions: Option<Permissions>, stamped: bool) {
    assert_eq!((snapshot.version(), snapshot.files(), snapshot.symlinks(), snapshot.directories()), (2, 22, 1, 4));
    assert_eq!(snapshot.mounts(), ["", "more/here"]);
    assert_eq!(snapshot.rejections().counts, [("relative-segment".to_owned(), 1)]);
    let at = |path: &str| snapshot.node(snapshot.find_path(path.as_bytes()).unwrap()).unwrap();
    assert_eq!((at("train/img_07").size, at("train/img_07").inode, at("more/here/x").origin), (1007, 14, 1));
    assert_eq!(at("train/img_03").inode, snapshot.next_inode() - 1);
    let version = snapshot.file_version(at("train/img_03").index).unwrap();
    assert_eq!(version, Version::Etag(b"00000000000000000000000000000001-12"[..].into()));
    let readme = snapshot.file_version(at("readme").index).unwrap();
    let mtime_ns = at("readme").mtime_ns;
    assert_eq!(readme == Version::Stamped { mtime_ns, stamp: STAMP }, stamped, "{readme:?}");
    assert_eq!(snapshot.symlink_target(at("latest").index).unwrap(), b"train/img_19");
    assert_eq!((at("train/img_07").permissions, at("readme").permissions), (permissions, None));
    ask_everything(snapshot);
}

const STAMP: Stamp = Stamp { ctime_ns: 1_700_000_000_000_000_009, number: 1 << 40 };

fn write_sample(path: &Path, permissions: Option<Permissions>, stamped: bool) {
    let mut previous = None;
    for step in 0..2 {
        let mut builder = SnapshotBuilder::new(&[String::new(), "more/here".to_owned()]).unwrap();
        for number in 0..20 {
            let mut image = object(&format!("train/img_{number:02}"), ObjectKind::File, 1000 + number);
            if step == 1 && number == 3 {
                image.etag = Some(b"00000000000000000000000000000001-12"[..].into());
            }
            image.permissions = permissions;
            builder.add(0, image);
        }
        builder.add(0, object("../escape", ObjectKind::File, 1));
        let readme = object("readme", ObjectKind::File, 5);
        let etag = readme.etag.clone().filter(|_| !stamped);
        builder.add(0, ListedObject { etag, stamp: stamped.then_some(STAMP), ..readme });
        builder.add(0, object("latest", ObjectKind::Symlink(b"train/img_19"[..].into()), 12));
        builder.add(1, object("x", ObjectKind::File, 7));
        previous = Some(builder.finish(path, previous.as_ref()).unwrap().0);
    }
}
