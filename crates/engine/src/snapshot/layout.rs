//! The frame of a snapshot file: header, section table, checksums. Knows nothing of what the sections hold.

use crate::error::{Error, ErrorKind, Result};

/// The first bytes of every snapshot. Like PNG's, they break when a file is carried as text.
pub(super) const MAGIC: [u8; 8] = *b"\x89HRSNP\r\n";
/// The newest format that this code writes, and the newest that it reads.
pub(super) const FORMAT_VERSION: u32 = 3;
/// Without stamped versions. Still written where there are none, so that earlier readers understand it.
const UNSTAMPED_FORMAT_VERSION: u32 = 2;
/// Without the sections of permissions, too. Still written for the same reason.
const PLAIN_FORMAT_VERSION: u32 = 1;
pub(super) const HEADER_BYTES: usize = 512;
/// Entries a snapshot can hold: an item is a `u32` whose highest bit tells directories from files while it is built.
pub(super) const ENTRIES_MAX: u64 = 1 << 31;
/// Inodes are 64-bit everywhere; a snapshot refuses to hand out more than the kernel's own signed range.
pub(super) const INODE_MAX: u64 = i64::MAX as u64;

const SECTION_TABLE: usize = 96;
const SECTION_ENTRY_BYTES: usize = 24;
const CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// The parts of the file, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SectionId {
    /// One record of `record::RECORD_BYTES` for each entry, breadth first, each directory's children together.
    Nodes,
    /// For each group of `names::GROUP` entries where its names begin in `Names`, and the head of the first.
    NameGroups,
    /// Front-coded names.
    Names,
    /// Link texts and entity tags that do not fit into a record.
    Text,
    /// JSON: mounts and rejections.
    Meta,
    /// Each different owner, group and mode once; nothing when the origins tell none.
    Permissions,
    /// One `u16` an entry: its place in `Permissions` counted from 1, or 0; nothing when `Permissions` is nothing.
    PermissionOfNode,
    /// One `u64` an entry, or nothing when every inode is its index + 1.
    Inodes,
    /// One `u32` an entry: the indices in ascending order of their inodes; nothing when `Inodes` is nothing.
    InodeOrder,
}

pub(super) const SECTIONS: usize = 9;
/// What the plain format lacks.
const PERMISSION_SECTIONS: std::ops::Range<usize> = SectionId::Permissions as usize..SectionId::Inodes as usize;

/// Where a section lies and what its bytes must add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub offset: u64,
    pub length: u64,
    pub crc32c: u32,
}

impl Section {
    pub(super) fn end(&self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// Everything the first `HEADER_BYTES` say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub file_bytes: u64,
    /// Counts up by one with each refresh; the first is 1.
    pub snapshot_version: u64,
    /// The next inode that no snapshot of this line has used.
    pub next_inode: u64,
    pub nodes: u32,
    pub files: u64,
    pub directories: u64,
    pub symlinks: u64,
    pub total_bytes: u64,
    /// Some file has a stamped version, which formats 1 and 2 do not know.
    pub has_stamps: bool,
    pub sections: [Section; SECTIONS],
}

impl Header {
    pub(super) fn section(&self, id: SectionId) -> Section {
        self.sections[id as usize]
    }

    /// From a hash of the header, in which are the checksums of all sections: no two snapshots that a machine sees have
    /// the same one, also where their versions do not tell them apart. Never 0.
    pub(super) fn identity(&self) -> u64 {
        // No checksum of checksums: they are linear, so that the size of the only file and the sum of all sizes, which
        // changes with it, can cancel each other out.
        let hash = blake3::hash(&self.encode()[..CHECKSUM_AT]);
        hash.as_bytes().first_chunk().map_or(1, |first| u64::from_le_bytes(*first).max(1))
    }

