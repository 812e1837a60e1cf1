//! The descriptor of `/dev/fuse`: reads, replies, ioctls. Knows bytes and lengths, no meaning of a request.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;

/// What to do on a machine without the device.
pub const NO_DEVICE_HINT: &str = "load the kernel module (modprobe fuse), or give the container the device /dev/fuse";

/// `struct fuse_backing_map`.
#[repr(C)]
pub struct BackingMap {
    descriptor: i32,
    flags: u32,
    padding: u64,
}

mod control {
    const MAGIC: u8 = 229;
    nix::ioctl_write_ptr!(backing_open, MAGIC, 1, super::BackingMap);
    nix::ioctl_write_ptr!(backing_close, MAGIC, 2, u32);
}

/// One connection to the kernel.
#[derive(Debug)]
pub struct Device {
    descriptor: OwnedFd,
    retired: AtomicBool,
}

/// What one `read` brought.
pub enum Received {
    /// A request of this many bytes.
    Request(usize),
    /// Nothing, try again: a signal, or a request that was taken back.
    Nothing,
    /// The file system is unmounted, or the connection was aborted.
    Ended,
}

impl Device {
    /// Takes over an open `/dev/fuse` that a mount was made with.
    pub fn new(descriptor: OwnedFd) -> Self {
        Device { descriptor, retired: AtomicBool::new(false) }
    }

    /// Waits for the next request.
    pub fn receive(&self, buffer: &mut [u8]) -> io::Result<Received> {
        match nix::unistd::read(&self.descriptor, buffer) {
            Ok(length) => Ok(Received::Request(length)),
            Err(Errno::EINTR | Errno::EAGAIN | Errno::ENOENT) => Ok(Received::Nothing),
            Err(Errno::ENODEV | Errno::ECONNABORTED) => Ok(Received::Ended),
            Err(error) => Err(error.into()),
        }
    }

    /// From now on nothing is said to the kernel any more: another daemon serves the connection.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// ENODEV, as after an unmount, once retired.
    pub fn check_serving(&self) -> io::Result<()> {
        if self.is_retired() { Err(io::Error::from_raw_os_error(libc::ENODEV)) } else { Ok(()) }
    }

    /// Writes one message; the kernel takes it whole or not at all.
    pub fn send(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        self.check_serving()?;
        nix::sys::uio::writev(&self.descriptor, parts)?;
        Ok(())
    }

    /// Registers `file` as the content of inodes and answers the number to name it by in OPEN replies.
    pub fn open_backing(&self, file: &File) -> io::Result<u32> {
        let map = BackingMap { descriptor: file.as_raw_fd(), flags: 0, padding: 0 };
        // SAFETY: `map` is a valid `fuse_backing_map` for the whole call; the kernel only reads it.
        let id = unsafe { control::backing_open(self.descriptor.as_raw_fd(), &map) }?;
        u32::try_from(id).map_err(|_| io::Error::from_raw_os_error(libc::EIO))
    }

    /// Takes a registration back; inodes that are open on it keep it until they close.
    pub fn close_backing(&self, id: u32) -> io::Result<()> {
        self.check_serving()?;
        // SAFETY: the pointer is to a live u32; the kernel only reads it.
        unsafe { control::backing_close(self.descriptor.as_raw_fd(), &id) }?;
        Ok(())
    }

    /// The number of the descriptor, for a mount option.
    pub fn number(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }

    /// A second descriptor of the same connection, to hand to another session or process.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.descriptor.try_clone()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}
