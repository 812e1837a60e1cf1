//! Keys that no file system can hold, and who keeps a name that two claim: one case for each rule of
//! `docs/semantics.md`, "Names".
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use crate::support::{object, temporary};
use headrace_engine::error::ErrorKind;
use headrace_engine::origin::{LeftOut, ListedObject, ObjectKind};
use headrace_engine::snapshot::{NodeIndex, NodeKind, Rule, Snapshot, SnapshotBuilder};
use proptest::prelude::*;

fn raw(key: &[u8], kind: ObjectKind, size: u64) -> ListedObject {
    ListedObject { key: key.into(), kind, size, mtime_ns: 5, etag: None, stamp: None, permissions: None }
}

fn file(key: &[u8]) -> ListedObject {
    raw(key, ObjectKind::File, 3)
}

/// Builds origins mounted at `mounts` from (origin, object) in this order.
fn built(mounts: &[&str], objects: Vec<(u16, ListedObject)>) -> Snapshot {
    let folder = temporary();
    let mounts: Vec<_> = mounts.iter().map(|mount| (*mount).to_owned()).collect();
    let mut builder = SnapshotBuilder::new(&mounts).unwrap();
    objects.into_iter().for_each(|(origin, object)| builder.add(origin, object));
    builder.finish(&folder.path().join("snapshot"), None).unwrap().0
}

fn paths(snapshot: &Snapshot) -> Vec<String> {
    let mut paths = Vec::new();
    snapshot.walk(NodeIndex::ROOT, &mut |index, _| {
        let slash = if snapshot.node(index).unwrap().kind == NodeKind::Directory { "/" } else { "" };
        paths.push(String::from_utf8_lossy(&snapshot.path(index)).into_owned() + slash);
        true
    });
    paths.sort();
    paths
}

fn counts(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    snapshot.rejections().counts.into_iter().collect()
}

fn only(rule: Rule) -> BTreeMap<String, u64> {
    BTreeMap::from([(rule.name().to_owned(), 1)])
}

#[test]
fn every_hostile_key_is_left_out_by_its_rule() {
    let long = [b'x'; 256];
    let deep = b"abcdefghi/".repeat(410);
    let cases: Vec<(Rule, ListedObject)> = vec![
        (Rule::RelativeSegment, file(b"..")),
        (Rule::RelativeSegment, file(b"../../etc/passwd")),
        (Rule::RelativeSegment, file(b"a/../b")),
        (Rule::RelativeSegment, file(b"a/./b")),
        (Rule::RelativeSegment, raw(b"a/../", ObjectKind::Directory, 0)),
        (Rule::RelativeSegment, raw(b"../", ObjectKind::File, 0)),
        (Rule::EmptySegment, file(b"")),
        (Rule::EmptySegment, file(b"/")),
        (Rule::EmptySegment, file(b"/etc/passwd")),
        (Rule::EmptySegment, file(b"a//b")),
        (Rule::EmptySegment, raw(b"a//", ObjectKind::File, 0)),
        (Rule::EmptySegment, raw(b"//", ObjectKind::Directory, 0)),
        (Rule::EmptySegment, raw(b"link/", ObjectKind::Symlink(b"x"[..].into()), 1)),
        (Rule::NameTooLong, file(&long)),
        (Rule::NameTooLong, file(&[b"a/", &long[..], b"/b"].concat())),
        (Rule::PathTooLong, file(&deep[..4097])),
        (Rule::NulByte, file(b"a\0b")),
        (Rule::NulByte, file(b"\0")),
        (Rule::InvalidUtf8, file(b"caf\xe9")),
        (Rule::InvalidUtf8, file(b"caf\xe9/menu")),
        (Rule::GarbledKey, raw("b\u{fffd}".as_bytes(), ObjectKind::LeftOut(LeftOut::Garbled), 3)),
        (Rule::GarbledKey, raw("b\u{fffd}/".as_bytes(), ObjectKind::LeftOut(LeftOut::Garbled), 0)),
        (Rule::SymlinkTarget, raw(b"l", ObjectKind::Symlink(vec![b't'; 4096].into()), 1)),
        (Rule::SymlinkTarget, raw(b"l", ObjectKind::Symlink(b""[..].into()), 0)),
        (Rule::SymlinkTarget, raw(b"l", ObjectKind::Symlink(b"a\0b"[..].into()), 3)),
        (Rule::FileTooLarge, raw(b"big", ObjectKind::File, 1 << 63)),
    ];
    for (rule, hostile) in cases {
        let shown = String::from_utf8_lossy(&hostile.key).into_owned();
        let snapshot = built(&[""], vec![(0, hostile), (0, file(b"good"))]);
        assert_eq!(counts(&snapshot), only(rule), "{shown:?}");
        assert_eq!(paths(&snapshot), ["good"], "{shown:?}");
        assert_eq!(snapshot.rejections().samples.len(), 1);
    }
}

