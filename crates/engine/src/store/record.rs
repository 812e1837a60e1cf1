//! The records of a cache folder's log: encoding and decoding of bytes, nothing else. Knows no files.
//!
//! The format stands in `docs/format/cache-folder.md`. Everything is little-endian. A record is a frame (CRC32C of the
//! rest, payload length, kind) and a payload; whatever does not decode exactly is damage, never a guess.

use std::sync::Arc;

use super::blocks::Proof;
use crate::fields::Fields;
use crate::ids::{FileId, FileKey, Stamp, Version};

pub const MAGIC: [u8; 8] = *b"HRCACHE\n";
pub const VERSION: u32 = 1;
pub const HEADER_BYTES: usize = 32;
/// CRC32C, payload length, kind.
pub const FRAME_BYTES: usize = 4 + 4 + 1;
/// Longest payload: a path, a dataset name or an entity tag may have 65,535 bytes each.
pub const MAX_PAYLOAD_BYTES: usize = 256 << 10;
/// What one block record takes in the log.
pub const BLOCK_RECORD_BYTES: u64 = (FRAME_BYTES + 16 + 4 + 4 + 4) as u64;

/// The index in a drop record that means every block of the file version.
const EVERY_BLOCK: u32 = u32::MAX;

/// One fact about the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// `number` stands for this dataset name in the file records that follow.
    Dataset { number: u32, name: Arc<str> },
    /// A file version that has, or had, blocks here.
    File { id: FileId, dataset: u32, size: u64, path: Box<[u8]>, version: Version },
    /// A block whose bytes are in the data file of `id`.
    Block { id: FileId, index: u32, length: u32, crc: u32 },
    /// The block (or every block) is gone.
    Drop { id: FileId, index: Option<u32> },
    /// The folder was closed in good order here.
    Clean,
    /// First in a log: every data file of several blocks that was ever given away whole has its `Lent` record. A version
    /// that does not know these records cuts the log here, and so lets every such file go.
    NotesLending,
    /// The data file was given away whole, to the kernel or another process: somebody may have it mapped.
    Lent { id: FileId },
    /// All of the file version that is here by the records so far was compared with its checksum at the origin. Says nothing
    /// once another record of the same file follows.
    Compared { id: FileId, proof: Proof },
}

/// What stands at the start of some bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A record and the bytes it takes.
    Record(Record, usize),
    /// Not enough bytes to tell: this many are needed.
    Incomplete(usize),
    /// Not a record.
    Damaged,
}

/// The header of a log, when it is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub version: u32,
    pub block_size: u32,
}

impl Header {
    pub fn encode(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.block_size.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..28]);
        bytes[28..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// `None` for anything that this program, or a newer one, did not write whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_BYTES)?;
        let mut fields = Fields::new(bytes);
        let magic = fields.take(8)?;
        let header = Header { version: fields.u32()?, block_size: fields.u32()? };
        fields.take(12)?;
        (magic == MAGIC && fields.u32()? == crc32c::crc32c(&bytes[..28])).then_some(header)
    }
}

impl Record {
    /// The file record of `key`.
    pub fn file(id: FileId, dataset: u32, key: &FileKey) -> Self {
        Record::File { id, dataset, size: key.size, path: key.path.clone(), version: key.version.clone() }
    }

    /// Appends the record, framed, to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&[0; 8]);
        out.push(self.kind());
        self.encode_payload(out);
        let length = (out.len() - start - FRAME_BYTES) as u32;
        out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
        let crc = crc32c::crc32c(&out[start + 4..]);
        out[start..start + 4].copy_from_slice(&crc.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Record::Dataset { .. } => 1,
            Record::File { .. } => 2,
            Record::Block { .. } => 3,
            Record::Drop { .. } => 4,
            Record::Clean => 5,
            Record::NotesLending => 6,
            Record::Lent { .. } => 7,
            Record::Compared { .. } => 8,
        }
    }

    fn encode_payload(&self, out: &mut Vec<u8>) {
        match self {
            Record::Dataset { number, name } => {
                out.extend_from_slice(&number.to_le_bytes());
                out.extend_from_slice(name.as_bytes());
            }
            Record::File { id, dataset, size, path, version } => {
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&dataset.to_le_bytes());
                out.extend_from_slice(&size.to_le_bytes());
                out.extend_from_slice(&(path.len() as u32).to_le_bytes());
                out.extend_from_slice(path);
                encode_version(version, out);
            }
            Record::Block { id, index, length, crc } => {
                out.extend_from_slice(&id.0);
                for field in [index, length, crc] {
                    out.extend_from_slice(&field.to_le_bytes());
                }
            }
            Record::Drop { id, index } => {
                out.extend_from_slice(&id.0);
                out.extend_from_slice(&index.unwrap_or(EVERY_BLOCK).to_le_bytes());
            }
            Record::Lent { id } => out.extend_from_slice(&id.0),
            Record::Compared { id, proof } => {
                out.extend_from_slice(&id.0);
                out.push(match proof {
                    Proof::Proven => 1,
                    Proof::NoChecksum => 2,
                });
            }
            Record::Clean | Record::NotesLending => {}
        }
    }

    /// The record at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Decoded {
        let mut frame = Fields::new(bytes);
        let (Some(crc), Some(length), Some(kind)) = (frame.u32(), frame.u32(), frame.take(1)) else {
            return Decoded::Incomplete(FRAME_BYTES);
        };
        let length = length as usize;
        if length > MAX_PAYLOAD_BYTES {
            return Decoded::Damaged;
        }
        let Some(payload) = frame.take(length) else {
            return Decoded::Incomplete(FRAME_BYTES + length);
        };
        let whole = FRAME_BYTES + length;
        if crc32c::crc32c(&bytes[4..whole]) != crc {
            return Decoded::Damaged;
        }
        match Self::decode_payload(kind[0], payload) {
            Some(record) => Decoded::Record(record, whole),
            None => Decoded::Damaged,
        }
    }

    fn decode_payload(kind: u8, payload: &[u8]) -> Option<Self> {
        let mut fields = Fields::new(payload);
        let record = match kind {
            1 => {
                let number = fields.u32()?;
                Record::Dataset { number, name: std::str::from_utf8(fields.rest()).ok()?.into() }
            }
            2 => {
                let (id, dataset, size) = (FileId(fields.array()?), fields.u32()?, fields.u64()?);
                let path_length = fields.u32()? as usize;
                let path = fields.take(path_length)?.into();
                Record::File { id, dataset, size, path, version: decode_version(&mut fields)? }
            }
            3 => Record::Block {
                id: FileId(fields.array()?),
                index: fields.u32()?,
                length: fields.u32()?,
                crc: fields.u32()?,
            },
            4 => {
                let (id, index) = (FileId(fields.array()?), fields.u32()?);
                Record::Drop { id, index: (index != EVERY_BLOCK).then_some(index) }
            }
            5 => Record::Clean,
            6 => Record::NotesLending,
            7 => Record::Lent { id: FileId(fields.array()?) },
            8 => Record::Compared { id: FileId(fields.array()?), proof: decode_proof(&mut fields)? },
            _ => return None,
        };
        fields.is_empty().then_some(record)
    }
}

