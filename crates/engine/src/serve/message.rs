//! The payloads of the local protocol that are not plain bytes or JSON.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result, Retry};

/// The owner's greeting: what an attached process needs to work by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    pub name: String,
    pub pid: u32,
    pub snapshot: PathBuf,
    /// Tells the owner from those before and after it; 0 from owners that do not say it.
    #[serde(default)]
    pub instance: u64,
    /// `Count` frames are taken; not by older owners.
    #[serde(default)]
    pub counts: bool,
}

impl Welcome {
    /// The same for all owners: a number of a process is better than nothing.
    pub fn generation(&self) -> u64 {
        if self.instance == 0 { u64::from(self.pid) } else { self.instance }
    }
}

/// One range of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadItem {
    pub inode: u64,
    pub offset: u64,
    pub length: u32,
}

const ITEM_BYTES: usize = 20;

/// The payload of a `Read` frame: 20 bytes an item.
pub fn encode_items(items: &[ReadItem]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(items.len() * ITEM_BYTES);
    for item in items {
        bytes.extend_from_slice(&item.inode.to_le_bytes());
        bytes.extend_from_slice(&item.offset.to_le_bytes());
        bytes.extend_from_slice(&item.length.to_le_bytes());
    }
    bytes
}

pub fn decode_items(bytes: &[u8]) -> Result<Vec<ReadItem>> {
    if !bytes.len().is_multiple_of(ITEM_BYTES) {
        return Err(malformed("a list of ranges"));
    }
    Ok(bytes
        .chunks_exact(ITEM_BYTES)
        .map(|item| ReadItem {
            inode: number(&item[0..8]),
            offset: number(&item[8..16]),
            length: u32::from_le_bytes([item[16], item[17], item[18], item[19]]),
        })
        .collect())
}

/// The payload of a `Prefetch` frame: 8 bytes an inode.
pub fn encode_inodes(inodes: &[u64]) -> Vec<u8> {
    inodes.iter().flat_map(|inode| inode.to_le_bytes()).collect()
}

pub fn decode_inodes(bytes: &[u8]) -> Result<Vec<u64>> {
    if !bytes.len().is_multiple_of(8) {
        return Err(malformed("a list of inodes"));
    }
    Ok(bytes.chunks_exact(8).map(number).collect())
}

/// The one inode of an `Open` or `Close` frame.
pub fn decode_inode(bytes: &[u8]) -> Result<u64> {
    if bytes.len() == 8 { Ok(number(bytes)) } else { Err(malformed("an inode")) }
}

fn number(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

fn malformed(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{what} on the local socket has an impossible length"))
}

/// An error as it crosses the socket: its kind by name, and what a person needs.
#[derive(Debug, Serialize, Deserialize)]
struct WireError {
    kind: String,
    temporary: bool,
    message: String,
    hint: Option<String>,
}

pub fn encode_error(error: &Error) -> Vec<u8> {
    let wire = WireError {
        kind: error.kind().name(),
        temporary: error.is_temporary(),
        message: error.to_string(),
        hint: error.hint().map(str::to_owned),
    };
    serde_json::to_vec(&wire).unwrap_or_default()
}

pub fn decode_error(bytes: &[u8]) -> Error {
    let Ok(wire) = serde_json::from_slice::<WireError>(bytes) else {
        return malformed("an error report");
    };
    let kind = ErrorKind::ALL.iter().map(|row| row.0).find(|kind| kind.name() == wire.kind);
    let error = Error::new(kind.unwrap_or(ErrorKind::Unexpected), wire.message);
    let error = if wire.temporary { error.with_retry(Retry::Temporary) } else { error };
    match wire.hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn items_round_trip(items in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u32>()), 0..50)) {
            let items: Vec<ReadItem> =
                items.into_iter().map(|(inode, offset, length)| ReadItem { inode, offset, length }).collect();
            prop_assert_eq!(decode_items(&encode_items(&items)).expect("our own bytes"), items);
        }

        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (decode_items(&bytes), decode_inodes(&bytes), decode_inode(&bytes), decode_error(&bytes));
        }
    }

    #[test]
    fn an_error_keeps_its_kind_and_hint() {
        let error = Error::new(ErrorKind::Stale, "a.bin changed").with_hint("refresh");
        let back = decode_error(&encode_error(&error));
        assert_eq!((back.kind(), back.message(), back.hint()), (ErrorKind::Stale, "a.bin changed", Some("refresh")));
    }
}
