//! A mount whose cache lies on a disk that hangs.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use headrace_engine::fuse::{Mode, MountOptions, resume};
use headrace_engine::metrics::Metrics;
use headrace_engine::store::DiskWatch;
use headrace_engine::vfs::{Inode, ROOT};

use crate::support::{Content, Mount, Tree, budgets, can_mount, eventually, memory, pattern, runtime, unmount};

const SIZE: usize = 1 << 20;
const FILES: u64 = 4;
/// Half of them may wait.
const THREADS: usize = 2;

/// Local files are waited for until this is dropped: also when the test fails, or nothing of it could end.
struct Released<'a>(&'a Tree);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.knobs.backing_held.store(false, Ordering::SeqCst);
    }
}

#[test]
fn opens_that_a_disk_keeps_waiting_leave_threads_for_names_and_for_other_files() {
    if !can_mount() {
        return;
    }
    let source = tempfile::tempdir().expect("a temporary folder");
    for number in 0..FILES {
        std::fs::write(source.path().join(number.to_string()), pattern(SIZE, number)).expect("written");
    }
    let tree = Tree::of_folder(source.path());
    tree.put_many(ROOT, "folder", 100);
    tree.knobs.backing_held.store(true, Ordering::SeqCst);
    let options =
        MountOptions { mode: Mode::Passthrough, threads: Some(THREADS), allow_other: true, ..MountOptions::default() };
    let mount = Mount::with(tree, options);
    let released = Released(&mount.tree);
    let readers: Vec<_> = (0..FILES)
        .map(|number| {
            let path = mount.path(&number.to_string());
            std::thread::spawn(move || std::fs::read(path))
        })
        .collect();
    eventually("an open waits for the disk", || mount.tree.knobs.backings.load(Ordering::SeqCst) >= 1);
    let (sender, looked) = channel();
    let folder = mount.path("folder");
    let look = std::thread::spawn(move || {
        let listed = std::fs::read_dir(&folder).map(Iterator::count);
        let length = std::fs::metadata(folder.join("000000042")).map(|data| data.len());
        let _ = sender.send((listed.ok(), length.ok()));
    });
    let seen = looked.recv_timeout(Duration::from_secs(60));
    if seen.is_ok() {
        let ended = || readers.iter().filter(|reader| reader.is_finished()).count();
        eventually("opens that find no place are read through the daemon", || ended() == FILES as usize - THREADS / 2);
    }
    drop(released);
    look.join().expect("joined");
    assert_eq!(seen, Ok((Some(100), Some(0))), "ls and stat waited for the disk");
    for (number, reader) in (0..FILES).zip(readers) {
        assert!(reader.join().expect("joined").expect("read") == pattern(SIZE, number));
    }
}

/// A disk that answers no read, as long as this lives: a file system of our own whose file is stuck.
struct HangingDisk {
    mount: Mount,
    block: Inode,
}

impl HangingDisk {
    fn new() -> Self {
        let tree = Tree::default();
        let block = tree.put(ROOT, "block", Content::Stuck { size: SIZE as u64 });
        HangingDisk { mount: Mount::new(tree, Mode::Classic), block }
    }

    /// Reads of `tree` wait for it.
    fn keeps(&self, tree: &Tree) {
        let watch = DiskWatch::new(self.mount.folder.path());
        watch.set_patience(Duration::from_millis(100));
        let block = Arc::new(File::open(self.mount.path("block")).expect("openable"));
        *tree.knobs.disk.lock().expect("lock") = Some((block, watch));
    }

    fn reads(&self) -> u64 {
        self.mount.tree.knobs.waiting.load(Ordering::SeqCst)
    }
}

impl Drop for HangingDisk {
    fn drop(&mut self) {
        self.mount.tree.replace(self.block, memory(b""));
    }
}

#[test]
fn reads_that_a_disk_keeps_waiting_are_answered_all_the_same_and_a_hand_over_does_not_wait_for_it() {
    if !can_mount() {
        return;
    }
    let source = tempfile::tempdir().expect("a temporary folder");
    for number in 0..FILES {
        std::fs::write(source.path().join(number.to_string()), pattern(SIZE, number)).expect("written");
    }
    for mode in [Mode::Classic, Mode::Elide] {
        let options = MountOptions { mode, threads: Some(THREADS), allow_other: true, ..MountOptions::default() };
        let mut mount = Mount::with(Tree::of_folder(source.path()), options.clone());
        let disk = HangingDisk::new();
        disk.keeps(&mount.tree);
        for number in 0..FILES {
            let path = mount.path(&number.to_string());
            assert!(std::fs::read(path).expect("readable") == pattern(SIZE, number), "{mode:?}, {number}");
        }
        assert!(disk.reads() > 0, "nobody asked the disk");
        let kept = mount.handle().keep().expect("kept");
        let (sender, handed_over) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mount.handle().hand_over();
                let _ = sender.send(());
            });
            let waited = handed_over.recv_timeout(Duration::from_secs(60));
            let next = waited.map(|()| {
                let (tree, runtime) = (Arc::new(Tree::of_folder(source.path())), runtime());
                let next = resume(tree, kept, options, runtime.handle().clone(), Metrics::new(), budgets());
                (next.expect("resumed"), runtime)
            });
            let read = next.as_ref().ok().map(|_| std::fs::read(mount.path("0")));
            drop(disk);
            let (handle, _runtime) = next.expect("the hand-over waited for the disk");
            assert!(read.is_some_and(|read| read.expect("readable") == pattern(SIZE, 0)), "{mode:?}");
            unmount(&handle);
        });
        mount.handle = None;
    }
}
