//! Checksums of whole objects: which kinds there are, how origins spell them in the headers of an answer, how they are
//! computed, and how the CRC of a file follows from those of its blocks.
//!
//! What a header tells is believed only where it can be nothing else: a checksum of parts ("…-N", `COMPOSITE`), one of
//! another length, one that is told twice in two ways, and an entity tag that is no MD5 are no checksum.

pub(crate) mod md5_lanes;
mod md5_vector;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use crc_fast::CrcAlgorithm;
use http::HeaderMap;
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

/// A checksum of a whole object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    kind: Kind,
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

/// S3's headers, the cheapest to compute first: any one of them suffices against accidents.
const S3: [(&str, Kind); 4] = [
    ("x-amz-checksum-crc32c", Kind::Crc32c),
    ("x-amz-checksum-crc64nvme", Kind::Crc64Nvme),
    ("x-amz-checksum-crc32", Kind::Crc32),
    ("x-amz-checksum-sha256", Kind::Sha256),
];

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

    /// The CRC32C of blocks in a row, from theirs and their lengths.
    pub fn of_blocks(blocks: impl IntoIterator<Item = (u32, u64)>) -> Self {
        let algorithm = CrcAlgorithm::Crc32Iscsi;
        let add = |sum, (crc, length)| crc_fast::checksum_combine(algorithm, sum, u64::from(crc), length);
        Self::of_number(Kind::Crc32c, blocks.into_iter().fold(0, add))
    }

    /// What an answer of S3 tells of the whole object: one of its checksums, else the MD5 that a plain entity tag is.
    /// That one is none where the object is encrypted with a key of KMS or of the customer.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html>
    pub fn of_s3(headers: &HeaderMap) -> Option<Self> {
        Self::of_directory_bucket(headers).or_else(|| Self::of_etag(headers))
    }

    /// The same for S3's directory buckets, whose entity tags look like an MD5 and are none.
    pub fn of_directory_bucket(headers: &HeaderMap) -> Option<Self> {
        let composite = single(headers, "x-amz-checksum-type").is_some_and(|kind| kind != "FULL_OBJECT");
        let told = |(name, kind): &(&str, Kind)| {
            let bytes = BASE64_STANDARD.decode(single(headers, name)?).ok()?;
            (bytes.len() == kind.length()).then(|| Self::of_bytes(*kind, &bytes))
        };
        if composite { None } else { S3.iter().find_map(told) }
    }

    /// What an answer of OSS tells of the whole object, whatever part of it was asked for.
    /// <https://help.aliyun.com/zh/oss/user-guide/check-data-transmission-integrity-by-using-crc-64>
    pub fn of_oss(headers: &HeaderMap) -> Option<Self> {
        let text = single(headers, "x-oss-hash-crc64ecma")?;
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        plain.then(|| text.parse().ok()).flatten().map(|value| Self::of_number(Kind::Crc64Ecma, value))
    }

    /// What a file checksum of HDFS means, if it depends on the content alone. The usual one, an MD5 of MD5s of CRCs, depends
    /// on how the file was written as well; `dfs.checksum.combine.mode=COMPOSITE_CRC` makes it the CRC of the whole file.
    /// <https://hadoop.apache.org/docs/stable/hadoop-project-dist/hadoop-common/filesystem/filesystem.html>
    pub fn of_hdfs(algorithm: &str, hexadecimal: &str) -> Option<Self> {
        let kind = match algorithm {
            "COMPOSITE-CRC32C" => Kind::Crc32c,
            "COMPOSITE-CRC32" => Kind::Crc32,
            _ => return None,
        };
        let plain = hexadecimal.len() == 8 && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit());
        plain.then(|| u64::from_str_radix(hexadecimal, 16).ok()).flatten().map(|number| Self::of_number(kind, number))
    }

    fn of_etag(headers: &HeaderMap) -> Option<Self> {
        let own_key = headers.contains_key("x-amz-server-side-encryption-customer-algorithm");
        let managed = headers.get_all("x-amz-server-side-encryption").iter().any(|value| value != "AES256");
        if own_key || managed {
            return None;
        }
        let text = single(headers, "etag")?.strip_prefix('"')?.strip_suffix('"')?;
        let mut bytes = [0; 16];
        let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (place, byte) in bytes.iter_mut().enumerate().filter(|_| plain) {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        plain.then(|| Self::of_bytes(Kind::Md5, &bytes))
    }

    fn of_number(kind: Kind, number: u64) -> Self {
        let bytes = number.to_be_bytes();
        Self::of_bytes(kind, &bytes[bytes.len() - kind.length()..])
    }

    fn of_bytes(kind: Kind, bytes: &[u8]) -> Self {
        let mut value = [0; 32];
        value[..bytes.len()].copy_from_slice(bytes);
        Checksum { kind, value }
    }
}

