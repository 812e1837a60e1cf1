//! Answers in the kernel's layout, and the promise that every request gets exactly one.

use std::io::{self, IoSlice};
use std::sync::Arc;

use super::abi::{OUT_HEADER_BYTES, PAGE_BYTES};
use super::device::Device;
use crate::staging::is_written;
use crate::vfs::{Attributes, FileKind, Space, Statistics};

/// The largest fixed-size answer is `fuse_entry_out` with `fuse_open_out` (144 bytes).
const WORDS_BYTES: usize = 144;

/// A fixed-size answer under construction; lives on the stack.
pub struct Words {
    bytes: [u8; WORDS_BYTES],
    length: usize,
}

impl Words {
    pub fn new() -> Self {
        Words { bytes: [0; WORDS_BYTES], length: 0 }
    }

    fn put(mut self, bytes: &[u8]) -> Self {
        self.bytes[self.length..self.length + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
        self
    }

    pub fn u16(self, value: u16) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub fn u32(self, value: u32) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub fn u64(self, value: u64) -> Self {
        self.put(&value.to_ne_bytes())
    }

    pub fn zeros(mut self, count: usize) -> Self {
        self.length += count;
        self
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// `fuse_out_header`.
pub fn header(unique: u64, error: i32, payload_bytes: usize) -> Words {
    let length = u32::try_from(OUT_HEADER_BYTES + payload_bytes).unwrap_or(u32::MAX);
    Words::new().u32(length).u32(error as u32).u64(unique)
}

/// How long the kernel may believe what it was told, and whom all files belong to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Presentation {
    pub entry: Lifetime,
    pub attributes: Lifetime,
}

/// A duration in the kernel's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    seconds: u64,
    nanoseconds: u32,
}

impl Lifetime {
    /// Negative and NaN count as 0; what is beyond a century counts as one.
    pub fn from_seconds(seconds: f64) -> Self {
        let bounded = seconds.clamp(0.0, 3.2e9);
        let bounded = if bounded.is_nan() { 0.0 } else { bounded };
        Lifetime { seconds: bounded as u64, nanoseconds: (bounded.fract() * 1e9) as u32 }
    }
}

impl Presentation {
    /// `fuse_entry_out` for a name that exists.
    pub fn entry(&self, attributes: &Attributes) -> Words {
        self.put_attributes(self.entry_head(attributes.inode), attributes)
    }

    /// `fuse_entry_out` for a name that does not: the kernel remembers that, too.
    pub fn absent(&self) -> Words {
        self.entry_head(0).zeros(88)
    }

    /// `fuse_attr_out`.
    pub fn attributes(&self, attributes: &Attributes) -> Words {
        let lifetime = self.attributes_of(attributes.inode);
        let head = Words::new().u64(lifetime.seconds).u32(lifetime.nanoseconds).u32(0);
        self.put_attributes(head, attributes)
    }

    /// The size of a file that programs write is asked for each time.
    fn attributes_of(&self, inode: u64) -> Lifetime {
        if is_written(inode) { Lifetime::from_seconds(0.0) } else { self.attributes }
    }

    /// `fuse_entry_out` and `fuse_open_out` of a file that was made.
    pub fn created(&self, attributes: &Attributes, handle: u64, flags: u32) -> Words {
        self.entry(attributes).u64(handle).u32(flags).u32(0)
    }

    fn entry_head(&self, inode: u64) -> Words {
        let (generation, attributes) = (0, self.attributes_of(inode));
        Words::new()
            .u64(inode)
            .u64(generation)
            .u64(self.entry.seconds)
            .u64(attributes.seconds)
            .u32(self.entry.nanoseconds)
            .u32(attributes.nanoseconds)
    }

    /// `fuse_attr`. All three times are the modification time: nothing else is known of an object.
    fn put_attributes(&self, words: Words, of: &Attributes) -> Words {
        let seconds = of.mtime_ns.div_euclid(1_000_000_000) as u64;
        let nanoseconds = of.mtime_ns.rem_euclid(1_000_000_000) as u32;
        let (device, flags) = (0, 0);
        words
            .u64(of.inode)
            .u64(of.size)
            .u64(of.size.div_ceil(512))
            .u64(seconds)
            .u64(seconds)
            .u64(seconds)
            .u32(nanoseconds)
            .u32(nanoseconds)
            .u32(nanoseconds)
            .u32(file_type(of.kind) | (of.mode & 0o7777))
            .u32(of.links)
            .u32(of.uid)
            .u32(of.gid)
            .u32(device)
            .u32(PAGE_BYTES as u32)
            .u32(flags)
    }
}

/// The file type bits of `st_mode`.
pub fn file_type(kind: FileKind) -> u32 {
    match kind {
        FileKind::File => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
    }
}

/// `fuse_open_out`.
pub fn opened(handle: u64, flags: u32, backing: u32) -> Words {
    Words::new().u64(handle).u32(flags).u32(backing)
}

/// `fuse_statfs_out`: full, as everything read-only is.
pub fn statistics(of: Statistics) -> Words {
    let (free, name_length) = (0, 255);
    Words::new()
        .u64(of.bytes.div_ceil(PAGE_BYTES))
        .u64(free)
        .u64(free)
        .u64(of.files)
        .u64(free)
        .u32(PAGE_BYTES as u32)
        .u32(name_length)
        .u32(PAGE_BYTES as u32)
        .zeros(28)
}

/// `fuse_statfs_out` of a tree that can be written to.
pub fn space(of: Space) -> Words {
    let (unit, name_length) = (PAGE_BYTES, 255);
    Words::new()
        .u64(of.total_bytes / unit)
        .u64(of.free_bytes / unit)
        .u64(of.free_bytes / unit)
        .u64(of.files)
        .u64(of.free_files)
        .u32(unit as u32)
        .u32(name_length)
        .u32(unit as u32)
        .zeros(28)
}

/// `fuse_write_out`.
pub fn written(bytes: usize) -> Words {
    Words::new().u32(bytes as u32).u32(0)
}

/// The duty to answer one request. Dropped without an answer (a panic, a task that was thrown away), it answers EIO, so
/// that no reader waits for ever.
#[derive(Debug)]
pub struct Pending {
    device: Arc<Device>,
    unique: u64,
    answered: bool,
}

impl Pending {
    pub fn new(device: Arc<Device>, unique: u64) -> Self {
        Pending { device, unique, answered: false }
    }

