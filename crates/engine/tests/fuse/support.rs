//! What tests and measurements of the mount share: a tree that is mounted, who may mount, bytes that differ.

#![allow(dead_code, unused_imports)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::error::{Error, ErrorKind};
use headrace_engine::fuse::{Mode, MountHandle, MountOptions, mount};
use headrace_engine::metrics::Metrics;
use headrace_engine::vfs::ROOT;

pub use crate::tree::{Content, Tree, memory};

pub const SECOND: Duration = Duration::from_secs(1);

pub fn hello() -> Tree {
    let tree = Tree::default();
    tree.put(ROOT, "hello", memory(b"hello world"));
    tree
}

/// The error of a mount that must fail.
pub fn refused(path: &Path, options: MountOptions) -> Error {
    let runtime = runtime();
    let tree = Arc::new(hello());
    let outcome = mount(tree, path, options, runtime.handle().clone(), Metrics::new(), budgets());
    outcome.err().expect("refused")
}

/// Nobody is inside, but a program that another test of this process starts has our descriptors until it runs.
pub fn unmount(handle: &MountHandle) {
    eventually("idle", || match handle.unmount(false) {
        Err(error) if error.kind() == ErrorKind::Busy => false,
        outcome => outcome.map(|()| true).expect("idle"),
    });
}

/// A mounted tree with its own runtime and folder; unmounts and removes on drop.
pub struct Mount {
    pub handle: Option<MountHandle>,
    pub tree: Arc<Tree>,
    pub metrics: Metrics,
    pub runtime: tokio::runtime::Runtime,
    pub folder: tempfile::TempDir,
}

impl Mount {
    pub fn new(tree: Tree, mode: Mode) -> Mount {
        Mount::with(tree, MountOptions { mode, allow_other: true, ..MountOptions::default() })
    }

    pub fn with(tree: Tree, options: MountOptions) -> Mount {
        let tree = Arc::new(tree);
        let runtime = runtime();
        let metrics = Metrics::new();
        let folder = tempfile::tempdir().expect("a temporary folder");
        let handle = mount(tree.clone(), folder.path(), options, runtime.handle().clone(), metrics.clone(), budgets());
        Mount { handle: Some(handle.expect("mounted")), tree, metrics, runtime, folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn handle(&self) -> &MountHandle {
        self.handle.as_ref().expect("still mounted")
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        self.handle = None;
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

pub fn budgets() -> Budgets {
    Budgets {
        memory: Budget::memory(256 << 20),
        descriptors: Budget::count("descriptors", 4096),
        inodes: Budget::count("inodes", 64 << 20),
    }
}

/// False, with the reason printed, where this machine or user cannot mount as root.
pub fn can_mount() -> bool {
    let reason = match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Err(error) => format!("/dev/fuse cannot be opened: {error}"),
        Ok(_) if !nix::unistd::geteuid().is_root() => "not root".to_owned(),
        Ok(_) => return true,
    };
    eprintln!("skipped: {reason}");
    false
}

/// Bytes that repeat nowhere, others for every seed. Of a dependency, which is optimised where this is not.
pub fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// A small generator of pseudo-random numbers (splitmix64), the same in every run.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

/// Waits for `condition`, at most a hundred seconds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + Duration::from_secs(100);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
