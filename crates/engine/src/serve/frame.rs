//! Frames on the local socket: a fixed header with magic, version, length limit and checksum, then the payload.
//!
//! Layout (little endian): magic `HRLP` (4), version (2), kind (2), request (8), payload length (4), CRC32C over the
//! first 20 header bytes and the payload (4). Descriptors travel beside the header's first byte.

use crate::error::{Error, ErrorKind, Result};

pub const MAGIC: [u8; 4] = *b"HRLP";
pub const VERSION: u16 = 1;
pub const HEADER_BYTES: usize = 24;
/// Larger answers are split by whoever asks.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

/// What a frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    Hello = 1,
    Welcome = 2,
    /// Ranges to read; answered by one `Data` or `Failure` for each, in order.
    Read = 3,
    Data = 4,
    /// A file to lease; answered by `Lease` with a descriptor, or `Data` of length zero when it is not whole here.
    Open = 5,
    Lease = 6,
    /// The end of a lease. Not answered.
    Close = 7,
    /// A known order of inodes. Answered by an empty `Data`.
    Prefetch = 8,
    /// A JSON verb; answered by `Report` or `Failure`.
    Control = 9,
    Report = 10,
    Failure = 11,
    /// Bytes read from files on lease, for owners whose `Welcome` says that they count. Not answered.
    Count = 12,
}

impl Kind {
    fn from_code(code: u16) -> Option<Kind> {
        use Kind::*;
        [Hello, Welcome, Read, Data, Open, Lease, Close, Prefetch, Control, Report, Failure, Count]
            .into_iter()
            .find(|kind| *kind as u16 == code)
    }
}

/// A header that passed its checks; the payload's checksum is still to be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: Kind,
    pub request: u64,
    pub length: usize,
    checksum: u32,
}

/// The header bytes for `payload`.
pub fn encode_header(kind: Kind, request: u64, payload: &[u8]) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    header[0..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[6..8].copy_from_slice(&(kind as u16).to_le_bytes());
    header[8..16].copy_from_slice(&request.to_le_bytes());
    header[16..20].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..20]), payload);
    header[20..24].copy_from_slice(&checksum.to_le_bytes());
    header
}

/// Checks a header; `Corrupt` when it is not one of ours, `Unsupported` when it is of another version.
pub fn decode_header(bytes: &[u8; HEADER_BYTES]) -> Result<Header> {
    let word = |from: usize| u32::from_le_bytes([bytes[from], bytes[from + 1], bytes[from + 2], bytes[from + 3]]);
    let half = |from: usize| u16::from_le_bytes([bytes[from], bytes[from + 1]]);
    if bytes[0..4] != MAGIC {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "the local socket answered something that is not Headrace's protocol",
        ));
    }
    if half(4) != VERSION {
        let message =
            format!("the other process speaks version {} of the local protocol, this one version {VERSION}", half(4));
        return Err(Error::new(ErrorKind::Unsupported, message).with_hint("restart the older of the two processes"));
    }
    let kind = Kind::from_code(half(6)).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, format!("unknown message kind {} on the local socket", half(6)))
    })?;
    let length = word(16) as usize;
    if length > MAX_PAYLOAD_BYTES {
        return Err(Error::new(
            ErrorKind::Corrupt,
            format!("a message of {length} bytes exceeds the limit of {MAX_PAYLOAD_BYTES}"),
        ));
    }
    let mut request = [0; 8];
    request.copy_from_slice(&bytes[8..16]);
    Ok(Header { kind, request: u64::from_le_bytes(request), length, checksum: word(20) })
}

/// Compares the checksum of header and payload.
pub fn check_payload(header_bytes: &[u8; HEADER_BYTES], header: &Header, payload: &[u8]) -> Result<()> {
    if crc32c::crc32c_append(crc32c::crc32c(&header_bytes[..20]), payload) == header.checksum {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Corrupt, "a message on the local socket does not match its checksum"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_survives_the_round_trip() {
        let bytes = encode_header(Kind::Read, 7, b"payload");
        let header = decode_header(&bytes).expect("our own header");
        assert_eq!((header.kind, header.request, header.length), (Kind::Read, 7, 7));
        check_payload(&bytes, &header, b"payload").expect("our own payload");
        assert_eq!(check_payload(&bytes, &header, b"paYload").expect_err("changed").kind(), ErrorKind::Corrupt);
    }

    proptest! {
        #[test]
        fn garbage_never_panics_and_is_never_taken_for_a_frame(bytes in any::<[u8; HEADER_BYTES]>()) {
            if let Ok(header) = decode_header(&bytes) {
                prop_assert!(header.length <= MAX_PAYLOAD_BYTES);
            }
        }

        #[test]
        fn any_flipped_bit_is_noticed(position in 0usize..(HEADER_BYTES + 5), bit in 0u8..8) {
            let mut bytes = encode_header(Kind::Control, 99, b"hello").to_vec();
            bytes.extend_from_slice(b"hello");
            bytes[position] ^= 1 << bit;
            let mut head = [0; HEADER_BYTES];
            head.copy_from_slice(&bytes[..HEADER_BYTES]);
            let accepted = decode_header(&head).and_then(|header| check_payload(&head, &header, &bytes[HEADER_BYTES..]));
            prop_assert!(accepted.is_err());
        }
    }
}
