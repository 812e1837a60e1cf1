//! Records of a ledger as bytes: `docs/format/copy-ledger.md`. Whatever bytes come, reading gives a record or nothing.

use super::decision::Done;
use crate::fields::Fields;
use crate::ids::FileId;
use crate::origin::Mark;

/// No body is longer: a key has at most 4096 bytes, a token or tag 2048.
pub const BODY_MAX: usize = 16 << 10;
const FRAME_BYTES: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// The file was written and compared.
    Done { path: Mark, done: Done },
    /// A write began, with what is needed to go on with it or to take it away.
    Begun { path: Mark, source: FileId, part_bytes: u64, token: String, key: Vec<u8> },
    /// The target keeps this part of it.
    Part { path: Mark, number: u32, content: Mark, tag: String },
    /// Nobody goes on with it.
    Ended { path: Mark },
}

/// The record with its length and checksum before it.
pub fn encode(record: &Record) -> Vec<u8> {
    let mut body = Vec::with_capacity(64);
    match record {
        Record::Done { path, done } => {
            body.push(1);
            body.extend(path.0);
            body.extend(done.source.0);
            body.extend(done.target.0);
        }
        Record::Begun { path, source, part_bytes, token, key } => {
            body.push(2);
            body.extend(path.0);
            body.extend(source.0);
            body.extend(part_bytes.to_le_bytes());
            put(&mut body, token.as_bytes());
            put(&mut body, key);
        }
        Record::Part { path, number, content, tag } => {
            body.push(3);
            body.extend(path.0);
            body.extend(number.to_le_bytes());
            body.extend(content.0);
            put(&mut body, tag.as_bytes());
        }
        Record::Ended { path } => {
            body.push(4);
            body.extend(path.0);
        }
    }
    let mut bytes = Vec::with_capacity(FRAME_BYTES + body.len());
    bytes.extend((body.len() as u32).to_le_bytes());
    bytes.extend(crc32c::crc32c(&body).to_le_bytes());
    bytes.extend(body);
    bytes
}

fn put(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend((bytes.len() as u16).to_le_bytes());
    body.extend(bytes);
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
    let kind = fields.u8()?;
    let path = Mark(fields.array()?);
    let record = match kind {
        1 => Record::Done { path, done: Done { source: FileId(fields.array()?), target: Mark(fields.array()?) } },
        2 => Record::Begun {
            path,
            source: FileId(fields.array()?),
            part_bytes: fields.u64()?,
            token: text(&mut fields)?,
            key: fields.string()?.to_vec(),
        },
        3 => Record::Part { path, number: fields.u32()?, content: Mark(fields.array()?), tag: text(&mut fields)? },
        4 => Record::Ended { path },
        _ => return None,
    };
    fields.is_empty().then_some(record)
}

fn text(fields: &mut Fields<'_>) -> Option<String> {
    std::str::from_utf8(fields.string()?).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn records() -> impl Strategy<Value = Record> {
        let path = any::<[u8; 16]>().prop_map(Mark);
        let text = "[ -~]{0,40}";
        prop_oneof![
            (path.clone(), any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(path, source, target)| Record::Done {
                path,
                done: Done { source: FileId(source), target: Mark(target) }
            }),
            (path.clone(), any::<[u8; 16]>(), any::<u64>(), text, prop::collection::vec(any::<u8>(), 0..64)).prop_map(
                |(path, source, part_bytes, token, key)| Record::Begun {
                    path,
                    source: FileId(source),
                    part_bytes,
                    token,
                    key
                }
            ),
            (path.clone(), any::<u32>(), any::<[u8; 16]>(), text).prop_map(|(path, number, content, tag)| {
                Record::Part { path, number, content: Mark(content), tag }
            }),
            path.prop_map(|path| Record::Ended { path }),
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
