//! The names of things that every layer shares: file versions, blocks and byte ranges.

use std::fmt;

/// The identity of one version of one file: a hash over dataset, path, size and version.
///
/// Bytes kept under one `FileId` can never be served for another version, since another version has another id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId(pub [u8; 16]);

/// What distinguishes two versions of the same path with the same size.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Version {
    /// The origin's entity tag, without quotes.
    Etag(Box<[u8]>),
    /// Modification time in nanoseconds since 1970, for origins that have neither entity tags nor stamps.
    ModifiedNs(i64),
    /// The same, and what else the origin knows of a file: the time alone can be given to another file (`cp -p`, `rsync`).
    Stamped { mtime_ns: i64, stamp: Stamp },
}

impl Version {
    /// The version of a file of which an origin tells this: its entity tag, else its stamp and time, else its time.
    pub fn told(etag: Option<&[u8]>, mtime_ns: i64, stamp: Option<Stamp>) -> Self {
        match (etag, stamp) {
            (Some(tag), _) => Version::Etag(tag.into()),
            (None, Some(stamp)) => Version::Stamped { mtime_ns, stamp },
            (None, None) => Version::ModifiedNs(mtime_ns),
        }
    }

    /// The modification time that is a part of it, if any is.
    pub fn mtime_ns(&self) -> Option<i64> {
        match self {
            Version::Etag(_) => None,
            Version::ModifiedNs(mtime_ns) | Version::Stamped { mtime_ns, .. } => Some(*mtime_ns),
        }
    }
}

/// What a file system knows of a file that its owner cannot choose: when it was last changed in any way, and its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// Change time in nanoseconds since 1970; 0 where there is none.
    pub ctime_ns: i64,
    /// The inode, or whatever number a server gives to a file; 0 where it says nothing.
    pub number: u64,
}

impl Stamp {
    pub const BYTES: usize = 16;

    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.ctime_ns.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let value = u128::from_le_bytes(bytes);
        Stamp { ctime_ns: value as u64 as i64, number: (value >> 64) as u64 }
    }
}

/// Everything that names one version of one file.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileKey {
    /// The canonical name of the data's origin, without secrets: `s3://bucket/prefix@endpoint`.
    pub dataset: std::sync::Arc<str>,
    /// The path below the origin, as the origin writes it (bytes; no leading slash).
    pub path: Box<[u8]>,
    /// Length in bytes.
    pub size: u64,
    /// Which version of the path.
    pub version: Version,
}

impl FileKey {
    /// The id that all blocks of this version are kept under: the first 16 bytes of BLAKE3 over the length-prefixed fields.
    pub fn id(&self) -> FileId {
        let mut hasher = blake3::Hasher::new();
        let mut field = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        field(self.dataset.as_bytes());
        field(&self.path);
        field(&self.size.to_le_bytes());
        match &self.version {
            Version::Etag(tag) => {
                field(b"etag");
                field(tag);
            }
            Version::ModifiedNs(ns) => {
                field(b"mtime");
                field(&ns.to_le_bytes());
            }
            Version::Stamped { mtime_ns, stamp } => {
                field(b"stamp");
                field(&mtime_ns.to_le_bytes());
                field(&stamp.to_bytes());
            }
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        FileId(id)
    }
}

impl fmt::Debug for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Lower-case hexadecimal, 32 characters.
impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// One block of one file version: `index` counts blocks of the configured block size from the start of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockId {
    pub file: FileId,
    pub index: u32,
}

/// Bytes `start..end` of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}

impl ByteRange {
    /// The range of `length` bytes from `start`.
    pub fn new(start: u64, length: u64) -> Self {
        ByteRange { start, end: start.saturating_add(length) }
    }

    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    pub fn is_empty(&self) -> bool {
        self.length() == 0
    }

    /// The part of this range that lies below `size`.
    pub fn clamp_to(&self, size: u64) -> Self {
        let start = self.start.min(size);
        ByteRange { start, end: self.end.clamp(start, size) }
    }
}

/// The fixed size of blocks, a power of two between 64 KiB and 64 MiB, and the arithmetic that follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSize(u32);

impl Default for BlockSize {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl BlockSize {
    pub const MIN: u32 = 64 << 10;
    pub const MAX: u32 = 64 << 20;
    pub const DEFAULT: BlockSize = BlockSize(4 << 20);

    /// `None` unless `bytes` is a power of two within the bounds.
    pub fn new(bytes: u32) -> Option<Self> {
        (bytes.is_power_of_two() && (Self::MIN..=Self::MAX).contains(&bytes)).then_some(BlockSize(bytes))
    }

    pub fn bytes(self) -> u32 {
        self.0
    }

    /// How many blocks a file of `size` bytes has.
    pub fn count(self, size: u64) -> u32 {
        size.div_ceil(u64::from(self.0)) as u32
    }

    /// The index of the block that holds byte `offset`.
    pub fn index_of(self, offset: u64) -> u32 {
        (offset / u64::from(self.0)) as u32
    }

    /// The bytes of block `index` in a file of `size` bytes.
    pub fn range(self, index: u32, size: u64) -> ByteRange {
        ByteRange::new(u64::from(index) * u64::from(self.0), u64::from(self.0)).clamp_to(size)
    }

    /// The indices of all blocks that `range` touches; empty for an empty range.
    pub fn indices(self, range: ByteRange) -> std::ops::Range<u32> {
        if range.is_empty() {
            return 0..0;
        }
        self.index_of(range.start)..self.index_of(range.end - 1) + 1
    }
}
