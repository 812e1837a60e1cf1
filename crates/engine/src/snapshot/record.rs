//! One entry's fixed-size record, and how versions are packed into it. Knows nothing of names or inodes.

use super::NodeKind;
use super::layout::{u32_at, u64_at};
use crate::ids::{Stamp, Version};

pub(super) const RECORD_BYTES: usize = 40;
/// Origins that one snapshot can tell apart (12 bits).
pub(super) const ORIGINS_MAX: usize = 1 << 12;

const DIGEST_BYTES: usize = 16;
const AUXILIARY_MAX: u32 = (1 << 14) - 1;

/// How a file's version is kept in `Record::tag`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packing {
    /// No entity tag: the modification time is the version.
    Modified = 0,
    /// 32 lower-case hexadecimal digits.
    LowerHex = 1,
    UpperHex = 2,
    /// The same followed by `-N`, as multipart uploads have it; N stands in the auxiliary bits.
    LowerMultipart = 3,
    UpperMultipart = 4,
    /// Up to 16 bytes of anything, their number in the auxiliary bits.
    Inline = 5,
    /// Anything else: offset (`u64`) and length (`u32`) in the text section.
    Text = 6,
    /// No entity tag: the modification time, and the stamp.
    Stamped = 7,
}

const PACKINGS: [Packing; 8] = [
    Packing::Modified,
    Packing::LowerHex,
    Packing::UpperHex,
    Packing::LowerMultipart,
    Packing::UpperMultipart,
    Packing::Inline,
    Packing::Text,
    Packing::Stamped,
];

/// `flags`, from the lowest bit: kind (2), packing (3), origin (12), auxiliary (14), one spare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Record {
    /// Files and links: size in bytes. Directories: first child (low half), number of children (high half).
    pub extent: u64,
    pub mtime_ns: i64,
    /// Files: version. Links: offset and length of the text. Directories: number of subdirectories (`u32`), then how
    /// many bytes all names in it begin with (`u8`).
    pub tag: [u8; DIGEST_BYTES],
    pub parent: u32,
    flags: u32,
}

/// What an origin tells of a file's version, beside the time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Told<'a> {
    Time,
    Etag(&'a [u8]),
    Stamp(Stamp),
}

/// What is special to a directory's record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DirectoryContent {
    pub first_child: u32,
    pub children: u32,
    pub subdirectories: u32,
    /// How many bytes all names in it begin with.
    pub prefix: u8,
}

impl Record {
    pub(super) fn directory(origin: u16, mtime_ns: i64, content: DirectoryContent) -> Self {
        let mut tag = [0; DIGEST_BYTES];
        tag[..4].copy_from_slice(&content.subdirectories.to_le_bytes());
        tag[4] = content.prefix;
        let extent = u64::from(content.first_child) | u64::from(content.children) << 32;
        Record { extent, mtime_ns, tag, parent: 0, flags: flags_of(1, Packing::Modified, origin, 0) }
    }

    pub(super) fn symlink(origin: u16, mtime_ns: i64, target: &[u8], text: &mut Vec<u8>) -> Self {
        let tag = text_tag(target, text);
        let flags = flags_of(2, Packing::Modified, origin, 0);
        Record { extent: target.len() as u64, mtime_ns, tag, parent: 0, flags }
    }

    pub(super) fn file(origin: u16, size: u64, mtime_ns: i64, told: Told<'_>, text: &mut Vec<u8>) -> Self {
        let (packing, tag, auxiliary) = match told {
            Told::Time => (Packing::Modified, [0; DIGEST_BYTES], 0),
            Told::Stamp(stamp) => (Packing::Stamped, stamp.to_bytes(), 0),
            Told::Etag(etag) => pack(etag).unwrap_or_else(|| (Packing::Text, text_tag(etag, text), 0)),
        };
        Record { extent: size, mtime_ns, tag, parent: 0, flags: flags_of(0, packing, origin, auxiliary) }
    }

    /// The same entry in another directory.
    pub(super) fn below(self, parent: u32) -> Self {
        Record { parent, ..self }
    }

    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[..8].copy_from_slice(&self.extent.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.mtime_ns.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.tag);
        bytes[32..36].copy_from_slice(&self.parent.to_le_bytes());
        bytes[36..].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Self {
        let mut tag = [0; DIGEST_BYTES];
        tag.copy_from_slice(&bytes[16..32]);
        Record {
            extent: u64_at(bytes, 0),
            mtime_ns: u64_at(bytes, 8) as i64,
            tag,
            parent: u32_at(bytes, 32),
            flags: u32_at(bytes, 36),
        }
    }