#[test]
fn what_looks_odd_and_is_a_name_stays() {
    let long = "x".repeat(255);
    let deepest = "abcdefghi/".repeat(409) + "abcdef";
    let odd = ["...", "..a", " ", "a\nb", "-rf", "con", "a\\b", "ünïcödé", "*?", long.as_str(), deepest.as_str()];
    assert_eq!(deepest.len(), 4096);
    let snapshot = built(&[""], odd.iter().map(|key| (0, file(key.as_bytes()))).collect());
    assert!(counts(&snapshot).is_empty());
    odd.iter().for_each(|key| assert!(snapshot.find_path(key.as_bytes()).is_some(), "{key:?}"));
}

#[test]
fn a_path_is_counted_with_its_mount() {
    let key = "abcdefghi/".repeat(409) + "abcdef";
    let snapshot = built(&["m"], vec![(0, file(key.as_bytes())), (0, file(&key.as_bytes()[..4094]))]);
    assert_eq!(counts(&snapshot), only(Rule::PathTooLong));
    assert_eq!(snapshot.files(), 1);
}

#[test]
fn a_folder_of_this_machine_may_have_names_of_any_bytes() {
    let folder = temporary();
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.accept_any_bytes(0);
    builder.add(0, file(b"caf\xe9/\xff"));
    builder.add(0, raw(b"caf\xe9", ObjectKind::Directory, 4096));
    builder.add(0, raw(b"empty/", ObjectKind::Directory, 4096));
    let (snapshot, _) = builder.finish(&folder.path().join("snapshot"), None).unwrap();
    assert!(counts(&snapshot).is_empty());
    assert!(snapshot.find_path(b"caf\xe9/\xff").is_some() && snapshot.find_path(b"empty").is_some());
}

#[test]
fn a_marker_whose_time_nobody_tells_has_that_of_what_is_below_it() {
    let untold =
        |key: &[u8]| ListedObject { mtime_ns: ListedObject::UNTOLD_TIME, ..raw(key, ObjectKind::Directory, 0) };
    let listed = vec![(0, untold(b"a/")), (0, file(b"a/x")), (0, untold(b"empty/"))];
    let snapshot = built(&[""], listed);
    let time = |path: &[u8]| snapshot.node(snapshot.find_path(path).unwrap()).unwrap().mtime_ns;
    assert_eq!((time(b"a"), time(b"empty")), (5, 0));
}

#[test]
fn folder_markers_become_directories() {
    let objects = vec![
        (0, raw(b"empty/", ObjectKind::File, 0)),
        (0, raw(b"real", ObjectKind::Directory, 0)),
        (0, raw(b"full/", ObjectKind::File, 9)),
        (0, raw(b"kept/", ObjectKind::Directory, 9)),
        (0, raw(b"", ObjectKind::Directory, 0)),
        (0, file(b"full/a")),
    ];
    let snapshot = built(&[""], objects);
    assert_eq!(paths(&snapshot), ["empty/", "full/", "full/a", "kept/", "real/"]);
    assert_eq!(counts(&snapshot), BTreeMap::from([(Rule::FolderMarkerContent.name().to_owned(), 2)]));
}

