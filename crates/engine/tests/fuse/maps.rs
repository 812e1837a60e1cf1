//! Maps whose pages are asked for one by one: where many of a region were, the kernel gets the others unasked.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::Ordering;

use headrace_engine::fuse::Mode;
use headrace_engine::vfs::ROOT;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, recv, send, socketpair};

use crate::support::{Mount, Numbers, Tree, can_mount, eventually, memory, pattern};

const PAGE: usize = 4096;
const PAGES: usize = 64;
/// As many pages of a region as make the kernel get the others.
const DENSE: usize = 8;
/// Three regions and a half, and a page that is not whole.
const LENGTH: usize = (3 * PAGES + PAGES / 2) * PAGE + 77;

/// A map of a file with the advice that its pages are wanted at random.
struct RandomMap {
    start: *const u8,
    length: usize,
}

impl RandomMap {
    fn of(file: &File, length: usize) -> Self {
        // SAFETY: a new map of an open file, which nothing else refers to.
        let start =
            unsafe { libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        assert_ne!(start, libc::MAP_FAILED);
        // SAFETY: advice about the map that was just made.
        assert_eq!(unsafe { libc::madvise(start, length, libc::MADV_RANDOM) }, 0);
        RandomMap { start: start.cast(), length }
    }

    fn page(&self, number: usize) -> &[u8] {
        let length = PAGE.min(self.length - number * PAGE);
        // SAFETY: within the map, which lives as long as `self`; the file never changes.
        unsafe { std::slice::from_raw_parts(self.start.add(number * PAGE), length) }
    }
}

impl Drop for RandomMap {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the map any more.
        unsafe { libc::munmap(self.start.cast_mut().cast(), self.length) };
    }
}

/// Sends for the mount what it says, as a supervisor does.
fn supervise(mount: &Mount) {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC).expect("a pair");
    let connection = mount.handle().keep().expect("kept").connection;
    mount.handle().send_through(theirs);
    std::thread::spawn(move || relay(&ours, connection));
}

fn relay(end: &OwnedFd, connection: OwnedFd) {
    let mut device = File::from(connection);
    let mut packet = vec![0; 64 << 10];
    while let Ok(length @ 1..) = recv(end.as_raw_fd(), &mut packet, MsgFlags::empty()) {
        let mut rest = &packet[..length];
        let mut taken = 0u32;
        while let Some(bytes) = rest.first_chunk() {
            let (message, later) = rest.split_at(u32::from_ne_bytes(*bytes) as usize);
            taken += u32::from(device.write_all(message).is_ok());
            rest = later;
        }
        let answer = [taken, 0, 0].map(u32::to_le_bytes).concat();
        let _ = send(end.as_raw_fd(), &answer, MsgFlags::MSG_NOSIGNAL);
    }
}

fn mounted(mode: Mode) -> Mount {
    let tree = Tree::default();
    tree.put(ROOT, "index", memory(&pattern(LENGTH, 5)));
    let mount = Mount::new(tree, mode);
    supervise(&mount);
    mount
}

fn reads(mount: &Mount) -> u64 {
    mount.tree.knobs.reads.load(Ordering::Relaxed)
}

fn given(mount: &Mount) -> usize {
    mount.metrics.fuse_given_bytes.get() as usize
}

/// All that has been said so far is with the kernel.
fn settled(mount: &Mount) {
    mount.runtime.block_on(mount.handle().invalidate(Vec::new())).expect("delivered");
}

#[test]
fn a_dense_region_of_a_map_costs_an_eighth_of_its_pages_in_requests() {
    if !can_mount() {
        return;
    }
    for mode in [Mode::Elide, Mode::Classic] {
        let (mount, content) = (mounted(mode), pattern(LENGTH, 5));
        let map = RandomMap::of(&File::open(mount.path("index")).expect("there"), LENGTH);
        let right = |number: usize| assert!(map.page(number) == &content[number * PAGE..][..map.page(number).len()]);
        let mut numbers = Numbers(3);
        for (region, pages) in [(0, PAGES), (2, PAGES), (3, PAGES / 2 + 1)] {
            let mut order: Vec<usize> = (0..pages).map(|page| region * PAGES + page).collect();
            order.sort_by_cached_key(|_| numbers.next());
            let (before, was_given) = (reads(&mount), given(&mount));
            order[..DENSE].iter().for_each(|number| right(*number));
            assert_eq!(reads(&mount) - before, DENSE as u64, "{mode:?}: each page by itself");
            eventually("the others are given", || given(&mount) > was_given);
            settled(&mount);
            order.iter().for_each(|number| right(*number));
            assert_eq!(reads(&mount) - before, DENSE as u64, "{mode:?}: {region}");
        }
        assert_eq!(given(&mount), LENGTH - PAGES * PAGE, "{mode:?}");
    }
}

#[test]
fn nothing_is_given_beside_sparse_pages_and_direct_reads_or_from_a_disk() {
    if !can_mount() {
        return;
    }
    let (mount, content) = (mounted(Mode::Elide), pattern(LENGTH, 5));
    let file = File::open(mount.path("index")).expect("there");
    let map = RandomMap::of(&file, LENGTH);
    for number in (0..LENGTH / PAGE).step_by(PAGES / (DENSE - 1) + 1) {
        assert!(map.page(number) == &content[number * PAGE..][..PAGE]);
    }
    let direct = File::options().read(true).custom_flags(libc::O_DIRECT).open(mount.path("index")).expect("there");
    let mut buffer = vec![0; 2 * PAGE];
    let aligned = buffer.as_ptr().align_offset(PAGE);
    for number in 0..PAGES {
        direct.read_exact_at(&mut buffer[aligned..][..PAGE], (number * PAGE) as u64).expect("read");
    }
    mount.tree.knobs.cold.store(true, Ordering::Relaxed);
    for number in PAGES..2 * PAGES {
        assert!(map.page(number) == &content[number * PAGE..][..PAGE]);
    }
    settled(&mount);
    assert_eq!(given(&mount), 0);
}

#[test]
fn without_a_supervisor_nothing_is_given_since_the_kernel_may_hold_the_giver() {
    if !can_mount() {
        return;
    }
    let (tree, content) = (Tree::default(), pattern(LENGTH, 5));
    tree.put(ROOT, "index", memory(&content));
    let mount = Mount::new(tree, Mode::Elide);
    let map = RandomMap::of(&File::open(mount.path("index")).expect("there"), LENGTH);
    for number in 0..PAGES {
        assert!(map.page(number) == &content[number * PAGE..][..PAGE]);
        settled(&mount);
    }
    assert_eq!(reads(&mount), PAGES as u64);
    assert_eq!(given(&mount), 0);
}
