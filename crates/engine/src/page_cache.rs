//! Pages of a file in memory: reading them waits for no disk.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};

/// Reads without waiting for the disk; `None` when the kernel would have to, or when it cannot tell.
pub fn read_cached(file: &File, buffer: &mut [u8], offset: u64) -> Option<io::Result<usize>> {
    let part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: `part` describes `buffer`, which is borrowed mutably for the call; the descriptor is open.
    let count = unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, offset as libc::off_t, libc::RWF_NOWAIT) };
    if count >= 0 {
        return Some(Ok(count as usize));
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EAGAIN) => None,
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            // Memory file systems need no disk, and no such flag.
            let memory = fstatfs(file).is_ok_and(|answer| answer.filesystem_type() == TMPFS_MAGIC);
            memory.then(|| file.read_at(buffer, offset))
        }
        error => Some(Err(error)),
    }
}

/// Whether `length` bytes from `offset` are probably in memory: the kernel knows all their pages, and the first and last
/// byte can be read.
pub fn is_cached(file: &File, offset: u64, length: u32) -> bool {
    let mut byte = [0];
    let mut cached = |offset| matches!(read_cached(file, &mut byte, offset), Some(Ok(1)));
    has_pages(file, offset, length) && cached(offset) && cached(offset + u64::from(length) - 1)
}

/// Below this the kernel reads as much for one byte as for all.
const WORTH_ASKING_BYTES: u32 = 16 << 10;
/// The system call's number, the same for all processors that we build for; libc does not name it yet.
const CACHESTAT: libc::c_long = 451;

/// Whether the kernel has all pages of the range, or is reading them from the disk. True as well where it cannot tell.
///
/// A byte that is tried and is not in memory makes it read a few pages, and whoever then wants all waits for the disk
/// twice. So it is asked first: `cachestat`, since Linux 6.5.
fn has_pages(file: &File, offset: u64, length: u32) -> bool {
    if length <= WORTH_ASKING_BYTES {
        return true;
    }
    // Offset and length; pages in memory, dirty, under write-back, evicted, and evicted lately (include/uapi/linux/mman.h).
    let (range, mut counts) = ([offset, u64::from(length)], [0_u64; 5]);
    // SAFETY: both are as large as the kernel's structures and live for the call; the descriptor is open.
    let failed = unsafe { libc::syscall(CACHESTAT, file.as_raw_fd(), range.as_ptr(), counts.as_mut_ptr(), 0_u32) };
    let page = page_bytes();
    failed != 0 || counts[0] >= (offset + u64::from(length)).div_ceil(page) - offset / page
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a constant.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_just_written_is_cached_and_what_is_beyond_the_end_is_not() {
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[7; 8192], 0).expect("written");
        let mut buffer = [0; 16];
        if let Some(answer) = read_cached(&file, &mut buffer, 8190) {
            assert_eq!((answer.expect("readable"), &buffer[..2]), (2, &[7, 7][..]));
            assert!(is_cached(&file, 0, 8192));
        }
        assert!(!is_cached(&file, 0, 8193));
    }

    /// Beside this program, which lies on a disk: memory file systems do not drop pages.
    fn file_on_a_disk(content: &[u8]) -> File {
        let program = std::env::current_exe().expect("known");
        let file = tempfile::tempfile_in(program.parent().expect("in a folder")).expect("a file");
        file.write_all_at(content, 0).expect("written");
        file.sync_all().expect("on the disk");
        file
    }

    fn advise(file: &File, advice: libc::c_int) {
        // SAFETY: gives advice on an open descriptor.
        assert_eq!(unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, advice) }, 0);
    }

    #[test]
    fn what_is_not_in_memory_is_not_read_by_asking_and_a_part_in_memory_is_not_all() {
        const WHOLE: u32 = 128 << 10;
        let file = file_on_a_disk(&[7; WHOLE as usize]);
        assert!(is_cached(&file, 0, WHOLE));
        advise(&file, libc::POSIX_FADV_DONTNEED);
        advise(&file, libc::POSIX_FADV_RANDOM);
        if has_pages(&file, 0, WHOLE) {
            return; // A kernel before 6.5, or a file system that drops nothing.
        }
        assert!(!is_cached(&file, 0, WHOLE));
        assert!(!has_pages(&file, 0, 17 << 10), "nothing was read by asking");
        let mut part = [0; 20 << 10];
        file.read_exact_at(&mut part, 0).expect("readable");
        assert!(has_pages(&file, 100, 19 << 10));
        assert!(!has_pages(&file, 0, WHOLE));
    }
}
