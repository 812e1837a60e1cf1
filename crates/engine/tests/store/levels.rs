//! Several folders and levels: placement, demotion, promotion, epochs, water marks, compaction of logs.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::FileKey;
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{Put, Store};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Fields are dropped in order: the store before its folders.
struct Levels {
    store: Arc<Store>,
    paths: Vec<PathBuf>,
    metrics: Metrics,
    _place: tempfile::TempDir,
}

/// One folder a level.
fn levels(quotas: &[u64], policy: EvictionPolicy) -> Levels {
    let place = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..quotas.len()).map(|number| place.path().join(number.to_string())).collect();
    let metrics = Metrics::new();
    let levels = paths.iter().zip(quotas).map(|(path, quota)| level(&[(path, *quota)])).collect();
    let store = patient(Store::open(config(levels, policy), budgets(200), metrics.clone()).unwrap());
    Levels { store, paths, metrics, _place: place }
}

fn files(prefix: &str, count: u64, size: u64) -> Vec<Arc<FileKey>> {
    (0..count).map(|number| key(&format!("{prefix}/{number}"), size)).collect()
}

/// Reads each file once as a training job would: from the store, else fetched and offered. The share of hits.
fn epoch(store: &Store, files: &[Arc<FileKey>], shuffle: Option<u64>) -> f64 {
    let mut order: Vec<_> = files.iter().collect();
    if let Some(seed) = shuffle {
        order.sort_by_key(|file| file.id().0.map(|byte| byte.wrapping_mul(seed as u8 | 1).rotate_left(3) ^ seed as u8));
    }
    let hit = |file: &&&Arc<FileKey>| {
        let found = read(store, file, 0);
        assert!(found.is_none() || found == Some(bytes(file, 0)));
        if found.is_none() {
            store.put(file, 0, &content(file, 0));
        }
        found.is_some()
    };
    order.iter().filter(hit).count() as f64 / files.len() as f64
}

#[test]
fn cache_of_half_the_data_hits_half_of_each_epoch() {
    for shuffled in [false, true] {
        let files = files("epoch", 400, 8 * KIB);
        let levels = levels(&[200 * 8 * KIB], EvictionPolicy::ScanResistant);
        let ratios: Vec<f64> = (0..5).map(|seed| epoch(&levels.store, &files, shuffled.then_some(seed))).collect();
        assert!(ratios[1..].iter().all(|ratio| *ratio >= 0.49), "shuffled {shuffled}: {ratios:?}");
    }
}

#[test]
fn two_levels_together_hit_as_much_as_they_hold() {
    let files = files("epoch", 400, 8 * KIB);
    let levels = levels(&[50 * 8 * KIB, 150 * 8 * KIB], EvictionPolicy::ScanResistant);
    let ratios: Vec<f64> = (0..5).map(|seed| epoch(&levels.store, &files, Some(seed))).collect();
    assert!(ratios[1..].iter().all(|ratio| *ratio >= 0.49), "{ratios:?}");
    assert_eq!(levels.metrics.store_evicted_blocks.get(), 0);
}

#[test]
fn another_dataset_takes_over_after_two_epochs() {
    let levels = levels(&[200 * 8 * KIB], EvictionPolicy::ScanResistant);
    let (old, new) = (files("old", 400, 8 * KIB), files("new", 400, 8 * KIB));
    (0..4).for_each(|seed| drop(vec![epoch(&levels.store, &old, Some(seed))]));
    let ratios: Vec<f64> = (4..9).map(|seed| epoch(&levels.store, &new, Some(seed))).collect();
    assert!(ratios[2] >= 0.35 && ratios[4] >= 0.47, "{ratios:?}");
}

#[test]
fn full_cache_declines_and_keeps_what_it_has() {
    let levels = levels(&[MIB], EvictionPolicy::ScanResistant);
    let first = files("first", 16, 64 * KIB);
    first.iter().for_each(|file| drop(put_all(&levels.store, file)));
    for file in files("scan", 100, 64 * KIB) {
        assert_eq!(levels.store.put(&file, 0, &content(&file, 0)), Put::Declined("no-room"));
    }
    assert!(first.iter().all(|file| read(&levels.store, file, 0).is_some()));
    let text = levels.metrics.encode();
    assert!(text.contains("store_declined_blocks_total{reason=\"no-room\"} 100"), "{text}");
}

#[test]
fn last_room_goes_to_one_file_not_to_halves_of_many() {
    let levels = levels(&[10 * 64 * KIB], EvictionPolicy::ScanResistant);
    let wide = files("wide", 4, 4 * 64 * KIB);
    for index in 0..4 {
        wide.iter().for_each(|file| drop(vec![levels.store.put(file, index, &content(file, index))]));
    }
    let here = || -> Vec<u64> { wide.iter().map(|file| levels.store.cached_bytes(&file.id()) / (64 * KIB)).collect() };
    assert_eq!(here(), [4, 4, 2, 0], "read side by side");
    levels.store.evict_where(|_| true);
    wide.iter().for_each(|file| drop(put_all(&levels.store, file)));
    assert_eq!(here(), [4, 4, 2, 0], "read one after the other");
}

#[test]
fn lru_keeps_its_water_marks() {
    let levels = levels(&[4 * MIB], EvictionPolicy::Lru);
    files("lru", 300, 40 * KIB).iter().for_each(|file| drop(put_all(&levels.store, file)));
    let high = (4.0 * MIB as f64 * 0.98) as u64;
    eventually("used bytes below the high mark", || levels.store.usage()[0].used_bytes <= high);
    assert!(levels.store.usage()[0].used_bytes > 3 * MIB);
    assert!(levels.metrics.store_evicted_blocks.get() >= 190);
}

