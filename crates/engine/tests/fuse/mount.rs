//! What programs see through the mount, against the real kernel: reads of every kind, listings, refusals.

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::support::{Content, Mount, Numbers, Tree, can_mount, memory, pattern};
use headrace_engine::fuse::Mode;
use headrace_engine::vfs::ROOT;

const MODES: [Mode; 3] = [Mode::Passthrough, Mode::Elide, Mode::Classic];
const LARGE: usize = (3 << 20) + 4321;

struct Prepared {
    mount: Mount,
    bytes: Vec<u8>,
    _source: tempfile::TempDir,
}

/// `large` on a local disk, `memory` with the same bytes, `empty`.
fn prepared(mode: Mode) -> Prepared {
    let source = tempfile::tempdir().expect("a temporary folder");
    let bytes = pattern(LARGE, 1);
    std::fs::write(source.path().join("large"), &bytes).expect("written");
    let tree = Tree::of_folder(source.path());
    tree.put(ROOT, "memory", memory(&bytes));
    tree.put(ROOT, "empty", memory(b""));
    Prepared { mount: Mount::new(tree, mode), bytes, _source: source }
}

#[test]
fn every_mode_is_what_was_asked_for() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        assert_eq!(prepared(mode).mount.handle().mode(), mode);
    }
}

#[test]
fn whole_files_and_ranges_are_the_source_bytes() {
    if !can_mount() {
        return;
    }
    for (mode, copy, slow) in
        MODES.iter().flat_map(|mode| [(*mode, false, false), (*mode, true, false), (*mode, false, true)])
    {
        let prepared = prepared(mode);
        prepared.mount.tree.knobs.copy.store(copy, Ordering::Relaxed);
        prepared.mount.tree.knobs.slow.store(slow, Ordering::Relaxed);
        assert_eq!(std::fs::read(prepared.mount.path("empty")).expect("readable"), b"");
        for name in ["large", "memory"] {
            let path = prepared.mount.path(name);
            ranges_match(&File::open(&path).expect("openable"), &prepared.bytes);
            assert!(std::fs::read(&path).expect("readable") == prepared.bytes, "{name} {mode:?} {copy} {slow}");
        }
    }
}

fn ranges_match(file: &File, bytes: &[u8]) {
    let mut numbers = Numbers(7);
    for _ in 0..60 {
        let offset = numbers.below(bytes.len() as u64 + 9000);
        let mut buffer = vec![0xee; numbers.below(300_000) as usize];
        let count = read_up_to(file, &mut buffer, offset);
        let start = (offset as usize).min(bytes.len());
        let end = (start + buffer.len()).min(bytes.len());
        assert!(buffer[..count] == bytes[start..end], "at {offset}");
    }
}

fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> usize {
    let mut total = 0;
    while total < buffer.len() {
        match file.read_at(&mut buffer[total..], offset + total as u64).expect("readable") {
            0 => break,
            count => total += count,
        }
    }
    total
}

#[test]
fn reads_beyond_the_end_are_empty() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let prepared = prepared(mode);
        let mut file = File::open(prepared.mount.path("large")).expect("openable");
        assert_eq!(file.seek(SeekFrom::End(10)).expect("seekable"), LARGE as u64 + 10);
        assert_eq!(file.read(&mut [0; 100]).expect("readable"), 0);
        assert_eq!(file.read_at(&mut [0; 100], 1 << 50).expect("readable"), 0);
    }
}

#[test]
fn mapped_memory_is_the_source_bytes() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let prepared = prepared(mode);
        for name in ["large", "memory"] {
            let file = File::open(prepared.mount.path(name)).expect("openable");
            // SAFETY: nobody changes the file while it is mapped: the tree is read-only.
            let map = unsafe { memmap2::Mmap::map(&file) }.expect("mappable");
            assert!(map[..] == prepared.bytes[..], "{name} {mode:?}");
        }
    }
}

#[test]
fn sendfile_and_direct_reads_give_the_source_bytes() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let prepared = prepared(mode);
        for name in ["large", "memory"] {
            let path = prepared.mount.path(name);
            assert!(sent(&path) == prepared.bytes, "{name} {mode:?}");
            assert!(read_direct(&path) == prepared.bytes, "{name} {mode:?}");
        }
    }
}

fn sent(path: &Path) -> Vec<u8> {
    let (source, mut target) = (File::open(path).expect("openable"), tempfile::tempfile().expect("a file"));
    let mut offset = 0;
    while nix::sys::sendfile::sendfile(&target, &source, Some(&mut offset), 1 << 20).expect("sent") > 0 {}
    target.rewind().expect("seekable");
    let mut bytes = Vec::new();
    target.read_to_end(&mut bytes).expect("readable");
    bytes
}

