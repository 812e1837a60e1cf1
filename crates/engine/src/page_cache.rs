//! What of a file is in memory: reading it waits for no disk.

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

/// Whether `length` bytes from `offset` are probably in memory: their first and last byte are.
pub fn is_cached(file: &File, offset: u64, length: u32) -> bool {
    let mut byte = [0];
    let mut cached = |offset| matches!(read_cached(file, &mut byte, offset), Some(Ok(1)));
    cached(offset) && cached(offset + u64::from(length) - 1)
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
}
