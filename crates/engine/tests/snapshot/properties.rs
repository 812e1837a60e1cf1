//! For any listing: what was built is what is read, absent names are absent, and a refresh changes what it should.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Entry, Listing, blend, build, listing, object, segment, temporary};
use headrace_engine::ids::Version;
use headrace_engine::origin::ObjectKind;
use headrace_engine::snapshot::{
    ChangeKind, Difference, NodeIndex, NodeKind, Snapshot, SnapshotBuilder, continue_line, difference_inodes,
};
use proptest::prelude::*;

/// Every file of a snapshot by its path, found by walking.
fn files_of(snapshot: &Snapshot) -> BTreeMap<Vec<u8>, NodeIndex> {
    let mut files = BTreeMap::new();
    snapshot.walk(NodeIndex::ROOT, &mut |index, name| {
        let path = snapshot.path(index);
        assert_eq!(path.rsplit(|&byte| byte == b'/').next(), Some(name));
        if snapshot.node(index).is_some_and(|node| node.kind != NodeKind::Directory) {
            files.insert(path, index);
        }
        true
    });
    files
}

fn directories_of(paths: &Listing) -> BTreeSet<Vec<u8>> {
    let parents = |path: &Vec<u8>| {
        let slashes = path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at).collect::<Vec<_>>();
        slashes.into_iter().map(|at| path[..at].to_vec()).collect::<Vec<_>>()
    };
    paths.keys().flat_map(parents).chain([Vec::new()]).collect()
}

fn check_entry(snapshot: &Snapshot, path: &[u8], entry: &Entry) {
    let index = snapshot.find_path(path).unwrap_or_else(|| panic!("{path:?} is missing"));
    let node = snapshot.node(index).unwrap();
    assert_eq!((node.mtime_ns, node.origin), (entry.mtime_ns, 0));
    assert_eq!(snapshot.path(index), path);
    assert_eq!(snapshot.origin_key(index), path);
    assert_eq!(snapshot.find_inode(node.inode), Some(index));
    let wanted_version = match &entry.etag {
        Some(etag) => Version::Etag(etag.clone().into()),
        None => Version::ModifiedNs(entry.mtime_ns),
    };
    match &entry.target {
        Some(target) => {
            assert_eq!(node.kind, NodeKind::Symlink);
            assert_eq!(snapshot.symlink_target(index).as_ref(), Some(target));
            assert_eq!(snapshot.file_version(index), None);
            assert_eq!(node.size, target.len() as u64);
        }
        None => {
            assert_eq!((node.kind, node.size), (NodeKind::File, entry.size));
            assert_eq!(snapshot.file_version(index), Some(wanted_version));
            assert_eq!(snapshot.symlink_target(index), None);
        }
    }
}

fn check_directory(snapshot: &Snapshot, path: &[u8], model: &Listing, directories: &BTreeSet<Vec<u8>>) {
    let index = snapshot.find_path(path).unwrap();
    let prefix = if path.is_empty() { Vec::new() } else { [path, b"/"].concat() };
    let direct = |full: &&Vec<u8>| {
        full.strip_prefix(prefix.as_slice()).is_some_and(|rest| !rest.is_empty() && !rest.contains(&b'/'))
    };
    let folders: BTreeSet<_> = directories.iter().filter(direct).map(|full| full[prefix.len()..].to_vec()).collect();
    let mut wanted: BTreeSet<_> = model.keys().filter(direct).map(|full| full[prefix.len()..].to_vec()).collect();
    wanted.extend(folders.iter().cloned());
    let node = snapshot.node(index).unwrap();
    assert_eq!((node.subdirectories as usize, node.children as usize), (folders.len(), wanted.len()));
    let wanted: Vec<_> = wanted.into_iter().collect();
    for skip in [0, 1, wanted.len() / 2, wanted.len(), wanted.len() + 7] {
        let mut names = Vec::new();
        snapshot.children(index, skip as u32, &mut |child, name| {
            assert_eq!(snapshot.lookup(index, name), Some(child));
            assert_eq!(snapshot.node(child).unwrap().parent, index);
            names.push(name.to_vec());
            true
        });
        assert_eq!(names, wanted[skip.min(wanted.len())..], "children of {path:?} from {skip}");
    }
}