fn read_direct(path: &Path) -> Vec<u8> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path).expect("openable");
    let mut space = vec![0u8; (1 << 20) + 4096];
    let start = space.as_ptr().align_offset(4096);
    let buffer = &mut space[start..start + (1 << 20)];
    let mut bytes = Vec::new();
    while let count @ 1.. = file.read_at(buffer, bytes.len() as u64).expect("readable") {
        bytes.extend_from_slice(&buffer[..count]);
    }
    bytes
}

#[test]
fn many_readers_of_one_file_agree() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let prepared = prepared(mode);
        std::thread::scope(|scope| {
            for reader in 0..12 {
                let (prepared, name) = (&prepared, if reader % 2 == 0 { "large" } else { "memory" });
                scope.spawn(move || {
                    let read = std::fs::read(prepared.mount.path(name)).expect("readable");
                    assert!(read == prepared.bytes);
                });
            }
        });
    }
}

#[test]
fn stat_tells_what_the_tree_says() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    let file = tree.put(ROOT, "file", memory(b"0123456789"));
    tree.link(ROOT, "same file", file);
    tree.set_links(file, 2);
    let mount = Mount::new(tree, Mode::Classic);
    let seen = std::fs::metadata(mount.path("file")).expect("there");
    assert_eq!((seen.len(), seen.nlink(), seen.ino(), seen.mode()), (10, 2, file, 0o100_444));
    assert_eq!((seen.mtime(), seen.mtime_nsec(), seen.blocks()), (1_700_000_000, 123_456_789, 1));
    assert_eq!(std::fs::metadata(mount.path("same file")).expect("there").ino(), file);
    let root = std::fs::metadata(mount.folder.path()).expect("there");
    assert_eq!((root.ino(), root.mode()), (ROOT, 0o40555));
    let missing = std::fs::metadata(mount.path("nothing")).expect_err("absent");
    assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
}

#[test]
fn statfs_and_mount_table_name_the_tree() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(Tree::default(), Mode::Auto);
    let seen = nix::sys::statvfs::statvfs(mount.folder.path()).expect("there");
    assert_eq!((seen.blocks() * seen.fragment_size(), seen.blocks_available()), (123 << 20, 0));
    assert!(seen.flags().contains(nix::sys::statvfs::FsFlags::ST_RDONLY));
    let table = std::fs::read_to_string("/proc/mounts").expect("readable");
    let line = format!("headrace {} fuse.headrace ro,nosuid,nodev", mount.folder.path().display());
    assert!(table.contains(&line), "{table}");
}

#[test]
fn links_lead_where_they_point() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    tree.put(ROOT, "target", memory(b"content"));
    tree.put(ROOT, "link", Content::Link(b"target".to_vec()));
    tree.put(ROOT, "dangling", Content::Link(b"../no/where".to_vec()));
    let mount = Mount::new(tree, Mode::Classic);
    for _ in 0..2 {
        assert_eq!(std::fs::read_link(mount.path("link")).expect("a link"), PathBuf::from("target"));
        assert_eq!(std::fs::read(mount.path("link")).expect("readable"), b"content");
        assert!(std::fs::metadata(mount.path("dangling")).is_err());
    }
}

#[test]
fn every_change_is_refused_with_erofs() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let tree = Tree::default();
        tree.put(ROOT, "file", memory(b"content"));
        tree.put(ROOT, "folder", Content::Directory(Default::default()));
        let mount = Mount::new(tree, mode);
        for (name, errno) in changes(&mount) {
            assert_eq!(errno, libc::EROFS, "{name}");
        }
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).expect("no NUL")
}

fn changes(mount: &Mount) -> Vec<(&'static str, i32)> {
    let (file, folder, new) = (c_path(&mount.path("file")), c_path(&mount.path("folder")), c_path(&mount.path("new")));
    let value = c"value";
    let readable = File::open(mount.path("file")).expect("openable");
    let open = std::os::fd::AsRawFd::as_raw_fd(&readable);
    let errno = |outcome: i64| {
        assert_eq!(outcome, -1);
        std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
    };
    let mut seen = Vec::new();
    macro_rules! try_all {
        ($($name:literal: $call:expr;)*) => { $(
            // SAFETY: every path is a live NUL-terminated string and every other pointer null or to a live value.
            let outcome = unsafe { $call };
            seen.push(($name, errno(i64::from(outcome))));
        )* };
    }
    try_all! {
        "open for writing": libc::open(file.as_ptr(), libc::O_WRONLY);
        "open for both": libc::open(file.as_ptr(), libc::O_RDWR);
        "open and truncate": libc::open(file.as_ptr(), libc::O_RDONLY | libc::O_TRUNC);
        "create": libc::open(new.as_ptr(), libc::O_WRONLY | libc::O_CREAT, 0o644);
        "tmpfile": libc::open(folder.as_ptr(), libc::O_TMPFILE | libc::O_WRONLY, 0o644);
        "truncate": libc::truncate(file.as_ptr(), 1);
        "unlink": libc::unlink(file.as_ptr());
        "rmdir": libc::rmdir(folder.as_ptr());
        "mkdir": libc::mkdir(new.as_ptr(), 0o755);
        "mknod": libc::mknod(new.as_ptr(), libc::S_IFIFO | 0o644, 0);
        "rename": libc::rename(file.as_ptr(), new.as_ptr());
        "link": libc::link(file.as_ptr(), new.as_ptr());
        "symlink": libc::symlink(file.as_ptr(), new.as_ptr());
        "chmod": libc::chmod(file.as_ptr(), 0o600);
        "fchmod": libc::fchmod(open, 0o600);
        "chown": libc::chown(file.as_ptr(), 1, 1);
        "utimes": libc::utimes(file.as_ptr(), std::ptr::null());
        "setxattr": libc::setxattr(file.as_ptr(), c"user.x".as_ptr(), value.as_ptr().cast(), 5, 0);
        "removexattr": libc::removexattr(file.as_ptr(), c"user.x".as_ptr());
        "access": libc::access(file.as_ptr(), libc::W_OK);
    }
    seen
}

