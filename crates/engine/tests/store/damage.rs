//! Bit flips in every region of what lies on the disk: the folder opens, and nothing wrong comes out of it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use headrace_engine::store::Blocks;

use crate::support::*;

/// A closed cache folder with three files, one of them in part.
fn prepared() -> (tempfile::TempDir, Vec<std::sync::Arc<headrace_engine::ids::FileKey>>) {
    let place = tempfile::tempdir().unwrap();
    let files = vec![key("one", 20_000), key("two", 100_000), key("part", 200_000)];
    let store = open_one(place.path(), 10 << 20);
    files[..2].iter().for_each(|file| drop(put_all(&store, file)));
    store.put(&files[2], 1, &content(&files[2], 1));
    store.close().unwrap();
    (place, files)
}

/// How many of the four blocks come back; fails on a wrong one.
fn survivors(folder: &Path, files: &[std::sync::Arc<headrace_engine::ids::FileKey>]) -> usize {
    let store = open_one(folder, 10 << 20);
    let blocks = [(0, 0), (1, 0), (1, 1), (2, 1)];
    let count = blocks.iter().filter(|(file, index)| {
        let found = read(&store, &files[*file], *index);
        assert!(found.is_none() || found == Some(bytes(&files[*file], *index)));
        found.is_some()
    });
    let count = count.count();
    files.iter().for_each(|file| drop(put_all(&store, file)));
    let all = files.iter().all(|file| store.whole_file(&file.id(), file.size).is_some());
    assert!(all, "the folder is as good as new afterwards");
    count
}

fn with_flip(original: &Path, file: &Path, offset: u64) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    copy_tree(original, copy.path());
    assert!(flip_byte(&copy.path().join(file), offset));
    copy
}

#[test]
fn undamaged_folder_keeps_all() {
    let (place, files) = prepared();
    assert_eq!(survivors(place.path(), &files), 4);
}

/// Costs seconds: each byte of the log is damaged once, in a copy of the folder.
#[test]
fn every_byte_of_the_log_may_be_damaged() {
    let (place, files) = prepared();
    let length = std::fs::metadata(place.path().join("index.log")).unwrap().len();
    let mut counts = Vec::new();
    for offset in 0..length {
        let copy = with_flip(place.path(), Path::new("index.log"), offset);
        counts.push(survivors(copy.path(), &files));
    }
    assert!(counts[..32].iter().all(|count| *count == 0), "a damaged header discards the folder");
    assert!(counts.windows(2).all(|pair| pair[0] <= pair[1]), "damage costs only what comes after it: {counts:?}");
    assert_eq!(counts.last(), Some(&4), "the closing mark is worth no block");
}

#[test]
fn every_cut_of_the_log_may_happen() {
    let (place, files) = prepared();
    let length = std::fs::metadata(place.path().join("index.log")).unwrap().len();
    for kept in 0..=length {
        let copy = tempfile::tempdir().unwrap();
        copy_tree(place.path(), copy.path());
        std::fs::File::options().write(true).open(copy.path().join("index.log")).unwrap().set_len(kept).unwrap();
        survivors(copy.path(), &files);
    }
}

#[test]
fn damage_in_a_data_file_costs_that_block_only() {
    let (place, files) = prepared();
    for path in data_files(place.path()) {
        let relative: PathBuf = path.strip_prefix(place.path()).unwrap().into();
        let length = std::fs::metadata(&path).unwrap().len();
        for offset in (0..length).step_by(4999).chain([length - 1]) {
            let copy = with_flip(place.path(), &relative, offset);
            let hole = length > 130_000 || length == 131_072;
            let expected = if hole && offset < BLOCK { 4 } else { 3 };
            assert_eq!(survivors(copy.path(), &files), expected, "{relative:?} at {offset}");
        }
    }
}

#[test]
fn files_swapped_or_replaced_are_noticed() {
    let (place, files) = prepared();
    let paths = data_files(place.path());
    std::fs::copy(&paths[0], &paths[1]).unwrap();
    assert!(survivors(place.path(), &files) <= 3);
}

#[test]
fn random_bytes_behind_the_header_are_cut_off() {
    let (place, files) = prepared();
    let log = place.path().join("index.log");
    let mut bytes = std::fs::read(&log).unwrap();
    bytes.extend((0..5000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8));
    std::fs::write(&log, bytes).unwrap();
    assert_eq!(survivors(place.path(), &files), 4);
}

#[test]
fn who_listens_hears_of_what_is_dropped_as_wrong_and_of_nothing_else() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 10 << 20);
    let (rotten, refused, evicted) = (key("rotten", 200_000), key("refused", 1000), key("evicted", 1000));
    [&rotten, &refused, &evicted].into_iter().for_each(|file| drop(put_all(&store, file)));
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    store.on_wrong_content(Arc::new(move |file| hears.lock().unwrap().push((file.id, file.size))));
    assert!(store.evict(&evicted.id()) > 0 && store.verify(&rotten.id()) == (4, 0));
    assert!(told.lock().unwrap().is_empty());
    let damaged = data_files(place.path()).into_iter().find(|path| path.ends_with(rotten.id().to_string())).unwrap();
    assert!(flip_byte(&damaged, 100));
    assert_eq!(store.verify(&rotten.id()), (3, 1));
    store.discard(&refused.id());
    assert_eq!(*told.lock().unwrap(), [&rotten, &refused].map(|file| (file.id(), file.size)));
}
