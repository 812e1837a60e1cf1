//! The modes under concurrency: passthrough and cached opens of one inode, and random reads by many processes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::{Mount, Numbers, Tree, can_mount, eventually, memory, pattern};
use headrace_engine::fuse::{Mode, MountOptions};
use headrace_engine::vfs::ROOT;

const LENGTH: usize = (1 << 20) + 77;
const FILES: u64 = 4;

fn source() -> (tempfile::TempDir, Tree) {
    let source = tempfile::tempdir().expect("a temporary folder");
    for number in 0..FILES {
        std::fs::write(source.path().join(number.to_string()), pattern(LENGTH, number)).expect("written");
    }
    let tree = Tree::of_folder(source.path());
    (source, tree)
}

#[test]
fn whole_local_files_are_read_by_the_kernel_itself() {
    if !can_mount() {
        return;
    }
    let (_source, tree) = source();
    let mount = Mount::new(tree, Mode::Auto);
    for number in 0..FILES {
        assert!(std::fs::read(mount.path(&number.to_string())).expect("readable") == pattern(LENGTH, number));
    }
    assert_eq!(mount.metrics.passthrough_opens.get(), FILES);
    assert_eq!(mount.metrics.passthrough_estimated_bytes.get(), FILES * LENGTH as u64);
    assert_eq!(mount.tree.knobs.reads.load(Ordering::Relaxed), 0);
}

#[test]
fn elided_opens_never_reach_the_file_system() {
    if !can_mount() {
        return;
    }
    let (_source, tree) = source();
    let mount = Mount::new(tree, Mode::Elide);
    for _ in 0..2 {
        assert!(std::fs::read(mount.path("0")).expect("readable") == pattern(LENGTH, 0));
    }
    assert_eq!(mount.tree.knobs.opens.load(Ordering::Relaxed), 0);
    assert!(mount.tree.knobs.reads.load(Ordering::Relaxed) > 0);
}

#[test]
fn a_second_classic_read_comes_from_the_page_cache() {
    if !can_mount() {
        return;
    }
    let (_source, tree) = source();
    let mount = Mount::new(tree, Mode::Classic);
    let mut reads = 0;
    for turn in 0..3 {
        assert!(std::fs::read(mount.path("0")).expect("readable") == pattern(LENGTH, 0));
        let now = mount.tree.knobs.reads.load(Ordering::Relaxed);
        assert!(turn == 0 || now == reads, "read again");
        reads = now;
    }
    let knobs = &mount.tree.knobs;
    eventually("every open is released", || {
        (knobs.opens.load(Ordering::SeqCst), knobs.releases.load(Ordering::SeqCst)) == (3, 3)
    });
}

/// The local file comes and goes while many readers open, hold and close the same inodes: the kernel would answer a
/// wrong mix of modes with EIO.
#[test]
fn passthrough_and_cached_opens_never_mix() {
    if !can_mount() {
        return;
    }
    let (_source, tree) = source();
    tree.knobs.flicker.store(true, Ordering::Relaxed);
    let mount = Mount::with(tree, MountOptions { mode: Mode::Passthrough, threads: Some(4), ..Default::default() });
    let opened = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for reader in 0..8 {
            let (mount, opened) = (&mount, &opened);
            scope.spawn(move || open_and_close(mount, reader, opened));
        }
    });
    let passed = mount.metrics.passthrough_opens.get();
    let cached = mount.tree.knobs.opens.load(Ordering::SeqCst);
    assert_eq!(passed + cached, opened.load(Ordering::Relaxed));
    assert!(passed > 50 && cached > 50, "both kinds were seen: {passed} and {cached}");
}

fn open_and_close(mount: &Mount, seed: u64, opened: &AtomicU64) {
    let mut numbers = Numbers(seed);
    let expected: Vec<Vec<u8>> = (0..FILES).map(|number| pattern(LENGTH, number)).collect();
    let mut held: Vec<File> = Vec::new();
    for _ in 0..600 {
        let which = numbers.below(FILES);
        let file = File::open(mount.path(&which.to_string())).expect("no mix of modes");
        opened.fetch_add(1, Ordering::Relaxed);
        let offset = numbers.below(LENGTH as u64 - 5000);
        let mut buffer = [0; 5000];
        file.read_exact_at(&mut buffer, offset).expect("readable");
        assert!(buffer[..] == expected[which as usize][offset as usize..offset as usize + 5000]);
        held.push(file);
        let keep = numbers.below(4) as usize;
        held.truncate(keep);
    }
}

/// Reads of every kind at random places by several processes, in every mode and with every way of answering. About five
/// seconds: it is the proof that no path mixes up offsets, lengths or inodes.
#[test]
fn random_reads_of_many_processes_are_the_source_bytes() {
    if !can_mount() {
        return;
    }
    for mode in [Mode::Passthrough, Mode::Elide, Mode::Classic] {
        for way in 0..3 {
            let (_source, tree) = source();
            tree.put(ROOT, "memory", memory(&pattern(LENGTH, 9)));
            tree.knobs.copy.store(way == 1, Ordering::Relaxed);
            tree.knobs.slow.store(way == 2, Ordering::Relaxed);
            let mount = Mount::new(tree, mode);
            let children: Vec<Child> = (0..4).map(|seed| reader_process(mount.folder.path(), seed)).collect();
            for mut child in children {
                assert!(child.wait().expect("ended").success(), "{mode:?}, way {way}");
            }
        }
    }
}

fn reader_process(folder: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "modes::reader", "--ignored", "--nocapture"])
        .env("HEADRACE_READ", folder)
        .env("HEADRACE_SEED", seed.to_string())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("started")
}

#[test]
#[ignore = "a part of random_reads_of_many_processes_are_the_source_bytes"]
fn reader() {
    let Ok(folder) = std::env::var("HEADRACE_READ") else { return };
    let seed: u64 = std::env::var("HEADRACE_SEED").expect("set").parse().expect("a number");
    let names = ["0", "1", "2", "3", "memory"];
    let seeds = [0, 1, 2, 3, 9];
    let mut numbers = Numbers(seed);
    for _ in 0..120 {
        let which = numbers.below(names.len() as u64) as usize;
        let file = File::open(Path::new(&folder).join(names[which])).expect("openable");
        let expected = pattern(LENGTH, seeds[which]);
        match numbers.below(4) {
            0 => {
                // SAFETY: nobody changes the file while it is mapped: the tree is read-only.
                let map = unsafe { memmap2::Mmap::map(&file) }.expect("mappable");
                let start = numbers.below(LENGTH as u64) as usize;
                let end = (start + numbers.below(100_000) as usize).min(LENGTH);
                assert!(map[start..end] == expected[start..end]);
            }
            1 => assert!(
                std::io::read_to_string(&file).is_err() && file.metadata().expect("there").len() == LENGTH as u64
            ),
            2 => drop(nix::fcntl::posix_fadvise(&file, 0, 0, nix::fcntl::PosixFadviseAdvice::POSIX_FADV_DONTNEED)),
            _ => {}
        }
        let offset = numbers.below(LENGTH as u64 + 1000);
        let mut buffer = vec![0; numbers.below(200_000) as usize];
        let count = file.read_at(&mut buffer, offset).expect("readable");
        let start = (offset as usize).min(LENGTH);
        assert_eq!(count, buffer.len().min(LENGTH - start));
        assert!(buffer[..count] == expected[start..start + count]);
    }
}
