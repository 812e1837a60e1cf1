//! The messages of the lease protocol as bytes: one packet each, with magic, version, length and checksum.
//!
//! Whatever does not decode exactly is an error, never a guess. The format stands in `docs/format/lease-protocol.md`.

use crate::error::{Error, ErrorKind, Result};
use crate::fields::Fields;
use crate::ids::FileId;
use crate::store::BlockMap;

pub const MAGIC: [u8; 4] = *b"HRLS";
pub const VERSION: u16 = 1;
/// Magic, version, kind, request, payload length, CRC32C of all that and the payload.
pub const HEADER_BYTES: usize = 20;
const MAX_TEXT_BYTES: usize = 1024;
/// The largest message is the map of a huge file.
pub const MAX_MESSAGE_BYTES: usize = HEADER_BYTES + 8 + BlockMap::MAX_BYTES;

const FLAG_WHOLE: u32 = 1;
const FLAG_UNVERIFIED: u32 = 2;
/// In place of an index: no block in particular.
const NO_BLOCK: u32 = u32::MAX;

/// One message, from either side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The client's first: the size of the blocks that it counts in.
    Hello { block_size: u32 },
    /// The answer: most files that one connection may lease at a time.
    Welcome { most_leases: u32 },
    /// For the file version's data file, by all means with block `wanted` if it is there.
    Ask { id: FileId, size: u64, wanted: Option<u32> },
    /// The answer, beside the descriptor.
    Lent { whole: bool, unverified: bool, blocks: BlockMap },
    /// The answer when nothing can be lent.
    Absent,
    /// A lease is no longer needed: that of the `Ask` with this packet's request number, or with 0 the latest. Not answered.
    Release { id: FileId },
    /// The answer to what cannot be answered: for people.
    Failure { text: String },
}

impl Message {
    fn kind(&self) -> u16 {
        match self {
            Message::Hello { .. } => 1,
            Message::Welcome { .. } => 2,
            Message::Ask { .. } => 3,
            Message::Lent { .. } => 4,
            Message::Absent => 5,
            Message::Release { .. } => 6,
            Message::Failure { .. } => 7,
        }
    }

    /// The packet of this message; `request` comes back in its answer, or is that of the `Ask` that it is about.
    pub fn encode(&self, request: u32) -> Vec<u8> {
        let mut packet = Vec::with_capacity(HEADER_BYTES + 32);
        packet.extend_from_slice(&MAGIC);
        packet.extend_from_slice(&VERSION.to_le_bytes());
        packet.extend_from_slice(&self.kind().to_le_bytes());
        packet.extend_from_slice(&request.to_le_bytes());
        packet.extend_from_slice(&[0; 8]);
        self.encode_payload(&mut packet);
        let length = (packet.len() - HEADER_BYTES) as u32;
        packet[12..16].copy_from_slice(&length.to_le_bytes());
        let checksum = checksum(&packet);
        packet[16..20].copy_from_slice(&checksum.to_le_bytes());
        packet
    }

    fn encode_payload(&self, packet: &mut Vec<u8>) {
        match self {
            Message::Hello { block_size: number } | Message::Welcome { most_leases: number } => {
                packet.extend_from_slice(&number.to_le_bytes());
            }
            Message::Ask { id, size, wanted } => {
                packet.extend_from_slice(&id.0);
                packet.extend_from_slice(&size.to_le_bytes());
                packet.extend_from_slice(&wanted.unwrap_or(NO_BLOCK).to_le_bytes());
            }
            Message::Lent { whole, unverified, blocks } => {
                let flags = (u32::from(*whole) * FLAG_WHOLE) | (u32::from(*unverified) * FLAG_UNVERIFIED);
                packet.extend_from_slice(&flags.to_le_bytes());
                packet.extend_from_slice(&blocks.first().to_le_bytes());
                packet.extend_from_slice(blocks.bytes());
            }
            Message::Release { id } => packet.extend_from_slice(&id.0),
            Message::Failure { text } => {
                packet.extend_from_slice(&text.as_bytes()[..text.floor_char_boundary(MAX_TEXT_BYTES)]);
            }
            Message::Absent => {}
        }
    }

    /// The message and the request number of a packet. `Unsupported` when it is of another version of the protocol,
    /// `Corrupt` when it is none of it.
    pub fn decode(packet: &[u8]) -> Result<(Message, u32)> {
        let mut fields = Fields::new(packet);
        let (magic, version) = (fields.array::<4>(), fields.u16());
        let (Some(MAGIC), Some(version)) = (magic, version) else {
            return Err(corrupt("a message on the lease socket is not of the lease protocol"));
        };
        if version != VERSION {
            return Err(other_version(version));
        }
        let (kind, request) = (fields.u16(), fields.u32());
        let (length, sum) = (fields.u32(), fields.u32());
        let (Some(kind), Some(request), Some(sum)) = (kind, request, sum) else {
            return Err(corrupt("a message on the lease socket is cut short"));
        };
        if length != Some(fields.len() as u32) || sum != checksum(packet) {
            return Err(corrupt("a message on the lease socket does not match its length and checksum"));
        }
        match Self::decode_payload(kind, fields) {
            Some(message) => Ok((message, request)),
            None => Err(corrupt("a message on the lease socket makes no sense")),
        }
    }

