//! Requests of one peer to another: a range of a file version, or a command about its cache.
//!
//! A request describes itself completely: the peer needs no snapshot to serve it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::ids::{BlockSize, ByteRange, FileId, FileKey, Stamp, Version};
use crate::wire::fields::{Fields, put_string};
use crate::wire::token::Rights;

/// Asks for bytes of one file version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GetRequest {
    pub key: FileKey,
    pub range: ByteRange,
    pub block_size: u32,
    /// Answer only from the cache; what is not there is `absent`.
    pub cached_only: bool,
    /// Do not forward: have it, or fetch it from the origin.
    pub direct: bool,
    /// `PURPOSE_READ`, 1 (fetched ahead), or `PURPOSE_WARM`.
    pub purpose: u8,
    /// Set by a worker that fills its own cache with the answer. Told to peers of version 2 or later.
    pub fill: Option<Fill>,
}

/// How one worker's fill leans on another's, so that no two of them ever wait for each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// Of the view by which the peer was chosen.
    pub epoch: u64,
    /// Memory is held already for the block that the range begins in, so the peer must not wait for memory of its own.
    pub has_begun: bool,
}

/// Asks for work on a peer's cache; answered by a JSON value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PeerCommand {
    /// Fetch `count` blocks from block `first`.
    Warm {
        key: FileKey,
        first: u32,
        count: u32,
        block_size: u32,
    },
    Evict {
        key: FileKey,
    },
    Pin {
        id: FileId,
        pinned: bool,
    },
    Status,
    /// Compare what is there of `count` blocks from block `first` with their checksums; drop what is wrong.
    Verify {
        key: FileKey,
        first: u32,
        count: u32,
        block_size: u32,
    },
    /// End the pins of these files, and drop what is there of them.
    EvictMany {
        ids: Vec<FileId>,
    },
    /// Fetch as `Warm` does, but for a reader that waits, and answer as soon as block `first` is stored.
    Bring {
        key: FileKey,
        first: u32,
        count: u32,
        block_size: u32,
    },
}

/// Somebody waits.
pub const PURPOSE_READ: u8 = 0;
/// A load or a warm-up, which no reader asked for.
pub const PURPOSE_WARM: u8 = 2;

const CACHED_ONLY: u8 = 1;
const DIRECT: u8 = 2;
const FILL: u8 = 4;
const HAS_BEGUN: u8 = 8;
const LAST_PURPOSE: u8 = PURPOSE_WARM;
/// The first version of the protocol whose requests tell of fills.
const TELLS_FILLS: u16 = 2;

/// Files of one `EvictMany` at most: 64 KiB, a quarter of what a message may have, and at most a second of unlinking.
pub const MOST_EVICTED: usize = 4096;

impl GetRequest {
    /// `Config` when the request contradicts itself.
    pub fn check(&self) -> Result<()> {
        check_key(&self.key, self.block_size)?;
        if self.range.start >= self.range.end || self.range.end > self.key.size {
            let (range, size) = (self.range, self.key.size);
            let message = format!("bytes {}..{} are not in a file of {size} bytes", range.start, range.end);
            return Err(Error::config(message));
        }
        if self.purpose > LAST_PURPOSE {
            return Err(Error::config(format!("purpose {} of a request is unknown", self.purpose)));
        }
        Ok(())
    }

    /// As a peer of `version` understands it.
    pub(super) fn encode(&self, version: u16) -> Result<Vec<u8>> {
        self.check()?;
        let fill = self.fill.filter(|_| version >= TELLS_FILLS);
        let mut out = Vec::with_capacity(128 + self.key.path.len());
        put_key(&mut out, &self.key)?;
        out.extend_from_slice(&self.range.start.to_le_bytes());
        out.extend_from_slice(&self.range.end.to_le_bytes());
        out.extend_from_slice(&self.block_size.to_le_bytes());
        let of_fill = fill.map_or(0, |fill| FILL + u8::from(fill.has_begun) * HAS_BEGUN);
        out.push(u8::from(self.cached_only) * CACHED_ONLY + u8::from(self.direct) * DIRECT + of_fill);
        out.push(self.purpose);
        fill.into_iter().for_each(|fill| out.extend_from_slice(&fill.epoch.to_le_bytes()));
        Ok(out)
    }