fn model_difference(old: &Listing, new: &Listing) -> Difference {
    let mut difference = Difference::default();
    for (path, entry) in new {
        match old.get(path) {
            None => difference.added += 1,
            Some(before) if before.same_version(entry) => difference.unchanged += 1,
            Some(_) => difference.changed += 1,
        }
    }
    difference.removed = old.keys().filter(|path| !new.contains_key(*path)).count() as u64;
    difference
}

#[test]
fn another_size_of_the_only_file_is_another_identity() {
    let folder = temporary();
    let identities: BTreeSet<u64> = (0..40u64)
        .map(|size| {
            let entry = Entry { size, mtime_ns: 0, etag: None, target: None };
            let model = Listing::from([(b"img".to_vec(), entry)]);
            build(&model, &folder.path().join(format!("of-{size}")), None).0.identity()
        })
        .collect();
    assert_eq!(identities.len(), 40);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_was_built_is_what_is_read(model in listing()) {
        let folder = temporary();
        let path = folder.path().join("snapshot");
        let (built, difference) = build(&model, &path, None);
        prop_assert_eq!(difference, Difference { added: model.len() as u64, ..Difference::default() });
        for snapshot in [built, Snapshot::open(&path).unwrap()] {
            model.iter().for_each(|(path, entry)| check_entry(&snapshot, path, entry));
            prop_assert_eq!(files_of(&snapshot).len(), model.len());
            let directories = directories_of(&model);
            directories.iter().for_each(|path| check_directory(&snapshot, path, &model, &directories));
            prop_assert_eq!(snapshot.directories(), directories.len() as u64);
            prop_assert_eq!(snapshot.files() + snapshot.symlinks(), model.len() as u64);
            let bytes: u64 = model.values().filter(|entry| entry.target.is_none()).map(|entry| entry.size).sum();
            prop_assert_eq!(snapshot.total_bytes(), bytes);
            prop_assert!(snapshot.rejections().counts.is_empty());
        }
    }

    #[test]
    fn absent_names_are_absent(model in listing(), probe in segment()) {
        let folder = temporary();
        let (snapshot, _) = build(&model, &folder.path().join("snapshot"), None);
        let directories = directories_of(&model);
        for directory in &directories {
            let full = if directory.is_empty() { probe.clone() } else { [directory, &b"/"[..], &probe].concat() };
            let there = model.contains_key(&full) || directories.contains(&full);
            let index = snapshot.find_path(directory).unwrap();
            prop_assert_eq!(snapshot.lookup(index, &probe).is_some(), there);
            prop_assert_eq!(snapshot.lookup(index, b""), None);
            prop_assert_eq!(snapshot.lookup(index, b".."), None);
        }
    }

    #[test]
    fn a_refresh_changes_inodes_exactly_where_versions_changed(
        first in listing(), second in listing(), kept in any::<u64>(), third in listing()
    ) {
        let second = blend(&first, &second, kept);
        let third = blend(&second, &third, kept.rotate_left(17));
        let folder = temporary();
        let path = folder.path().join("snapshot");
        let (one, _) = build(&first, &path, None);
        let (two, difference) = build(&second, &path, Some(&one));
        prop_assert_eq!(difference, model_difference(&first, &second));
        prop_assert_eq!(Difference::between(&one, &two), difference);
        check_refresh(&one, &first, &two, &second);
        let (three, difference) = build(&third, &path, Some(&two));
        prop_assert_eq!(difference, model_difference(&second, &third));
        check_refresh(&two, &second, &three, &third);
        prop_assert_eq!((one.version(), two.version(), three.version()), (1, 2, 3));
        third.iter().for_each(|(path, entry)| check_entry(&three, path, entry));
    }

    #[test]
    fn a_snapshot_that_was_numbered_anew_goes_on_with_the_numbers_of_another(
        first in listing(), second in listing(), kept in any::<u64>()
    ) {
        let second = blend(&first, &second, kept);
        let folder = temporary();
        let (path, later) = (folder.path().join("first"), folder.path().join("second"));
        let (one, _) = build(&first, &path, None);
        let (anew, _) = build(&second, &later, None);
        prop_assert_eq!((one.version(), anew.version()), (1, 1));
        let is_same = || std::fs::read(&path).unwrap() == std::fs::read(&later).unwrap();
        prop_assert_eq!(one.identity() == anew.identity(), is_same());
        prop_assert_eq!(continue_line(&path, &later).unwrap(), model_difference(&first, &second));
        let two = Snapshot::open(&later).unwrap();
        check_refresh(&one, &first, &two, &second);
        second.iter().for_each(|(path, entry)| check_entry(&two, path, entry));
        prop_assert_eq!(one.identity() == two.identity(), is_same());
    }
}

