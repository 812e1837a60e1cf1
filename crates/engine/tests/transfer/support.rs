//! What the tests of transfer and vfs share: an origin in memory that counts, waits, fails and changes on demand.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, mpsc};

use headrace_engine::budget::{Budget, Budgets};
use headrace_engine::checksum::{Checksum, Kind};
use headrace_engine::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium, TransferConfig};
use headrace_engine::error::{Error, ErrorKind, Result};
use headrace_engine::ids::{BlockSize, ByteRange, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{
    Asker, ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectKind, ObjectVersion, Origin, Part,
    WholeObject,
};
use headrace_engine::store::{Blocks, Store, StoreConfig};
use headrace_engine::transfer::{ReaderState, Source, Transfer};

pub const KIB: u64 = 1 << 10;
pub const MIB: u64 = 1 << 20;

/// An origin in memory.
pub struct MemoryOrigin {
    objects: Mutex<HashMap<Vec<u8>, (Bytes, String)>>,
    /// Every request in order: key and range.
    pub requests: Mutex<Vec<(Vec<u8>, ByteRange)>>,
    pub bytes_sent: AtomicU64,
    /// Requests that a load or a warm-up made.
    pub asked_by_loads: AtomicUsize,
    pub piece_bytes: AtomicUsize,
    /// With a gate, each piece costs one of its permits.
    gate: Mutex<Option<Arc<Semaphore>>>,
    /// With this one, the last piece of each answer costs one.
    end_gate: Mutex<Option<Arc<Semaphore>>>,
    /// So many requests from now on fail.
    pub failures: AtomicUsize,
    /// So many requests from now on end one byte early.
    pub short_answers: AtomicUsize,
    /// So many answers from now on are other bytes of the right length.
    pub lies: AtomicUsize,
    /// Checksums that it tells.
    pub sums: Mutex<HashMap<Vec<u8>, Checksum>>,
    /// Lengths of parts that it tells.
    pub parts: Mutex<HashMap<Vec<u8>, Vec<u64>>>,
    /// Questions for a part.
    pub part_questions: AtomicUsize,
    /// It tells them by themselves alone.
    pub apart: AtomicBool,
    pub open: Arc<AtomicUsize>,
    pub most_open: Arc<AtomicUsize>,
}

impl MemoryOrigin {
    pub fn new() -> Arc<Self> {
        Arc::new(MemoryOrigin {
            objects: Mutex::default(),
            requests: Mutex::default(),
            bytes_sent: AtomicU64::new(0),
            asked_by_loads: AtomicUsize::new(0),
            piece_bytes: AtomicUsize::new(48 * 1024 + 7),
            gate: Mutex::new(None),
            end_gate: Mutex::new(None),
            failures: AtomicUsize::new(0),
            short_answers: AtomicUsize::new(0),
            lies: AtomicUsize::new(0),
            sums: Mutex::default(),
            parts: Mutex::default(),
            part_questions: AtomicUsize::new(0),
            apart: AtomicBool::new(false),
            open: Arc::default(),
            most_open: Arc::default(),
        })
    }

    /// Puts an object with content that differs everywhere, and from every other `seed`'s.
    pub fn put(self: &Arc<Self>, key: &str, size: u64, seed: u64) -> Source {
        let content = pattern(size, seed);
        let etag = format!("e{seed}");
        self.objects.lock().insert(key.as_bytes().to_vec(), (content, etag.clone()));
        self.source(key, size, &etag)
    }

    /// As `put`, and tells the content's checksum from now on.
    pub fn put_summed(self: &Arc<Self>, key: &str, size: u64, seed: u64, kind: Kind) -> Source {
        self.sums.lock().insert(key.as_bytes().to_vec(), Checksum::of(kind, &pattern(size, seed)));
        self.put(key, size, seed)
    }

    /// As `put`, as an upload in parts of these lengths, which the origin keeps the checksum of the checksums of.
    pub fn put_in_parts(self: &Arc<Self>, key: &str, lengths: &[u64], seed: u64, kind: Kind) -> Source {
        let size = lengths.iter().sum();
        let mut rest = pattern(size, seed);
        let parts = lengths.iter().map(|length| Checksum::of(kind, &rest.split_to(*length as usize)));
        let sum = Checksum::of_parts(kind, parts.collect::<Vec<_>>());
        self.sums.lock().insert(key.as_bytes().to_vec(), sum);
        self.put(key, size, seed)
    }

    /// Tells the parts of `key` from now on.
    pub fn tell_parts(&self, key: &str, lengths: &[u64]) {
        self.parts.lock().insert(key.as_bytes().to_vec(), lengths.to_vec());
    }

    /// Requests for readers, and for loads and warm-ups.
    pub fn asked_for(&self) -> (usize, usize) {
        let loads = self.asked_by_loads.load(Ordering::SeqCst);
        (self.requests.lock().len() - loads, loads)
    }

    pub fn part_questions(&self) -> usize {
        self.part_questions.load(Ordering::SeqCst)
    }

    pub fn put_content(self: &Arc<Self>, key: &str, content: Vec<u8>, etag: &str) {
        self.objects.lock().insert(key.as_bytes().to_vec(), (content.into(), etag.to_owned()));
    }

    pub fn remove(&self, key: &str) {
        self.objects.lock().remove(key.as_bytes());
    }

    pub fn source(self: &Arc<Self>, key: &str, size: u64, etag: &str) -> Source {
        let version = Version::Etag(etag.as_bytes().into());
        let dataset: Arc<str> = "memory://test".into();
        let object = ObjectVersion { key: key.as_bytes().into(), size, version: version.clone() };
        Source::new(FileKey { dataset, path: key.as_bytes().into(), size, version }, object, self.clone())
    }

    /// From now on each piece needs a permit of the returned semaphore.
    pub fn close_gate(&self) -> Arc<Semaphore> {
        let gate = Arc::new(Semaphore::new(0));
        *self.gate.lock() = Some(gate.clone());
        gate
    }

    pub fn open_gate(&self) {
        if let Some(gate) = self.gate.lock().take() {
            gate.add_permits(Semaphore::MAX_PERMITS / 2);
        }
    }

    /// From now on no answer comes to its end.
    pub fn close_end_gate(&self) {
        *self.end_gate.lock() = Some(Arc::new(Semaphore::new(0)));
    }

    pub fn open_end_gate(&self) {
        if let Some(gate) = self.end_gate.lock().take() {
            gate.add_permits(Semaphore::MAX_PERMITS / 2);
        }
    }

    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent.load(Ordering::SeqCst)
    }

    pub fn request_count(&self) -> usize {
        self.requests.lock().len()
    }

    pub fn ranges(&self) -> Vec<ByteRange> {
        self.requests.lock().iter().map(|(_, range)| *range).collect()
    }

    fn take(counter: &AtomicUsize) -> bool {
        counter.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }

    fn cut(&self, mut content: Bytes) -> Vec<Bytes> {
        let size = self.piece_bytes.load(Ordering::SeqCst);
        let mut pieces = Vec::new();
        while !content.is_empty() {
            pieces.push(content.split_to(content.len().min(size)));
        }
        pieces
    }
}