    /// `None` for the one bit pattern that means nothing.
    pub(super) fn kind(&self) -> Option<NodeKind> {
        match self.flags & 3 {
            0 => Some(NodeKind::File),
            1 => Some(NodeKind::Directory),
            2 => Some(NodeKind::Symlink),
            _ => None,
        }
    }

    pub(super) fn origin(&self) -> u16 {
        (self.flags >> 5 & 0xfff) as u16
    }

    fn auxiliary(&self) -> u32 {
        self.flags >> 17 & AUXILIARY_MAX
    }

    fn packing(&self) -> Option<Packing> {
        PACKINGS.get((self.flags >> 2 & 7) as usize).copied()
    }

    /// What a directory's record says.
    pub(super) fn content(&self) -> DirectoryContent {
        DirectoryContent {
            first_child: self.extent as u32,
            children: (self.extent >> 32) as u32,
            subdirectories: u32_at(&self.tag, 0),
            prefix: self.tag[4],
        }
    }

    /// Whether earlier readers have no word for the version.
    pub(super) fn is_stamped(&self) -> bool {
        self.kind() == Some(NodeKind::File) && self.packing() == Some(Packing::Stamped)
    }

    /// A link's text in `text`.
    pub(super) fn target<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        text_of(&self.tag, text)
    }

    /// A file's version; `None` when the record means nothing.
    pub(super) fn version(&self, text: &[u8]) -> Option<Version> {
        let etag = match self.packing()? {
            Packing::Modified => return Some(Version::ModifiedNs(self.mtime_ns)),
            Packing::Stamped => {
                return Some(Version::Stamped { mtime_ns: self.mtime_ns, stamp: Stamp::from_bytes(self.tag) });
            }
            Packing::LowerHex => hex_of(&self.tag, b"0123456789abcdef"),
            Packing::UpperHex => hex_of(&self.tag, b"0123456789ABCDEF"),
            Packing::LowerMultipart => multipart_of(&self.tag, b"0123456789abcdef", self.auxiliary()),
            Packing::UpperMultipart => multipart_of(&self.tag, b"0123456789ABCDEF", self.auxiliary()),
            Packing::Inline => self.tag.get(..self.auxiliary() as usize)?.to_vec(),
            Packing::Text => text_of(&self.tag, text)?.to_vec(),
        };
        Some(Version::Etag(etag.into()))
    }

    /// Whether two records, each with its own text section, are the same version of a file or the same link.
    pub(super) fn same_content(&self, text: &[u8], other: &Record, other_text: &[u8]) -> bool {
        if self.extent != other.extent || self.kind() != other.kind() || self.packing() != other.packing() {
            return false;
        }
        match (self.kind(), self.packing()) {
            (Some(NodeKind::Symlink), _) => {
                self.mtime_ns == other.mtime_ns && self.target(text) == other.target(other_text)
            }
            (_, Some(Packing::Modified)) => self.mtime_ns == other.mtime_ns,
            (_, Some(Packing::Stamped)) => self.mtime_ns == other.mtime_ns && self.tag == other.tag,
            (_, Some(Packing::Text)) => text_of(&self.tag, text) == text_of(&other.tag, other_text),
            _ => self.tag == other.tag && self.auxiliary() == other.auxiliary(),
        }
    }
}

fn flags_of(kind: u32, packing: Packing, origin: u16, auxiliary: u32) -> u32 {
    kind | (packing as u32) << 2 | u32::from(origin) << 5 | auxiliary << 17
}

/// The packed form of `etag`, if it has one that gives back exactly these bytes.
fn pack(etag: &[u8]) -> Option<(Packing, [u8; DIGEST_BYTES], u32)> {
    if etag.len() <= DIGEST_BYTES {
        let mut tag = [0; DIGEST_BYTES];
        tag[..etag.len()].copy_from_slice(etag);
        return Some((Packing::Inline, tag, etag.len() as u32));
    }
    let (digits, rest) = etag.split_at_checked(2 * DIGEST_BYTES)?;
    let (digest, upper) = parse_hex(digits)?;
    if rest.is_empty() {
        return Some((if upper { Packing::UpperHex } else { Packing::LowerHex }, digest, 0));
    }
    let parts = parse_parts(rest)?;
    Some((if upper { Packing::UpperMultipart } else { Packing::LowerMultipart }, digest, parts))
}