fn check_refresh(old: &Snapshot, before: &Listing, new: &Snapshot, after: &Listing) {
    let mut seen = BTreeSet::new();
    new.walk(NodeIndex::ROOT, &mut |index, _| {
        let inode = new.node(index).unwrap().inode;
        assert!(seen.insert(inode), "inode {inode} twice");
        assert_eq!(new.find_inode(inode), Some(index));
        true
    });
    assert!(seen.iter().all(|inode| *inode < new.next_inode() && *inode != 1));
    assert_eq!(new.find_inode(1), Some(NodeIndex::ROOT));
    assert_eq!(new.find_inode(new.next_inode()), None);
    for path in after.keys() {
        let inode = new.node(new.find_path(path).unwrap()).unwrap().inode;
        match before.get(path).filter(|entry| entry.same_version(&after[path])) {
            Some(_) => assert_eq!(old.node(old.find_path(path).unwrap()).unwrap().inode, inode),
            None => assert!(inode >= old.next_inode(), "{path:?} has a used inode"),
        }
    }
    for path in directories_of(after).intersection(&directories_of(before)) {
        let inode_in = |snapshot: &Snapshot| snapshot.node(snapshot.find_path(path).unwrap()).unwrap().inode;
        assert_eq!(inode_in(old), inode_in(new));
    }
    check_changes(old, new);
}

type Remembered = BTreeMap<(u64, Vec<u8>), (u64, i64, u64, u32)>;

/// What a kernel that looked at everything would remember.
fn remember(snapshot: &Snapshot) -> Remembered {
    let mut names = BTreeMap::new();
    snapshot.walk(NodeIndex::ROOT, &mut |index, name| {
        let node = snapshot.node(index).unwrap();
        let parent = snapshot.node(node.parent).unwrap().inode;
        names.insert((parent, name.to_vec()), (node.inode, node.mtime_ns, node.size, node.subdirectories));
        true
    });
    names
}

/// A cache that forgets what it is told to forget is right afterwards.
fn check_changes(old: &Snapshot, new: &Snapshot) {
    let (before, after) = (remember(old), remember(new));
    let mut remembered = before.clone();
    difference_inodes(old, new, &mut |change| {
        let key = (change.parent_inode, change.name.to_vec());
        assert_eq!(before.get(&key).map(|found| found.0), change.old_inode, "{change:?}");
        assert_eq!(change.kind == ChangeKind::Added, change.old_inode.is_none());
        assert_eq!(after.contains_key(&key), change.kind != ChangeKind::Removed, "{change:?}");
        assert_ne!(before.get(&key), after.get(&key).filter(|_| change.kind != ChangeKind::Touched));
        remembered.remove(&key);
    });
    for (key, value) in &remembered {
        assert_eq!(after.get(key), Some(value), "{key:?} was not told");
    }
}

#[test]
fn an_empty_dataset_is_an_empty_directory() {
    let folder = temporary();
    let (snapshot, _) = build(&Listing::new(), &folder.path().join("snapshot"), None);
    assert_eq!((snapshot.files(), snapshot.directories(), snapshot.nodes()), (0, 1, 1));
    assert_eq!(snapshot.node(NodeIndex::ROOT).unwrap().inode, 1);
    snapshot.children(NodeIndex::ROOT, 0, &mut |_, _| panic!("a child of nothing"));
}

#[test]
fn a_listing_in_any_order_gives_the_same_file() {
    let folder = temporary();
    let mut objects: Vec<_> =
        (0..500).map(|number| object(&format!("d{}/f{number}", number % 7), ObjectKind::File, number)).collect();
    let mut bytes = Vec::new();
    for name in ["one", "two"] {
        let path = folder.path().join(name);
        let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
        objects.iter().cloned().for_each(|object| builder.add(0, object));
        builder.finish(&path, None).unwrap();
        bytes.push(std::fs::read(&path).unwrap());
        objects.reverse();
    }
    assert!(bytes[0] == bytes[1]);
}
