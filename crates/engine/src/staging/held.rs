//! The content that an origin holds under a name, as far as a writer knows it: so that nothing else is ever overwritten in silence.

use crate::fields::Fields;
use crate::ids::{Stamp, Version};

/// One content that an origin holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    pub size: u64,
    pub version: Version,
}

impl Held {
    /// Whether `other` can be the same content. Times count where one side knows no more.
    pub fn is_same(&self, other: &Held) -> bool {
        let versions = match (&self.version, &other.version) {
            (Version::Etag(ours), Version::Etag(theirs)) => ours == theirs,
            (Version::Stamped { .. }, Version::Stamped { .. }) => self.version == other.version,
            (ours, theirs) => ours.mtime_ns().is_some() && ours.mtime_ns() == theirs.mtime_ns(),
        };
        self.size == other.size && versions
    }

    pub(super) fn encode(&self, body: &mut Vec<u8>) {
        body.extend(self.size.to_le_bytes());
        match &self.version {
            Version::Etag(tag) => {
                body.push(1);
                put(body, tag);
            }
            Version::ModifiedNs(ns) => {
                body.push(2);
                body.extend(ns.to_le_bytes());
            }
            Version::Stamped { mtime_ns, stamp } => {
                body.push(3);
                body.extend(mtime_ns.to_le_bytes());
                body.extend(stamp.to_bytes());
            }
        }
    }

    pub(super) fn decode(fields: &mut Fields<'_>) -> Option<Self> {
        let size = fields.u64()?;
        let version = match fields.u8()? {
            1 => Version::Etag(fields.string()?.into()),
            2 => Version::ModifiedNs(fields.i64()?),
            3 => Version::Stamped { mtime_ns: fields.i64()?, stamp: Stamp::from_bytes(fields.array()?) },
            _ => return None,
        };
        Some(Held { size, version })
    }
}

/// Bytes with their length before them.
pub(super) fn put(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend((bytes.len() as u16).to_le_bytes());
    body.extend(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_content_is_known_by_its_tag_its_stamp_or_its_time() {
        let tagged = |tag: &[u8]| Held { size: 1, version: Version::Etag(tag.into()) };
        let timed = |ns| Held { size: 1, version: Version::ModifiedNs(ns) };
        let stamped = |ns, number| Held {
            size: 1,
            version: Version::Stamped { mtime_ns: ns, stamp: Stamp { ctime_ns: 1, number } },
        };
        assert!(tagged(b"a").is_same(&tagged(b"a")) && !tagged(b"a").is_same(&tagged(b"b")));
        assert!(timed(1).is_same(&stamped(1, 9)) && !timed(1).is_same(&timed(2)));
        assert!(stamped(1, 9).is_same(&stamped(1, 9)) && !stamped(1, 9).is_same(&stamped(1, 8)));
        assert!(!tagged(b"a").is_same(&timed(1)));
        assert!(!timed(1).is_same(&Held { size: 2, version: Version::ModifiedNs(1) }));
    }
}