    pub(super) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.format_version().to_le_bytes());
        bytes[12..16].copy_from_slice(&(HEADER_BYTES as u32).to_le_bytes());
        bytes[40..44].copy_from_slice(&self.nodes.to_le_bytes());
        let written = written_sections(self.format_version());
        bytes[44..48].copy_from_slice(&(written.len() as u32).to_le_bytes());
        for (at, value) in self.wide_fields() {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (index, section) in written.into_iter().map(|section| &self.sections[section]).enumerate() {
            let entry = &mut bytes[SECTION_TABLE + index * SECTION_ENTRY_BYTES..][..SECTION_ENTRY_BYTES];
            entry[..8].copy_from_slice(&section.offset.to_le_bytes());
            entry[8..16].copy_from_slice(&section.length.to_le_bytes());
            entry[16..20].copy_from_slice(&section.crc32c.to_le_bytes());
        }
        let checksum = crc32c::crc32c(&bytes[..CHECKSUM_AT]);
        bytes[CHECKSUM_AT..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    fn format_version(&self) -> u32 {
        let has_permissions = self.sections[PERMISSION_SECTIONS].iter().any(|section| section.length > 0);
        match (self.has_stamps, has_permissions) {
            (true, _) => FORMAT_VERSION,
            (false, true) => UNSTAMPED_FORMAT_VERSION,
            (false, false) => PLAIN_FORMAT_VERSION,
        }
    }

    fn wide_fields(&self) -> [(usize, u64); 7] {
        [
            (16, self.file_bytes),
            (24, self.snapshot_version),
            (32, self.next_inode),
            (48, self.files),
            (56, self.directories),
            (64, self.symlinks),
            (72, self.total_bytes),
        ]
    }

    /// The header of `file`, checked against itself and against the file's length.
    pub(super) fn decode(file: &[u8]) -> Result<Header> {
        let bytes: &[u8; HEADER_BYTES] = match file.first_chunk() {
            Some(bytes) if bytes[..8] == MAGIC => bytes,
            Some(_) => return Err(corrupt("it does not begin as a snapshot does")),
            None => return Err(corrupt("it is shorter than a header")),
        };
        check_frame(bytes)?;
        let header = Header {
            file_bytes: u64_at(bytes, 16),
            snapshot_version: u64_at(bytes, 24),
            next_inode: u64_at(bytes, 32),
            nodes: u32_at(bytes, 40),
            files: u64_at(bytes, 48),
            directories: u64_at(bytes, 56),
            symlinks: u64_at(bytes, 64),
            total_bytes: u64_at(bytes, 72),
            has_stamps: u32_at(bytes, 8) == FORMAT_VERSION,
            sections: sections_of(bytes),
        };
        header.check_sections(file.len() as u64)?;
        Ok(header)
    }

    /// Sections stand one behind the other, each from a multiple of 8, and end where the file ends.
    fn check_sections(&self, file_bytes: u64) -> Result<()> {
        if self.file_bytes != file_bytes {
            return Err(corrupt("it is not as long as its header says"));
        }
        let mut end = HEADER_BYTES as u64;
        for section in &self.sections {
            if section.offset != end.next_multiple_of(8) {
                return Err(corrupt("its sections do not follow each other"));
            }
            end = section.end().filter(|&end| end <= file_bytes).ok_or_else(|| corrupt("a section leaves the file"))?;
        }
        if end != file_bytes { Err(corrupt("it goes on after its last section")) } else { Ok(()) }
    }
}

fn check_frame(bytes: &[u8; HEADER_BYTES]) -> Result<()> {
    if crc32c::crc32c(&bytes[..CHECKSUM_AT]) != u32_at(bytes, CHECKSUM_AT) {
        return Err(corrupt("its header does not match its checksum"));
    }
    let version = u32_at(bytes, 8);
    if !(PLAIN_FORMAT_VERSION..=FORMAT_VERSION).contains(&version) {
        return Err(Error::new(ErrorKind::Unsupported, format!("format {version} is not known here"))
            .with_hint("upgrade Headrace, or take a new snapshot"));
    }
    if u32_at(bytes, 12) as usize != HEADER_BYTES || u32_at(bytes, 44) as usize != written_sections(version).len() {
        return Err(corrupt("its header has another shape"));
    }
    Ok(())
}

/// A snapshot that says something impossible. The caller adds which file it is.
pub(super) fn corrupt(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, what).with_hint("take a new snapshot of the dataset")
}

/// The sections that a header of this format tells of, in the order of the file.
fn written_sections(version: u32) -> Vec<usize> {
    (0..SECTIONS).filter(|section| version != PLAIN_FORMAT_VERSION || !PERMISSION_SECTIONS.contains(section)).collect()
}

/// All sections; those that the format does not have are empty, where they would stand.
fn sections_of(bytes: &[u8; HEADER_BYTES]) -> [Section; SECTIONS] {
    let mut sections = [Section::default(); SECTIONS];
    let written = written_sections(u32_at(bytes, 8));
    for (index, &section) in written.iter().enumerate() {
        sections[section] = section_at(bytes, SECTION_TABLE + index * SECTION_ENTRY_BYTES);
    }
    for section in PERMISSION_SECTIONS.filter(|section| !written.contains(section)) {
        let end = sections[section - 1].end().and_then(|end| end.checked_next_multiple_of(8));
        sections[section].offset = end.unwrap_or(u64::MAX);
    }
    sections
}

fn section_at(bytes: &[u8], at: usize) -> Section {
    Section { offset: u64_at(bytes, at), length: u64_at(bytes, at + 8), crc32c: u32_at(bytes, at + 16) }
}

/// The little-endian number at `at`, 0 beyond the end.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// The little-endian number at `at`, 0 beyond the end.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// The little-endian number at `at`, 0 beyond the end.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u16::from_le_bytes(*chunk))
}
