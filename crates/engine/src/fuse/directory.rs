//! Directory listings in the kernel's layout. Knows nothing of requests and descriptors.
//!
//! A listing's position (`d_off`) is 0 at the start, 1 after `.`, 2 after `..`, and the file system's cookie + 2 later.

use super::reply::{Presentation, file_type};
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::{Attributes, DirectoryEntry, FileKind, FileSystem, Inode};

const SELF_POSITION: u64 = 1;
const PARENT_POSITION: u64 = 2;
const ENTRY_BYTES: usize = 128;
const RECORD_HEAD_BYTES: usize = 24;

/// What one request asks for.
#[derive(Debug, Clone, Copy)]
pub struct Listing {
    pub inode: Inode,
    pub position: u64,
    pub limit_bytes: usize,
    /// With attributes, so that the kernel need not look each name up (READDIRPLUS).
    pub plus: bool,
    /// In a listing with attributes: hand them over, each counting as one look-up.
    pub instantiate: bool,
}

/// Fills `out` with as many records as fit and answers how many look-ups that was. Nothing in `out` is the end.
pub fn list(filesystem: &dyn FileSystem, shown: &Presentation, listing: Listing, out: &mut Vec<u8>) -> Result<u64> {
    out.clear();
    let mut records = Records { shown, listing, out, lookups: 0, overflow: false };
    if listing.position < SELF_POSITION && !records.dots(b".", listing.inode, SELF_POSITION) {
        return Err(Error::config("the buffer for a directory is too small"));
    }
    if listing.position < PARENT_POSITION {
        let parent = filesystem.parent(listing.inode)?;
        if !records.dots(b"..", parent, PARENT_POSITION) {
            return Ok(0);
        }
    }
    let cookie = listing.position.saturating_sub(PARENT_POSITION);
    filesystem.read_directory(listing.inode, cookie, &mut |entry| records.entry(&entry))?;
    match (records.overflow, records.out.is_empty()) {
        // An empty answer would mean "the end": better an error than a listing that ends too soon.
        (true, true) => Err(Error::new(ErrorKind::Unexpected, "a directory cookie is too large for the kernel")),
        _ => Ok(records.lookups),
    }
}

struct Records<'a> {
    shown: &'a Presentation,
    listing: Listing,
    out: &'a mut Vec<u8>,
    lookups: u64,
    overflow: bool,
}

impl Records<'_> {
    fn dots(&mut self, name: &[u8], inode: Inode, position: u64) -> bool {
        self.record(name, inode, FileKind::Directory, position, None)
    }

    fn entry(&mut self, entry: &DirectoryEntry<'_>) -> bool {
        // `loff_t` is signed.
        let position = entry.cookie.checked_add(PARENT_POSITION).filter(|position| *position <= i64::MAX as u64);
        let Some(position) = position else {
            self.overflow = true;
            return false;
        };
        let attributes = self.listing.instantiate.then_some(&entry.attributes);
        let of = &entry.attributes;
        let fits = self.record(entry.name, of.inode, of.kind, position, attributes);
        self.lookups += u64::from(fits && self.listing.plus && self.listing.instantiate);
        fits
    }

    /// Appends one record; false when it does not fit any more.
    fn record(
        &mut self,
        name: &[u8],
        inode: Inode,
        kind: FileKind,
        position: u64,
        attributes: Option<&Attributes>,
    ) -> bool {
        let head = RECORD_HEAD_BYTES + if self.listing.plus { ENTRY_BYTES } else { 0 };
        let length = (head + name.len()).next_multiple_of(8);
        if self.out.len() + length > self.listing.limit_bytes {
            return false;
        }
        if self.listing.plus {
            match attributes {
                Some(attributes) => self.out.extend_from_slice(self.shown.entry(attributes).as_bytes()),
                // Inode 0: "look it up yourself when you need it".
                None => self.out.extend_from_slice(&[0; ENTRY_BYTES]),
            }
        }
        self.out.extend_from_slice(&inode.to_ne_bytes());
        self.out.extend_from_slice(&position.to_ne_bytes());
        self.out.extend_from_slice(&(name.len() as u32).to_ne_bytes());
        self.out.extend_from_slice(&(file_type(kind) >> 12).to_ne_bytes());
        self.out.extend_from_slice(name);
        self.out.resize(self.out.len().next_multiple_of(8), 0);
        true
    }
}