    pub(super) fn decode(payload: &[u8], version: u16) -> Result<GetRequest> {
        let mut fields = Fields::new(payload);
        let key = take_key(&mut fields)?;
        let range = ByteRange { start: fields.u64()?, end: fields.u64()? };
        let (block_size, flags, purpose) = (fields.u32()?, fields.u8()?, fields.u8()?);
        let known = if version >= TELLS_FILLS { CACHED_ONLY | DIRECT | FILL | HAS_BEGUN } else { CACHED_ONLY | DIRECT };
        if flags & !known != 0 || flags & (FILL | HAS_BEGUN) == HAS_BEGUN {
            return Err(Error::config(format!("flags {flags:#x} of a request are unknown")));
        }
        let fill = match flags & FILL {
            0 => None,
            _ => Some(Fill { epoch: fields.u64()?, has_begun: flags & HAS_BEGUN != 0 }),
        };
        fields.end()?;
        let (cached_only, direct) = (flags & CACHED_ONLY != 0, flags & DIRECT != 0);
        let request = GetRequest { key, range, block_size, cached_only, direct, purpose, fill };
        request.check().map(|()| request)
    }
}

impl PeerCommand {
    /// What who asks for it must be. A reader that got damaged bytes has them compared, and asks how a worker is; what it
    /// may read it may have stored first.
    pub(super) fn needed_rights(&self) -> Rights {
        match self {
            PeerCommand::Status | PeerCommand::Verify { .. } | PeerCommand::Bring { .. } => Rights::Reader,
            PeerCommand::Warm { .. }
            | PeerCommand::Evict { .. }
            | PeerCommand::EvictMany { .. }
            | PeerCommand::Pin { .. } => Rights::Worker,
        }
    }

    /// What is done, in words.
    pub(super) fn what(&self) -> &'static str {
        match self {
            PeerCommand::Warm { .. } => "holding blocks",
            PeerCommand::Evict { .. } => "evicting a file",
            PeerCommand::EvictMany { .. } => "evicting files",
            PeerCommand::Pin { .. } => "pinning a file",
            PeerCommand::Status => "a status",
            PeerCommand::Verify { .. } => "verifying blocks",
            PeerCommand::Bring { .. } => "bringing blocks",
        }
    }

    /// `Config` when the command contradicts itself.
    pub fn check(&self) -> Result<()> {
        if let PeerCommand::EvictMany { ids } = self
            && !(1..=MOST_EVICTED).contains(&ids.len())
        {
            return Err(Error::config(format!("{} files at once cannot be evicted", ids.len())));
        }
        let (PeerCommand::Warm { key, first, count, block_size }
        | PeerCommand::Verify { key, first, count, block_size }
        | PeerCommand::Bring { key, first, count, block_size }) = self
        else {
            return Ok(());
        };
        let blocks = u64::from(check_key(key, *block_size)?.count(key.size));
        if *count == 0 || u64::from(*first) + u64::from(*count) > blocks {
            return Err(Error::config(format!("{count} blocks from {first} are not in a file of {blocks} blocks")));
        }
        Ok(())
    }

    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        self.check()?;
        let mut out = Vec::with_capacity(128);
        match self {
            PeerCommand::Warm { key, first, count, block_size }
            | PeerCommand::Verify { key, first, count, block_size }
            | PeerCommand::Bring { key, first, count, block_size } => {
                out.push(match self {
                    PeerCommand::Warm { .. } => 1,
                    PeerCommand::Verify { .. } => 5,
                    _ => 7,
                });
                put_key(&mut out, key)?;
                [first, count, block_size].into_iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
            }
            PeerCommand::Evict { key } => {
                out.push(2);
                put_key(&mut out, key)?;
            }
            PeerCommand::Pin { id, pinned } => {
                out.push(3);
                out.extend_from_slice(&id.0);
                out.push(u8::from(*pinned));
            }
            PeerCommand::Status => out.push(4),
            PeerCommand::EvictMany { ids } => {
                out.push(6);
                out.extend_from_slice(&(ids.len() as u32).to_le_bytes());
                ids.iter().for_each(|id| out.extend_from_slice(&id.0));
            }
        }
        Ok(out)
    }

    pub(super) fn decode(payload: &[u8]) -> Result<PeerCommand> {
        let mut fields = Fields::new(payload);
        let command = match fields.u8()? {
            code @ (1 | 5 | 7) => {
                let key = take_key(&mut fields)?;
                let (first, count, block_size) = (fields.u32()?, fields.u32()?, fields.u32()?);
                match code {
                    1 => PeerCommand::Warm { key, first, count, block_size },
                    5 => PeerCommand::Verify { key, first, count, block_size },
                    _ => PeerCommand::Bring { key, first, count, block_size },
                }
            }
            2 => PeerCommand::Evict { key: take_key(&mut fields)? },
            3 => PeerCommand::Pin { id: FileId(fields.array()?), pinned: take_bool(&mut fields)? },
            4 => PeerCommand::Status,
            6 => PeerCommand::EvictMany { ids: take_ids(&mut fields)? },
            other => return Err(Error::config(format!("command {other} is unknown"))),
        };
        fields.end()?;
        command.check().map(|()| command)
    }
}

