//! Records of the staging ledger as bytes: `docs/format/staging.md`. Whatever bytes come, reading gives a record or none.

use super::held::{Held, put};
use crate::fields::Fields;

/// No body is longer: two paths of 4096 bytes, and a tag.
pub const BODY_MAX: usize = 16 << 10;
const FRAME_BYTES: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    File,
    Folder,
}

/// One step of what programs did, or of what became of it. `request` is the kernel's number of the request that asked for
/// it, for one that is sent again; 0: none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A file without content, or a folder, got the name; what had it before lost it.
    Made { inode: u64, kind: Kind, mode: u32, uid: u32, gid: u32, path: Vec<u8>, request: u64 },
    /// It has another name now; what had that before lost it.
    Moved { inode: u64, path: Vec<u8>, request: u64 },
    /// Nothing has the name any more, also nothing of the snapshot.
    Removed { path: Vec<u8>, request: u64 },
    /// What stands under the name is to be seen as the snapshot has it.
    Uncovered { path: Vec<u8> },
    /// What the origin holds under the name.
    Holds { path: Vec<u8>, held: Option<Held> },
    /// Its content is another one than the origin has.
    Changed { inode: u64 },
    /// The same, and whoever wrote it has closed it.
    Closed { inode: u64 },
    /// The origin holds its content under its name.
    Published { inode: u64, held: Held },
    /// Its content is not in the staging folder any more, but where it was published.
    Settled { inode: u64 },
    /// Its published content is in the staging folder again.
    Fetched { inode: u64 },
    /// Who may do what with it, and the time that a program gave it. Also of a file of the snapshot.
    Attributes { inode: u64, mode: u32, uid: u32, gid: u32, mtime_ns: Option<i64> },
    /// An upload under the name was begun, and has left this behind if it does not end.
    Began { path: Vec<u8>, token: String },
    /// It ended, or was taken away.
    Ended { path: Vec<u8> },
    /// Nobody has it any more.
    Forgotten { inode: u64 },
    /// A request of the kernel led to this file; 0: to none any more.
    Asked { inode: u64, request: u64 },
    /// No file gets this number or a lower one any more.
    Numbered { inode: u64 },
    /// Its content outlasts a loss of power.
    Kept { inode: u64 },
    /// What follows was noted after the machine was started under this id.
    Booted { id: [u8; 16] },
}

/// The record with its length and checksum before it.
pub fn encode(record: &Record) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    encode_body(record, &mut body);
    let mut bytes = Vec::with_capacity(FRAME_BYTES + body.len());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn encode_body(record: &Record, body: &mut Vec<u8>) {
    match record {
        Record::Made { inode, kind, mode, uid, gid, path, request } => {
            head(body, 1, *inode);
            body.push(u8::from(*kind == Kind::Folder));
            [*mode, *uid, *gid].iter().for_each(|number| body.extend(number.to_le_bytes()));
            body.extend(request.to_le_bytes());
            put(body, path);
        }
        Record::Moved { inode, path, request } => {
            head(body, 2, *inode);
            body.extend(request.to_le_bytes());
            put(body, path);
        }
        Record::Removed { path, request } => {
            head(body, 3, *request);
            put(body, path);
        }
        Record::Uncovered { path } => {
            head(body, 4, 0);
            put(body, path);
        }
        Record::Holds { path, held } => {
            head(body, 5, 0);
            put(body, path);
            body.push(u8::from(held.is_some()));
            held.iter().for_each(|held| held.encode(body));
        }
        Record::Changed { inode } => head(body, 6, *inode),
        Record::Closed { inode } => head(body, 7, *inode),
        Record::Published { inode, held } => {
            head(body, 8, *inode);
            held.encode(body);
        }
        Record::Settled { inode } => head(body, 9, *inode),
        Record::Fetched { inode } => head(body, 10, *inode),
        Record::Attributes { inode, mode, uid, gid, mtime_ns } => {
            head(body, 11, *inode);
            [*mode, *uid, *gid].iter().for_each(|number| body.extend(number.to_le_bytes()));
            body.push(u8::from(mtime_ns.is_some()));
            mtime_ns.iter().for_each(|time| body.extend(time.to_le_bytes()));
        }
        Record::Began { path, token } => {
            head(body, 12, 0);
            put(body, path);
            put(body, token.as_bytes());
        }
        Record::Ended { path } => {
            head(body, 13, 0);
            put(body, path);
        }
        Record::Forgotten { inode } => head(body, 14, *inode),
        Record::Asked { inode, request } => {
            head(body, 15, *inode);
            body.extend(request.to_le_bytes());
        }
        Record::Numbered { inode } => head(body, 16, *inode),
        Record::Kept { inode } => head(body, 17, *inode),
        Record::Booted { id } => {
            head(body, 18, 0);
            body.extend(id);
        }
    }
}

fn head(body: &mut Vec<u8>, kind: u8, number: u64) {
    body.push(kind);
    body.extend(number.to_le_bytes());
}

/// The first record of `bytes` and its length; `None` when there is no whole, undamaged one.
pub fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let body = rest.get(..length).filter(|body| body.len() <= BODY_MAX)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
        return None;
    }
    Some((decode_body(Fields::new(body))?, FRAME_BYTES + length))
}

