//! The header of every frame between peers: magic, version, kind, request, length and two checksums.
//!
//! Layout (little endian): magic `HRPP` (4), version (2), kind (1), flags (1), request (4), payload length (4), CRC32C of
//! the payload (4), CRC32C of the 20 header bytes before it (4). The layout is the same in every version.

use crate::error::{Error, ErrorKind, Result, Retry};

pub const MAGIC: [u8; 4] = *b"HRPP";
pub const HEADER_BYTES: usize = 24;
/// The version field of frames before both sides have agreed on one.
pub const UNNEGOTIATED: u16 = 0;
/// A `Data` frame holds at most this much; more is refused before any of it is read.
pub const MAX_DATA_BYTES: usize = 1 << 20;
/// Any other frame holds at most this much.
pub const MAX_CONTROL_BYTES: usize = 256 << 10;
/// Content whose checksum is made here travels in frames of this size, so that answers interleave finely.
pub const PART_BYTES: usize = 128 << 10;
/// Flag of the `Data` frame that completes its answer.
pub const LAST: u8 = 1;
/// The payload of an `End` frame: what was asked for is not cached.
pub const ABSENT: u8 = 1;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Hello = 1,
    Challenge = 2,
    Proof = 3,
    Welcome = 4,
    Get = 5,
    Command = 6,
    Data = 7,
    /// The answer is over without data: the first payload byte says why.
    End = 8,
    Failure = 9,
    Cancel = 10,
    /// More bytes that the server may send of one answer.
    Credit = 11,
    Ping = 12,
    Pong = 13,
}

impl Kind {
    pub const ALL: [Kind; 13] = {
        use Kind::*;
        [Hello, Challenge, Proof, Welcome, Get, Command, Data, End, Failure, Cancel, Credit, Ping, Pong]
    };

    fn from_code(code: u8) -> Option<Kind> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == code)
    }

    fn most_bytes(self) -> usize {
        if self == Kind::Data { MAX_DATA_BYTES } else { MAX_CONTROL_BYTES }
    }
}

/// A header that passed its checks; the payload's checksum is still to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub version: u16,
    pub kind: Kind,
    pub flags: u8,
    pub request: u32,
    pub length: u32,
    pub payload_crc: u32,
}

impl Header {
    /// The header of a control frame with this payload.
    pub fn control(version: u16, kind: Kind, request: u32, payload: &[u8]) -> Header {
        let (length, payload_crc) = (payload.len() as u32, crc32c::crc32c(payload));
        Header { version, kind, flags: 0, request, length, payload_crc }
    }

    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&self.version.to_le_bytes());
        bytes[6] = self.kind as u8;
        bytes[7] = self.flags;
        bytes[8..12].copy_from_slice(&self.request.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.length.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.payload_crc.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..20]);
        bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Checks a header; a temporary `Corrupt` when it is damaged or not one of ours.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
        let word = |from: usize| u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]);
        if bytes[0..4] != MAGIC {
            return Err(damaged("the other side does not speak Headrace's peer protocol")
                .with_hint("check the address and port, and that both sides agree on TLS"));
        }
        if crc32c::crc32c(&bytes[..20]) != word(20) {
            return Err(damaged("a frame header does not match its checksum"));
        }
        let kind = Kind::from_code(bytes[6]).ok_or_else(|| damaged(format!("unknown frame kind {}", bytes[6])))?;
        let (version, flags) = (u16::from_le_bytes([bytes[4], bytes[5]]), bytes[7]);
        if flags & !LAST != 0 || (flags & LAST != 0 && kind != Kind::Data) {
            return Err(damaged(format!("unknown flags {flags:#x} on a {kind:?} frame")));
        }
        let length = word(12);
        if length as usize > kind.most_bytes() {
            let most = kind.most_bytes();
            return Err(damaged(format!("a {kind:?} frame of {length} bytes exceeds the limit of {most}")));
        }
        Ok(Header { version, kind, flags, request: word(8), length, payload_crc: word(16) })
    }
}

/// A whole control frame.
pub fn control_frame(version: u16, kind: Kind, request: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.extend_from_slice(&Header::control(version, kind, request, payload).encode());
    frame.extend_from_slice(payload);
    frame
}

/// Bytes that are not what the other side meant: another connection or another replica may do better.
pub fn damaged(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Corrupt, message).with_retry(Retry::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn headers() -> impl Strategy<Value = Header> {
        (any::<u16>(), 0..Kind::ALL.len(), any::<bool>(), any::<u32>(), 0u32..=256 << 10, any::<u32>()).prop_map(
            |(version, kind, last, request, length, payload_crc)| {
                let kind = Kind::ALL[kind];
                let flags = if last && kind == Kind::Data { LAST } else { 0 };
                Header { version, kind, flags, request, length, payload_crc }
            },
        )
    }

    proptest! {
        #[test]
        fn headers_round_trip(header in headers()) {
            prop_assert_eq!(Header::decode(&header.encode()).expect("our own header"), header);
        }

        #[test]
        fn any_flipped_bit_is_noticed(header in headers(), position in 0..HEADER_BYTES, bit in 0u8..8) {
            let mut bytes = header.encode();
            bytes[position] ^= 1 << bit;
            prop_assert!(Header::decode(&bytes).expect_err("damaged").is_temporary());
        }

        #[test]
        fn garbage_with_a_right_checksum_is_bounded(mut bytes in any::<[u8; HEADER_BYTES]>()) {
            bytes[0..4].copy_from_slice(&MAGIC);
            let checksum = crc32c::crc32c(&bytes[..20]);
            bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
            if let Ok(header) = Header::decode(&bytes) {
                prop_assert!(header.length as usize <= MAX_DATA_BYTES);
                prop_assert_eq!(header.encode(), bytes);
            }
        }
    }
}
