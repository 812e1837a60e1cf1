//! The check that a page can be the answer to a request: keys below the prefix and a way to go on; and, for who cuts the
//! key space, rising keys that come after the start. A server that does not advance or names others' keys ends the
//! listing with an error; one that has another order is listed anew, page after page (`sequence`).

use std::collections::HashSet;

use crate::error::{Error, ErrorKind, Result};
use crate::origin::listing::decode::{Told, shown};
use crate::origin::listing::page::{Page, PageEntry};
use crate::origin::listing::split::Range;

/// The note on an error after which the origin lists in another way.
const DISORDER: &str = "listed_anew_since";

/// Whether the page can be a page of the keys that begin with `prefix`, in whatever order.
pub(super) fn check(page: &Page, prefix: &str) -> Result<()> {
    if let Some(entry) = page.entries.iter().find(|entry| !entry.key.starts_with(prefix)) {
        return Err(lie(&format!("it names a key outside of the prefix: {}", shown(&entry.key))));
    }
    if page.key_count.is_some_and(|count| count > page.entries.len() as u64) {
        return Err(lie("a page holds fewer keys than it says"));
    }
    let last = || page.entries.last().map_or(String::new(), |last| format!(", after {}", shown(&last.key)));
    if page.truncated && page.entries.is_empty() {
        return Err(lie("it says that more follows, but does not advance"));
    }
    if page.truncated && page.continuation.is_none() {
        return Err(lie(&format!("it says that more follows, but not how to go on{}", last())));
    }
    Ok(())
}

/// Fails where a page tells one key twice, which can be in the place of another one.
pub(super) fn check_each_once(page: &Page) -> Result<()> {
    let mut keys = HashSet::new();
    let whole = |entry: &&PageEntry| entry.told == Told::Whole;
    match page.entries.iter().filter(whole).find(|entry| !keys.insert(entry.key.as_str())) {
        Some(entry) => Err(lie(&format!("it names the key {} twice on one page", shown(&entry.key)))),
        None => Ok(()),
    }
}

/// Fails where the keys of a range are not told in the order of their bytes, by which ranges are cut.
pub(super) fn check_order(page: &Page, range: &Range) -> Result<()> {
    if let Some(entry) = page.entries.iter().find(|entry| entry.told != Told::Whole) {
        return Err(disorder(&format!("the key {} is told in part only", shown(&entry.key))));
    }
    if let (Some(first), Some(after)) = (page.entries.first(), &range.after)
        && first.key <= *after
    {
        return Err(disorder(&format!("the key {} comes after {}", shown(&first.key), shown(after))));
    }
    let falls = |pair: &&[PageEntry]| pair[0].key >= pair[1].key;
    match page.entries.windows(2).find(falls) {
        Some(pair) => Err(disorder(&format!("the key {} comes after {}", shown(&pair[1].key), shown(&pair[0].key)))),
        None => Ok(()),
    }
}

pub(super) fn lie(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the listing cannot be trusted: {what}"))
        .with_hint("the server does not keep to the protocol; nothing was taken over from this listing")
}

/// The keys come in another order: all that was listed is to be forgotten, and listed once more.
fn disorder(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the listing is not in the order of the keys' bytes: {what}"))
        .with_context(DISORDER, "it is listed page after page from now on")
}

/// Whether the listing failed by the order of its keys alone.
pub(in crate::origin) fn is_disorder(error: &Error) -> bool {
    error.context().iter().any(|(name, _)| *name == DISORDER)
}