fn decode_body(mut fields: Fields<'_>) -> Option<Record> {
    let (kind, number) = (fields.u8()?, fields.u64()?);
    let record = decode_kind(kind, number, &mut fields)?;
    fields.is_empty().then_some(record)
}

fn decode_kind(kind: u8, inode: u64, fields: &mut Fields<'_>) -> Option<Record> {
    Some(match kind {
        1 => {
            let kind = if flag(fields)? { Kind::Folder } else { Kind::File };
            let (mode, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let request = fields.u64()?;
            Record::Made { inode, kind, mode, uid, gid, path: path(fields)?, request }
        }
        2 => {
            let request = fields.u64()?;
            Record::Moved { inode, path: path(fields)?, request }
        }
        3 => Record::Removed { path: path(fields)?, request: inode },
        4 => Record::Uncovered { path: path(fields)? },
        5 => {
            let path = path(fields)?;
            let held = if flag(fields)? { Some(Held::decode(fields)?) } else { None };
            Record::Holds { path, held }
        }
        6 => Record::Changed { inode },
        7 => Record::Closed { inode },
        8 => Record::Published { inode, held: Held::decode(fields)? },
        9 => Record::Settled { inode },
        10 => Record::Fetched { inode },
        11 => {
            let (mode, uid, gid) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let mtime_ns = if flag(fields)? { Some(fields.i64()?) } else { None };
            Record::Attributes { inode, mode, uid, gid, mtime_ns }
        }
        12 => Record::Began { path: path(fields)?, token: std::str::from_utf8(fields.string()?).ok()?.to_owned() },
        13 => Record::Ended { path: path(fields)? },
        14 => Record::Forgotten { inode },
        15 => Record::Asked { inode, request: fields.u64()? },
        16 => Record::Numbered { inode },
        17 => Record::Kept { inode },
        18 => Record::Booted { id: fields.array()? },
        _ => return None,
    })
}

fn flag(fields: &mut Fields<'_>) -> Option<bool> {
    match fields.u8()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn path(fields: &mut Fields<'_>) -> Option<Vec<u8>> {
    fields.string().map(<[u8]>::to_vec)
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{Stamp, Version};

    fn held() -> impl Strategy<Value = Held> {
        let version = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|tag| Version::Etag(tag.into())),
            any::<i64>().prop_map(Version::ModifiedNs),
            (any::<i64>(), any::<i64>(), any::<u64>()).prop_map(|(mtime_ns, ctime_ns, number)| Version::Stamped {
                mtime_ns,
                stamp: Stamp { ctime_ns, number }
            }),
        ];
        (any::<u64>(), version).prop_map(|(size, version)| Held { size, version })
    }

    /// Records about few files and names, so that they have to do with each other.
    pub(in super::super) fn records() -> impl Strategy<Value = Record> {
        let inode = (0..6_u64).prop_map(|number| super::super::FIRST_INODE + number);
        let path = prop::sample::select(vec!["a", "b", "d", "d/a", "d/b", "d/e/a"]);
        let path = path.prop_map(|path| path.as_bytes().to_vec());
        let (mode, request) = (any::<u32>(), any::<u64>());
        prop_oneof![
            (inode.clone(), any::<bool>(), mode, path.clone(), request).prop_map(
                |(inode, folder, mode, path, request)| {
                    let kind = if folder { Kind::Folder } else { Kind::File };
                    Record::Made { inode, kind, mode, uid: 1, gid: 2, path, request }
                }
            ),
            (inode.clone(), path.clone(), request).prop_map(|(inode, path, request)| Record::Moved {
                inode,
                path,
                request
            }),
            (path.clone(), request).prop_map(|(path, request)| Record::Removed { path, request }),
            path.clone().prop_map(|path| Record::Uncovered { path }),
            (path.clone(), prop::option::of(held())).prop_map(|(path, held)| Record::Holds { path, held }),
            inode.clone().prop_map(|inode| Record::Changed { inode }),
            inode.clone().prop_map(|inode| Record::Closed { inode }),
            (inode.clone(), held()).prop_map(|(inode, held)| Record::Published { inode, held }),
            inode.clone().prop_map(|inode| Record::Settled { inode }),
            inode.clone().prop_map(|inode| Record::Fetched { inode }),
            (inode.clone(), mode, prop::option::of(any::<i64>()))
                .prop_map(|(inode, mode, mtime_ns)| { Record::Attributes { inode, mode, uid: 3, gid: 4, mtime_ns } }),
            (path.clone(), "[ -~]{0,40}").prop_map(|(path, token)| Record::Began { path, token }),
            path.prop_map(|path| Record::Ended { path }),
            (inode.clone(), any::<u64>()).prop_map(|(inode, request)| Record::Asked { inode, request }),
            inode.clone().prop_map(|inode| Record::Numbered { inode }),
            inode.clone().prop_map(|inode| Record::Kept { inode }),
            any::<[u8; 16]>().prop_map(|id| Record::Booted { id }),
            inode.prop_map(|inode| Record::Forgotten { inode }),
        ]
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(record in records()) {
            let bytes = encode(&record);
            prop_assert_eq!(decode(&bytes), Some((record, bytes.len())));
        }

        #[test]
        fn a_changed_or_cut_record_is_none(record in records(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let mut bytes = encode(&record);
            prop_assert_eq!(decode(&bytes[..at.index(bytes.len())]), None);
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(decode(&bytes).is_none_or(|(_, length)| length != bytes.len()));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }
}