fn check_key(key: &FileKey, block_size: u32) -> Result<BlockSize> {
    let size = BlockSize::new(block_size)
        .ok_or_else(|| Error::config(format!("a block size of {block_size} bytes is not possible")))?;
    if key.size == 0 || key.path.is_empty() {
        return Err(Error::config("a file without a name or without content cannot be asked for"));
    }
    if key.size.div_ceil(u64::from(block_size)) > u64::from(u32::MAX) {
        return Err(Error::config(format!("a file of {} bytes has too many blocks", key.size)));
    }
    Ok(size)
}

fn put_key(out: &mut Vec<u8>, key: &FileKey) -> Result<()> {
    put_string(out, "a dataset's name", key.dataset.as_bytes())?;
    put_string(out, "a path", &key.path)?;
    out.extend_from_slice(&key.size.to_le_bytes());
    match &key.version {
        Version::Etag(tag) => {
            out.push(1);
            put_string(out, "an entity tag", tag)
        }
        Version::ModifiedNs(ns) => {
            out.push(2);
            out.extend_from_slice(&ns.to_le_bytes());
            Ok(())
        }
        Version::Stamped { mtime_ns, stamp } => {
            out.push(3);
            out.extend_from_slice(&mtime_ns.to_le_bytes());
            out.extend_from_slice(&stamp.to_bytes());
            Ok(())
        }
    }
}

fn take_key(fields: &mut Fields) -> Result<FileKey> {
    let (dataset, path, size) = (Arc::from(fields.text()?), Box::from(fields.string()?), fields.u64()?);
    let version = match fields.u8()? {
        1 => Version::Etag(Box::from(fields.string()?)),
        2 => Version::ModifiedNs(fields.i64()?),
        3 => Version::Stamped { mtime_ns: fields.i64()?, stamp: Stamp::from_bytes(fields.array()?) },
        other => return Err(Error::config(format!("version kind {other} of a file is unknown"))),
    };
    Ok(FileKey { dataset, path, size, version })
}

fn take_ids(fields: &mut Fields) -> Result<Vec<FileId>> {
    let count = fields.u32()? as usize;
    if count > MOST_EVICTED {
        return Err(Error::config(format!("{count} files at once cannot be evicted")));
    }
    (0..count).map(|_| fields.array().map(FileId)).collect()
}

