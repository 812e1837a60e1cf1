//! How the address of a request to a bucket is spelled: as its signature has it.
//!
//! OpenDAL leaves `! ' ( ) *` in paths and queries as they are, and `/` in queries, but signs them percent-encoded, since
//! signatures are made from that spelling. Servers that build it anew from what they decoded see no difference; those
//! that take the request line as it came refuse the signature. Both get what AWS's own clients send.

use http::Uri;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

/// What OpenDAL lets through of the path, beyond what is never encoded.
const PATH: &AsciiSet = &CONTROLS.add(b'!').add(b'\'').add(b'(').add(b')').add(b'*');
const QUERY: &AsciiSet = &PATH.add(b'/');

/// The address in the spelling that was signed. What is percent-encoded already stays so.
pub(super) fn as_signed(address: &Uri) -> String {
    let scheme = address.scheme_str().unwrap_or("http");
    let authority = address.authority().map_or("", |authority| authority.as_str());
    let mut spelled = format!("{scheme}://{authority}");
    spelled.extend(utf8_percent_encode(address.path(), PATH));
    if let Some(query) = address.query() {
        spelled.push('?');
        spelled.extend(utf8_percent_encode(query, QUERY));
    }
    spelled
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_spelled_as_its_signature_has_it() {
        for (built, sent) in [
            ("http://h:1/b/a(1)%20!'*.txt", "http://h:1/b/a%281%29%20%21%27%2A.txt"),
            ("https://h/b?list-type=2&prefix=a/(b)%2B", "https://h/b?list-type=2&prefix=a%2F%28b%29%2B"),
            ("http://[::1]:9/b/k?uploads", "http://[::1]:9/b/k?uploads"),
            ("http://h/b/%21%2F~-_.", "http://h/b/%21%2F~-_."),
        ] {
            assert_eq!(as_signed(&built.parse().unwrap()), sent);
        }
    }
}
