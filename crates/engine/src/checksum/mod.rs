//! Checksums of objects: which kinds there are, how origins spell them in the headers of an answer, how they are computed,
//! and how those of a file, or of its parts, follow from those of its blocks.

pub(crate) mod md5_lanes;
mod md5_vector;
pub(crate) mod parts;
mod told;

use crc_fast::CrcAlgorithm;
use md5::Md5;
use sha2::{Digest as _, Sha256};

/// How a checksum is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// CRC-32C (Castagnoli), which the block store keeps of each block, too.
    Crc32c,
    Crc64Nvme,
    /// CRC-32 of zlib.
    Crc32,
    /// CRC-64 of ECMA-182 as OSS has it (also known as CRC-64/XZ).
    Crc64Ecma,
    Sha256,
    Md5,
}

/// A checksum of an object: of all of it, or of the checksums of the parts that it was uploaded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    kind: Kind,
    /// 0: it is that of all of the object.
    parts: u32,
    /// As many bytes as the kind has, the most significant one first; the rest is zero.
    value: [u8; 32],
}

/// A checksum on the way: bytes go in, in order.
pub struct Digest(State);

enum State {
    // The two are of very different sizes, and live on a stack for a moment.
    Crc(Kind, Box<crc_fast::Digest>),
    Sha256(Sha256),
    Md5(Md5),
}

impl Kind {
    /// The name for logs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Crc32c => "CRC32C",
            Kind::Crc64Nvme => "CRC64NVME",
            Kind::Crc32 => "CRC32",
            Kind::Crc64Ecma => "CRC64 (ECMA)",
            Kind::Sha256 => "SHA-256",
            Kind::Md5 => "MD5",
        }
    }

    /// True where a processor computes it at the speed of memory, so that a pass over a cached file costs next to nothing.
    pub fn is_cheap(self) -> bool {
        self.crc().is_some()
    }

    /// Bytes of a value.
    fn length(self) -> usize {
        match self {
            Kind::Crc32c | Kind::Crc32 => 4,
            Kind::Crc64Nvme | Kind::Crc64Ecma => 8,
            Kind::Md5 => 16,
            Kind::Sha256 => 32,
        }
    }

    fn crc(self) -> Option<CrcAlgorithm> {
        match self {
            Kind::Crc32c => Some(CrcAlgorithm::Crc32Iscsi),
            Kind::Crc64Nvme => Some(CrcAlgorithm::Crc64Nvme),
            Kind::Crc32 => Some(CrcAlgorithm::Crc32IsoHdlc),
            Kind::Crc64Ecma => Some(CrcAlgorithm::Crc64Xz),
            Kind::Sha256 | Kind::Md5 => None,
        }
    }

    /// An empty digest of this kind.
    pub fn digest(self) -> Digest {
        Digest(match self.crc() {
            Some(algorithm) => State::Crc(self, Box::new(crc_fast::Digest::new(algorithm))),
            None if self == Kind::Sha256 => State::Sha256(Sha256::new()),
            None => State::Md5(Md5::new()),
        })
    }
}

impl Digest {
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc(_, digest) => digest.update(bytes),
            State::Sha256(digest) => digest.update(bytes),
            State::Md5(digest) => digest.update(bytes),
        }
    }

    /// The checksum of all that went in.
    pub fn finish(self) -> Checksum {
        match self.0 {
            State::Crc(kind, digest) => Checksum::of_number(kind, digest.finalize()),
            State::Sha256(digest) => Checksum::of_bytes(Kind::Sha256, &digest.finalize()),
            State::Md5(digest) => Checksum::of_bytes(Kind::Md5, &digest.finalize()),
        }
    }
}

impl Checksum {
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// How many parts' checksums it is the checksum of; `None` where it is that of all of the object.
    pub fn parts(&self) -> Option<u32> {
        (self.parts > 0).then_some(self.parts)
    }

    /// True where other bytes are wrong bytes. That the entity tag of an object in parts is the MD5 of their MD5s is a habit
    /// that no storage promises: such a tag can prove bytes, and accuse none.
    pub fn can_accuse(&self) -> bool {
        self.kind != Kind::Md5 || self.parts == 0
    }

    /// The checksum of an object that was uploaded in parts that have these.
    pub fn of_parts(kind: Kind, parts: impl IntoIterator<Item = Checksum>) -> Self {
        let (mut digest, mut count) = (kind.digest(), 0);
        for part in parts {
            digest.update(&part.value[..kind.length()]);
            count += 1;
        }
        Checksum { parts: count, ..digest.finish() }
    }

    /// The checksum of `content`.
    pub fn of(kind: Kind, content: &[u8]) -> Self {
        let mut digest = kind.digest();
        digest.update(content);
        digest.finish()
    }

    /// An MD5 that was computed elsewhere.
    pub(crate) fn of_md5(value: [u8; 16]) -> Self {
        Self::of_bytes(Kind::Md5, &value)
    }

    pub(crate) fn of_number(kind: Kind, number: u64) -> Self {
        let bytes = number.to_be_bytes();
        Self::of_bytes(kind, &bytes[bytes.len() - kind.length()..])
    }

    /// A CRC as a number.
    fn number(&self) -> u64 {
        self.value[..self.kind.length().min(8)].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn of_bytes(kind: Kind, bytes: &[u8]) -> Self {
        let mut value = [0; 32];
        value[..bytes.len()].copy_from_slice(bytes);
        Checksum { kind, parts: 0, value }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIGITS: &[u8] = b"123456789";

    /// Check values of the CRC catalogue (<https://reveng.sourceforge.io/crc-catalogue/all.htm>) and of the RFCs 1321, 6234.
    #[test]
    fn checksums_are_those_of_the_catalogue() {
        let number = |kind, value: u64| assert_eq!(Checksum::of(kind, DIGITS), Checksum::of_number(kind, value));
        number(Kind::Crc32c, 0xe306_9283);
        number(Kind::Crc32, 0xcbf4_3926);
        number(Kind::Crc64Nvme, 0xae8b_1486_0a79_9888);
        number(Kind::Crc64Ecma, 0x995d_c9bb_df19_39fa);
        let bytes = |kind, value: &[u8]| assert_eq!(Checksum::of(kind, DIGITS), Checksum::of_bytes(kind, value));
        bytes(
            Kind::Md5,
            &[0x25, 0xf9, 0xe7, 0x94, 0x32, 0x3b, 0x45, 0x38, 0x85, 0xf5, 0x18, 0x1f, 0x1b, 0x62, 0x4d, 0x0b],
        );
    }

    proptest! {
        #[test]
        fn a_digest_does_not_care_about_pieces(content in prop::collection::vec(any::<u8>(), 0..3000), at in 0usize..3000) {
            let (head, tail) = content.split_at(at.min(content.len()));
            for kind in [Kind::Crc32c, Kind::Crc64Nvme, Kind::Crc32, Kind::Crc64Ecma, Kind::Sha256, Kind::Md5] {
                let mut digest = kind.digest();
                digest.update(head);
                digest.update(tail);
                prop_assert_eq!(digest.finish(), Checksum::of(kind, &content));
            }
        }
    }
}
