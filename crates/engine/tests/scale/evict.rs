//! Loading everything into a worker of a cluster, and evicting it.

use std::path::Path;

use headrace_engine::cluster::HoldWish;
use headrace_engine::config::EngineConfig;
use headrace_engine::engine::{Lister, Worker};
use serde_json::{Value, json};

use crate::counting::{ALONE, asked_bytes};
use crate::names::{FILES, freeze};

/// A request for each 4096 files, and what it takes to connect. One for each file, and another for its pin, were 200,000.
const MOST_REQUESTS: u64 = FILES / 4096 + 10;

/// The words of the errors that are kept, and nothing for each file.
const MOST_TOLD_BYTES: u64 = 256 << 10;

/// A worker that keeps blocks, and the list of many files that are in no origin.
struct Scene {
    worker: Worker,
    lister: Lister,
    _folder: tempfile::TempDir,
}

fn scene() -> Scene {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (state, origin) = (place("state"), place("origin"));
    drop(freeze(&state.join("snapshot-1.hrs"), 1, None));
    let own = json!({"id": "one", "listen": "127.0.0.1:0"});
    let levels = json!([{"medium": "SSD", "folders": [{"path": place("cache"), "quota_bytes": 1 << 20}]}]);
    let empty = json!({"epoch": 0, "replicas": 1, "members": []});
    let worker = Worker::open(config(&place("worker"), &origin, levels, &empty, Some(own))).unwrap();
    let member = json!({
        "id": "one", "address": worker.address().to_string(), "node": "here", "weight": 1, "state": "active",
        "joined_epoch": 1, "cached_bytes": 0,
    });
    let view = json!({"epoch": 1, "replicas": 1, "members": [member]});
    let lister = Lister::open(config(&state, &origin, json!([]), &view, None)).unwrap();
    assert_eq!(lister.current().version, 1);
    Scene { worker, lister, _folder: folder }
}

#[test]
fn evicting_everything_takes_a_worker_few_requests() {
    let _alone = ALONE.lock();
    let Scene { worker, lister, _folder } = scene();
    let before = requests(&worker);
    assert_eq!(lister.evict(&[b""]).unwrap(), 0, "nothing is there");
    let took = requests(&worker) - before;
    assert!((1..=MOST_REQUESTS).contains(&took), "{took} requests for {FILES} files");
    lister.close();
    worker.close().unwrap();
}

#[test]
fn how_far_a_load_is_takes_no_look_at_its_files() {
    let _alone = ALONE.lock();
    let Scene { worker, lister, _folder } = scene();
    let job = lister.load(&[b""], HoldWish::default()).unwrap();
    let (asked, progress) = asked_bytes(|| job.progress());
    assert_eq!(progress.total_files, FILES);
    assert!(asked < MOST_TOLD_BYTES, "{asked} bytes for {FILES} files");
    job.cancel();
    lister.close();
    worker.close().unwrap();
}

fn requests(worker: &Worker) -> u64 {
    let text = worker.metrics_text();
    let mut values = text.lines().filter_map(|line| line.strip_prefix("headrace_peer_served_requests_total "));
    values.next().unwrap().parse().unwrap()
}

fn config(state: &Path, origin: &Path, cache: Value, view: &Value, worker: Option<Value>) -> EngineConfig {
    let text = json!({
        "name": "scale",
        "origins": [{"path": "", "origin": {"kind": "local", "directory": origin}}],
        "cache": cache,
        "state_directory": state,
        "snapshot": "keep",
        "cluster": {"view": view, "token": "0123456789abcdef0123456789abcdef", "node": "here", "worker": worker},
    });
    serde_json::from_value(text).unwrap()
}