/// 32 digits of one case; digits alone count as lower case.
fn parse_hex(digits: &[u8]) -> Option<([u8; DIGEST_BYTES], bool)> {
    let upper = digits.iter().any(u8::is_ascii_uppercase);
    let mut digest = [0; DIGEST_BYTES];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = hex_value(pair[0], upper)? << 4 | hex_value(pair[1], upper)?;
    }
    Some((digest, upper))
}

fn hex_value(digit: u8, upper: bool) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' if !upper => Some(digit - b'a' + 10),
        b'A'..=b'F' if upper => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// The N of `-N`, written without leading zeros and small enough to keep.
fn parse_parts(rest: &[u8]) -> Option<u32> {
    let digits = rest.strip_prefix(b"-")?;
    if digits.is_empty() || digits.len() > 5 || digits[0] == b'0' || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let parts = digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    (parts <= AUXILIARY_MAX).then_some(parts)
}

fn hex_of(digest: &[u8; DIGEST_BYTES], digits: &[u8; 16]) -> Vec<u8> {
    digest.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]).collect()
}

fn multipart_of(digest: &[u8; DIGEST_BYTES], digits: &[u8; 16], parts: u32) -> Vec<u8> {
    let mut etag = hex_of(digest, digits);
    etag.extend_from_slice(format!("-{parts}").as_bytes());
    etag
}

fn text_tag(value: &[u8], text: &mut Vec<u8>) -> [u8; DIGEST_BYTES] {
    let mut tag = [0; DIGEST_BYTES];
    tag[..8].copy_from_slice(&(text.len() as u64).to_le_bytes());
    tag[8..12].copy_from_slice(&(value.len() as u32).to_le_bytes());
    text.extend_from_slice(value);
    tag
}

fn text_of<'a>(tag: &[u8; DIGEST_BYTES], text: &'a [u8]) -> Option<&'a [u8]> {
    let start = usize::try_from(u64_at(tag, 0)).ok()?;
    text.get(start..start.checked_add(u32_at(tag, 8) as usize)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(etag: &[u8]) -> (Option<Packing>, Vec<u8>) {
        let mut text = b"before".to_vec();
        let record = Record::file(4095, 7, -3, Told::Etag(etag), &mut text);
        let back = Record::decode(&record.encode());
        assert_eq!((back.origin(), back.extent, back.mtime_ns), (4095, 7, -3));
        match back.version(&text) {
            Some(Version::Etag(bytes)) => (back.packing(), bytes.into_vec()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_stamp_comes_back_as_it_was_and_tells_files_of_one_time_apart() {
        let record = |number| Record::file(1, 7, -3, Told::Stamp(Stamp { ctime_ns: -5, number }), &mut Vec::new());
        let back = Record::decode(&record(u64::MAX).encode());
        let stamp = Stamp { ctime_ns: -5, number: u64::MAX };
        assert_eq!(back.version(b""), Some(Version::Stamped { mtime_ns: -3, stamp }));
        assert!(back.is_stamped() && back.same_content(b"", &record(u64::MAX), b""));
        assert!(!back.same_content(b"", &record(1), b""));
        assert!(!back.same_content(b"", &Record::file(1, 7, -3, Told::Time, &mut Vec::new()), b""));
    }

    #[test]
    fn every_etag_comes_back_as_it_was() {
        let hex = "0123456789abcdef0123456789abcdef";
        let cases: &[(&str, Packing)] = &[
            (hex, Packing::LowerHex),
            (&hex.to_uppercase(), Packing::UpperHex),
            (&format!("{hex}-1"), Packing::LowerMultipart),
            (&format!("{}-10000", hex.to_uppercase()), Packing::UpperMultipart),
            (&format!("{hex}-16384"), Packing::Text),
            (&format!("{hex}-01"), Packing::Text),
            (&format!("{hex}-"), Packing::Text),
            ("0123456789abcdef0123456789abcdeF", Packing::Text),
            ("5f3e1a2b-1c8d", Packing::Inline),
            ("", Packing::Inline),
            ("W/ 0123456789 weak and long", Packing::Text),
        ];
        for (etag, packing) in cases {
            assert_eq!(round_trip(etag.as_bytes()), (Some(*packing), etag.as_bytes().to_vec()), "{etag}");
        }
    }
}