/// The header's text, if it is there once.
fn single<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first.trim())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DIGITS: &[u8] = b"123456789";
    const MD5_OF_DIGITS: &str = "\"25f9e794323b453885f5181f1b624d0b\"";

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, value.parse().unwrap());
        }
        map
    }

    /// Check values of the CRC catalogue (<https://reveng.sourceforge.io/crc-catalogue/all.htm>) and of the RFCs 1321, 6234.
    #[test]
    fn checksums_are_those_of_the_catalogue() {
        let number = |kind, value: u64| assert_eq!(Checksum::of(kind, DIGITS), Checksum::of_number(kind, value));
        number(Kind::Crc32c, 0xe306_9283);
        number(Kind::Crc32, 0xcbf4_3926);
        number(Kind::Crc64Nvme, 0xae8b_1486_0a79_9888);
        number(Kind::Crc64Ecma, 0x995d_c9bb_df19_39fa);
        assert_eq!(Checksum::of(Kind::Md5, DIGITS), Checksum::of_s3(&headers(&[("etag", MD5_OF_DIGITS)])).unwrap());
        let sha =
            Checksum::of_s3(&headers(&[("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=")]));
        assert_eq!(sha.unwrap().kind(), Kind::Sha256);
        assert_eq!(Checksum::of(Kind::Sha256, DIGITS), sha.unwrap());
    }

    #[test]
    fn the_cheapest_whole_checksum_of_an_answer_counts() {
        let kind = |pairs: &[(&'static str, &str)]| Checksum::of_s3(&headers(pairs)).map(|told| told.kind());
        let (c, n, z) =
            (("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="), MD5_OF_DIGITS);
        assert_eq!(kind(&[n, c, ("etag", z)]), Some(Kind::Crc32c));
        assert_eq!(kind(&[("x-amz-checksum-type", "FULL_OBJECT"), n, ("etag", z)]), Some(Kind::Crc64Nvme));
        assert_eq!(kind(&[("x-amz-checksum-type", "COMPOSITE"), c, ("etag", "\"abc-3\"")]), None);
        assert_eq!(kind(&[("etag", z), ("x-amz-server-side-encryption", "AES256")]), Some(Kind::Md5));
        assert_eq!(kind(&[("x-amz-checksum-crc32", "y/Q5Jg==")]), Some(Kind::Crc32));
        let oss = Checksum::of_oss(&headers(&[("x-oss-hash-crc64ecma", "11051210869376104954")]));
        assert_eq!(oss.unwrap(), Checksum::of(Kind::Crc64Ecma, DIGITS));
        let hdfs = |algorithm, text| Checksum::of_hdfs(algorithm, text);
        assert_eq!(hdfs("COMPOSITE-CRC32C", "e3069283"), Some(Checksum::of(Kind::Crc32c, DIGITS)));
        assert_eq!(hdfs("COMPOSITE-CRC32", "CBF43926"), Some(Checksum::of(Kind::Crc32, DIGITS)));
    }

    #[test]
    fn what_may_be_something_else_is_no_checksum() {
        for pairs in [
            &[("x-amz-checksum-crc32c", "4waSgw==-2")][..],
            &[("x-amz-checksum-crc32c", "4waSg")],
            &[("x-amz-checksum-crc32c", "rosUhgp5mIg=")],
            &[("x-amz-checksum-crc32c", "")],
            &[("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-crc32c", "AAAAAA==")],
            &[("x-amz-checksum-type", "???"), ("x-amz-checksum-crc32c", "4waSgw==")],
            &[("etag", "\"25f9e794323b453885f5181f1b624d0b-1\"")],
            &[("etag", "25f9e794323b453885f5181f1b624d0b")],
            &[("etag", "W/\"25f9e794323b453885f5181f1b624d0b\"")],
            &[("etag", "\"+5f9e794323b453885f5181f1b624d0b\"")],
            &[("etag", "\"25f9e794323b453885f5181f1b624d0\u{e9}\"")],
            &[("etag", "\""), ("etag", MD5_OF_DIGITS)],
            &[("etag", MD5_OF_DIGITS), ("x-amz-server-side-encryption", "aws:kms")],
            &[("etag", MD5_OF_DIGITS), ("x-amz-server-side-encryption", "aws:kms:dsse")],
            &[("etag", MD5_OF_DIGITS), ("x-amz-server-side-encryption-customer-algorithm", "AES256")],
        ] {
            assert_eq!(Checksum::of_s3(&headers(pairs)), None, "{pairs:?}");
        }
        assert_eq!(Checksum::of_directory_bucket(&headers(&[("etag", MD5_OF_DIGITS)])), None);
        for text in ["", "-1", "+1", "1-2", "0x10", "18446744073709551616", "1 2"] {
            assert_eq!(Checksum::of_oss(&headers(&[("x-oss-hash-crc64ecma", text)])), None, "{text:?}");
        }
        for text in ["", "e306928", "e30692830", "+3069283", "e306928\u{e9}"] {
            assert_eq!(Checksum::of_hdfs("COMPOSITE-CRC32C", text), None, "{text:?}");
        }
        assert_eq!(Checksum::of_hdfs("MD5-of-0MD5-of-512CRC32C", "e3069283"), None);
    }

    proptest! {
        #[test]
        fn the_crc_of_blocks_is_that_of_the_file(content in prop::collection::vec(any::<u8>(), 0..5000), block in 1usize..700) {
            let blocks = content.chunks(block).map(|part| (crc32c::crc32c(part), part.len() as u64));
            prop_assert_eq!(Checksum::of_blocks(blocks), Checksum::of(Kind::Crc32c, &content));
        }

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

        #[test]
        fn hostile_headers_do_no_harm(value in "[ -~]{0,80}") {
            for name in ["x-amz-checksum-crc32c", "x-amz-checksum-sha256", "x-amz-checksum-type", "etag", "x-oss-hash-crc64ecma"] {
                let map = headers(&[(name, &value)]);
                let _ = (Checksum::of_s3(&map), Checksum::of_oss(&map));
            }
        }
    }
}
