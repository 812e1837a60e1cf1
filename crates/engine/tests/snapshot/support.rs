//! Listings for the snapshot's tests: a model (paths in a map), strategies that make one, and how it is built.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use headrace_engine::origin::{ListedObject, ObjectKind};
use headrace_engine::snapshot::{Difference, Snapshot, SnapshotBuilder};
use proptest::prelude::*;

/// What the model knows of one file or link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub size: u64,
    pub mtime_ns: i64,
    pub etag: Option<Vec<u8>>,
    pub target: Option<Vec<u8>>,
}

impl Entry {
    /// Whether a refresh must leave the inode alone.
    pub fn same_version(&self, other: &Entry) -> bool {
        match (&self.target, &other.target) {
            (Some(left), Some(right)) => left == right && self.mtime_ns == other.mtime_ns,
            (None, None) if self.etag.is_none() => {
                other.etag.is_none() && self.mtime_ns == other.mtime_ns && self.size == other.size
            }
            (None, None) => self.etag == other.etag && self.size == other.size,
            _ => false,
        }
    }
}

pub type Listing = BTreeMap<Vec<u8>, Entry>;

pub fn temporary() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

pub fn object(key: &str, kind: ObjectKind, number: u64) -> ListedObject {
    let etag = Some(format!("{number:032x}").into_bytes().into());
    let (mtime_ns, permissions) = (number as i64, None);
    ListedObject { key: key.as_bytes().into(), kind, size: number, mtime_ns, etag, stamp: None, permissions }
}

/// Builds the model's snapshot, its names given as a local folder gives them.
pub fn build(model: &Listing, path: &Path, previous: Option<&Snapshot>) -> (Snapshot, Difference) {
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.accept_any_bytes(0);
    for (key, entry) in model {
        let kind = entry.target.as_ref().map_or(ObjectKind::File, |target| ObjectKind::Symlink(target.clone().into()));
        let etag = entry.etag.clone().map(Into::into);
        let Entry { size, mtime_ns, .. } = *entry;
        let object =
            ListedObject { key: key.clone().into(), kind, size, mtime_ns, etag, stamp: None, permissions: None };
        builder.add(0, object);
    }
    builder.finish(path, previous).unwrap()
}

/// A name: often alike, sometimes any bytes, sometimes as long as names get.
pub fn segment() -> impl Strategy<Value = Vec<u8>> {
    let alike = "(img|a|ab|abc|b)_?[0-9]{0,3}".prop_map(String::into_bytes);
    let wild = prop::collection::vec(any::<u8>(), 1..12);
    let long = (1..256usize, any::<u8>()).prop_map(|(length, byte)| vec![byte; length]);
    prop_oneof![8 => alike, 2 => wild, 1 => long].prop_map(|mut name| {
        name.iter_mut().filter(|byte| matches!(**byte, 0 | b'/')).for_each(|byte| *byte = b'_');
        if name == b"." || name == b".." { b"dots".to_vec() } else { name }
    })
}

fn entry() -> impl Strategy<Value = Entry> {
    let etag = prop_oneof![
        Just(None),
        (0..5u8).prop_map(|digit| Some(format!("{digit:032x}").into_bytes())),
        (1..4u8).prop_map(|parts| Some(format!("{:032X}-{parts}", 0xabcdu32).into_bytes())),
        "[a-z0-9\"-]{0,40}".prop_map(|text| Some(text.into_bytes())),
    ];
    let target = prop_oneof![9 => Just(None), 1 => "[a-z./]{1,30}".prop_map(|text| Some(text.into_bytes()))];
    (0..4u64, -2..3i64, etag, target).prop_map(|(size, mtime_ns, etag, target)| Entry { size, mtime_ns, etag, target })
}

/// Up to 120 files in a tree, none of them also a folder.
pub fn listing() -> impl Strategy<Value = Listing> {
    let path = prop::collection::vec(segment(), 1..5).prop_map(|segments| segments.join(&b'/'));
    prop::collection::btree_map(path, entry(), 0..120).prop_map(without_conflicts)
}

fn without_conflicts(mut model: Listing) -> Listing {
    let is_folder = |path: &Vec<u8>| {
        let prefix = [path, &b"/"[..]].concat();
        model.range(prefix.clone()..).next().is_some_and(|(next, _)| next.starts_with(&prefix))
    };
    let folders: Vec<_> = model.keys().filter(|path| is_folder(path)).cloned().collect();
    folders.iter().for_each(|path| drop(model.remove(path)));
    model
}

/// Takes about half of `first` (chosen by `kept`) unchanged, some of it changed, and the rest from `second`.
pub fn blend(first: &Listing, second: &Listing, kept: u64) -> Listing {
    let mut blended = second.clone();
    for (at, (path, entry)) in first.iter().enumerate() {
        match kept.rotate_right(at as u32) & 7 {
            0..=3 => drop(blended.insert(path.clone(), entry.clone())),
            4 => drop(blended.insert(path.clone(), Entry { size: entry.size + 1, ..entry.clone() })),
            5 => drop(blended.insert(path.clone(), Entry { mtime_ns: entry.mtime_ns + 1, ..entry.clone() })),
            _ => {}
        }
    }
    without_conflicts(blended)
}
