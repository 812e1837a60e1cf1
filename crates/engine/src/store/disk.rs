//! System calls on cache files: positioned writes, holes, stamps, sizes of file systems. Knows no blocks.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use bytes::Bytes;

use super::watch::DiskWatch;

/// What is read or written by one call: a disk that is slow does not hang as long as that much comes through.
const STEP_BYTES: usize = 256 << 10;

/// What a data file looked like when we last saw it: a digest of inode, size, modification and change time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp(u64);

impl Stamp {
    /// A stamp that no file has been seen with.
    pub const NEVER: Stamp = Stamp(0);

    /// The stamp of an open file now: one `fstat`.
    pub fn of(file: &File) -> io::Result<(Self, u64)> {
        let mut status = std::mem::MaybeUninit::<libc::stat>::uninit();
        // SAFETY: the descriptor is open as long as `file` lives, and `status` is large enough for what is written.
        if unsafe { libc::fstat(file.as_raw_fd(), status.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: `fstat` succeeded, so it filled `status`.
        let status = unsafe { status.assume_init() };
        let fields = [
            status.st_ino,
            status.st_size as u64,
            status.st_mtime as u64,
            status.st_mtime_nsec as u64,
            status.st_ctime as u64,
            status.st_ctime_nsec as u64,
        ];
        let digest = fields.iter().fold(0x9e37_79b9_7f4a_7c15, |digest: u64, field| {
            (digest ^ field).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(31)
        });
        Ok((Stamp(digest | 1), status.st_size as u64))
    }
}

/// True when the open file has no name any more.
pub fn is_removed(file: &File) -> bool {
    file.metadata().is_ok_and(|status| std::os::unix::fs::MetadataExt::nlink(&status) == 0)
}

/// Writes `parts` one after the other from `offset`.
pub fn write_parts(file: &File, parts: &[Bytes], mut offset: u64, watch: &DiskWatch) -> io::Result<()> {
    for step in parts.iter().flat_map(|part| part.chunks(STEP_BYTES)) {
        watch.during(|| file.write_all_at(step, offset))?;
        offset += step.len() as u64;
    }
    Ok(())
}

/// The CRC32C of `parts` in order.
pub fn checksum(parts: &[Bytes]) -> u32 {
    parts.iter().fold(0, |crc, part| crc32c::crc32c_append(crc, part))
}

/// The CRC32C of `length` bytes from `offset`, as the file holds them now.
pub fn checksum_of_file(file: &File, offset: u64, length: u32, watch: &DiskWatch) -> io::Result<u32> {
    let mut buffer = vec![0; (length as usize).min(STEP_BYTES)];
    let (mut crc, mut done) = (0, 0);
    while done < length as usize {
        let count = buffer.len().min(length as usize - done);
        watch.during(|| file.read_exact_at(&mut buffer[..count], offset + done as u64))?;
        crc = crc32c::crc32c_append(crc, &buffer[..count]);
        done += count;
    }
    Ok(crc)
}

/// Gives the room of `length` bytes from `offset` back to the file system; they read as zeros afterwards.
pub fn punch_hole(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a plain system call on a descriptor that is open as long as `file` lives.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Locks the description of `file` against holes; every copy of its descriptor, in any process, carries the lock until
/// the last is closed.
pub fn hold(file: &File) -> io::Result<()> {
    file.try_lock_shared().map_err(io::Error::from)
}

/// True when another description of the file carries such a lock, or when that cannot be told. `file` itself must not.
pub fn is_held(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => file.unlock().is_err(),
        Err(_) => true,
    }
}

/// The mode bit of a data file of which something was dropped as wrong: it means nothing for a plain file, and every
/// process that has the file open sees it.
const DISTRUSTED: u32 = libc::S_ISVTX;

/// Marks the data file for good: something of it was wrong, so whoever has it on loan asks again before each use.
pub fn distrust(file: &File) -> io::Result<()> {
    let mut permissions = file.metadata()?.permissions();
    permissions.set_mode(permissions.mode() & 0o7777 | DISTRUSTED);
    file.set_permissions(permissions)
}

/// A mark on a data file; one that was set again is another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WrongMark {
    inode: u64,
    changed: (i64, i64),
}

/// True when something of the data file was dropped as wrong since it was made: one `fstat`.
pub fn is_distrusted(file: &File) -> bool {
    mark_of(file).is_some()
}

/// The mark of a data file of which something was dropped as wrong since it was made: one `fstat`.
pub fn mark_of(file: &File) -> Option<WrongMark> {
    let status = file.metadata().ok().filter(|status| status.mode() & DISTRUSTED != 0)?;
    Some(WrongMark { inode: status.ino(), changed: (status.ctime(), status.ctime_nsec()) })
}

/// True when both are the same file of the same file system.
pub fn is_same_file(one: &File, other: &File) -> io::Result<bool> {
    let (one, other) = (one.metadata()?, other.metadata()?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}

/// The size in bytes of the file system that holds `path`, and its number; a size of 0 means without limit.
pub fn file_system(path: &Path) -> io::Result<(u64, u64)> {
    let status = nix::sys::statvfs::statvfs(path)?;
    let device = std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(path)?);
    Ok((status.blocks() as u64 * status.fragment_size() as u64, device))
}

/// Bytes that may be written to the file system that holds `path`; 0 where it takes no new file.
pub fn room(path: &Path) -> io::Result<u64> {
    let status = nix::sys::statvfs::statvfs(path)?;
    // Where inodes are counted, a new file needs one.
    let has_inodes = status.files() == 0 || status.files_available() > 0;
    Ok(if has_inodes { status.blocks_available() as u64 * status.fragment_size() as u64 } else { 0 })
}

/// False for what is mounted read-only, or cannot be asked.
pub fn is_writable(path: &Path) -> bool {
    use nix::sys::statvfs::{FsFlags, statvfs};
    statvfs(path).is_ok_and(|status| !status.flags().contains(FsFlags::ST_RDONLY))
}

/// The bytes that a block of `length` takes of a quota: whole pages of 4 KiB.
pub fn allocated(length: u32) -> u64 {
    u64::from(length).next_multiple_of(4096)
}
