//! Commands to a worker whose cache disk hangs: each ends, and says which worker and which folder.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headrace_engine::cluster::{HoldJob, HoldOrder, HoldProgress, HoldState, HoldWish, Orders, orders};
use headrace_engine::error::{Error, ErrorKind};
use headrace_engine::ids::FileKey;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::ObjectVersion;
use headrace_engine::transfer::{OrderedFiles, Source, WarmState};
use headrace_engine::wire::PeerCommand;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::hanging_file::HangingFile;
use crate::members::{Plan, Worker, client, key, object, view};
use crate::mounts::{can_mount, eventually};
use crate::support::{KIB, MIB, MemoryOrigin, store_over};

const BLOCK: u64 = 64 * KIB;
const BLOCKS: u32 = 16;
const SIZE: u64 = BLOCKS as u64 * BLOCK;
const PLAN: Plan = Plan { block_bytes: BLOCK, memory_bytes: 64 * BLOCK, quota_bytes: 64 * MIB };
const PATIENCE: Duration = Duration::from_secs(60);

/// A worker with two files in its cache, one of them where reads hang.
struct Struck {
    // Let go before the worker ends, whatever happens.
    disk: HangingFile,
    worker: Worker,
    held: ObjectVersion,
    other: ObjectVersion,
    hanging: PathBuf,
    runtime: Runtime,
    _caches: tempfile::TempDir,
}

impl Struck {
    /// With so many cache folders, the files spread over them.
    fn with(folders: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (origin, caches) = (MemoryOrigin::new(), tempfile::tempdir().unwrap());
        let folders: Vec<PathBuf> = (0..folders).map(|number| caches.path().join(number.to_string())).collect();
        origin.put("held", SIZE, 1);
        origin.put("other", SIZE, 2);
        let (held, other) = (object("held", SIZE, 1), object("other", SIZE, 2));
        runtime.block_on(async {
            let worker = started(&origin, &folders).await;
            for object in [&held, &other] {
                // All of a file goes to where its first block is.
                for blocks in [0..1, 0..BLOCKS] {
                    let held = worker.transfer.hold(&worker.source(object), blocks.clone()).await;
                    assert_eq!(held.held_bytes, u64::from(blocks.end) * BLOCK, "{held:?}");
                }
            }
            worker.server.close().await;
            worker.transfer.close().await;
            worker.store.close().unwrap();
        });
        let name = key(&held).id().to_string();
        let data = |folder: &PathBuf| folder.join("data").join(&name[..2]).join(&name);
        let hanging = folders.iter().find(|folder| data(folder).exists()).unwrap().clone();
        let disk = HangingFile::at(&data(&hanging));
        let worker = runtime.block_on(started(&origin, &folders));
        worker.store.set_disk_patience(Duration::from_millis(400));
        Struck { disk, worker, held, other, hanging, runtime, _caches: caches }
    }

    /// The answer, which must come.
    fn ask(&self, command: &PeerCommand) -> Result<Value, Error> {
        self.runtime.block_on(async {
            let asking = client(&Metrics::new());
            let address = self.worker.address();
            tokio::time::timeout(PATIENCE, asking.command(&address, command)).await.expect("no answer, and no error")
        })
    }

    fn verify(&self) -> PeerCommand {
        PeerCommand::Verify { key: key(&self.held), first: 0, count: BLOCKS, block_size: BLOCK as u32 }
    }

    fn evict(&self) -> PeerCommand {
        PeerCommand::EvictMany { ids: vec![key(&self.other).id(), key(&self.held).id()] }
    }

    /// How a load of the file that hangs ended.
    fn load(&self) -> HoldProgress {
        let (cluster, order) = (&self.worker.cluster, OneFile(Arc::new(key(&self.held))));
        let block_size = self.worker.transfer.block_size();
        let job = HoldJob::start(cluster, Arc::new(order), block_size, HoldWish::default());
        assert!(job.wait(PATIENCE), "{:?}", job.progress());
        job.progress()
    }

    fn must_name_worker_and_folder(&self, told: &str) {
        let folder = self.hanging.display().to_string();
        assert!(told.contains("worker-0") && told.contains(&folder) && told.contains("does not answer"), "{told}");
    }

    fn must_fail_in_words(&self, command: &PeerCommand) {
        let error = self.ask(command).expect_err("it was done on a disk that hangs");
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        self.must_name_worker_and_folder(&error.to_string());
        assert!(error.hint().unwrap().contains("start the worker"), "{error}");
    }
}

