//! Entity tags and HTTP dates: the spellings in which origins tell versions apart.

use opendal::raw::Timestamp;

/// An entity tag as it is kept: without quotes; a weak one keeps its mark (`W/`).
pub(super) fn bare_tag(tag: &[u8]) -> Box<[u8]> {
    let tag = tag.trim_ascii();
    let (mark, rest) = match tag.strip_prefix(b"W/") {
        Some(rest) => (&b"W/"[..], rest),
        None => (&b""[..], tag),
    };
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let rest = rest.strip_suffix(b"\"").unwrap_or(rest);
    [mark, rest].concat().into()
}

/// Whether a header's tag is the kept one. Servers mark the tag of a partial or compressed answer as weak at will, so
/// the mark alone makes no difference.
pub(super) fn same_tag(header: &[u8], kept: &[u8]) -> bool {
    let header = bare_tag(header);
    opaque(&header) == opaque(kept)
}

/// The tag as an `If-Match` header wants it; `None` for weak tags, which never match there.
pub(super) fn quoted_if_strong(kept: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(kept).ok()?;
    let sendable = !text.is_empty() && text.bytes().all(|byte| (0x21..0x7f).contains(&byte) && byte != b'"');
    (sendable && !text.starts_with("W/")).then(|| format!("\"{text}\""))
}

fn opaque(tag: &[u8]) -> &[u8] {
    tag.strip_prefix(b"W/").unwrap_or(tag)
}

/// Seconds since 1970 of `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn http_seconds(text: &str) -> Option<i64> {
    Timestamp::parse_rfc2822(text).ok().map(|time| time.into_inner().as_second())
}

/// Nanoseconds since 1970 of `2026-11-21T09:15:31.000Z`.
pub(super) fn iso_nanoseconds(text: &str) -> Option<i64> {
    let time = text.trim().parse::<Timestamp>().ok()?;
    i64::try_from(time.into_inner().as_nanosecond()).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_kept_without_quotes_and_with_their_weakness() {
        assert_eq!(&*bare_tag(b"\"abc\""), b"abc");
        assert_eq!(&*bare_tag(b"abc"), b"abc");
        assert_eq!(&*bare_tag(b" W/\"abc\" "), b"W/abc");
    }

    #[test]
    fn only_strong_tags_are_sent_as_conditions() {
        assert_eq!(quoted_if_strong(b"abc-12").as_deref(), Some("\"abc-12\""));
        assert_eq!(quoted_if_strong(b"W/abc"), None);
        assert_eq!(quoted_if_strong(b"a\r\nX: y"), None);
        assert_eq!(quoted_if_strong(b""), None);
    }

    #[test]
    fn a_tag_is_the_same_whatever_its_spelling() {
        assert!(same_tag(b"W/\"abc\"", b"abc"));
        assert!(same_tag(b"\"abc\"", b"abc"));
        assert!(!same_tag(b"\"abd\"", b"abc"));
    }

    #[test]
    fn dates_are_read() {
        assert_eq!(http_seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(784_111_777));
        assert_eq!(iso_nanoseconds("1970-01-01T00:00:01.500Z"), Some(1_500_000_000));
        assert_eq!(http_seconds("soon"), None);
        assert_eq!(iso_nanoseconds("soon"), None);
    }
}
