//! Keys as listings tell them: what of their bytes is known.
//!
//! With `encoding-type=url` a key is encoded as a value of a form: AWS, MinIO and SeaweedFS send a space as `+`, others
//! as `%20`, all of them a plus as `%2B`. Without, XML has no place for control characters and for bytes that are no
//! UTF-8, and servers put U+FFFD there, which nobody can ask for.

const SHOWN_CHARACTERS: usize = 200;

/// What is known of a listed key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::origin) enum Told {
    Whole,
    /// All of its bytes, which are no UTF-8.
    NotUtf8(Box<[u8]>),
    /// Not all of its characters.
    Garbled,
}

/// The key, as well as it can be shown, and what is known of it.
pub(super) fn key(text: String, is_encoded: bool) -> (String, Told) {
    if !is_encoded {
        let told = if text.contains(char::REPLACEMENT_CHARACTER) { Told::Garbled } else { Told::Whole };
        return (text, told);
    }
    match form_value(&text).map(String::from_utf8) {
        None => (text, Told::Garbled),
        Some(Ok(key)) => (key, Told::Whole),
        Some(Err(error)) => {
            let bytes = error.into_bytes();
            (String::from_utf8_lossy(&bytes).into_owned(), Told::NotUtf8(bytes.into()))
        }
    }
}

/// The bytes that the value of a form stands for; `None` where a `%` is followed by something else than two digits.
pub(in crate::origin) fn form_value(text: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => (digit(bytes.next())? * 16 + digit(bytes.next())?) as u8,
            plain => plain,
        });
    }
    Some(decoded)
}

/// A key on one line.
pub(super) fn shown(key: &str) -> String {
    let mut characters = key.chars();
    let beginning: String = characters.by_ref().take(SHOWN_CHARACTERS).collect();
    let rest = if characters.next().is_some() { "…" } else { "" };
    format!("'{}'{rest}", beginning.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoded_key_is_the_value_of_a_form() {
        for (told, meant) in [
            ("a+b%20c%2Bd", "a b c+d"),
            ("100%25%01%0d", "100%\u{1}\r"),
            ("%e6%97%A5/x", "日/x"),
            ("%EF%BF%BD", "\u{fffd}"),
            ("日", "日"),
        ] {
            assert_eq!(key(told.to_owned(), true), (meant.to_owned(), Told::Whole), "{told}");
        }
        assert_eq!(key("a%FF".to_owned(), true), ("a\u{fffd}".to_owned(), Told::NotUtf8(Box::from(*b"a\xff"))));
        for garbled in ["100%", "%2", "%zz", "%%41", "%é"] {
            assert_eq!(key(garbled.to_owned(), true), (garbled.to_owned(), Told::Garbled));
        }
    }

    #[test]
    fn a_plain_key_is_taken_as_it_is_unless_a_character_of_it_is_lost() {
        assert_eq!(key("a+b%20".to_owned(), false), ("a+b%20".to_owned(), Told::Whole));
        assert_eq!(key("b\u{fffd}".to_owned(), false), ("b\u{fffd}".to_owned(), Told::Garbled));
    }
}