    /// The number that the kernel gave the request.
    pub fn unique(&self) -> u64 {
        self.unique
    }

    /// The connection, for those who write the answer themselves and then call `written`.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The answer was written without us.
    pub fn written(mut self) {
        self.answered = true;
    }

    /// Answers with bytes. False when the kernel no longer wanted the answer.
    pub fn bytes(mut self, payload: &[u8]) -> bool {
        self.answered = true;
        let head = header(self.unique, 0, payload.len());
        self.outcome(self.device.send(&[IoSlice::new(head.as_bytes()), IoSlice::new(payload)]))
    }

    /// Answers with a structure.
    pub fn words(self, payload: Words) -> bool {
        self.bytes(payload.as_bytes())
    }

    /// Answers with `length` bytes in pieces.
    pub fn slices(mut self, length: usize, pieces: &[IoSlice<'_>]) -> bool {
        self.answered = true;
        let head = header(self.unique, 0, length);
        let mut parts = Vec::with_capacity(pieces.len() + 1);
        parts.push(IoSlice::new(head.as_bytes()));
        parts.extend(pieces.iter().map(|piece| IoSlice::new(piece)));
        self.outcome(self.device.send(&parts))
    }

    /// Answers "done", or the errno of a failure.
    pub fn error(mut self, errno: i32) -> bool {
        self.answered = true;
        let head = header(self.unique, -errno, 0);
        self.outcome(self.device.send(&[IoSlice::new(head.as_bytes())]))
    }

    /// ENOENT means that the request was taken back meanwhile; ENODEV that the mount is gone. Neither is a fault.
    fn outcome(&self, sent: io::Result<()>) -> bool {
        match sent {
            Ok(()) => true,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV)) => false,
            Err(error) => {
                tracing::error!("fuse: the kernel refused an answer: {error}");
                // An answer that the kernel cannot read leaves the reader waiting; EIO ends that.
                let head = header(self.unique, -libc::EIO, 0);
                let _ = self.device.send(&[IoSlice::new(head.as_bytes())]);
                false
            }
        }
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            let head = header(self.unique, -libc::EIO, 0);
            let _ = self.device.send(&[IoSlice::new(head.as_bytes())]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn a_file() -> Attributes {
        Attributes { inode: 5, kind: FileKind::File, size: 513, mtime_ns: -1, mode: 0o444, uid: 1, gid: 2, links: 1 }
    }

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        let lifetime = Lifetime::from_seconds(1.5);
        let shown = Presentation { entry: lifetime, attributes: lifetime };
        assert_eq!(shown.entry(&a_file()).as_bytes().len(), 128);
        assert_eq!(shown.absent().as_bytes().len(), 128);
        assert_eq!(shown.attributes(&a_file()).as_bytes().len(), 104);
        assert_eq!(statistics(Statistics { files: 1, bytes: 1 }).as_bytes().len(), 80);
        assert_eq!(opened(1, 2, 3).as_bytes().len(), 16);
        assert_eq!(shown.created(&a_file(), 1, 2).as_bytes().len(), 144);
        assert_eq!(written(1).as_bytes().len(), 8);
        let space_of = Space { total_bytes: 1, free_bytes: 1, files: 1, free_files: 1 };
        assert_eq!(space(space_of).as_bytes().len(), 80);
        assert_eq!(header(1, 0, 0).as_bytes().len(), OUT_HEADER_BYTES);
    }

    #[test]
    fn lifetimes_are_bounded() {
        assert_eq!(Lifetime::from_seconds(f64::NAN), Lifetime { seconds: 0, nanoseconds: 0 });
        assert_eq!(Lifetime::from_seconds(-3.0), Lifetime { seconds: 0, nanoseconds: 0 });
        assert_eq!(Lifetime::from_seconds(0.25), Lifetime { seconds: 0, nanoseconds: 250_000_000 });
        assert_eq!(Lifetime::from_seconds(f64::INFINITY).seconds, 3_200_000_000);
    }
}
