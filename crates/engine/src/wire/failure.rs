//! Errors as they cross the wire: kind by name, whether another try can help, message and hint for a person.

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::wire::fields::{Fields, put_string};
use crate::wire::frame::damaged;

/// The fact that an error carries which the other side itself reported: it answers, whatever else is wrong.
pub const REPORTED: &str = "reported";

/// Longer messages and hints are cut.
const MAX_TEXT_BYTES: usize = 4096;

/// The payload of a `Failure` frame.
pub fn encode(error: &Error) -> Vec<u8> {
    let mut out = vec![match error.retry() {
        Retry::Permanent => 0,
        Retry::Temporary => 1,
        Retry::Exhausted => 2,
    }];
    for text in [&error.kind().name(), &error.to_string(), error.hint().unwrap_or_default()] {
        // Cut far below what a length field holds, so this never fails.
        let _ = put_string(&mut out, "text", cut(text).as_bytes());
    }
    out
}

/// The error that the other side meant. An unknown kind, of a newer version, is `Unexpected`.
pub fn decode(payload: &[u8]) -> Result<Error> {
    let mut fields = Fields::new(payload);
    let retry = match fields.u8()? {
        0 => Retry::Permanent,
        1 => Retry::Temporary,
        2 => Retry::Exhausted,
        other => return Err(damaged(format!("unknown retry code {other} in an error report"))),
    };
    let (kind, message, hint) = (fields.text()?, fields.text()?, fields.text()?);
    fields.end()?;
    let kind = ErrorKind::ALL.iter().map(|row| row.0).find(|known| known.name() == kind);
    let error = Error::new(kind.unwrap_or(ErrorKind::Unexpected), printable(cut(message)))
        .with_retry(retry)
        .with_context(REPORTED, "by the peer");
    Ok(if hint.is_empty() { error } else { error.with_hint(printable(cut(hint))) })
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT_BYTES)]
}

/// What a stranger sends must not write into a terminal or add lines to a log.
fn printable(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn errors_round_trip(kind in 0..ErrorKind::ALL.len(), retry in 0..3, message in "[^\\p{C}]{0,80}", hint in "[^\\p{C}]{1,80}") {
            let retry = [Retry::Permanent, Retry::Temporary, Retry::Exhausted][retry as usize];
            let error = Error::new(ErrorKind::ALL[kind].0, message).with_retry(retry).with_hint(hint);
            let back = decode(&encode(&error)).expect("our own bytes");
            prop_assert_eq!((back.kind(), back.retry(), back.message(), back.hint()),
                (error.kind(), error.retry(), error.message(), error.hint()));
        }

        #[test]
        fn any_bytes_decode_or_fail_cleanly(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn long_and_hostile_text_is_cut_and_cleaned() {
        let error = Error::new(ErrorKind::Stale, format!("\u{1b}[2J\n{}", "ä".repeat(5000)));
        let back = decode(&encode(&error)).expect("our own bytes");
        assert!(back.message().len() <= MAX_TEXT_BYTES && !back.message().contains(['\u{1b}', '\n']));
    }
}
