//! The system calls that tokio has no words for: sending from a file without a copy.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

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
