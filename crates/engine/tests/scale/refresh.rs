//! A refresh in which every file has changed.

use std::path::Path;

use headrace_engine::config::EngineConfig;
use headrace_engine::engine::Owner;
use headrace_engine::fuse::MountOptions;
use serde_json::json;

use crate::counting::{ALONE, most_held_bytes};
use crate::names::{FILES, freeze};

/// What threads of the engine do meanwhile, and one packet of messages to the kernel. A list of the names takes 25 MB.
const MOST_BYTES: i64 = 2 << 20;

#[test]
fn a_refresh_of_all_files_holds_no_list_of_them() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let (state, origin, mountpoint) = (place("state"), place("origin"), place("mnt"));
    let first = freeze(&state.join("snapshot-1.hrs"), 1, None);
    let owner = Owner::open(config(&state, &origin)).unwrap();
    // Where there is no right to mount, the owner alone is looked at.
    let mounted = owner.mount(&mountpoint, MountOptions::default());
    drop(freeze(&state.join("snapshot-2.hrs"), 2, Some(&first)));
    let (most, version) = most_held_bytes(|| {
        let version = owner.adopt_snapshot().unwrap();
        if let Ok(mount) = &mounted {
            let wanted = owner.snapshot().identity();
            while mount.announced() != wanted {
                std::thread::yield_now();
            }
        }
        version
    });
    assert_eq!(version, 2);
    assert!(most < MOST_BYTES, "{most} bytes for {FILES} files");
}

fn config(state: &Path, origin: &Path) -> EngineConfig {
    let text = json!({
        "name": "scale",
        "origins": [{"path": "", "origin": {"kind": "local", "directory": origin}}],
        "cache": [],
        "state_directory": state,
        "snapshot": "keep",
    });
    serde_json::from_value(text).unwrap()
}
