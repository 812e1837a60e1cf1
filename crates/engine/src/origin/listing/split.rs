//! Cuts of the rest of a key space, so that several requests can list it at the same time.
//!
//! Pure: it sees a range and the first and last key of its page, and gives the ranges that are left. A range asks by a
//! prefix of its own, so that a server sends hardly a key that another range sends, too, and answers at once where
//! there are none: a bad cut costs an empty answer, never a key.

/// Comes after what names are made of, as far as it is ASCII, and before all else in every order that servers know:
/// those that compare UTF-16 differ in what is beyond.
const BEYOND: char = '~';

/// The keys that begin with `prefix`, come after `after` and do not come after `until`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Range {
    pub prefix: String,
    pub after: Option<String>,
    pub until: Option<String>,
    /// A key that came before: where the range's keys differ from it, keys vary.
    pub seen: Option<String>,
}

/// What is left of `range` after a page from `first` to `last`, in rising order: one range, or about `count`. They have
/// each key that comes after `last` exactly once.
pub(super) fn rest(range: &Range, first: &str, last: &str, count: usize) -> Vec<Range> {
    let mut cutter = Cutter { range, last, after: last.to_owned(), found: Vec::new() };
    match Places::among(range, first, last) {
        _ if count < 2 => {}
        Places::Folder(end) => cutter.end_folder(end),
        Places::Characters(positions) => cutter.follow(&positions, count),
    }
    cutter.finish()
}

/// Where keys are likely to go on otherwise than `last` does.
enum Places {
    /// After the folder whose name (with its slash) ends here: nothing is known of other folders' names.
    Folder(usize),
    /// At these characters, from the end of the key to its beginning.
    Characters(Vec<usize>),
}

impl Places {
    fn among(range: &Range, first: &str, last: &str) -> Places {
        let start = range.prefix.len();
        let varying = differing(first, last);
        match last.rfind('/').filter(|slash| (start..varying).contains(slash)) {
            None => Places::Characters(positions(first, last, varying, start)),
            // All of the page is in one folder of the range.
            Some(slash) => match range.seen.as_deref().map(|seen| (seen, differing(seen, last))) {
                Some((seen, varying)) if (start..slash).contains(&varying) => {
                    Places::Characters(positions(seen, last, varying, start))
                }
                _ => Places::Folder(slash + 1),
            },
        }
    }
}

/// The length of the common beginning, in bytes.
fn differing(one: &str, other: &str) -> usize {
    one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count()
}

/// The character where `last` differs from an earlier key, and the digits before it: numbers count up to there.
fn positions(earlier: &str, last: &str, varying: usize, start: usize) -> Vec<usize> {
    let is_digit = |key: &str, at: usize| key.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let steps = match (earlier.as_bytes().get(varying), last.as_bytes().get(varying)) {
        (_, None) => return Vec::new(),
        (Some(from), Some(to)) if is_digit(earlier, varying) && is_digit(last, varying) => to.saturating_sub(*from),
        _ => 1,
    };
    let mut found: Vec<usize> = (start..varying).rev().take_while(|at| is_digit(last, *at)).collect();
    match (steps > 1, varying == start, found.is_empty()) {
        // A page has several of its values: there are fewer than ten, and no more than some pages.
        (true, true, _) => return Vec::new(),
        (true, false, false) => {}
        _ => found.insert(0, varying),
    }
    found
}

/// The last character of the class that a character counts in: its followers are likely to come in names, too.
fn end_of_class(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(b'9'),
        b'a'..=b'z' => Some(b'z'),
        b'A'..=b'Z' => Some(b'Z'),
        _ => None,
    }
}

struct Cutter<'a> {
    range: &'a Range,
    last: &'a str,
    /// What `found` has is all up to here.
    after: String,
    found: Vec<Range>,
}

