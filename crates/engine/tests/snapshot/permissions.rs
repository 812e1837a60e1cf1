//! Owners, groups and modes, as far as the origins know them.
#![allow(clippy::unwrap_used)]

use crate::support::temporary;
use headrace_engine::origin::{ListedObject, ObjectKind, Permissions};
use headrace_engine::snapshot::{ChangeKind, Difference, NodeIndex, Snapshot, SnapshotBuilder, difference_inodes};

const SCRIPT: Permissions = Permissions { mode: 0o755, uid: 1000, gid: 100 };
const PRIVATE: Permissions = Permissions { mode: 0o600, uid: 1001, gid: 100 };

fn listed(key: &str, kind: ObjectKind, permissions: Option<Permissions>) -> ListedObject {
    ListedObject { key: key.as_bytes().into(), kind, size: 3, mtime_ns: 5, etag: None, stamp: None, permissions }
}

fn built(mounts: &[&str], objects: Vec<(u16, ListedObject)>, previous: Option<&Snapshot>) -> (Snapshot, Difference) {
    let folder = temporary();
    let mounts: Vec<_> = mounts.iter().map(|mount| (*mount).to_owned()).collect();
    let mut builder = SnapshotBuilder::new(&mounts).unwrap();
    objects.into_iter().for_each(|(origin, object)| builder.add(origin, object));
    let path = folder.path().join("snapshot");
    let (_, difference) = builder.finish(&path, previous).unwrap();
    (Snapshot::open(&path).unwrap(), difference)
}

fn of(snapshot: &Snapshot, path: &str) -> Option<Permissions> {
    snapshot.node(snapshot.find_path(path.as_bytes()).unwrap()).unwrap().permissions
}

fn file(key: &str, permissions: Option<Permissions>) -> ListedObject {
    listed(key, ObjectKind::File, permissions)
}

#[test]
fn every_entry_keeps_what_its_origin_told() {
    let folder = Permissions { mode: 0o750, uid: 0, gid: 7 };
    let root = Permissions { mode: 0o700, uid: 5, gid: 6 };
    let objects = vec![
        (0, listed("", ObjectKind::Directory, Some(root))),
        (0, file("before", None)),
        (0, file("d/run.sh", Some(SCRIPT))),
        (0, listed("d", ObjectKind::Directory, Some(folder))),
        (0, file("d/private", Some(PRIVATE))),
        (0, file("implied/other", Some(SCRIPT))),
        (0, file("after", None)),
    ];
    let (snapshot, _) = built(&[""], objects, None);
    assert_eq!(snapshot.node(NodeIndex::ROOT).unwrap().permissions, Some(root));
    assert_eq!(of(&snapshot, "d"), Some(folder));
    assert_eq!(of(&snapshot, "d/run.sh"), Some(SCRIPT));
    assert_eq!(of(&snapshot, "d/private"), Some(PRIVATE));
    assert_eq!(of(&snapshot, "implied/other"), Some(SCRIPT));
    assert_eq!((of(&snapshot, "before"), of(&snapshot, "after"), of(&snapshot, "implied")), (None, None, None));
}

#[test]
fn rights_that_a_program_would_take_over_are_left_behind() {
    assert_eq!(Permissions::of(0o106_755, 0, 0).mode, 0o755);
}

#[test]
fn a_bucket_beside_a_folder_has_none() {
    let objects = vec![(0, file("a", Some(PRIVATE))), (1, file("a", None))];
    let (snapshot, _) = built(&["folder", "bucket"], objects, None);
    assert_eq!((of(&snapshot, "folder/a"), of(&snapshot, "bucket/a")), (Some(PRIVATE), None));
}

#[test]
fn the_first_of_the_origins_that_list_a_directory_decides() {
    for order in [[0, 1], [1, 0]] {
        let told = |origin: u16| Some(if origin == 0 { PRIVATE } else { SCRIPT });
        let objects =
            order.map(|origin| (origin, listed("d", ObjectKind::Directory, told(origin)))).into_iter().collect();
        assert_eq!(of(&built(&["", ""], objects, None).0, "d"), Some(PRIVATE), "{order:?}");
    }
}

#[test]
fn another_mode_is_told_to_caches_and_changes_no_content() {
    let (old, _) = built(&[""], vec![(0, file("a", Some(PRIVATE))), (0, file("b", Some(PRIVATE)))], None);
    let (new, difference) = built(&[""], vec![(0, file("a", Some(SCRIPT))), (0, file("b", Some(PRIVATE)))], Some(&old));
    assert_eq!((difference.unchanged, difference.changed), (2, 0));
    let mut changes = Vec::new();
    difference_inodes(&old, &new, &mut |change| changes.push((change.kind, change.name)));
    assert_eq!(changes, [(ChangeKind::Touched, b"a"[..].into())]);
    assert_eq!(of(&new, "a"), Some(SCRIPT));
}

#[test]
fn they_stay_when_inodes_are_carried_over() {
    let (old, _) = built(&[""], vec![(0, file("z", Some(PRIVATE)))], None);
    let objects = vec![(0, file("a", Some(SCRIPT))), (0, file("z", Some(PRIVATE)))];
    let (new, _) = built(&[""], objects, Some(&old));
    assert_ne!(new.inode(new.find_path(b"z").unwrap()), Some(u64::from(new.find_path(b"z").unwrap().0) + 1));
    assert_eq!((of(&new, "a"), of(&new, "z")), (Some(SCRIPT), Some(PRIVATE)));
}

#[test]
fn a_list_without_any_is_of_the_format_that_earlier_readers_know() {
    let format = |permissions| {
        let folder = temporary();
        let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
        builder.add(0, file("a", permissions));
        let path = folder.path().join("snapshot");
        builder.finish(&path, None).unwrap();
        let bytes = std::fs::read(path).unwrap();
        (bytes[8], bytes[44])
    };
    assert_eq!((format(None), format(Some(SCRIPT))), ((1, 7), (2, 9)));
}
