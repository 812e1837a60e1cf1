//! The system calls that tokio has no words for: sending from a file without a copy, and asking for cached pages only.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;

use nix::sys::statfs::{TMPFS_MAGIC, fstatfs};
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Not more than this waits unsent in the kernel, so that a small answer is not stuck behind a large one. Buffer sizes
/// are left to the kernel: it grows them with the link, and setting them by hand would stop that.
static MAX_UNSENT_BYTES: libc::c_int = 512 << 10;

/// Small frames leave at once, large ones queue up here, not in the kernel.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the descriptor is open for the call, and the option's value is an int that lives as long.
    let answer = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_NOTSENT_LOWAT,
            (&raw const MAX_UNSENT_BYTES).cast(),
            size,
        )
    };
    if answer == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Sends all of `bytes` and tells the kernel that more follows at once: it joins both into full packets.
pub async fn send_before_more(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use nix::sys::socket::{MsgFlags, send};
    while !bytes.is_empty() {
        let flags = MsgFlags::from_bits_retain(libc::MSG_MORE) | MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
        let sent = stream.async_io(Interest::WRITABLE, || Ok(send(stream.as_raw_fd(), bytes, flags)?)).await?;
        bytes = &bytes[sent..];
    }
    Ok(())
}

/// Sends `length` bytes of `file` from `offset` without copying them. Returns how many were there to be sent.
pub async fn send_file(stream: &TcpStream, file: &File, offset: u64, length: u32) -> io::Result<u32> {
    let mut sent = 0;
    while sent < length {
        let (from, left) = (offset + u64::from(sent), (length - sent) as usize);
        let count = stream.async_io(Interest::WRITABLE, || send_some(stream, file, from, left)).await?;
        if count == 0 {
            break;
        }
        sent += count as u32;
    }
    Ok(sent)
}

fn send_some(stream: &TcpStream, file: &File, offset: u64, count: usize) -> io::Result<usize> {
    let mut offset = offset as libc::off64_t;
    Ok(nix::sys::sendfile::sendfile64(stream.as_fd(), file.as_fd(), Some(&mut offset), count)?)
}

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