#[test]
fn victims_of_a_fast_level_are_demoted() {
    let levels = levels(&[MIB, 8 * MIB], EvictionPolicy::Lru);
    let files = files("demoted", 60, 60 * KIB);
    for file in &files {
        put_all(&levels.store, file);
        std::thread::sleep(Duration::from_millis(2));
    }
    eventually("demotion", || levels.metrics.store_demoted_blocks.get() > 0);
    assert!(files.iter().all(|file| read(&levels.store, file, 0) == Some(bytes(file, 0))), "nothing was lost");
    assert!(levels.store.usage()[1].blocks > 0);
}

#[test]
fn blocks_used_again_rise_with_their_whole_file() {
    let levels = levels(&[2 * MIB, 8 * MIB], EvictionPolicy::ScanResistant);
    let fill = files("fill", 32, 64 * KIB);
    fill.iter().for_each(|file| drop(put_all(&levels.store, file)));
    let low = files("low", 4, 150 * KIB);
    low.iter().for_each(|file| drop(put_all(&levels.store, file)));
    assert_eq!(levels.store.usage()[1].blocks, 12);
    fill.iter().for_each(|file| drop(vec![levels.store.evict(&file.id())]));
    eventually("promotion of the whole file", || {
        // Uses of other blocks in between make the next one a new use.
        low.iter().for_each(|file| drop(vec![read(&levels.store, file, 1)]));
        levels.store.usage()[0].blocks == 12
    });
    eventually("no block in two places", || levels.store.usage()[1].blocks == 0);
    assert!(levels.metrics.store_promoted_blocks.get() >= 12);
    assert_eq!(data_files(&levels.paths[1]).len(), 0);
    for file in &low {
        assert!(levels.store.whole_file(&file.id(), file.size).is_some());
        (0..3).for_each(|index| assert_eq!(read(&levels.store, file, index), Some(bytes(file, index))));
    }
}

#[test]
fn files_opened_again_as_a_whole_rise_and_others_give_way() {
    let levels = levels(&[2 * MIB, 8 * MIB], EvictionPolicy::Lru);
    let fill = files("fill", 15, 128 * KIB);
    fill.iter().for_each(|file| drop(put_all(&levels.store, file)));
    let low = key("low", MIB);
    put_all(&levels.store, &low);
    let lies_low = || !data_files(&levels.paths[1]).is_empty();
    assert!(lies_low() && levels.store.usage()[0].used_bytes == 15 * 128 * KIB);
    eventually("promotion", || {
        // As a mount opens it: nothing of it is read here.
        let whole = levels.store.whole_file(&low.id(), low.size).expect("all of it is here");
        assert_eq!(whole.file.metadata().unwrap().len(), low.size);
        drop(whole);
        // Uses of something else in between make the next one a new use.
        for other in files("other", 4, 4 * KIB) {
            put_all(&levels.store, &other);
            levels.store.evict(&other.id());
        }
        levels.metrics.store_promoted_blocks.get() >= MIB / BLOCK
    });
    assert!(levels.store.whole_file(&low.id(), low.size).is_some());
    assert!(fill.iter().all(|file| read(&levels.store, file, 0) == Some(bytes(file, 0))), "nothing was lost");
    let room = levels.store.usage()[0].quota_bytes;
    eventually("no more than there is room for", || levels.store.usage()[0].used_bytes <= room);
}

#[test]
fn folders_of_one_level_share_the_load_by_whole_files() {
    let place = tempfile::tempdir().unwrap();
    let paths = [place.path().join("a"), place.path().join("b")];
    let folders: Vec<(&Path, u64)> = paths.iter().map(|path| (path.as_path(), 4 * MIB)).collect();
    let store =
        patient(Store::open(config(vec![level(&folders)], EvictionPolicy::Lru), budgets(100), Metrics::new()).unwrap());
    let files = files("spread", 12, 200 * KIB);
    files.iter().for_each(|file| drop(put_all(&store, file)));
    assert!(files.iter().all(|file| store.whole_file(&file.id(), file.size).is_some()));
    assert!(paths.iter().all(|path| data_files(path).len() >= 4), "both folders are used");
}

/// Costs about a second: a log must outgrow a megabyte before it is written anew.
#[test]
fn log_is_compacted_and_still_true() {
    let place = tempfile::tempdir().unwrap();
    let store = open_one(place.path(), 16 * MIB);
    let kept = files("kept", 20, 100);
    kept.iter().for_each(|file| drop(put_all(&store, file)));
    let log = place.path().join("index.log");
    let mut longest = 0;
    eventually("a shorter log", || {
        for file in files("passing", 600, 50) {
            put_all(&store, &file);
            store.evict(&file.id());
        }
        let length = std::fs::metadata(&log).unwrap().len();
        longest = longest.max(length);
        length < longest
    });
    let mut names = Vec::new();
    store.files(|file| names.push(file.key.path));
    assert_eq!(names.len(), 20);
    put_all(&store, &key("after", 100));
    drop(store);
    let store = open_one(place.path(), 16 * MIB);
    assert!(kept.iter().all(|file| read(&store, file, 0) == Some(bytes(file, 0))));
    assert!(read(&store, &key("after", 100), 0).is_some());
}

/// Costs a second: more than 64 MiB must be written and verified.
#[test]
fn large_file_becomes_whole_in_the_background_after_a_restart() {
    let place = tempfile::tempdir().unwrap();
    let file = key("large", 70 * MIB);
    put_all(&open_one(place.path(), 100 * MIB), &file);
    let store = open_one(place.path(), 100 * MIB);
    assert!(store.whole_file(&file.id(), file.size).is_none(), "an open does not wait for so much");
    eventually("verified whole", || store.whole_file(&file.id(), file.size).is_some());
}