impl Cutter<'_> {
    /// Cuts at the positions, until there are enough.
    fn follow(&mut self, positions: &[usize], count: usize) {
        for &at in positions {
            if self.found.len() < count {
                self.cut(at);
            }
        }
    }

    /// What has `last`'s beginning up to and with this character, and a range for each character that may follow it.
    fn cut(&mut self, at: usize) {
        let character = self.last.as_bytes()[at];
        let Some(end) = end_of_class(character).filter(|end| *end > character) else { return };
        let beginning = &self.last[..at];
        let bound = format!("{beginning}{}{BEYOND}", char::from(end));
        if !self.is_inside(&bound) {
            return;
        }
        let rest = std::mem::replace(&mut self.after, bound.clone());
        self.push(self.last[..=at].to_owned(), Some(rest), None);
        for next in character + 1..=end {
            self.push(format!("{beginning}{}", char::from(next)), None, (next == end).then(|| bound.clone()));
        }
    }

    /// What else has the folder, up to the names beyond ASCII.
    fn end_folder(&mut self, end: usize) {
        let folder = &self.last[..end];
        let bound = format!("{folder}{BEYOND}");
        // A service takes the prefix "/" for none.
        if folder == "/" || bound.as_str() <= self.last || !self.is_inside(&bound) {
            return;
        }
        let rest = std::mem::replace(&mut self.after, bound.clone());
        self.push(folder.to_owned(), Some(rest), Some(bound));
    }

    fn is_inside(&self, bound: &str) -> bool {
        self.range.until.as_deref().is_none_or(|until| bound < until)
    }

    fn push(&mut self, prefix: String, after: Option<String>, until: Option<String>) {
        self.found.push(Range { prefix, after, until, seen: Some(self.last.to_owned()) });
    }

    fn finish(mut self) -> Vec<Range> {
        let seen = if self.found.is_empty() { self.range.seen.clone() } else { Some(self.last.to_owned()) };
        let (prefix, until) = (self.range.prefix.clone(), self.range.until.clone());
        self.found.push(Range { prefix, after: Some(self.after), until, seen });
        self.found
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn has(range: &Range, key: &str) -> bool {
        key.starts_with(&range.prefix)
            && range.after.as_deref().is_none_or(|after| key > after)
            && range.until.as_deref().is_none_or(|until| key <= until)
    }

    fn prefixes(ranges: &[Range]) -> Vec<&str> {
        ranges.iter().map(|range| range.prefix.as_str()).collect()
    }

    #[test]
    fn numbers_are_cut_where_they_count_on() {
        let all = Range::default();
        for (first, last, count, expected) in [
            (
                "s-000.jpg",
                "s-099.jpg",
                4,
                vec!["s-0", "s-1", "s-2", "s-3", "s-4", "s-5", "s-6", "s-7", "s-8", "s-9", ""],
            ),
            ("c-6/a", "c-7/b", 9, vec!["c-7", "c-8", "c-9", ""]),
            ("c-16/a", "c-18/b", 9, vec!["c-1", "c-2", "c-3", "c-4", "c-5", "c-6", "c-7", "c-8", "c-9", ""]),
            ("v/a", "w/b", 9, vec!["w", "x", "y", "z", ""]),
            ("a", "b", 1, vec![""]),
            ("9", "9", 9, vec![""]),
            ("日", "本", 9, vec![""]),
        ] {
            assert_eq!(prefixes(&rest(&all, first, last, count)), expected, "{first} {last}");
        }
    }

    #[test]
    fn a_folder_that_fills_the_page_is_a_range_and_what_it_shows_later_cuts_the_others() {
        let all = Range { prefix: "t/".to_owned(), ..Range::default() };
        let ranges = rest(&all, "t/n014/x_1", "t/n014/x_8", 9);
        assert_eq!(prefixes(&ranges), ["t/n014/", "t/"]);
        assert_eq!(ranges[1].after.as_deref(), Some("t/n014/~"));
        assert_eq!(prefixes(&rest(&ranges[1], "t/n027/x_1", "t/n027/x_9", 4))[..3], ["t/n02", "t/n03", "t/n04"]);
    }

    #[test]
    fn the_folder_without_a_name_is_no_range() {
        assert_eq!(prefixes(&rest(&Range::default(), "/a1", "/a2", 9)), [""]);
    }

    fn key() -> impl Strategy<Value = String> {
        prop_oneof!["[0-9/a-b~]{0,6}", "[ -~]{0,8}", "d[0-9]{2}/[0-9]{2}", "\\PC{0,4}", "(1|9|z){0,3}(~|é|😀)?[0-9]?"]
    }

    proptest! {
        #[test]
        fn each_key_that_is_left_is_in_exactly_one_range(
            mut keys in proptest::collection::btree_set(key(), 3..40).prop_map(Vec::from_iter),
            prefix in 0usize..4,
            ends in any::<[bool; 3]>(),
            count in 0usize..40,
        ) {
            let [is_open, is_seen, is_short] = ends;
            let prefix: String = keys[keys.len() / 2].chars().take(prefix).collect();
            let below = keys.iter().filter(|key| key.starts_with(&prefix)).count();
            let prefix = if below < 3 { String::new() } else { prefix };
            keys.retain(|key| key.starts_with(&prefix));
            let seen = is_seen.then(|| keys.remove(0));
            let until = (!is_open).then(|| keys[keys.len() - 1].clone());
            let last = if is_short { 0 } else { (keys.len() - 1) / 2 };
            let range = Range { prefix, after: None, until, seen };
            let left = rest(&range, &keys[0], &keys[last], count);
            prop_assert!(left.len() <= count.max(1) + 27);
            for (index, key) in keys.iter().enumerate() {
                let holders: Vec<_> = left.iter().filter(|range| has(range, key)).collect();
                prop_assert_eq!(holders.len(), usize::from(index > last), "{} in {:?}", key, holders);
            }
            prop_assert!(left.iter().all(|one| one.prefix.starts_with(&range.prefix) && one.prefix != "/" || one.prefix == range.prefix));
        }
    }
}
