//! What was compared with the origin is known to the next process, as long as nothing of it went.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{Blocks, Proof, Store};

const QUOTA: u64 = 16 << 20;

fn open(folders: &[&Path]) -> Arc<Store> {
    let folders: Vec<_> = folders.iter().map(|path| (*path, QUOTA)).collect();
    patient(Store::open(config(vec![level(&folders)], EvictionPolicy::Lru), budgets(200), Metrics::new()).unwrap())
}

/// A file that is here and compared.
fn compared(store: &Store, name: &str, blocks: u64, proof: Proof) -> Arc<FileKey> {
    let key = key(name, blocks * BLOCK - 7);
    put_all(store, &key);
    store.note_proof(&key.id(), proof);
    key
}

#[test]
fn the_next_process_knows_what_was_compared() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&[place.path()]);
    let large = compared(&store, "large", 3, Proof::Proven);
    let unsummed = compared(&store, "small", 1, Proof::NoChecksum);
    let unknown = key("unknown", BLOCK);
    put_all(&store, &unknown);
    store.close().unwrap();
    drop(store);
    let store = open(&[place.path()]);
    assert_eq!(store.proof(&large.id()), Some(Proof::Proven));
    assert_eq!(store.proof(&unsummed.id()), Some(Proof::NoChecksum));
    assert_eq!(store.proof(&unknown.id()), None);
}

#[test]
fn a_process_that_was_killed_leaves_what_it_knew() {
    let place = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let store = open(&[place.path()]);
    let large = compared(&store, "large", 3, Proof::Proven);
    copy_tree(place.path(), copy.path());
    let after = open(&[copy.path()]);
    assert_eq!(after.proof(&large.id()), Some(Proof::Proven));
}

#[test]
fn what_came_again_is_not_taken_for_what_was_compared() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&[place.path()]);
    let again = compared(&store, "again", 3, Proof::Proven);
    let gone = compared(&store, "gone", 1, Proof::Proven);
    assert!(store.evict(&again.id()) > 0 && store.evict(&gone.id()) > 0);
    put_all(&store, &again);
    store.close().unwrap();
    drop(store);
    let store = open(&[place.path()]);
    assert!(store.is_whole(&again.id(), again.size));
    assert_eq!((store.proof(&again.id()), store.proof(&gone.id())), (None, None));
}

#[test]
fn a_lost_folder_takes_what_was_known_of_its_files_along() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [first, second] = [places[0].path(), places[1].path()];
    let store = open(&[first, second]);
    let files: Vec<_> = (0..8).map(|number| compared(&store, &number.to_string(), 2, Proof::Proven)).collect();
    store.close().unwrap();
    drop(store);
    let store = open(&[first]);
    for file in files {
        let whole = store.is_whole(&file.id(), file.size);
        assert_eq!(store.proof(&file.id()), whole.then_some(Proof::Proven), "{file:?}");
    }
}

#[test]
fn what_moves_to_another_level_stays_compared() {
    let place = tempfile::tempdir().unwrap();
    let paths = [place.path().join("fast"), place.path().join("slow")];
    let metrics = Metrics::new();
    let open = || {
        let levels = vec![level(&[(&paths[0], 1 << 20)]), level(&[(&paths[1], QUOTA)])];
        patient(Store::open(config(levels, EvictionPolicy::Lru), budgets(200), metrics.clone()).unwrap())
    };
    let store = open();
    let files: Vec<_> = (0..60).map(|number| compared(&store, &number.to_string(), 1, Proof::Proven)).collect();
    eventually("demotion", || metrics.store_demoted_blocks.get() > 0);
    store.close().unwrap();
    drop(store);
    let store = open();
    for file in files {
        assert!(store.is_whole(&file.id(), file.size));
        assert_eq!(store.proof(&file.id()), Some(Proof::Proven), "{file:?}");
    }
}

/// Costs about a second: a log must outgrow a megabyte before it is written anew.
#[test]
fn a_log_that_is_written_anew_keeps_what_was_compared() {
    let place = tempfile::tempdir().unwrap();
    let store = open(&[place.path()]);
    let kept = compared(&store, "kept", 3, Proof::Proven);
    let log = place.path().join("index.log");
    let mut longest = 0;
    eventually("a shorter log", || {
        for number in 0..600 {
            let passing = key(&format!("passing/{number}"), 50);
            put_all(&store, &passing);
            store.note_proof(&passing.id(), Proof::NoChecksum);
            store.evict(&passing.id());
        }
        let length = std::fs::metadata(&log).unwrap().len();
        longest = longest.max(length);
        length < longest
    });
    store.close().unwrap();
    drop(store);
    assert_eq!(open(&[place.path()]).proof(&kept.id()), Some(Proof::Proven));
}
