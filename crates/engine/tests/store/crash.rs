//! A process that is killed while it fills a cache folder leaves one that opens and serves nothing wrong.

#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::*;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::store::Put;

const FOLDER: &str = "HEADRACE_TEST_CRASH_FOLDER";
const QUOTA: u64 = 6 << 20;
const FILES: u64 = 400;

fn file(number: u64) -> std::sync::Arc<headrace_engine::ids::FileKey> {
    key(&format!("crash/{number}"), 1 + (number * 37_003) % 200_000)
}

/// The killed process: not a test of its own, it does nothing unless told where.
#[test]
fn child_fills_a_folder_until_killed() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, _) = open_counted(Path::new(&folder), QUOTA, EvictionPolicy::Lru);
    for round in 0.. {
        for number in 0..FILES {
            let file = file((number * 7 + round) % FILES);
            put_all(&store, &file);
            if number % 5 == 0 {
                store.evict(&file.id());
            }
        }
        println!("round {round}");
    }
}

fn spawn(folder: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child_fills_a_folder_until_killed", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // From the first round on, blocks come and go.
    assert!(lines.any(|line| line.unwrap().contains("round 0")), "the child ended early");
    child
}

#[test]
fn killed_at_any_moment_nothing_wrong_is_served() {
    let place = tempfile::tempdir().unwrap();
    for round in 0..8u64 {
        let mut child = spawn(place.path());
        assert_eq!(open_error(vec![level(&[(place.path(), QUOTA)])]).kind(), headrace_engine::error::ErrorKind::Busy);
        std::thread::sleep(Duration::from_millis(round * 13 % 50));
        child.kill().unwrap();
        child.wait().unwrap();
        let (store, metrics) = open_counted(place.path(), QUOTA, EvictionPolicy::Lru);
        let mut found = 0;
        for file in (0..FILES).map(file) {
            for index in 0..block_size().count(file.size) {
                if let Some(content) = read(&store, &file, index) {
                    assert!(content == bytes(&file, index), "round {round}: wrong content");
                    found += 1;
                }
            }
        }
        assert!(found > 20, "round {round}: only {found} blocks left");
        // A block whose removal was logged, but not its return, may be there half: at most the one in flight.
        assert!(metrics.store_corrupt_blocks.get() <= 1, "{} corrupt blocks", metrics.store_corrupt_blocks.get());
        assert!(store.usage()[0].used_bytes <= QUOTA);
        assert!(matches!(store.put(&file(1), 0, &content(&file(1), 0)), Put::Stored | Put::Present));
        store.close().unwrap();
    }
}