/// Counts an answer that is being streamed, for as long as it lives.
struct Streaming(Arc<AtomicUsize>);

impl Drop for Streaming {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Origin for MemoryOrigin {
    fn name(&self) -> &str {
        "memory://test"
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: false,
            etags: true,
            symlinks: true,
            checksums: match (self.sums.lock().is_empty(), self.apart.load(Ordering::SeqCst)) {
                (true, _) => Checksums::Never,
                (false, false) => Checksums::WithContent,
                (false, true) => Checksums::Apart,
            },
        }
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self, _excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let _ = sink.send(self.listing()).await;
        Ok(())
    }

    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let told = self.checksum(object).await?;
        Ok((self.read(object, ByteRange::new(0, object.size)).await?, told))
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        Ok(self.sums.lock().get(&object.key[..]).copied())
    }

    async fn part(&self, object: &ObjectVersion, number: u32) -> Result<Option<Part>> {
        self.part_questions.fetch_add(1, Ordering::SeqCst);
        let parts = self.parts.lock();
        let Some(lengths) = parts.get(&object.key[..]) else { return Ok(None) };
        let length = lengths.get(number as usize - 1).copied();
        Ok(length.map(|length| Part { length, count: lengths.len() as u32 }))
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        self.requests.lock().push((object.key.to_vec(), range));
        self.asked_by_loads.fetch_add(usize::from(Asker::current() == Asker::Load), Ordering::SeqCst);
        if Self::take(&self.failures) {
            return Err(Error::new(ErrorKind::Unreachable, "told to fail"));
        }
        let (content, etag) = self
            .objects
            .lock()
            .get(&object.key[..])
            .cloned()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, "no such object"))?;
        if object.version != Version::Etag(etag.as_bytes().into()) {
            return Err(Error::new(ErrorKind::Stale, "the object changed since the snapshot"));
        }
        let mut end = range.end as usize;
        end -= usize::from(Self::take(&self.short_answers));
        let mut content = content.slice(range.start as usize..end);
        if Self::take(&self.lies) {
            content = content.iter().skip(1).chain(&content[..1]).copied().collect();
        }
        let pieces = self.cut(content);
        self.bytes_sent.fetch_add(end as u64 - range.start, Ordering::SeqCst);
        let now = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_open.fetch_max(now, Ordering::SeqCst);
        let streaming = Arc::new(Streaming(self.open.clone()));
        let (gate, end_gate, last) = (self.gate.lock().clone(), self.end_gate.lock().clone(), pieces.len());
        let stream = stream::iter(pieces).enumerate().then(move |(number, piece)| {
            let gates = [gate.clone(), end_gate.clone().filter(|_| number + 1 == last)];
            let streaming = streaming.clone();
            async move {
                for gate in gates.into_iter().flatten() {
                    gate.acquire().await.unwrap().forget();
                }
                tokio::task::yield_now().await;
                drop(streaming);
                Ok(piece)
            }
        });
        Ok(stream.boxed())
    }
}

