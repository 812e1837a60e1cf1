//! The facts that a folder's file system has of a file beside size and modification time, as far as it can be relied on.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

use crate::ids::{Stamp, Version};

/// File systems that may give another number to a file that they forgot meanwhile, as `statfs` names them: FAT, exFAT,
/// FUSE, and the two of SMB.
const RENUMBERING: [i64; 5] = [0x4d44, 0x2011_bab0, 0x6573_5546, 0xff53_4d42, 0xfe53_4d42];

/// Whether the numbers of files in `folder` stay what they are.
pub(super) fn keeps_numbers(folder: &File) -> io::Result<bool> {
    // SAFETY: `statfs` is a plain C structure of integers, for which all zeros is a valid value.
    let mut told: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `told` a valid structure; both outlive the call.
    if unsafe { libc::fstatfs(folder.as_raw_fd(), &raw mut told) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // Magic numbers have 32 bits; the field has more, and may hold the extended sign.
    Ok(!RENUMBERING.contains(&(told.f_type & 0xffff_ffff)))
}

/// The stamp of a file; `numbered` where its number stays what it is.
pub(super) fn stamp_of(metadata: &Metadata, numbered: bool) -> Stamp {
    let ctime_ns = nanoseconds(metadata.ctime(), metadata.ctime_nsec());
    Stamp { ctime_ns, number: if numbered { metadata.ino() } else { 0 } }
}

/// Whether a file of these attributes can be that version; of what the version does not say nothing is asked.
pub(super) fn is_version(metadata: &Metadata, version: &Version) -> bool {
    let same_time = version.mtime_ns() == Some(nanoseconds(metadata.mtime(), metadata.mtime_nsec()));
    match version {
        Version::Stamped { stamp, .. } => same_time && *stamp == stamp_of(metadata, stamp.number != 0),
        _ => same_time,
    }
}

/// Nanoseconds since 1970; the far ends of time are cut to what the type holds.
pub(super) fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}
