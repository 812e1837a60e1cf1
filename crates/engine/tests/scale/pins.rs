//! A heartbeat and the answer to a pin tell how many bytes are pinned.

use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium};
use headrace_engine::ids::{BlockSize, FileId};
use headrace_engine::store::{Store, StoreConfig};

use crate::counting::{ALONE, asked_bytes};

const FILES: u32 = 20_000;

#[test]
fn telling_how_much_is_pinned_looks_at_no_pin() {
    let _alone = ALONE.lock();
    let folder = tempfile::tempdir().unwrap();
    let level = LevelConfig {
        medium: Medium::Ssd,
        high: 0.95,
        low: 0.7,
        folders: vec![FolderConfig { path: folder.path().to_owned(), quota_bytes: 1 << 20 }],
    };
    let config = StoreConfig { levels: vec![level], block_size: BlockSize::DEFAULT, policy: EvictionPolicy::Lru };
    let store = Store::open(config, budgets(), Default::default()).unwrap();
    for number in 0..FILES {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_le_bytes());
        store.set_pinned(FileId(id), true);
    }
    let (asked, pinned) = asked_bytes(|| store.pinned_bytes());
    assert_eq!(pinned, 0, "nothing of it is here");
    assert!(asked < 1024, "{asked} bytes for {FILES} pins");
}

fn budgets() -> Budgets {
    let count = |name| Budget::count(name, 64);
    Budgets { memory: Budget::memory(1 << 20), descriptors: count("descriptors"), inodes: count("inodes") }
}
