//! A cache whose disk takes no block.
#![allow(clippy::unwrap_used)]

use std::fs::{DirEntry, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::support::*;
use bytes::Bytes;
use headrace_engine::ids::{ByteRange, FileId, FileKey};
use headrace_engine::metrics::Metrics;
use headrace_engine::store::{BlockHandle, Blocks, Put, WholeFile};
use headrace_engine::transfer::{AtHand, ReaderState, Transfer, WarmState};
use parking_lot::{Condvar, Mutex};

const BLOCK: u64 = 64 * KIB;
const BLOCKS: u64 = 24;

/// Every write waits until it is let go.
#[derive(Debug, Default)]
struct StuckDisk {
    let_go: Mutex<bool>,
    changed: Condvar,
    waiting: AtomicUsize,
}

impl Blocks for StuckDisk {
    fn get(&self, _: &FileId, _: u32, _: u64) -> Option<BlockHandle> {
        None
    }

    fn waits_in_vain(&self, _: Instant) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }

    fn may_contain(&self, _: &FileId, _: u32) -> bool {
        false
    }

    fn expects(&self, _: &FileId, _: u32, _: u64) -> bool {
        false
    }

    fn put(&self, _: &Arc<FileKey>, _: u32, _: &[Bytes]) -> Put {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        self.changed.wait_while(&mut self.let_go.lock(), |let_go| !*let_go);
        Put::Declined("let go")
    }

    fn whole_file(&self, _: &FileId, _: u64) -> Option<WholeFile> {
        None
    }

    fn quota_bytes(&self) -> u64 {
        BLOCKS * BLOCK
    }
}

/// Whoever waits still would hold up the end of the test.
struct Released(Arc<StuckDisk>);

impl Drop for Released {
    fn drop(&mut self) {
        *self.0.let_go.lock() = true;
        self.0.changed.notify_all();
    }
}

/// Costs seconds: a write is looked at four times a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_a_disk_keeps_waiting_hold_neither_memory_nor_the_end() {
    let disk = Arc::new(StuckDisk::default());
    let _released = Released(disk.clone());
    let origin = MemoryOrigin::new();
    let file = origin.put("file", BLOCKS * BLOCK, 1);
    let (budgets, runtime) = (budgets(2 * BLOCK), tokio::runtime::Handle::current());
    let transfer =
        Transfer::new(Some(disk.clone() as Arc<dyn Blocks>), runtime, budgets, Metrics::new(), config(BLOCK)).unwrap();
    let (patience, reader) = (Duration::from_secs(100), ReaderState::still());
    let reading = scan(&transfer, &file, 1, BLOCK, &reader);
    tokio::time::timeout(patience, reading).await.expect("blocks keep their memory for a disk that takes none");
    assert!(disk.waiting.load(Ordering::SeqCst) > 2, "the disk was tried");
    tokio::time::timeout(patience, transfer.close()).await.expect("the end waits for the disk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lies_in_cache_files_is_read_by_as_many_as_may_wait_for_their_disk() {
    // Beside this program, which lies on a disk: memory file systems do not drop pages.
    let program = std::env::current_exe().unwrap();
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let stored = store(folder.path(), 64 * MIB, BLOCK);
    let setup = setup_with(Some(stored.clone()), 16 * MIB, config(BLOCK));
    let (file, reader) = (setup.origin.put("file", 4 * BLOCK + 7, 3), ReaderState::still());
    let range = ByteRange::new(BLOCK / 2, 100 * BLOCK);
    let at_hand = |takes_disk| {
        forget_pages(folder.path());
        setup.transfer.at_hand(&file, range, &reader, takes_disk)
    };
    assert!(matches!(at_hand(true), AtHand::Missing), "nothing is there yet");
    scan(&setup.transfer, &file, 3, BLOCK, &reader).await;
    until("all is stored", || stored.whole_file(&file.id(), file.size()).is_some()).await;
    let mut reads = Vec::new();
    loop {
        match at_hand(true) {
            AtHand::OnDisk(read) => reads.push(read),
            AtHand::Missing => break,
            AtHand::Here(_) => return, // A file system that drops nothing.
        }
        assert!(reads.len() < 1000, "any number of threads may wait for one disk");
    }
    let mut buffer = vec![1; 3];
    reads.pop().expect("some may").load_into(&mut buffer).unwrap();
    assert!(buffer == pattern(file.size(), 3)[BLOCK as usize / 2..]);
    assert!(matches!(at_hand(false), AtHand::Missing), "who has no thread for it does not wait for a disk");
    assert!(matches!(at_hand(true), AtHand::OnDisk(_)), "the right was given back");
    read_all(folder.path());
    // Where the kernel tells that all is in memory.
    if let AtHand::Here(found) = setup.transfer.at_hand(&file, range, &reader, true) {
        assert!(found.to_vec().unwrap() == pattern(file.size(), 3)[BLOCK as usize / 2..]);
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    let below = |entry: DirEntry| {
        if entry.file_type().unwrap().is_dir() { files_below(&entry.path()) } else { vec![entry.path()] }
    };
    entries.flat_map(below).collect()
}

/// Has the kernel read all files below `folder` anew.
fn forget_pages(folder: &Path) {
    for path in files_below(folder) {
        let file = File::open(path).unwrap();
        file.sync_all().unwrap();
        nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED).unwrap();
    }
}

