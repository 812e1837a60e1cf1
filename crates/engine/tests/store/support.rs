//! Files with known content, and stores to put them in, for the tests of the store.

#![allow(dead_code, clippy::unwrap_used)]

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium};
use headrace_engine::error::Error;
use headrace_engine::ids::{BlockSize, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{BlockHandle, Put, Store, StoreConfig};

pub const BLOCK: u64 = 64 << 10;

pub fn block_size() -> BlockSize {
    BlockSize::new(BLOCK as u32).unwrap()
}

pub fn key(path: &str, size: u64) -> Arc<FileKey> {
    let version = Version::Etag(path.bytes().rev().collect());
    Arc::new(FileKey { dataset: "s3://bucket/prefix".into(), path: path.as_bytes().into(), size, version })
}

/// The true content of a block, which depends on file, block and place. Of a dependency, which is optimised where this is
/// not.
pub fn bytes(key: &FileKey, index: u32) -> Vec<u8> {
    let mut bytes = vec![0; block_size().range(index, key.size).length() as usize];
    blake3::Hasher::new().update(&key.id().0).update(&index.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// The content in uneven pieces, as a fill would bring it.
pub fn content(key: &FileKey, index: u32) -> Vec<Bytes> {
    let mut whole = Bytes::from(bytes(key, index));
    let first = whole.split_to(whole.len() / 3);
    vec![first, whole]
}

pub fn put_all(store: &Store, key: &Arc<FileKey>) -> Vec<Put> {
    (0..block_size().count(key.size)).map(|index| store.put(key, index, &content(key, index))).collect()
}

pub fn read_handle(handle: &BlockHandle) -> Vec<u8> {
    let mut bytes = vec![0; handle.length as usize];
    handle.file.read_exact_at(&mut bytes, handle.offset).unwrap();
    bytes
}

pub fn read(store: &Store, key: &FileKey, index: u32) -> Option<Vec<u8>> {
    store.get(&key.id(), index).map(|handle| read_handle(&handle))
}

pub fn level(folders: &[(&Path, u64)]) -> LevelConfig {
    let folders =
        folders.iter().map(|(path, quota_bytes)| FolderConfig { path: path.to_path_buf(), quota_bytes: *quota_bytes });
    LevelConfig { medium: Medium::Ssd, folders: folders.collect(), high: 0.98, low: 0.95 }
}

pub fn config(levels: Vec<LevelConfig>, policy: EvictionPolicy) -> StoreConfig {
    StoreConfig { levels, block_size: block_size(), policy }
}

pub fn budgets(descriptors: u64) -> Budgets {
    Budgets {
        memory: Budget::memory(64 << 20),
        descriptors: Budget::count("descriptors", descriptors),
        inodes: Budget::count("inodes", 1000),
    }
}

/// Blocks of a disk that stalls are kept elsewhere and read elsewhere: no test of where they are may depend on that.
pub fn patient(store: Arc<Store>) -> Arc<Store> {
    store.set_disk_patience(std::time::Duration::from_secs(3600));
    store
}

/// Waits for what the background thread brings about, or another process.
pub fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let start = std::time::Instant::now();
    while !happened() {
        assert!(start.elapsed() < std::time::Duration::from_secs(600), "never: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

pub fn open_counted(folder: &Path, quota: u64, policy: EvictionPolicy) -> (Arc<Store>, Metrics) {
    let metrics = Metrics::new();
    let store = Store::open(config(vec![level(&[(folder, quota)])], policy), budgets(100), metrics.clone());
    (patient(store.unwrap()), metrics)
}

pub fn open_one(folder: &Path, quota: u64) -> Arc<Store> {
    open_counted(folder, quota, EvictionPolicy::ScanResistant).0
}

pub fn open_error(levels: Vec<LevelConfig>) -> Error {
    Store::open(config(levels, EvictionPolicy::Lru), budgets(100), Metrics::new()).unwrap_err()
}

pub fn data_files(folder: &Path) -> Vec<PathBuf> {
    let list = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    list(folder.join("data")).flat_map(list).collect()
}

/// Kernels before 6.13 stamp files with the time of the last clock tick: a change must not fall into the same one.
pub fn wait_for_clock_tick() {
    std::thread::sleep(std::time::Duration::from_millis(15));
}

/// Damages one byte; false when it is not there: the file has gone meanwhile, or is not written yet (in the background).
pub fn flip_byte(path: &Path, offset: u64) -> bool {
    let Ok(file) = std::fs::File::options().read(true).write(true).open(path) else { return false };
    let mut byte = [0];
    if file.read_at(&mut byte, offset).unwrap() == 0 {
        return false;
    }
    file.write_all_at(&[byte[0] ^ 0x40], offset).unwrap();
    true
}

pub fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
