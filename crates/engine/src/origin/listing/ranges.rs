//! Lists a whole key space with many requests in flight, each key exactly once.
//!
//! The space is kept as disjoint ranges. A page answers the beginning of its range; when requests are to spare, the
//! rest is cut up (`split`), so that even one flat folder is listed in parallel. Every page is checked against what
//! was asked: rising keys, all after the start, all below the prefix. A server that repeats a page, does not advance
//! or forgets how to go on ends the listing with an error.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::error::{Error, ErrorKind, Result};
use crate::origin::listing::page::{Page, PageEntry};
use crate::origin::listing::split::cuts;

/// Requests that found nothing, beyond this and four times those that found something, end the cutting: the key space
/// is not like what cuts assume, and is listed in sequence from there on.
const FREE_MISSES: u64 = 256;
/// A snapshot cannot hold more; a server that names more is making them up.
const MAX_KEYS: u64 = u32::MAX as u64;

/// Where pages come from.
#[async_trait]
pub(in crate::origin) trait PageSource: Send + Sync {
    /// The keys after `after` (or from the beginning of the prefix), in rising order.
    async fn page(&self, after: Option<String>) -> Result<Page>;
}

/// Keys after `after` up to and including `until`.
#[derive(Debug, Clone, Default)]
struct Range {
    after: Option<String>,
    until: Option<String>,
}

/// Lists all keys below `prefix`; gives them to `deliver` page by page. `requests`: how many at the same time.
pub(in crate::origin) async fn list_all<D, F>(
    source: Arc<dyn PageSource>,
    prefix: &str,
    requests: usize,
    mut deliver: D,
) -> Result<()>
where
    D: FnMut(Vec<PageEntry>) -> F,
    F: Future<Output = Result<()>>,
{
    let mut plan = Plan { waiting: vec![Range::default()], pages: 0, misses: 0, keys: 0 };
    let mut under_way = FuturesUnordered::new();
    loop {
        while under_way.len() < requests.max(1) {
            let Some(range) = plan.waiting.pop() else { break };
            let source = source.clone();
            under_way.push(async move { (source.page(range.after.clone()).await, range) });
        }
        let Some((page, range)) = under_way.next().await else { return Ok(()) };
        let spare = requests.saturating_sub(under_way.len() + plan.waiting.len());
        deliver(plan.take_in(page?, range, prefix, spare)?).await?;
    }
}

/// What is still to be listed.
struct Plan {
    waiting: Vec<Range>,
    pages: u64,
    misses: u64,
    keys: u64,
}

impl Plan {
    /// Checks a page of `range`, plans its rest, and gives the entries that belong to the range.
    fn take_in(&mut self, mut page: Page, range: Range, prefix: &str, spare: usize) -> Result<Vec<PageEntry>> {
        check(&page, &range, prefix)?;
        let reached = page.entries.last().map(|entry| entry.key.clone());
        let first = page.entries.first().map(|entry| entry.key.clone());
        if let Some(until) = &range.until {
            let inside = page.entries.partition_point(|entry| entry.key <= *until);
            page.entries.truncate(inside);
        }
        self.count(&page)?;
        if let (true, Some(first), Some(last)) = (page.truncated, first, reached)
            && range.until.as_ref().is_none_or(|until| last < *until)
        {
            self.plan_rest(&first, last, range.until, prefix, spare);
        }
        Ok(page.entries)
    }

    fn count(&mut self, page: &Page) -> Result<()> {
        if page.entries.is_empty() {
            self.misses += 1;
        } else {
            self.pages += 1;
        }
        self.keys += page.entries.len() as u64;
        if self.keys > MAX_KEYS {
            return Err(lie("it names more than 4 billion keys"));
        }
        Ok(())
    }

    /// The keys after `last`, in one range or cut into several when requests are to spare.
    fn plan_rest(&mut self, first: &str, last: String, until: Option<String>, prefix: &str, spare: usize) {
        let hopeful = self.misses < FREE_MISSES + 4 * self.pages;
        let count = if hopeful { spare.min(4 + 4 * self.pages as usize) } else { 0 };
        let mut ends: Vec<Option<String>> = match count {
            0 | 1 => Vec::new(),
            _ => cuts_below(prefix, first, &last, until.as_deref(), count),
        };
        ends.push(until);
        let mut after = last;
        for end in ends {
            let next = end.clone();
            self.waiting.push(Range { after: Some(after), until: end });
            after = next.unwrap_or_default();
        }
    }
}

/// The cuts as whole keys. All keys have the prefix, so cutting within it would find nothing.
fn cuts_below(prefix: &str, first: &str, last: &str, until: Option<&str>, count: usize) -> Vec<Option<String>> {
    let (first, last) = (&first[prefix.len()..], &last[prefix.len()..]);
    let until = until.map(|until| &until[prefix.len()..]);
    cuts(first, last, until, count).into_iter().map(|cut| Some(format!("{prefix}{cut}"))).collect()
}

/// Whether the page can be what was asked for.
fn check(page: &Page, range: &Range, prefix: &str) -> Result<()> {
    if page.entries.iter().any(|entry| !entry.key.starts_with(prefix)) {
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

fn lie(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the listing cannot be trusted: {what}"))
        .with_hint("the server does not keep to the protocol; nothing was taken over from this listing")
}