async fn started(origin: &Arc<MemoryOrigin>, folders: &[PathBuf]) -> Worker {
    let cache = store_over(folders, PLAN.quota_bytes, BLOCK);
    let worker = Worker::over(0, origin, &PLAN, cache, tempfile::tempdir().unwrap()).await;
    worker.cluster.set_view(view(1, 1, std::slice::from_ref(&worker))).unwrap();
    worker
}

struct OneFile(Arc<FileKey>);

impl Orders for OneFile {
    fn total_files(&self) -> u64 {
        1
    }

    fn total_bytes(&self) -> u64 {
        SIZE
    }

    fn iterate(&self) -> Box<dyn Iterator<Item = HoldOrder> + Send + '_> {
        let block_size = headrace_engine::ids::BlockSize::new(BLOCK as u32).unwrap();
        Box::new(orders(&self.0, 0..BLOCKS, block_size).into_iter())
    }
}

#[test]
fn a_verification_and_an_eviction_end_with_the_names_of_worker_and_folder() {
    if !can_mount() {
        return;
    }
    let struck = Struck::with(1);
    // Waits for the disk itself, and then finds it hanging already.
    struck.must_fail_in_words(&struck.verify());
    struck.must_fail_in_words(&struck.verify());
    struck.must_fail_in_words(&struck.evict());
    assert_eq!(struck.worker.store.cached_bytes(&key(&struck.other).id()), SIZE, "it lies on the same disk");
    assert!(struck.ask(&PeerCommand::Status).is_ok());

    struck.disk.let_go();
    struck.worker.store.set_disk_patience(PATIENCE);
    eventually("the disk answers", || struck.worker.store.hanging_folders().is_empty());
    let verified = struck.ask(&struck.verify()).unwrap();
    assert_eq!((&verified["good_blocks"], &verified["corrupt_blocks"]), (&Value::from(BLOCKS), &Value::from(0)));
    assert_eq!(struck.ask(&struck.evict()).unwrap()["evicted_bytes"], Value::from(2 * SIZE));
}

#[test]
fn a_load_ends_incomplete_with_the_names_of_worker_and_folder() {
    if !can_mount() {
        return;
    }
    let struck = Struck::with(1);
    let progress = struck.load();
    assert_eq!(progress.state, HoldState::Incomplete);
    struck.must_name_worker_and_folder(&progress.errors.join("\n"));
}

struct OneSource(Source);

impl OrderedFiles for OneSource {
    fn count(&self) -> usize {
        1
    }

    fn total_bytes(&self) -> u64 {
        SIZE
    }

    fn get(&self, position: usize) -> Option<Source> {
        (position == 0).then(|| self.0.clone())
    }
}

#[test]
fn a_warm_up_of_what_hangs_ends_incomplete() {
    if !can_mount() {
        return;
    }
    let struck = Struck::with(1);
    let files = OneSource(struck.worker.source(&struck.held));
    let job = struck.worker.transfer.warm(Arc::new(files)).unwrap();
    assert!(job.wait(PATIENCE), "{:?}", job.progress());
    let progress = job.progress();
    assert_eq!(progress.state, WarmState::Incomplete);
    assert!(progress.errors.join("\n").contains(&struck.hanging.display().to_string()), "{progress:?}");
    assert!(progress.message.contains("a cache disk does not answer"), "{progress:?}");
}

#[test]
fn a_drain_begins_with_what_can_be_reached() {
    if !can_mount() {
        return;
    }
    let struck = Struck::with(1);
    struck.must_fail_in_words(&struck.verify());
    let drain = async { tokio::time::timeout(PATIENCE, struck.worker.service.drain()).await };
    let job = struck.runtime.block_on(drain).expect("it waits for the disk").unwrap();
    assert_eq!(job.progress().total_bytes, 0, "both files lie on the disk that hangs");
    assert_eq!(struck.worker.store.hanging_folders(), std::slice::from_ref(&struck.hanging));
}

#[test]
fn what_lies_on_another_disk_is_dropped_kept_and_handed_over_meanwhile() {
    if !can_mount() {
        return;
    }
    let struck = Struck::with(2);
    struck.must_fail_in_words(&struck.verify());
    // A busy machine makes no second disk hang; the first one does already.
    struck.worker.store.set_disk_patience(Duration::from_secs(3600));
    struck.must_fail_in_words(&struck.evict());
    assert_eq!(struck.worker.store.cached_bytes(&key(&struck.other).id()), 0);
    assert_eq!(struck.load().state, HoldState::Complete);
    let job = struck.runtime.block_on(struck.worker.service.drain()).unwrap();
    assert_eq!(job.progress().total_bytes, SIZE, "what was loaded");
}