/// Has the kernel keep all files below `folder` in memory.
fn read_all(folder: &Path) {
    files_below(folder).iter().for_each(|path| drop(std::fs::read(path).unwrap()));
}

/// A tmpfs of a few MiB, unmounted on drop.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(place.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(SmallDisk(place));
        }
        eprintln!("skipped: only root can mount a small tmpfs");
        None
    }

    /// Somebody else takes all of its room.
    fn fill(&self) -> std::path::PathBuf {
        let foreign = self.0.path().join("foreign");
        // Ends with an error when nothing is left.
        assert!(std::fs::write(&foreign, vec![1; 9 << 20]).is_err());
        foreign
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_full_disk_did_not_take_is_offered_again_when_there_is_room() {
    let Some(disk) = SmallDisk::mount() else { return };
    let stored = store(&disk.0.path().join("cache"), 4 * MIB, BLOCK);
    let setup = setup_with(Some(stored.clone()), 16 * MIB, config(BLOCK));
    let (file, reader) = (setup.origin.put("file", BLOCKS * BLOCK, 3), ReaderState::still());
    let foreign = disk.fill();
    scan(&setup.transfer, &file, 3, BLOCK, &reader).await;
    let trouble = || stored.usage()[0].trouble;
    until("all is kept in memory", || setup.transfer.blocks_in_memory() as u64 == BLOCKS).await;
    assert_eq!(trouble(), Some("disk-full"), "the level says that its disk is full");
    std::fs::remove_file(foreign).unwrap();
    until("all is stored, though nobody reads", || stored.whole_file(&file.id(), file.size()).is_some()).await;
    until("memory is given back", || setup.transfer.blocks_in_memory() == 0).await;
    assert_eq!(trouble(), None);
    assert_eq!(setup.origin.bytes_sent(), file.size(), "nothing was fetched twice");
    assert!(read(&setup.transfer, &file, ByteRange::new(0, file.size()), &reader).await == pattern(file.size(), 3));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_goes_on_where_a_disk_was_full_for_a_moment() {
    let Some(disk) = SmallDisk::mount() else { return };
    let stored = store(&disk.0.path().join("cache"), 4 * MIB, BLOCK);
    let setup = setup_with(Some(stored.clone()), 16 * MIB, config(BLOCK));
    let file = setup.origin.put("file", BLOCKS * BLOCK, 3);
    let foreign = disk.fill();
    let warming = setup.transfer.warm(Arc::new(vec![file.clone()])).unwrap();
    until("the disk to be full", || stored.usage()[0].trouble.is_some()).await;
    std::fs::remove_file(foreign).unwrap();
    warming.ended().await;
    let progress = warming.progress();
    assert_eq!((progress.state, progress.done_bytes), (WarmState::Complete, file.size()), "{progress:?}");
    assert_eq!((progress.did_not_fit_bytes, progress.done_files), (0, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_found_no_room_is_offered_again_when_something_was_evicted() {
    let folder = tempfile::tempdir().unwrap();
    let stored = store(folder.path(), BLOCKS * BLOCK, BLOCK);
    let setup = setup_with(Some(stored.clone()), 16 * MIB, config(BLOCK));
    let (first, reader) = (setup.origin.put("first", BLOCKS * BLOCK, 1), ReaderState::still());
    scan(&setup.transfer, &first, 1, BLOCK, &reader).await;
    until("the first is stored", || stored.whole_file(&first.id(), first.size()).is_some()).await;
    stored.set_pinned(first.id(), true);
    let second = setup.origin.put("second", 4 * BLOCK, 2);
    scan(&setup.transfer, &second, 2, BLOCK, &reader).await;
    until("the second is kept in memory", || setup.transfer.blocks_in_memory() == 4).await;
    assert_eq!(stored.usage()[0].trouble, None, "a full cache is not a disk in trouble");
    stored.set_pinned(first.id(), false);
    assert!(stored.evict(&first.id()) > 0);
    until("the second is stored", || stored.whole_file(&second.id(), second.size()).is_some()).await;
    assert_eq!(setup.transfer.blocks_in_memory(), 0);
}
