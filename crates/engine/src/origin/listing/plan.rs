//! The next requests to a bucket, and the meaning of its answers for the rest. Pure.
//!
//! The key space is kept as disjoint ranges. A page answers the beginning of its range; when requests are to spare, the
//! rest is cut up (`split`), so that even one flat folder is listed in parallel. Ranges ask by prefixes that end within
//! a name, so a server must have shown first that it knows them; until then, and where it does not, pages are asked for
//! one after the other. Every page is checked against what was asked (`check`).

use crate::error::Result;
use crate::origin::listing::check::{check, check_order, lie};
use crate::origin::listing::page::{Page, PageEntry};
use crate::origin::listing::split::{Range, rest};

/// Requests that found nothing, beyond this and four times those that found something, end the cutting: the key space
/// is not like what cuts assume, and is listed in sequence from there on.
const FREE_MISSES: u64 = 256;
/// A snapshot cannot hold more; a server that names more is making them up.
pub(super) const MAX_KEYS: u64 = u32::MAX as u64;

/// One request.
pub(super) enum Question {
    Range(Range),
    /// Whether the first key that begins with `prefix`, which ends within a name, is the one that is known.
    Test {
        prefix: String,
        expected: String,
    },
}

/// What is known of how the server takes prefixes that end within a name.
#[derive(PartialEq, Eq)]
enum Prefixes {
    Unknown,
    Known,
    Unfit,
}

/// What is still to be listed.
pub(super) struct Plan {
    prefix: String,
    requests: usize,
    /// Asked for from the end on.
    waiting: Vec<Question>,
    under_way: usize,
    /// Ranges that are not listed to their end.
    ranges: usize,
    prefixes: Prefixes,
    pages: u64,
    misses: u64,
    keys: u64,
}

impl Plan {
    pub fn new(prefix: &str, requests: usize) -> Self {
        let all = Range { prefix: prefix.to_owned(), ..Range::default() };
        Plan {
            prefix: prefix.to_owned(),
            requests,
            waiting: vec![Question::Range(all)],
            under_way: 0,
            ranges: 1,
            prefixes: Prefixes::Unknown,
            pages: 0,
            misses: 0,
            keys: 0,
        }
    }

    pub fn is_open(&self) -> bool {
        self.ranges > 0
    }

    /// What may be asked now.
    pub fn next_question(&mut self) -> Option<Question> {
        if self.under_way == self.requests {
            return None;
        }
        let question = self.waiting.pop()?;
        self.under_way += 1;
        Some(question)
    }

    /// Takes in the answer to a test. A fault is not the listing's: whoever fails at all fails at a range.
    pub fn judge(&mut self, answer: Result<Page>, expected: &str) {
        self.under_way -= 1;
        let is_right = answer.is_ok_and(|page| page.entries.first().is_some_and(|first| first.key == expected));
        self.prefixes = if is_right { Prefixes::Known } else { Prefixes::Unfit };
    }

    /// Checks a page of `range`, plans its rest, and gives the entries that belong to the range.
    pub fn take_in(&mut self, mut page: Page, range: Range) -> Result<Vec<PageEntry>> {
        self.under_way -= 1;
        self.ranges -= 1;
        check(&page, &range.prefix)?;
        check_order(&page, &range)?;
        let test = (self.pages == 0 && self.requests > 1).then(|| test(&self.prefix, &page)).flatten();
        let ends = left_after(&page, &range);
        if let Some(until) = &range.until {
            page.entries.truncate(page.entries.partition_point(|entry| entry.key <= *until));
        }
        self.count(&page)?;
        if let Some((first, last)) = ends {
            self.plan_rest(&range, &first, &last);
            self.waiting.extend(test);
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
    fn plan_rest(&mut self, range: &Range, first: &str, last: &str) {
        let hopeful = self.prefixes == Prefixes::Known && self.misses < FREE_MISSES + 4 * self.pages;
        let spare = self.requests.saturating_sub(self.under_way + self.waiting.len());
        let count = if hopeful { spare.min(4 + 4 * self.pages as usize) } else { 0 };
        let left = rest(range, first, last, count);
        self.ranges += left.len();
        self.waiting.extend(left.into_iter().rev().map(Question::Range));
    }
}

/// The first and the last key of the page, where keys of the range may come after it.
fn left_after(page: &Page, range: &Range) -> Option<(String, String)> {
    let (first, last) = page.entries.first().zip(page.entries.last())?;
    let is_more = page.truncated && range.until.as_ref().is_none_or(|until| last.key < *until);
    is_more.then(|| (first.key.clone(), last.key.clone()))
}

/// A prefix that ends within the name of a folder, or else of a file, and the key that is the first to have it. `page`
/// begins the listing.
fn test(below: &str, page: &Page) -> Option<Question> {
    let key = page.entries.last()?.key.as_str();
    let folder = key.rfind('/').map(|slash| &key[..slash]);
    let prefix = folder.into_iter().chain([key]).find_map(|name| beginning(name, below))?;
    let expected = page.entries.iter().find(|entry| entry.key.starts_with(prefix))?.key.clone();
    Some(Question::Test { prefix: prefix.to_owned(), expected })
}

/// All but the last character, where that is more than `below` and no whole folder.
fn beginning<'a>(name: &'a str, below: &str) -> Option<&'a str> {
    let (end, _) = name.char_indices().next_back()?;
    Some(&name[..end]).filter(|beginning| beginning.len() > below.len() && !beginning.ends_with('/'))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::origin::listing::decode::Told;

