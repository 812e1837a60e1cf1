//! Lists a bucket page after page, each from where the page before said to go on, whatever the order of the keys: for
//! servers that do not list by the order of bytes, as those that compare UTF-16 or names of files, and where a listing
//! does not tell a key well enough to go on from it.
//!
//! One request at a time. Keeps one page, and of those before one to compare with, so that a server that goes round in a
//! circle is found out, however long the circle is, in memory that does not grow.

use crate::error::Result;
use crate::origin::listing::Start;
use crate::origin::listing::check::{check, check_each_once, lie};
use crate::origin::listing::decode::shown;
use crate::origin::listing::page::{Page, PageEntry};
use crate::origin::listing::plan::MAX_KEYS;
use crate::origin::listing::ranges::{KEYS_PER_PAGE, PageSource};

/// Where servers go on is a key, encoded, and something beside it.
const MAX_TOKEN_BYTES: usize = 16 << 10;
/// Sizes of a page for where the token of a larger one is garbled: the last key decides.
const FEWER_KEYS: [usize; 4] = [KEYS_PER_PAGE - 1, KEYS_PER_PAGE - 7, KEYS_PER_PAGE / 2, 1];

/// Lists all keys below `prefix`; gives them to `deliver` page by page.
pub(in crate::origin) async fn list_in_sequence<D, F>(
    source: &dyn PageSource,
    prefix: &str,
    mut deliver: D,
) -> Result<()>
where
    D: FnMut(Vec<PageEntry>) -> F,
    F: Future<Output = Result<()>>,
{
    let mut token: Option<String> = None;
    let (mut circle, mut keys) = (Circle::default(), 0);
    loop {
        let page = next_page(source, prefix, token.as_deref()).await?;
        check_each_once(&page)?;
        keys += page.entries.len() as u64;
        if keys > MAX_KEYS {
            return Err(lie("it names more than 4 billion keys"));
        }
        let next = page.continuation.filter(|_| page.truncated);
        if let (Some(next), Some(first)) = (&next, page.entries.first()) {
            circle.pass(next, &first.key)?;
        }
        deliver(page.entries).await?;
        token = next;
        if token.is_none() {
            return Ok(());
        }
    }
}

/// The page at `token`; a smaller one where a key that is told in part only is its last, and with it the next token.
async fn next_page(source: &dyn PageSource, prefix: &str, token: Option<&str>) -> Result<Page> {
    let start = token.map_or(Start::Beginning, Start::Token);
    let mut page = source.page(prefix, start, KEYS_PER_PAGE).await?;
    for limit in FEWER_KEYS {
        check(&page, prefix)?;
        if !page.truncated || can_go_on(&page) {
            return Ok(page);
        }
        page = source.page(prefix, start, limit).await?;
    }
    check(&page, prefix)?;
    if page.truncated && !can_go_on(&page) {
        let last = page.entries.last().map(|last| shown(&last.key)).unwrap_or_default();
        return Err(lie(&format!("it does not tell how to go on after {last}")));
    }
    Ok(page)
}

fn can_go_on(page: &Page) -> bool {
    let token = page.continuation.as_deref().unwrap_or_default();
    !token.is_empty() && token.len() <= MAX_TOKEN_BYTES && !token.contains(char::REPLACEMENT_CHARACTER)
}

/// Finds out that pages come again: compares each with one before it, which is replaced after twice as many pages each
/// time (Brent).
#[derive(Default)]
struct Circle {
    kept: Option<(String, String)>,
    pages: u64,
    replace_at: u64,
}

impl Circle {
    fn pass(&mut self, token: &str, first: &str) -> Result<()> {
        if self.kept.as_ref().is_some_and(|(kept, key)| kept == token || key == first) {
            return Err(lie(&format!("a page repeats what came before, from {}", shown(first))));
        }
        if self.pages == self.replace_at {
            self.kept = Some((token.to_owned(), first.to_owned()));
            self.replace_at = 2 * self.replace_at + 1;
        }
        self.pages += 1;
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn pages_until_found(circle_at: u64, length: u64, new_tokens: bool) -> u64 {
        let mut circle = Circle::default();
        for page in 0..100_000 {
            let place = if page < circle_at { page } else { circle_at + (page - circle_at) % length };
            let token = if new_tokens { page } else { place };
            if circle.pass(&token.to_string(), &format!("k{place}")).is_err() {
                return page;
            }
        }
        panic!("not found out");
    }

    #[test]
    fn pages_that_come_again_are_found_out_wherever_they_begin() {
        for (circle_at, length) in [(0, 1), (3, 1), (0, 2), (5, 7), (100, 33)] {
            for new_tokens in [false, true] {
                let pages = pages_until_found(circle_at, length, new_tokens);
                assert!(pages <= 4 * (circle_at + length) + 4, "{circle_at} {length}: {pages}");
            }
        }
    }

    #[test]
    fn a_long_listing_is_no_circle() {
        let mut circle = Circle::default();
        (0..50_000).for_each(|page: u32| circle.pass(&page.to_string(), &format!("k{page}")).unwrap());
    }
}