#[test]
fn a_key_that_is_file_and_folder_is_a_folder_in_either_order() {
    for keys in [[&b"a"[..], b"a/b"], [b"a/b", b"a"]] {
        let snapshot = built(&[""], keys.iter().map(|key| (0, file(key))).collect());
        assert_eq!(paths(&snapshot), ["a/", "a/b"]);
        assert_eq!(counts(&snapshot), only(Rule::FileAndFolder));
        assert_eq!(snapshot.rejections().samples, [(Rule::FileAndFolder.name().to_owned(), "a".to_owned())]);
    }
}

#[test]
fn of_a_name_listed_twice_the_newest_stays_in_any_order() {
    for order in [[1, 2, 2], [2, 1, 2], [2, 2, 1]] {
        let snapshot = built(&[""], order.map(|number| (0, object("d/a", ObjectKind::File, number))).to_vec());
        assert_eq!(snapshot.node(snapshot.find_path(b"d/a").unwrap()).unwrap().size, 2);
        assert_eq!(counts(&snapshot), BTreeMap::from([(Rule::Duplicate.name().to_owned(), 2)]));
    }
}

#[test]
fn origins_appear_at_their_mounts_with_the_folders_on_the_way() {
    let objects = vec![(1, file(b"x/y")), (0, file(b"top")), (2, file(b"z"))];
    let snapshot = built(&["", "a/b", "empty/place"], objects);
    assert_eq!(paths(&snapshot), ["a/", "a/b/", "a/b/x/", "a/b/x/y", "empty/", "empty/place/", "empty/place/z", "top"]);
    let key = |path: &[u8]| snapshot.origin_key(snapshot.find_path(path).unwrap());
    assert_eq!((key(b"a/b/x/y"), key(b"top"), key(b"empty/place/z")), (b"x/y".into(), b"top".into(), b"z".into()));
    assert_eq!(snapshot.node(snapshot.find_path(b"a/b/x/y").unwrap()).unwrap().origin, 1);
}

#[test]
fn a_mount_without_objects_is_still_a_folder() {
    let snapshot = built(&["", "later"], vec![(0, file(b"f"))]);
    assert_eq!(paths(&snapshot), ["f", "later/"]);
}

#[test]
fn the_first_origin_keeps_a_path_that_two_claim() {
    type Keys<'a> = Vec<(u16, &'a [u8])>;
    // (which origin lists what, what is left)
    let cases: Vec<(Keys<'_>, Vec<&str>)> = vec![
        (vec![(0, b"p"), (1, b"p")], vec!["p"]),
        (vec![(1, b"p"), (0, b"p")], vec!["p"]),
        (vec![(0, b"p"), (1, b"p/q")], vec!["p"]),
        (vec![(1, b"p"), (0, b"p/q")], vec!["p/", "p/q"]),
        (vec![(1, b"p/q/r"), (0, b"p/q")], vec!["p/", "p/q"]),
    ];
    for (objects, wanted) in cases {
        let snapshot = built(&["", ""], objects.iter().map(|(origin, key)| (*origin, file(key))).collect());
        assert_eq!(paths(&snapshot), wanted, "{objects:?}");
        assert_eq!(counts(&snapshot), only(Rule::MountConflict), "{objects:?}");
        let last = snapshot.find_path(wanted[wanted.len() - 1].as_bytes()).unwrap();
        assert_eq!(snapshot.node(last).unwrap().origin, 0);
    }
}

#[test]
fn a_mount_place_is_always_a_folder() {
    let snapshot = built(&["", "a/b"], vec![(0, file(b"a")), (0, file(b"a/b")), (1, file(b"c"))]);
    assert_eq!(paths(&snapshot), ["a/", "a/b/", "a/b/c"]);
    assert_eq!(snapshot.rejections().counts.iter().map(|(_, count)| count).sum::<u64>(), 2);
}

