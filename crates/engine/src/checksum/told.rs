//! How origins spell the checksums of their objects in the headers of an answer.
//!
//! A checksum in a header is believed only where it can be nothing else: one of another length, one that is told twice
//! in two ways, one that may be of the object or of its parts' checksums, and an entity tag that is no MD5 are no
//! checksum.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http::HeaderMap;

use super::{Checksum, Kind};

/// S3's headers, the cheapest to compute first: any one of them suffices against accidents.
const S3: [(&str, Kind); 4] = [
    ("x-amz-checksum-crc32c", Kind::Crc32c),
    ("x-amz-checksum-crc64nvme", Kind::Crc64Nvme),
    ("x-amz-checksum-crc32", Kind::Crc32),
    ("x-amz-checksum-sha256", Kind::Sha256),
];
/// S3 takes no more parts.
const PARTS_MAX: u32 = 10_000;

/// What the values of `x-amz-checksum-…` are of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Whole,
    Parts,
    /// The answer does not say it. Servers that do not know the types tell either.
    Unknown,
    /// It says something that is not known here.
    Other,
}

impl Checksum {
    /// What an answer of S3 tells of the object: one of the checksums of all of it, or else one of its parts' checksums; and
    /// where there is neither, the MD5 that a plain entity tag is, or the MD5 of the parts' MD5s. The tag is none of them
    /// where the object is encrypted with a key of KMS or of the customer.
    /// <https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html>
    pub fn of_s3(headers: &HeaderMap) -> Option<Self> {
        let scope = match said_scope(headers) {
            // An object whose tag is that of a single upload has no parts.
            Scope::Unknown if is_of_one_upload(headers) => Scope::Whole,
            said => said,
        };
        let (header, tag) = (Self::of_headers(headers, scope), Self::of_etag(headers));
        let whole = |told: &Self| told.parts().is_none();
        header.filter(whole).or(tag.filter(whole)).or(header).or(tag)
    }

    /// The same for S3's directory buckets, whose entity tags look like an MD5 and are none.
    pub fn of_directory_bucket(headers: &HeaderMap) -> Option<Self> {
        Self::of_headers(headers, said_scope(headers))
    }

    fn of_headers(headers: &HeaderMap, scope: Scope) -> Option<Self> {
        S3.iter().find_map(|(name, kind)| Self::of_header(single(headers, name)?, *kind, scope))
    }

    fn of_header(text: &str, kind: Kind, scope: Scope) -> Option<Self> {
        let (value, parts) = match text.rsplit_once('-') {
            Some((value, count)) => (value, part_count(count)?),
            None => (text, 0),
        };
        // S3 has no other CRC64NVME than that of all of an object.
        let fits = match (scope, parts) {
            (Scope::Whole, 0) => true,
            (Scope::Unknown, 0) => kind == Kind::Crc64Nvme,
            (Scope::Parts | Scope::Unknown, 1..) => kind != Kind::Crc64Nvme,
            _ => false,
        };
        let bytes = BASE64_STANDARD.decode(value).ok().filter(|bytes| bytes.len() == kind.length())?;
        fits.then(|| Checksum { parts, ..Self::of_bytes(kind, &bytes) })
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
        let (text, parts) = match strong_tag(headers)?.split_once('-') {
            Some((text, count)) => (text, part_count(count)?),
            None => (strong_tag(headers)?, 0),
        };
        let mut bytes = [0; 16];
        let plain = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        for (place, byte) in bytes.iter_mut().enumerate().filter(|_| plain) {
            *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
        }
        plain.then(|| Checksum { parts, ..Self::of_bytes(Kind::Md5, &bytes) })
    }
}

fn said_scope(headers: &HeaderMap) -> Scope {
    if !headers.contains_key("x-amz-checksum-type") {
        return Scope::Unknown;
    }
    match single(headers, "x-amz-checksum-type") {
        Some("FULL_OBJECT") => Scope::Whole,
        Some("COMPOSITE") => Scope::Parts,
        _ => Scope::Other,
    }
}

fn is_of_one_upload(headers: &HeaderMap) -> bool {
    let ends_with_count = |tag: &str| tag.rsplit_once('-').is_some_and(|(_, count)| is_number(count));
    strong_tag(headers).is_some_and(|tag| !ends_with_count(tag))
}

