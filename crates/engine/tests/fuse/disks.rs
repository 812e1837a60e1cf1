//! A mount whose cache lies on a disk that hangs.

use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use headrace_engine::fuse::{Mode, MountOptions};
use headrace_engine::vfs::ROOT;

use crate::support::{Mount, Tree, can_mount, eventually, pattern};

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
