//! Whether a page can be the answer to what was asked: rising keys, all after the start, all below the prefix, and a way
//! to go on. A server that repeats a page, does not advance or names others' keys ends the listing with an error.

use crate::error::{Error, ErrorKind, Result};
use crate::origin::listing::page::Page;
use crate::origin::listing::split::Range;

/// Whether the page can be what was asked for.
pub(super) fn check(page: &Page, range: &Range) -> Result<()> {
    if page.entries.iter().any(|entry| !entry.key.starts_with(&range.prefix)) {
        return Err(lie("it names a key outside of the prefix"));
    }
    if let (Some(first), Some(after)) = (page.entries.first(), &range.after)
        && first.key <= *after
    {
        return Err(lie("a page repeats what came before"));
    }
    if page.entries.windows(2).any(|pair| pair[0].key >= pair[1].key) {
        return Err(lie("its keys are not in order, or one comes twice"));
    }
    if page.key_count.is_some_and(|count| count > page.entries.len() as u64) {
        return Err(lie("a page holds fewer keys than it says"));
    }
    if page.truncated && page.entries.is_empty() {
        return Err(lie("it says that more follows, but does not advance"));
    }
    if page.truncated && page.continuation.is_none() {
        return Err(lie("it says that more follows, but not how to go on"));
    }
    Ok(())
}

pub(super) fn lie(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the listing cannot be trusted: {what}"))
        .with_hint("the server does not keep to the protocol; nothing was taken over from this listing")
}
