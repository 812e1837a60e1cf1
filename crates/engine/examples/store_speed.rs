//! Puts and gets per second of the block store in one folder: `store_speed FOLDER [seconds per row]`.
//!
//! Prints one row a case, with the processor time of all threads for one operation, which a busy machine disturbs less
//! than the rate. The folder's file system and the build's optimisation decide the numbers, so say both with them. Everything is written below `FOLDER/store-speed`, which is removed at the end.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium};
use headrace_engine::error::Result;
use headrace_engine::ids::{BlockSize, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{Put, Store, StoreConfig};

const QUOTA_BYTES: u64 = 3 << 30;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().unwrap_or_else(|| "/dev/shm".to_owned());
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3.0);
    let folder = Path::new(&folder).join("store-speed");
    let limit = Duration::from_secs_f64(seconds);
    let result = run(&folder, limit);
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
    result
}

fn run(folder: &Path, limit: Duration) -> Result<()> {
    println!("{:<64} {:>12} {:>10} {:>12}", "case", "per second", "MB/s", "CPU us each");
    for (name, size) in [("110 KB files", 110_000u64), ("4 MiB blocks of 64 MiB files", 64 << 20)] {
        plain_writes(&folder.join("plain"), name, size, limit);
        let store = open(folder)?;
        let blocks = put_for(&store, name, size, limit);
        get_for(&store, &format!("get, all, {name}"), &blocks, limit, 1);
        let blocks_of_few = &blocks[..blocks.len().min(4000)];
        get_for(&store, &format!("get, hot, {name}"), blocks_of_few, limit, 1);
        get_for(&store, &format!("get, hot, {name}, 2 threads"), blocks_of_few, limit, 2);
        store.close()?;
        drop(store);
        let start = Moment::now();
        let store = open(folder)?;
        row(&format!("reopen, {name}: blocks replayed"), blocks.len() as u64, 0, start);
        get_for(&store, &format!("get, first after restart, {name}"), &blocks, Duration::ZERO, 1);
        blocks.iter().for_each(|(key, _)| drop(store.whole_file(&key.id(), size)));
        let start = Moment::now();
        let evicted = blocks.iter().filter(|(key, _)| store.evict(&key.id()) > 0).count();
        row(&format!("evict files, {name}"), evicted as u64, 0, start);
    }
    Ok(())
}

fn open(folder: &Path) -> Result<Arc<Store>> {
    let folders = vec![FolderConfig { path: folder.to_owned(), quota_bytes: QUOTA_BYTES }];
    let level = LevelConfig { medium: Medium::Mem, folders, high: 0.98, low: 0.95 };
    let budgets = Budgets {
        memory: Budget::memory(64 << 20),
        descriptors: Budget::count("descriptors", 8192),
        inodes: Budget::count("inodes", 1000),
    };
    let config =
        StoreConfig { levels: vec![level], block_size: BlockSize::DEFAULT, policy: EvictionPolicy::ScanResistant };
    Store::open(config, budgets, Metrics::new())
}

fn key(number: u64, size: u64) -> Arc<FileKey> {
    Arc::new(FileKey {
        dataset: "s3://bucket/imagenet@https://storage.example.com".into(),
        path: format!("train/n{:08}/image_{number:010}.jpeg", number / 1300).into_bytes().into(),
        size,
        version: Version::Etag(format!("{number:032x}").into_bytes().into()),
    })
}

/// The same files written without a store, to compare with.
fn plain_writes(folder: &Path, name: &str, size: u64, limit: Duration) {
    let content = vec![7u8; BlockSize::DEFAULT.bytes() as usize];
    let (start, mut bytes, mut blocks) = (Moment::now(), 0, 0);
    let mut write = || -> std::io::Result<()> {
        std::fs::create_dir_all(folder)?;
        for number in 0.. {
            let mut file = std::fs::File::create(folder.join(number.to_string()))?;
            for index in 0..BlockSize::DEFAULT.count(size) {
                if start.elapsed() > limit || bytes > QUOTA_BYTES {
                    return Ok(());
                }
                let length = BlockSize::DEFAULT.range(index, size).length();
                std::io::Write::write_all(&mut file, &content[..length as usize])?;
                (bytes, blocks) = (bytes + length, blocks + 1);
            }
        }
        Ok(())
    };
    let result = write();
    row(&format!("plain write, {name}"), blocks, bytes, start);
    if let Err(error) = result.and_then(|()| std::fs::remove_dir_all(folder)) {
        eprintln!("plain writes: {error}");
    }
}

/// Puts whole files until the time or the quota is over.
fn put_for(store: &Store, name: &str, size: u64, limit: Duration) -> Vec<(Arc<FileKey>, u32)> {
    let content = Bytes::from(vec![7u8; BlockSize::DEFAULT.bytes() as usize]);
    let mut blocks = Vec::new();
    let start = Moment::now();
    'time: for number in 0.. {
        let key = key(number, size);
        for index in 0..BlockSize::DEFAULT.count(size) {
            let length = BlockSize::DEFAULT.range(index, size).length() as usize;
            if start.elapsed() > limit || store.put(&key, index, &[content.slice(..length)]) != Put::Stored {
                break 'time;
            }
            blocks.push((key.clone(), index));
        }
    }
    let bytes = store.usage().iter().map(|usage| usage.used_bytes).sum();
    row(&format!("put, {name}"), blocks.len() as u64, bytes, start);
    blocks
}

/// Gets blocks in turn for a while, or each once when `limit` is zero.
fn get_for(store: &Arc<Store>, name: &str, blocks: &[(Arc<FileKey>, u32)], limit: Duration, threads: usize) {
    let blocks: Vec<_> = blocks.iter().map(|(key, index)| (key.id(), *index)).collect();
    let start = Moment::now();
    let one = |first: usize| {
        let (mut count, mut bytes) = (0u64, 0u64);
        for (id, index) in blocks.iter().cycle().skip(first) {
            bytes += store.get(id, *index).map_or(0, |handle| u64::from(handle.length));
            count += 1;
            let over = if limit.is_zero() { count == blocks.len() as u64 } else { start.elapsed() > limit };
            if over {
                break;
            }
        }
        (count, bytes)
    };
    let counts: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads).map(|thread| scope.spawn(move || one(thread * 1000))).collect();
        handles.into_iter().filter_map(|handle| handle.join().ok()).collect()
    });
    let bytes = if limit.is_zero() { counts.iter().map(|(_, bytes)| bytes).sum() } else { 0 };
    row(name, counts.iter().map(|(count, _)| count).sum(), bytes, start);
}

fn row(name: &str, count: u64, bytes: u64, start: Moment) {
    let seconds = start.wall.elapsed().as_secs_f64().max(1e-9);
    let cpu_us = (cpu_seconds() - start.cpu_s) * 1e6 / count.max(1) as f64;
    let (rate, megabytes) = (count as f64 / seconds, bytes as f64 / 1e6 / seconds);
    println!("{name:<64} {rate:>12.0} {megabytes:>10.0} {cpu_us:>12.2}");
}

/// When a case began, by the clock on the wall and by the processor time of this process.
#[derive(Clone, Copy)]
struct Moment {
    wall: Instant,
    cpu_s: f64,
}

impl Moment {
    fn now() -> Self {
        Moment { wall: Instant::now(), cpu_s: cpu_seconds() }
    }

    fn elapsed(&self) -> Duration {
        self.wall.elapsed()
    }
}

fn cpu_seconds() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    usage.map_or(0.0, |usage| {
        let times = [usage.user_time(), usage.system_time()];
        times.iter().map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6).sum()
    })
}
