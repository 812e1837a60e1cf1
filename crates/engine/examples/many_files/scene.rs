//! Many names that are in no origin, and a cache of some of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::config::{EngineConfig, EvictionPolicy, FolderConfig, LevelConfig, Medium, OriginConfig};
use headrace_engine::error::{Error, Result};
use headrace_engine::ids::BlockSize;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{self, ListedObject, ObjectKind};
use headrace_engine::snapshot::{Snapshot, SnapshotBuilder};
use headrace_engine::store::{Put, Store, StoreConfig};
use headrace_engine::vfs::Selection;
use serde_json::{Value, json};

/// Neighbours in the listing are neighbours in a folder, as a bucket's listing has them.
const FILES_OF_A_FOLDER: u64 = 1000;
const FILE_BYTES: u64 = 100;
const QUOTA_BYTES: u64 = 1 << 40;

pub struct Scene {
    folder: PathBuf,
    files: u64,
    pub cached: u64,
}

impl Scene {
    pub fn new(folder: &Path, files: u64, cached: u64) -> Self {
        Scene { folder: folder.to_owned(), files, cached }
    }

    /// Writes the snapshot where mount and master find it.
    pub fn freeze(&self) -> Result<()> {
        for name in ["mount", "master", "worker", "origin", "cache", "worker-cache"] {
            let path = self.folder.join(name);
            std::fs::create_dir_all(&path).map_err(|error| Error::from_io("make", &path, error))?;
        }
        let mut builder = SnapshotBuilder::new(&[String::new()])?;
        (0..self.files).for_each(|number| builder.add(0, object(number)));
        let path = self.snapshot("mount");
        builder.finish(&path, None)?;
        let second = self.snapshot("master");
        std::fs::hard_link(&path, &second).map_err(|error| Error::from_io("link", &second, error))
    }

    /// Puts the first files of the snapshot into the mount's cache.
    pub fn fill(&self) -> Result<()> {
        let folders = vec![FolderConfig { path: self.folder.join("cache"), quota_bytes: self.quota() }];
        let levels = vec![LevelConfig { medium: Medium::Ssd, folders, high: 0.95, low: 0.7 }];
        let config = StoreConfig { levels, block_size: BlockSize::DEFAULT, policy: EvictionPolicy::Lru };
        let store = Store::open(config, budgets(), Metrics::new())?;
        let content = Bytes::from(vec![7; FILE_BYTES as usize]);
        let mut put = 0;
        for source in self.everything()?.sources().take(self.cached as usize) {
            put += u64::from(store.put(source.key(), 0, std::slice::from_ref(&content)) == Put::Stored);
        }
        if put < self.cached {
            eprintln!("{put} of {} files were kept", self.cached);
        }
        store.close()
    }

    fn everything(&self) -> Result<Selection> {
        let origin: OriginConfig = parsed(json!({"kind": "local", "directory": self.folder.join("origin")}))?;
        let origin = origin::open(&origin, &parsed(json!({}))?, &Metrics::new())?;
        Selection::of(Snapshot::open(&self.snapshot("mount"))?, vec![Arc::clone(&origin)], &[b""])
    }

    fn quota(&self) -> u64 {
        let room = nix::sys::statvfs::statvfs(&self.folder);
        room.map_or(QUOTA_BYTES, |room| QUOTA_BYTES.min(room.blocks() * room.fragment_size()))
    }

    fn snapshot(&self, role: &str) -> PathBuf {
        self.folder.join(role).join("snapshot-1.hrs")
    }

    pub fn first_name(&self) -> Vec<u8> {
        object(0).key.into_vec()
    }

    /// The mount's configuration.
    pub fn mount(&self) -> EngineConfig {
        self.config("mount", self.levels("cache"), Value::Null)
    }

    pub fn worker(&self) -> EngineConfig {
        self.config("worker", self.levels("worker-cache"), self.cluster(&[], true))
    }

    /// A worker with the cache that the mount filled.
    pub fn full_worker(&self) -> EngineConfig {
        self.config("worker", self.levels("cache"), self.cluster(&[], true))
    }

    pub fn master(&self, worker: &str) -> EngineConfig {
        let member = json!({
            "id": "one", "address": worker, "node": "here", "weight": 1, "state": "active", "joined_epoch": 1,
            "cached_bytes": 0,
        });
        self.config("master", json!([]), self.cluster(&[member], false))
    }

    fn levels(&self, name: &str) -> Value {
        json!([{"medium": "SSD", "folders": [{"path": self.folder.join(name), "quota_bytes": self.quota()}]}])
    }

    fn cluster(&self, members: &[Value], is_worker: bool) -> Value {
        let own = is_worker.then(|| json!({"id": "one", "listen": "127.0.0.1:0"}));
        json!({
            "view": {"epoch": members.len(), "replicas": 1, "members": members},
            "token": "0123456789abcdef0123456789abcdef",
            "node": "here",
            "worker": own,
        })
    }

    fn config(&self, role: &str, cache: Value, cluster: Value) -> EngineConfig {
        let text = json!({
            "name": "many-files",
            "origins": [{"path": "", "origin": {"kind": "local", "directory": self.folder.join("origin")}}],
            "cache": cache,
            "state_directory": self.folder.join(role),
            "snapshot": "keep",
            "cluster": cluster,
        });
        parsed(text).unwrap_or_else(|error| unreachable!("it is written above: {error}"))
    }
}

fn parsed<T: serde::de::DeserializeOwned>(text: Value) -> Result<T> {
    serde_json::from_value(text).map_err(|error| Error::config(error.to_string()))
}

fn object(number: u64) -> ListedObject {
    let (folder, key) = (number / FILES_OF_A_FOLDER, format!("sample_{number:010}.jpeg"));
    ListedObject {
        key: format!("train/n{folder:08}/{key}").into_bytes().into(),
        kind: ObjectKind::File,
        size: FILE_BYTES,
        mtime_ns: 1_700_000_000_000_000_000,
        etag: None,
        stamp: None,
        permissions: None,
    }
}

fn budgets() -> Budgets {
    Budgets {
        memory: Budget::memory(64 << 20),
        descriptors: Budget::count("descriptors", 1024),
        inodes: Budget::count("inodes", 1000),
    }
}