    /// What a server that keeps to the protocol answers, in pages of `size`.
    fn page(keys: &BTreeSet<String>, prefix: &str, after: Option<&str>, size: usize) -> Page {
        let after = |key: &&String| after.is_none_or(|after| key.as_str() > after);
        let mut matching = keys.iter().filter(|key| key.starts_with(prefix)).filter(after);
        let entries: Vec<PageEntry> = matching.by_ref().take(size).map(|key| entry(key)).collect();
        let truncated = matching.next().is_some();
        Page { entries, truncated, continuation: truncated.then(|| "on".to_owned()), ..Page::default() }
    }

    fn entry(key: &str) -> PageEntry {
        PageEntry { key: key.to_owned(), told: Told::Whole, size: 1, mtime_ns: 0, etag: None }
    }

    /// A server that takes a prefix which ends within a name for one of nothing.
    fn only_folders(keys: &BTreeSet<String>, prefix: &str, after: Option<&str>, size: usize) -> Page {
        if prefix.is_empty() || prefix.ends_with('/') { page(keys, prefix, after, size) } else { Page::default() }
    }

    type Answering = fn(&BTreeSet<String>, &str, Option<&str>, usize) -> Page;

    /// The keys in the order in which they came. `picks`: which of the questions under way is answered next.
    fn list(
        keys: &BTreeSet<String>,
        answering: Answering,
        size: usize,
        requests: usize,
        picks: &[usize],
    ) -> Vec<String> {
        let (mut plan, mut under_way, mut listed) = (Plan::new("", requests), Vec::new(), Vec::new());
        let mut picks = picks.iter().cycle();
        while plan.is_open() {
            under_way.extend(std::iter::from_fn(|| plan.next_question()));
            assert!(under_way.len() <= requests);
            match under_way.remove(picks.next().unwrap() % under_way.len()) {
                Question::Test { prefix, expected } => plan.judge(Ok(answering(keys, &prefix, None, 1)), &expected),
                Question::Range(range) => {
                    let page = answering(keys, &range.prefix, range.after.as_deref(), size);
                    listed.extend(plan.take_in(page, range).unwrap().into_iter().map(|entry| entry.key));
                }
            }
            assert!(plan.waiting.len() <= requests + 40, "{} wait", plan.waiting.len());
        }
        listed
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof![
            "[0-9]{1,4}",
            "(train|val)/n[0-9]{3}/[a-z]{1,3}",
            "[0-9a-f]{8}",
            "[ -~]{1,6}",
            "\\PC{1,5}",
            "(/|//|a/|1~|1é|1😀){1,4}[0-9]?",
        ]
    }

    proptest! {
        #[test]
        fn each_key_comes_once_whatever_is_answered_first(
            keys in proptest::collection::btree_set(key(), 0..200),
            size in 1usize..9,
            requests in 1usize..12,
            picks in proptest::collection::vec(any::<usize>(), 1..20),
            whole_folders_only in any::<bool>(),
        ) {
            let answering = if whole_folders_only { only_folders } else { page };
            let mut listed = list(&keys, answering, size, requests, &picks);
            listed.sort();
            prop_assert_eq!(listed, Vec::from_iter(keys));
        }
    }

    #[test]
    fn one_request_at_a_time_asks_in_order_and_tests_nothing() {
        let keys: BTreeSet<String> = (0..50).map(|number| format!("{number:02}")).collect();
        assert_eq!(list(&keys, only_folders, 7, 1, &[0]), Vec::from_iter(keys));
    }

    #[test]
    fn a_test_asks_for_a_part_of_a_name_and_knows_what_comes_first() {
        let tested = |below: &str, keys: &[&str]| {
            let entries = keys.iter().map(|key| entry(key)).collect();
            match test(below, &Page { entries, ..Page::default() }) {
                Some(Question::Test { prefix, expected }) => Some((prefix, expected)),
                _ => None,
            }
        };
        let is = |prefix: &str, expected: &str| Some((prefix.to_owned(), expected.to_owned()));
        assert_eq!(tested("d/", &["d/a", "d/c-06/x", "d/c-07/x"]), is("d/c-0", "d/c-06/x"));
        assert_eq!(tested("d/", &["d/a1", "d/b1", "d/b2"]), is("d/b", "d/b1"));
        assert_eq!(tested("", &["é/日本"]), is("é/日", "é/日本"));
        assert_eq!(tested("", &["a//b"]), is("a", "a//b"));
        assert_eq!(tested("d/", &["d/a", "d/b"]), None);
        assert_eq!(tested("", &[]), None);
    }
}