#[test]
fn every_file_of_a_folder_that_lost_is_counted() {
    let mut objects = vec![(0, file(b"p"))];
    objects.extend((0..250).map(|number| (1, file(format!("p/{}/{number}", number % 9).as_bytes()))));
    let snapshot = built(&["", ""], objects);
    assert_eq!(counts(&snapshot), BTreeMap::from([(Rule::MountConflict.name().to_owned(), 250)]));
    assert_eq!((snapshot.rejections().samples.len(), paths(&snapshot)), (100, vec!["p".to_owned()]));
}

#[test]
fn links_keep_their_text_wherever_it_leads() {
    for target in ["../../../etc/passwd", "/absolute", "loop", "a/../b"] {
        let link = raw(b"loop", ObjectKind::Symlink(target.as_bytes().into()), 0);
        let snapshot = built(&[""], vec![(0, link)]);
        let index = snapshot.find_path(b"loop").unwrap();
        assert_eq!(snapshot.symlink_target(index).unwrap(), target.as_bytes());
        assert_eq!(snapshot.node(index).unwrap().size, target.len() as u64);
    }
}

#[test]
fn mounts_that_cannot_be_are_refused() {
    for mount in ["..", "a/../b", "a//b", "./a", "a\0b"] {
        let error = SnapshotBuilder::new(&[mount.to_owned()]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{mount:?}");
        assert!(error.hint().is_some());
    }
    assert_eq!(SnapshotBuilder::new(&[]).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(SnapshotBuilder::new(&vec![String::new(); 4097]).unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn too_many_entries_and_unknown_origins_are_errors_not_crashes() {
    let folder = temporary();
    let path = folder.path().join("snapshot");
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.limit_entries(100);
    (0..1000).for_each(|number| builder.add(0, file(format!("d/{number}").as_bytes())));
    let error = builder.finish(&path, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("100"));
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.add(1, file(b"a"));
    assert_eq!(builder.finish(&path, None).unwrap_err().kind(), ErrorKind::Unexpected);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    /// Keys made of what hurts, from two origins at odd places: whatever stays is a path of clean segments with exactly
    /// one entry, inside its mount, and what does not is counted.
    #[test]
    fn nothing_escapes_whatever_is_listed(
        keys in prop::collection::vec((0..3u16, "(\\.|\\.\\.|a|b|/|\0|é){0,7}", 0..3u8, 0..2u64), 0..40),
    ) {
        let listed = keys.len() as u64;
        let objects = keys.into_iter().map(|(origin, key, kind, size)| {
            let kind = [ObjectKind::File, ObjectKind::Directory, ObjectKind::Symlink(b".."[..].into())][usize::from(kind)].clone();
            (origin, raw(key.as_bytes(), kind, size))
        });
        let mounts = ["", "a", "b/a"];
        let snapshot = built(&mounts, objects.collect());
        let mut leaves = 0;
        snapshot.walk(NodeIndex::ROOT, &mut |index, name| {
            let path = snapshot.path(index);
            assert!(!name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && !name.contains(&b'/'));
            assert_eq!(snapshot.find_path(&path), Some(index));
            let node = snapshot.node(index).unwrap();
            if node.kind != NodeKind::Directory {
                leaves += 1;
                let mount = mounts[usize::from(node.origin)];
                let below = if mount.is_empty() { String::new() } else { format!("{mount}/") };
                assert_eq!([below.as_bytes(), &snapshot.origin_key(index)].concat(), path);
            }
            true
        });
        prop_assert_eq!(leaves, snapshot.files() + snapshot.symlinks());
        let rejected: u64 = snapshot.rejections().counts.iter().map(|(_, count)| count).sum();
        prop_assert!(leaves + rejected <= listed);
    }
}