    fn decode_payload(kind: u16, mut fields: Fields<'_>) -> Option<Message> {
        let message = match kind {
            1 => Message::Hello { block_size: fields.u32()? },
            2 => Message::Welcome { most_leases: fields.u32()? },
            3 => {
                let (id, size, wanted) = (FileId(fields.array()?), fields.u64()?, fields.u32()?);
                Message::Ask { id, size, wanted: (wanted != NO_BLOCK).then_some(wanted) }
            }
            4 => {
                let (flags, first, bits) = (fields.u32()?, fields.u32()?, fields.rest());
                if flags & !(FLAG_WHOLE | FLAG_UNVERIFIED) != 0 || bits.len() > BlockMap::MAX_BYTES {
                    return None;
                }
                let (whole, unverified) = (flags & FLAG_WHOLE != 0, flags & FLAG_UNVERIFIED != 0);
                Message::Lent { whole, unverified, blocks: BlockMap::from_parts(first, bits) }
            }
            5 => Message::Absent,
            6 => Message::Release { id: FileId(fields.array()?) },
            7 => Message::Failure { text: text(fields.rest())? },
            _ => return None,
        };
        fields.is_empty().then_some(message)
    }
}

fn text(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).ok().filter(|text| text.len() <= MAX_TEXT_BYTES).map(str::to_owned)
}

fn checksum(packet: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&packet[..16]), &packet[HEADER_BYTES..])
}

fn corrupt(message: &str) -> Error {
    Error::new(ErrorKind::Corrupt, message)
}

fn other_version(version: u16) -> Error {
    let message =
        format!("the other process speaks version {version} of the lease protocol, this one version {VERSION}");
    Error::new(ErrorKind::Unsupported, message).with_hint("restart the older of the two processes")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_message() -> impl Strategy<Value = Message> {
        let id = any::<[u8; 16]>().prop_map(FileId);
        let bits = prop::collection::vec(any::<u8>(), 0..200);
        prop_oneof![
            any::<u32>().prop_map(|block_size| Message::Hello { block_size }),
            any::<u32>().prop_map(|most_leases| Message::Welcome { most_leases }),
            (id.clone(), any::<u64>(), prop::option::of(0..u32::MAX)).prop_map(|(id, size, wanted)| Message::Ask {
                id,
                size,
                wanted
            }),
            (any::<bool>(), any::<bool>(), any::<u32>(), bits).prop_map(|(whole, unverified, first, bits)| {
                Message::Lent { whole, unverified, blocks: BlockMap::from_parts(first, &bits) }
            }),
            Just(Message::Absent),
            id.prop_map(|id| Message::Release { id }),
            ".{0,100}".prop_map(|text| Message::Failure { text }),
        ]
    }

    proptest! {
        #[test]
        fn message_comes_back_as_sent(message in any_message(), request in any::<u32>()) {
            prop_assert_eq!(Message::decode(&message.encode(request)).expect("our own"), (message, request));
        }

        #[test]
        fn any_flipped_bit_is_noticed(message in any_message(), place in any::<prop::sample::Index>()) {
            let mut packet = message.encode(7);
            let bit = place.index(packet.len() * 8);
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Message::decode(&packet).is_err());
        }

        #[test]
        fn any_cut_is_noticed(message in any_message(), cut in any::<prop::sample::Index>()) {
            let packet = message.encode(7);
            prop_assert!(Message::decode(&packet[..cut.index(packet.len())]).is_err());
        }

        #[test]
        fn random_payload_never_panics(kind in 0u16..10, payload in prop::collection::vec(any::<u8>(), 0..100)) {
            let _ = Message::decode_payload(kind, Fields::new(&payload));
            let _ = Message::decode(&payload);
        }
    }

    #[test]
    fn long_text_is_cut_at_a_character() {
        let packet = Message::Failure { text: "é".repeat(2000) + "x" }.encode(1);
        let Ok((Message::Failure { text }, 1)) = Message::decode(&packet) else { panic!("not a failure") };
        assert_eq!(text.len(), MAX_TEXT_BYTES);
    }

    #[test]
    fn another_version_is_told_apart_from_damage() {
        let mut packet = Message::Absent.encode(1);
        packet[4] = 9;
        assert_eq!(Message::decode(&packet).expect_err("not ours").kind(), ErrorKind::Unsupported);
        packet[0] = b'X';
        assert_eq!(Message::decode(&packet).expect_err("not ours").kind(), ErrorKind::Corrupt);
    }
}