#[test]
fn a_large_directory_is_complete_and_in_order() {
    if !can_mount() {
        return;
    }
    const COUNT: usize = 100_000;
    for mode in [Mode::Classic, Mode::Elide] {
        let tree = Tree::default();
        tree.put_many(ROOT, "many", COUNT);
        let mount = Mount::new(tree, mode);
        let path = mount.path("many");
        std::thread::scope(|scope| {
            for long in [false, true, false, true] {
                let path = &path;
                scope.spawn(move || list_all(path, COUNT, long));
            }
        });
        list_all(&path, COUNT, true);
        positions_can_be_returned_to(&path);
        assert!(mount.handle().kernel_lookups() > COUNT as u64 / 2);
    }
}

fn list_all(path: &Path, count: usize, long: bool) {
    for (number, entry) in std::fs::read_dir(path).expect("a folder").enumerate() {
        let entry = entry.expect("an entry");
        assert_eq!(entry.file_name().as_bytes(), format!("{number:09}").as_bytes());
        if long {
            assert_eq!(entry.metadata().expect("there").len(), 0);
        }
        assert!(number < count);
    }
    assert_eq!(std::fs::read_dir(path).expect("a folder").count(), count);
}

/// `telldir` and `seekdir` at many places, in an order that is not the listing's.
fn positions_can_be_returned_to(path: &Path) {
    let path = c_path(path);
    // SAFETY: a live NUL-terminated string; the stream is closed below and used by this thread alone.
    unsafe {
        let stream = libc::opendir(path.as_ptr());
        assert!(!stream.is_null());
        let mut places = Vec::new();
        for number in 0..3000 {
            let position = libc::telldir(stream);
            let entry = libc::readdir(stream);
            assert!(!entry.is_null());
            let name = std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()).to_owned();
            if number % 97 == 0 || number < 3 {
                places.push((position, name));
            }
        }
        for (position, name) in places.iter().rev() {
            libc::seekdir(stream, *position);
            let entry = libc::readdir(stream);
            assert!(!entry.is_null());
            assert_eq!(std::ffi::CStr::from_ptr((*entry).d_name.as_ptr()), name.as_c_str());
        }
        libc::closedir(stream);
    }
}

#[test]
fn dots_lead_up() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    let folder = tree.put(ROOT, "folder", Content::Directory(Default::default()));
    let inner = tree.put(folder, "inner", Content::Directory(Default::default()));
    let mount = Mount::new(tree, Mode::Classic);
    let output = std::process::Command::new("ls").args(["-ai"]).arg(mount.path("folder/inner")).output().expect("ls");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, [&inner.to_string(), ".", &folder.to_string(), ".."]);
}

#[test]
fn a_second_long_listing_asks_the_daemon_nothing() {
    if !can_mount() {
        return;
    }
    for mode in MODES {
        let tree = Tree::default();
        tree.put_many(ROOT, "many", 5000);
        let mount = Mount::new(tree, mode);
        list_all(&mount.path("many"), 5000, true);
        assert!(!asked_so_far(&mount).is_empty());
        // Whoever wants memory, or drops this machine's caches in between, makes the kernel ask again.
        let asks_nothing = |_| {
            let asked = asked_so_far(&mount);
            list_all(&mount.path("many"), 5000, true);
            asked_so_far(&mount) == asked
        };
        assert!((0..5).any(asks_nothing));
    }
}

/// Every request so far but FORGETs, which the kernel sends when it likes.
fn asked_so_far(mount: &Mount) -> Vec<String> {
    let text = mount.metrics.encode();
    let counts = text.lines().filter(|line| line.starts_with("headrace_fuse_requests_total") && !line.ends_with(" 0"));
    let mut counts: Vec<String> = counts.filter(|line| !line.contains("forget")).map(str::to_owned).collect();
    counts.sort();
    counts
}
