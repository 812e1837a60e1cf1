//! How much of a dataset is in the cache is told without a look at each of its files.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use headrace_engine::config::EngineConfig;
use headrace_engine::engine::Owner;
use serde_json::json;

use crate::counting::{ALONE, asked_bytes};
use crate::names::{FILES, freeze};

/// The words of a status. A look at each file asked for some hundred bytes each.
const MOST_BYTES: u64 = 256 << 10;
const NAMES: [&str; 2] = ["folder-000/sample-00000000.jpeg", "folder-000/sample-00000001.jpeg"];

#[test]
fn status_takes_no_look_at_each_file() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (state, origin, cache) = (place("state"), place("origin"), place("cache"));
    let first = freeze(&state.join("snapshot-1.hrs"), 1, None);
    NAMES.iter().for_each(|name| write(&origin.join(name)));
    let owner = Owner::open(config(&state, &origin, &cache)).unwrap();
    let (asked, status) = asked_bytes(|| owner.status());
    assert_eq!((status.cached_files, status.cached_bytes), (0, 0));
    assert!(asked < MOST_BYTES, "{asked} bytes for {FILES} files, of which none is here");
    for (number, name) in NAMES.iter().enumerate() {
        warm(&owner, name);
        let (asked, status) = asked_bytes(|| owner.status());
        let files = number as u64 + 1;
        assert_eq!((status.cached_files, status.cached_bytes), (files, 1000 * files));
        assert!(asked < MOST_BYTES, "{asked} bytes for {FILES} files after one came");
    }
    owner.evict(&[NAMES[0]]).unwrap();
    assert_eq!(owner.status().cached_files, 1);

    drop(freeze(&state.join("snapshot-2.hrs"), 2, Some(&first)));
    owner.adopt_snapshot().unwrap();
    let status = owner.status();
    assert_eq!((status.cached_files, status.cached_bytes), (0, 0), "all have changed");
    owner.close().unwrap();
}

#[test]
fn what_an_earlier_process_cached_is_counted_once() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    };
    let (state, origin, cache) = (place("state"), place("origin"), place("cache"));
    drop(freeze(&state.join("snapshot-1.hrs"), 1, None));
    NAMES.iter().for_each(|name| write(&origin.join(name)));
    let owner = Owner::open(config(&state, &origin, &cache)).unwrap();
    warm(&owner, NAMES[0]);
    owner.close().unwrap();
    drop(owner);

    let owner = Owner::open(config(&state, &origin, &cache)).unwrap();
    assert_eq!(owner.status().cached_files, 1);
    let (asked, status) = asked_bytes(|| owner.status());
    assert_eq!((status.cached_files, status.proofs.unsummed_bytes + status.proofs.uncompared_bytes), (1, 1000));
    assert!(asked < MOST_BYTES, "{asked} bytes for {FILES} files");
    owner.close().unwrap();
}

fn warm(owner: &Arc<Owner>, name: &str) {
    let (_, job) = owner.warm(&[name]).unwrap();
    assert!(job.wait(Duration::from_secs(60)));
}

/// As the snapshot has it.
fn write(path: &Path) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, [7; 1000]).unwrap();
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(1)).unwrap();
}

fn config(state: &Path, origin: &Path, cache: &Path) -> EngineConfig {
    let text = json!({
        "name": "scale",
        "origins": [{"path": "", "origin": {"kind": "local", "directory": origin}}],
        "cache": [{"medium": "SSD", "folders": [{"path": cache, "quota_bytes": 1 << 20}]}],
        "state_directory": state,
        "snapshot": "keep",
    });
    serde_json::from_value(text).unwrap()
}