fn take_bool(fields: &mut Fields) -> Result<bool> {
    match fields.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(Error::config(format!("{other} is neither yes nor no"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> impl Strategy<Value = FileKey> {
        let version = prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|tag| Version::Etag(tag.into())),
            any::<i64>().prop_map(Version::ModifiedNs),
            any::<(i64, i64, u64)>().prop_map(|(mtime_ns, ctime_ns, number)| {
                Version::Stamped { mtime_ns, stamp: Stamp { ctime_ns, number } }
            })
        ];
        (".{0,40}", prop::collection::vec(any::<u8>(), 1..300), 1u64..1 << 44, version).prop_map(
            |(dataset, path, size, version)| FileKey { dataset: dataset.into(), path: path.into(), size, version },
        )
    }

    fn requests() -> impl Strategy<Value = GetRequest> {
        let fill = any::<Option<(u64, bool)>>();
        (keys(), any::<(u64, u64)>(), 16u32..=26, any::<(bool, bool)>(), 0u8..=2, fill).prop_map(
            |(key, (start, length), bits, (cached_only, direct), purpose, fill)| {
                let fill = fill.map(|(epoch, has_begun)| Fill { epoch, has_begun });
                let start = start % key.size;
                let range = ByteRange::new(start, length % (key.size - start) + 1);
                GetRequest { key, range, block_size: 1 << bits, cached_only, direct, purpose, fill }
            },
        )
    }

    fn commands() -> impl Strategy<Value = PeerCommand> {
        prop_oneof![
            requests().prop_map(|request| {
                let blocks = BlockSize::new(request.block_size).expect("valid").count(request.key.size);
                let first = request.range.start as u32 % blocks;
                let (key, block_size) = (request.key, request.block_size);
                PeerCommand::Warm { key, first, count: blocks - first, block_size }
            }),
            requests().prop_map(|request| {
                let blocks = BlockSize::new(request.block_size).expect("valid").count(request.key.size);
                let (key, block_size) = (request.key, request.block_size);
                PeerCommand::Verify { key, first: blocks - 1, count: 1, block_size }
            }),
            requests().prop_map(|request| {
                let (key, block_size) = (request.key, request.block_size);
                PeerCommand::Bring { key, first: 0, count: 1, block_size }
            }),
            keys().prop_map(|key| PeerCommand::Evict { key }),
            any::<([u8; 16], bool)>().prop_map(|(id, pinned)| PeerCommand::Pin { id: FileId(id), pinned }),
            Just(PeerCommand::Status),
            prop::collection::vec(any::<[u8; 16]>().prop_map(FileId), 1..50)
                .prop_map(|ids| PeerCommand::EvictMany { ids }),
        ]
    }

    proptest! {
        #[test]
        fn requests_round_trip(request in requests()) {
            let decode = |version| GetRequest::decode(&request.encode(version).expect("valid"), version);
            prop_assert_eq!(decode(2).expect("our own bytes"), request.clone());
            let known_before = GetRequest { fill: None, ..request.clone() };
            prop_assert_eq!(decode(1).expect("our own bytes"), known_before);
        }

        #[test]
        fn commands_round_trip(command in commands()) {
            prop_assert_eq!(PeerCommand::decode(&command.encode().expect("valid")).expect("our own bytes"), command);
        }

        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = (GetRequest::decode(&bytes, 1), GetRequest::decode(&bytes, 2), PeerCommand::decode(&bytes));
        }

        #[test]
        fn damaged_requests_are_consistent_or_refused(request in requests(), position: prop::sample::Index, byte: u8) {
            let mut bytes = request.encode(2).expect("valid");
            let position = position.index(bytes.len());
            bytes[position] = byte;
            if let Ok(request) = GetRequest::decode(&bytes, 2) {
                prop_assert!(request.check().is_ok());
            }
            prop_assert!(GetRequest::decode(&bytes[..position], 2).is_err());
        }
    }

    fn request(size: u64, range: ByteRange, block_size: u32) -> GetRequest {
        let key = FileKey { dataset: "s3://d".into(), path: (*b"a").into(), size, version: Version::ModifiedNs(1) };
        GetRequest { key, range, block_size, cached_only: false, direct: false, purpose: 0, fill: None }
    }

    #[test]
    fn contradictions_are_refused() {
        let whole = |size| ByteRange::new(0, size);
        assert!(request(9, whole(9), 1 << 20).check().is_ok());
        for wrong in [
            request(9, whole(10), 1 << 20),
            request(9, whole(0), 1 << 20),
            request(9, ByteRange { start: 5, end: 4 }, 1 << 20),
            request(0, whole(1), 1 << 20),
            request(9, whole(9), 12345),
            request(u64::MAX, whole(9), 64 << 10),
        ] {
            assert!(wrong.encode(2).is_err(), "{wrong:?}");
        }
        let mut long = request(9, whole(9), 1 << 20);
        long.key.path = vec![b'a'; 65_536].into();
        assert!(long.encode(2).expect_err("too long").message().contains("too long"));
    }
}
