//! What transfer and vfs cost by themselves: no network, no kernel file system in between.
//!
//!     cargo run --release -p headrace-engine --example transfer_speed [CACHE_FOLDER]
//!
//! Prints one line per measurement: the cost of a hot 4 KiB read, of a hot 128 KiB read, of opening and reading many
//! small files, and the cold throughput from an origin in memory with the CPU time per gigabyte.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream};
use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium, TransferConfig};
use headrace_engine::error::Result;
use headrace_engine::ids::{BlockSize, ByteRange};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{
    ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectKind, ObjectVersion, Origin,
};
use headrace_engine::snapshot::SnapshotBuilder;
use headrace_engine::store::{Blocks, Store, StoreConfig};
use headrace_engine::transfer::Transfer;
use headrace_engine::vfs::{FileSystem, Inode, Ownership, ROOT, Tree};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

const MIB: u64 = 1 << 20;
const LARGE: u64 = 1024 * MIB;
const SMALL: u64 = 110 << 10;
const SMALL_FILES: u64 = 2000;
const PIECE: usize = 128 << 10;

/// An origin whose every object is zeros, as fast as memory. `latency` passes before each answer.
struct Zeros {
    latency: Duration,
}

#[async_trait]
impl Origin for Zeros {
    fn name(&self) -> &str {
        "zeros://"
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: false,
            etags: true,
            symlinks: false,
            checksums: Checksums::Never,
        }
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self, _excluded: &Exclusion, _sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        Ok(())
    }

    async fn read(&self, _object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        static ZEROS: [u8; PIECE] = [0; PIECE];
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        let pieces = (0..range.length().div_ceil(PIECE as u64)).map(move |n| {
            let left = range.length() - n * PIECE as u64;
            Ok(Bytes::from_static(&ZEROS[..left.min(PIECE as u64) as usize]))
        });
        Ok(stream::iter(pieces).boxed())
    }
}

struct Bench {
    runtime: Runtime,
    tree: Arc<Tree>,
    transfer: Arc<Transfer>,
    store: Option<Arc<Store>>,
}

fn budgets() -> Budgets {
    Budgets {
        memory: Budget::memory(512 * MIB),
        descriptors: Budget::count("descriptors", 8192),
        inodes: Budget::count("inodes", 1 << 20),
    }
}

fn open_store(folder: &Path, budgets: &Budgets) -> Arc<Store> {
    let folders = vec![FolderConfig { path: folder.to_path_buf(), quota_bytes: 4 * LARGE }];
    let level = LevelConfig { medium: Medium::Ssd, folders, high: 0.98, low: 0.95 };
    let policy = EvictionPolicy::ScanResistant;
    let config = StoreConfig { levels: vec![level], block_size: BlockSize::DEFAULT, policy };
    Store::open(config, budgets.clone(), Metrics::new()).unwrap()
}

impl Bench {
    fn new(cache: Option<&Path>, work: &Path, latency: Duration) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let budgets = budgets();
        let store = cache.map(|folder| open_store(folder, &budgets));
        let config = TransferConfig::default();
        let blocks = store.clone().map(|store| store as Arc<dyn Blocks>);
        let transfer = Transfer::new(blocks, runtime.handle().clone(), budgets, Metrics::new(), config).unwrap();
        let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
        let object = |key: String, size| ListedObject {
            key: key.into_bytes().into(),
            kind: ObjectKind::File,
            size,
            mtime_ns: 0,
            etag: Some((*b"tag").into()),
            stamp: None,
            permissions: None,
        };
        builder.add(0, object("large".into(), LARGE));
        (0..SMALL_FILES).for_each(|n| builder.add(0, object(format!("small/{n:06}"), SMALL)));
        let (snapshot, _) = builder.finish(&work.join("snapshot"), None).unwrap();
        let tree = Tree::new(snapshot, vec![Arc::new(Zeros { latency })], transfer.clone(), Ownership::new(0, 0));
        Bench { runtime, tree, transfer, store }
    }

    fn read(&self, inode: Inode, offset: u64, length: usize) {
        if self.tree.at_hand(inode, 0, offset, length, false).unwrap().here().is_none() {
            self.runtime.block_on(self.tree.clone().read(inode, 0, offset, length)).unwrap();
        }
    }

    fn scan(&self, inode: Inode, step: u64) {
        (0..LARGE / step).for_each(|n| self.read(inode, n * step, step as usize));
    }

    fn close(self) {
        self.runtime.block_on(self.transfer.close());
        self.store.iter().for_each(|store| store.close().unwrap());
    }
}

fn cpu_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: getrusage fills the whole struct when it returns 0, and RUSAGE_SELF with a valid pointer cannot fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}

fn timed(name: &str, bytes: u64, run: impl FnOnce()) {
    let (cpu, start) = (cpu_seconds(), Instant::now());
    run();
    let (wall, cpu) = (start.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let gigabytes = bytes as f64 / 1e9;
    println!("{name:<44} {:>7.2} GB/s {:>7.3} CPU s/GB", gigabytes / wall, cpu / gigabytes);
}

fn each(name: &str, count: u64, mut run: impl FnMut(u64)) {
    let start = Instant::now();
    (0..count).for_each(&mut run);
    println!("{name:<44} {:>9.0} ns each", start.elapsed().as_nanos() as f64 / count as f64);
}

fn measure(bench: &Bench, what: &str) {
    let large = bench.tree.lookup(ROOT, b"large").unwrap().inode;
    timed(&format!("{what}: cold scan in 128 KiB steps"), LARGE, || bench.scan(large, 128 << 10));
    if bench.store.is_none() {
        return;
    }
    while bench.transfer.blocks_in_memory() > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let scattered = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (LARGE / 4096) * 4096;
    each(&format!("{what}: hot 4 KiB read, one block"), 1_000_000, |_| bench.read(large, 4096, 4096));
    each(&format!("{what}: hot 4 KiB read, scattered"), 1_000_000, |n| bench.read(large, scattered(n), 4096));
    each(&format!("{what}: hot 128 KiB read, in order"), 8192, |n| bench.read(large, n * (128 << 10), 128 << 10));
    small_files(bench, what);
}

fn small_files(bench: &Bench, what: &str) {
    let directory = bench.tree.lookup(ROOT, b"small").unwrap().inode;
    let name = |n: u64| format!("{:06}", n % SMALL_FILES).into_bytes();
    let read_whole = |n: u64| {
        let inode = bench.tree.lookup(directory, &name(n)).unwrap().inode;
        bench.read(inode, 0, SMALL as usize);
    };
    each(&format!("{what}: small file cold, in name order"), SMALL_FILES, read_whole);
    each(&format!("{what}: small file hot (lookup, read)"), 20 * SMALL_FILES, read_whole);
    each(&format!("{what}: lookup"), 1_000_000, |n| {
        bench.tree.lookup(directory, &name(n)).unwrap();
    });
}

fn main() {
    let given = std::env::args_os().nth(1);
    let scratch = match &given {
        Some(folder) => tempfile::tempdir_in(folder),
        None => tempfile::tempdir(),
    };
    let scratch = scratch.unwrap();
    for (what, cached, latency_ms) in [("no cache", false, 0), ("no cache, 20 ms away", false, 20), ("cache", true, 0)]
    {
        let cache = cached.then(|| scratch.path().join("cache"));
        cache.iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
        let bench = Bench::new(cache.as_deref(), scratch.path(), Duration::from_millis(latency_ms));
        measure(&bench, what);
        bench.close();
    }
}
