//! A mount without a store of its own: the worker's blocks are read from the worker's files, by the transfer and by the
//! kernel itself, and only the rest is fetched.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::fuse::can_mount;
use crate::support::*;
use crate::transfer::{MemoryOrigin, budgets, config};
use headrace_engine::fuse::{Mode, MountHandle, MountOptions, mount};
use headrace_engine::ids::{ByteRange, FileKey};
use headrace_engine::lease::{LeaseOptions, LeasedBlocks};
use headrace_engine::metrics::Metrics;
use headrace_engine::snapshot::SnapshotBuilder;
use headrace_engine::store::Blocks;
use headrace_engine::transfer::{ReaderState, Transfer};
use headrace_engine::vfs::{Ownership, Tree};

/// What a mount process holds.
struct Mounted {
    origin: Arc<MemoryOrigin>,
    blocks: Arc<LeasedBlocks>,
    transfer: Arc<Transfer>,
    metrics: Metrics,
    runtime: tokio::runtime::Runtime,
}

impl Mounted {
    fn new(folder: &Path) -> Mounted {
        let runtime = crate::fuse::runtime();
        let hour = Duration::from_secs(3600);
        let patience = Duration::from_secs(30);
        let blocks = leased(folder, LeaseOptions { absence: hour, idle: hour, patience, ..LeaseOptions::default() });
        let metrics = Metrics::new();
        let seen: Option<Arc<dyn Blocks>> = Some(blocks.clone());
        let config = config(store_files::BLOCK);
        let transfer =
            Transfer::new(seen, runtime.handle().clone(), budgets(64 << 20), metrics.clone(), config).unwrap();
        Mounted { origin: MemoryOrigin::new(), blocks, transfer, metrics, runtime }
    }

    /// The file as the origin holds it.
    fn offer(&self, file: &FileKey) {
        self.origin.put_content(std::str::from_utf8(&file.path).unwrap(), content_of(file), "e1");
    }

    fn read(&self, file: &FileKey, range: ByteRange) -> Vec<u8> {
        let source = self.origin.source(std::str::from_utf8(&file.path).unwrap(), file.size, "e1");
        assert_eq!(source.id(), file.id());
        self.runtime.block_on(crate::transfer::read(&self.transfer, &source, range, &ReaderState::new()))
    }

    fn mount(&self, folder: &Path) -> MountHandle {
        let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
        self.origin.listing().into_iter().for_each(|object| builder.add(0, object));
        let snapshot = builder.finish(&folder.join("snapshot"), None).unwrap().0;
        let tree = Tree::new(snapshot, vec![self.origin.clone()], self.transfer.clone(), Ownership::new(0, 0));
        let options = MountOptions { mode: Mode::Passthrough, ..MountOptions::default() };
        let place = folder.join("mnt");
        std::fs::create_dir(&place).unwrap();
        let runtime = self.runtime.handle().clone();
        mount(tree, &place, options, runtime, self.metrics.clone(), crate::fuse::budgets()).unwrap()
    }
}

#[test]
fn only_what_the_worker_lacks_is_fetched() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let mounted = Mounted::new(place.path());
    let file = file("half_here", LARGE);
    mounted.offer(&file);
    worker.tell(&format!("put half_here {LARGE} 0 16"));
    let half = 16 * store_files::BLOCK;
    assert!(mounted.read(&file, ByteRange::new(0, half)) == content_of(&file)[..half as usize]);
    let fetched = mounted.origin.ranges();
    assert!(fetched.iter().all(|range| range.start >= half), "only read-ahead may fetch: {fetched:?}");
    assert!(mounted.read(&file, ByteRange::new(0, LARGE)) == content_of(&file));
    assert_eq!(mounted.origin.bytes_sent(), LARGE - half);
    // Meanwhile the worker has kept it, as it does when it is the one that fetches.
    worker.tell(&format!("put half_here {LARGE} 16 32"));
    eventually("the whole file is here", || {
        mounted.blocks.whole_file(&file.id(), LARGE).is_some() || {
            mounted.blocks.note_stored(&file.id());
            false
        }
    });
    assert!(mounted.read(&file, ByteRange::new(0, LARGE)) == content_of(&file));
    assert_eq!(mounted.origin.bytes_sent(), LARGE - half);
}

#[test]
fn without_a_worker_everything_is_fetched() {
    let place = tempfile::tempdir().unwrap();
    let mounted = Mounted::new(place.path());
    let file = file("f", LARGE);
    mounted.offer(&file);
    assert!(mounted.read(&file, ByteRange::new(0, LARGE)) == content_of(&file));
    assert_eq!(mounted.origin.bytes_sent(), LARGE);
}

/// The kernel reads the worker's file itself, and goes on with the same bytes while workers are killed, started again and
/// evict all that they may.
#[test]
fn the_kernel_reads_a_leased_file_whatever_the_worker_evicts() {
    if !can_mount() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let mounted = Mounted::new(place.path());
    let file = file("large", LARGE);
    mounted.offer(&file);
    worker.tell(&format!("put large {LARGE} 0 32"));
    let handle = mounted.mount(place.path());
    let open = File::open(place.path().join("mnt/large")).unwrap();
    assert_eq!(mounted.metrics.passthrough_opens.get(), 1);
    for round in 0..3 {
        assert!(worker.number(&format!("press {round}")) > 0);
        forget_pages(place.path());
        assert!(read_whole(&open, LARGE) == content_of(&file), "round {round}");
        worker.kill();
        worker = Worker::start(place.path());
    }
    assert_eq!(mounted.origin.bytes_sent(), 0, "not a byte was fetched");
    assert_eq!(mounted.origin.requests.lock().len(), 0);
    assert_eq!(mounted.metrics.read_requests.get(), 0, "not a read came by here");
    drop(open);
    handle.unmount(true).unwrap();
    drop(handle);
    drop(mounted);
    worker.number("press 9");
    eventually("released, it gives way", || {
        worker.number(&format!("cached large {LARGE}")) < LARGE || {
            // A file that was held is left alone for some seconds after a try in vain.
            std::thread::sleep(Duration::from_millis(500));
            worker.number("press 10");
            false
        }
    });
}

/// Drops the page cache of the cache files, so that the next read shows what is on the disk.
fn forget_pages(folder: &Path) {
    for path in store_files::data_files(&folder.join("cache")) {
        // Evicted since it was listed, maybe.
        let Ok(file) = File::open(path) else { continue };
        file.sync_all().unwrap();
        nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    }
}