/// The `5` of `…-5`.
fn part_count(text: &str) -> Option<u32> {
    let count = text.parse().ok().filter(|_| is_number(text))?;
    (1..=PARTS_MAX).contains(&count).then_some(count)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The entity tag without its quotes.
fn strong_tag(headers: &HeaderMap) -> Option<&str> {
    single(headers, "etag")?.strip_prefix('"')?.strip_suffix('"')
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

    #[test]
    fn the_cheapest_whole_checksum_of_an_answer_counts() {
        let kind = |pairs: &[(&'static str, &str)]| Checksum::of_s3(&headers(pairs)).map(|told| told.kind());
        let (c, n, z) =
            (("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg="), MD5_OF_DIGITS);
        assert_eq!(kind(&[n, c, ("etag", z)]), Some(Kind::Crc32c));
        assert_eq!(kind(&[("x-amz-checksum-type", "FULL_OBJECT"), n, ("etag", z)]), Some(Kind::Crc64Nvme));
        assert_eq!(kind(&[("etag", z), ("x-amz-server-side-encryption", "AES256")]), Some(Kind::Md5));
        assert_eq!(kind(&[("x-amz-checksum-crc32", "y/Q5Jg=="), ("etag", "\"no-md5\"")]), Some(Kind::Crc32));
        let sha = [("x-amz-checksum-sha256", "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="), ("etag", "\"no-md5\"")];
        assert_eq!(Checksum::of_s3(&headers(&sha)).unwrap(), Checksum::of(Kind::Sha256, DIGITS));
        assert_eq!(Checksum::of_s3(&headers(&[("etag", z)])).unwrap(), Checksum::of(Kind::Md5, DIGITS));
        let oss = Checksum::of_oss(&headers(&[("x-oss-hash-crc64ecma", "11051210869376104954")]));
        assert_eq!(oss.unwrap(), Checksum::of(Kind::Crc64Ecma, DIGITS));
        let hdfs = |algorithm, text| Checksum::of_hdfs(algorithm, text);
        assert_eq!(hdfs("COMPOSITE-CRC32C", "e3069283"), Some(Checksum::of(Kind::Crc32c, DIGITS)));
        assert_eq!(hdfs("COMPOSITE-CRC32", "CBF43926"), Some(Checksum::of(Kind::Crc32, DIGITS)));
    }

    /// Two parts as boto3 uploads them; their tag, and what three kinds of server tell of their CRC32s.
    #[test]
    fn a_checksum_of_parts_is_not_taken_for_that_of_the_object() {
        let (tag, other) = (("etag", "\"25f9e794323b453885f5181f1b624d0b-2\""), ("etag", MD5_OF_DIGITS));
        let (crc, counted) = (("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32", "y/Q5Jg==-2"));
        let (composite, whole) = (("x-amz-checksum-type", "COMPOSITE"), ("x-amz-checksum-type", "FULL_OBJECT"));
        let crc64 = ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=");
        let parts = |kind| Some((kind, Some(2)));
        for (pairs, expected) in [
            (&[tag, counted, composite][..], parts(Kind::Crc32)),
            (&[tag, counted], parts(Kind::Crc32)),
            // It may be either: the tag is the only thing that is certain.
            (&[tag, crc], parts(Kind::Md5)),
            (&[tag, crc, composite], parts(Kind::Md5)),
            (&[tag, crc, whole], Some((Kind::Crc32, None))),
            (&[tag, crc64], Some((Kind::Crc64Nvme, None))),
            (&[tag, crc64, composite], parts(Kind::Md5)),
            (&[other, counted, composite], Some((Kind::Md5, None))),
            (&[crc, ("etag", "\"upload-17\"")], None),
            (&[crc], None),
        ] {
            let told = Checksum::of_s3(&headers(pairs));
            assert_eq!(told.map(|told| (told.kind(), told.parts())), expected, "{pairs:?}");
        }
        assert!(!Checksum::of_s3(&headers(&[tag])).unwrap().can_accuse());
        assert!(Checksum::of_s3(&headers(&[tag, counted, composite])).unwrap().can_accuse());
    }

    #[test]
    fn what_may_be_something_else_is_no_checksum() {
        let tag = ("etag", "\"no-md5\"");
        for pairs in [
            &[tag, ("x-amz-checksum-crc32c", "4waSgw==-2")][..],
            &[tag, ("x-amz-checksum-crc32c", "4waSg")],
            &[tag, ("x-amz-checksum-crc32c", "rosUhgp5mIg=")],
            &[tag, ("x-amz-checksum-crc32c", "")],
            &[tag, ("x-amz-checksum-crc32c", "4waSgw=="), ("x-amz-checksum-crc32c", "AAAAAA==")],
            &[tag, ("x-amz-checksum-type", "???"), ("x-amz-checksum-crc32c", "4waSgw==")],
            &[tag, ("x-amz-checksum-type", "FULL_OBJECT"), ("x-amz-checksum-crc32c", "4waSgw==-2")],
            &[tag, ("x-amz-checksum-type", "COMPOSITE"), ("x-amz-checksum-crc64nvme", "rosUhgp5mIg=-2")],
            &[("x-amz-checksum-crc32c", "4waSgw==-0")],
            &[("x-amz-checksum-crc32c", "4waSgw==-+1")],
            &[("x-amz-checksum-crc32c", "4waSgw==-10001")],
            &[("x-amz-checksum-crc32c", "4waSgw==-1-1")],
            &[("etag", "\"25f9e794323b453885f5181f1b624d0b-0\"")],
            &[("etag", "\"25f9e794323b453885f5181f1b624d0b-1-1\"")],
            &[("etag", "\"25f9e794323b453885f5181f1b624d0b-4294967297\"")],
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
        fn hostile_headers_do_no_harm(value in "[ -~]{0,80}") {
            for name in ["x-amz-checksum-crc32c", "x-amz-checksum-sha256", "x-amz-checksum-type", "etag", "x-oss-hash-crc64ecma"] {
                let map = headers(&[(name, &value)]);
                let _ = (Checksum::of_s3(&map), Checksum::of_oss(&map));
            }
        }
    }
}