fn encode_version(version: &Version, out: &mut Vec<u8>) {
    match version {
        Version::Etag(tag) => {
            out.push(1);
            out.extend_from_slice(tag);
        }
        Version::ModifiedNs(ns) => {
            out.push(2);
            out.extend_from_slice(&ns.to_le_bytes());
        }
        Version::Stamped { mtime_ns, stamp } => {
            out.push(3);
            out.extend_from_slice(&mtime_ns.to_le_bytes());
            out.extend_from_slice(&stamp.to_bytes());
        }
    }
}

fn decode_version(fields: &mut Fields<'_>) -> Option<Version> {
    match fields.u8()? {
        1 => Some(Version::Etag(fields.rest().into())),
        2 => Some(Version::ModifiedNs(fields.i64()?)),
        3 => Some(Version::Stamped { mtime_ns: fields.i64()?, stamp: Stamp::from_bytes(fields.array()?) }),
        _ => None,
    }
}

fn decode_proof(fields: &mut Fields<'_>) -> Option<Proof> {
    match fields.u8()? {
        1 => Some(Proof::Proven),
        2 => Some(Proof::NoChecksum),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_record() -> impl Strategy<Value = Record> {
        let id = any::<[u8; 16]>().prop_map(FileId);
        let bytes = || prop::collection::vec(any::<u8>(), 0..300).prop_map(Vec::into_boxed_slice);
        let version = prop_oneof![
            bytes().prop_map(Version::Etag),
            any::<i64>().prop_map(Version::ModifiedNs),
            any::<(i64, i64, u64)>().prop_map(|(mtime_ns, ctime_ns, number)| {
                Version::Stamped { mtime_ns, stamp: Stamp { ctime_ns, number } }
            })
        ];
        prop_oneof![
            (any::<u32>(), ".{0,80}").prop_map(|(number, name)| Record::Dataset { number, name: name.into() }),
            (id.clone(), any::<u32>(), any::<u64>(), bytes(), version)
                .prop_map(|(id, dataset, size, path, version)| Record::File { id, dataset, size, path, version }),
            (id.clone(), any::<u32>(), any::<u32>(), any::<u32>()).prop_map(|(id, index, length, crc)| Record::Block {
                id,
                index,
                length,
                crc
            }),
            (id.clone(), prop::option::of(0..u32::MAX)).prop_map(|(id, index)| Record::Drop { id, index }),
            Just(Record::Clean),
            Just(Record::NotesLending),
            id.clone().prop_map(|id| Record::Lent { id }),
            (id, prop_oneof![Just(Proof::Proven), Just(Proof::NoChecksum)])
                .prop_map(|(id, proof)| Record::Compared { id, proof }),
        ]
    }

    proptest! {
        #[test]
        fn record_comes_back_as_written(record in any_record(), tail in prop::collection::vec(any::<u8>(), 0..20)) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let length = bytes.len();
            bytes.extend(tail);
            prop_assert_eq!(Record::decode(&bytes), Decoded::Record(record, length));
        }

        #[test]
        fn one_flipped_bit_is_never_another_record(record in any_record(), place in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let bit = place.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!matches!(Record::decode(&bytes), Decoded::Record(..)));
        }

        #[test]
        fn torn_record_is_incomplete(record in any_record(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            record.encode(&mut bytes);
            let kept = cut.index(bytes.len());
            let torn = matches!(Record::decode(&bytes[..kept]), Decoded::Incomplete(_));
            prop_assert!(torn);
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = Record::decode(&bytes);
            let _ = Header::decode(&bytes);
        }

        #[test]
        fn random_payload_behind_a_right_checksum_never_panics(kind in 0u8..9, payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Record::decode_payload(kind, &payload);
        }
    }

    #[test]
    fn header_notices_every_flipped_bit() {
        let good = Header { version: 1, block_size: 4 << 20 }.encode();
        assert_eq!(Header::decode(&good), Some(Header { version: 1, block_size: 4 << 20 }));
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::decode(&bad), None, "bit {bit}");
        }
    }
}