impl MemoryOrigin {
    pub fn listing(&self) -> Vec<ListedObject> {
        let objects = self.objects.lock();
        let listed = objects.iter().map(|(key, (content, etag))| ListedObject {
            key: key.clone().into(),
            kind: ObjectKind::File,
            size: content.len() as u64,
            mtime_ns: 1_700_000_000_000_000_000,
            etag: Some(etag.as_bytes().into()),
            stamp: None,
            permissions: None,
        });
        listed.collect()
    }
}

/// `size` bytes that repeat nowhere, others for every seed. Of a dependency, which is optimised where this is not.
pub fn pattern(size: u64, seed: u64) -> Bytes {
    let mut content = vec![0; size as usize];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut content);
    content.into()
}

/// A transfer with small blocks and its surroundings.
pub struct Setup {
    pub origin: Arc<MemoryOrigin>,
    pub transfer: Arc<Transfer>,
    pub budgets: Budgets,
    pub metrics: Metrics,
}

pub fn config(block_bytes: u64) -> TransferConfig {
    TransferConfig { block_size_bytes: block_bytes as u32, readahead_bytes: 16 * block_bytes, ..Default::default() }
}

pub fn budgets(memory_bytes: u64) -> Budgets {
    Budgets {
        memory: Budget::memory(memory_bytes),
        descriptors: Budget::count("descriptors", 1000),
        inodes: Budget::count("inodes", 100_000),
    }
}

pub fn setup_with(store: Option<Arc<Store>>, memory_bytes: u64, config: TransferConfig) -> Setup {
    let (budgets, metrics) = (budgets(memory_bytes), Metrics::new());
    let runtime = tokio::runtime::Handle::current();
    let blocks = store.map(|store| store as Arc<dyn Blocks>);
    let transfer = Transfer::new(blocks, runtime, budgets.clone(), metrics.clone(), config).unwrap();
    Setup { origin: MemoryOrigin::new(), transfer, budgets, metrics }
}

/// No store, blocks of 256 KiB, 64 MiB of memory.
pub fn setup() -> Setup {
    setup_with(None, 64 * MIB, config(256 * KIB))
}

/// A store of one folder of `quota_bytes` with blocks of `block_bytes`.
pub fn store(folder: &std::path::Path, quota_bytes: u64, block_bytes: u64) -> Arc<Store> {
    store_over(&[folder.to_path_buf()], quota_bytes, block_bytes)
}

/// The same over several folders, each with this quota.
pub fn store_over(folders: &[std::path::PathBuf], quota_bytes: u64, block_bytes: u64) -> Arc<Store> {
    let folders = folders.iter().map(|path| FolderConfig { path: path.clone(), quota_bytes }).collect();
    let level = LevelConfig { medium: Medium::Ssd, folders, high: 0.98, low: 0.95 };
    let block_size = BlockSize::new(block_bytes as u32).unwrap();
    let config = StoreConfig { levels: vec![level], block_size, policy: EvictionPolicy::ScanResistant };
    let store = Store::open(config, budgets(MIB), Metrics::new()).unwrap();
    // A disk that stalls is no part of a test that does not say so.
    store.set_disk_patience(std::time::Duration::from_secs(3600));
    store
}

/// Reads as the kernel does: what is cached at once, the rest by waiting.
pub async fn read(transfer: &Arc<Transfer>, source: &Source, range: ByteRange, reader: &ReaderState) -> Vec<u8> {
    let reply = match transfer.read_cached(source, range, reader).unwrap() {
        Some(reply) => reply,
        None => transfer.read(source, range, reader).await.unwrap(),
    };
    reply.to_vec().unwrap()
}

/// Reads the whole file in steps of `step` and compares every byte.
pub async fn scan(transfer: &Arc<Transfer>, source: &Source, seed: u64, step: u64, reader: &ReaderState) {
    let expected = pattern(source.size(), seed);
    for start in (0..source.size()).step_by(step as usize) {
        let range = ByteRange::new(start, step).clamp_to(source.size());
        let content = read(transfer, source, range, reader).await;
        assert!(content == expected[range.start as usize..range.end as usize], "wrong bytes in {range:?}");
    }
}

/// Lets every task run until nothing moves any more.
pub async fn settle() {
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
}

/// Waits until `condition` holds; fails the test when it does not within (real) ten seconds.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    panic!("never came true: {what}");
}
