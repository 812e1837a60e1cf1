//! Why fetches fail, in words.

use super::source::Source;
use crate::error::{Error, ErrorKind, Retry};
use crate::ids::ByteRange;

pub(crate) fn closing_error() -> Error {
    Error::new(ErrorKind::Cancelled, "the engine is closing")
}

pub(crate) fn wrong_length(source: &Source, range: ByteRange, than: &str) -> Error {
    let message = format!("the origin sent {than} bytes of {} than were asked for", source.path());
    Error::new(ErrorKind::Corrupt, message)
        .with_retry(Retry::Exhausted)
        .with_context("range", format!("{}..{}", range.start, range.end))
        .with_hint("something between here and the origin cuts or pads answers; reading again asks for all of it")
}

/// Why a file is refused.
pub(crate) fn wrong_content(source: &Source) -> Error {
    let message = format!("the origin sends other bytes of {} than its checksum says", source.path());
    Error::new(ErrorKind::Corrupt, message).with_retry(Retry::Exhausted).with_hint(
        "something between here and the origin changes bytes (a proxy, a gateway), or the object is damaged there; \
         a storage of S3 or OSS whose checksums are wrong is read without them by --option ignore-checksums=true",
    )
}
