//! The unwanted files of an origin, in the words of `.gitignore` files. For people: `docs/semantics.md`, "Names
//! that you do not want".
//!
//! Judges names alone, and never asks the origin.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::config::Exclude;
use crate::error::{Error, Result};
use crate::origin::{LeftOut, ListedObject, ObjectKind};

/// Names of one origin that are to be left out. Cheap to clone; the default leaves out none.
#[derive(Debug, Clone, Default)]
pub struct Exclusion(Option<Arc<Patterns>>);

#[derive(Debug)]
struct Patterns {
    set: Gitignore,
    /// Where the origin lies below the folder that the patterns are of: empty, or with a slash at its end.
    below: Vec<u8>,
    /// The origin lies in a folder that is not wanted itself.
    all: bool,
}

impl Exclusion {
    /// Fails with the first pattern that has no meaning.
    pub fn new(exclude: &Exclude) -> Result<Self> {
        if exclude.patterns.is_empty() {
            return Ok(Exclusion(None));
        }
        // Of the root that every key is relative to already.
        let mut builder = GitignoreBuilder::new(".");
        builder.allow_unclosed_class(false);
        exclude.patterns.iter().try_for_each(|pattern| add(&mut builder, pattern))?;
        let set = builder.build().map_err(|error| refused(&exclude.patterns.join(" "), &error.to_string()))?;
        let below = match exclude.below.trim_matches('/') {
            "" => String::new(),
            below => format!("{below}/"),
        };
        let all = folders(below.as_bytes()).any(|folder| matches(&set, folder, true));
        Ok(Exclusion(Some(Arc::new(Patterns { set, below: below.into_bytes(), all }))))
    }

    /// True when nothing at all is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether the name at `key` is not wanted, where the folders that it is in are.
    pub fn has(&self, key: &[u8], is_folder: bool) -> bool {
        let Some(patterns) = &self.0 else { return false };
        if key.is_empty() || patterns.all {
            return patterns.all && !key.is_empty();
        }
        if patterns.below.is_empty() {
            return matches(&patterns.set, key, is_folder);
        }
        matches(&patterns.set, &[&patterns.below, key].concat(), is_folder)
    }

    /// The same, whether or not the folders that it is in are wanted.
    pub fn has_path(&self, key: &[u8], is_folder: bool) -> bool {
        !self.is_empty() && (self.has(key, is_folder) || folders(key).any(|folder| self.has(folder, true)))
    }

    /// As `has` where nobody knows yet whether it is a folder, and it makes no difference.
    pub fn has_in_any_case(&self, key: &[u8]) -> bool {
        self.has(key, false) && self.has(key, true)
    }

    /// The object, or that there is one which is not wanted.
    pub fn left_out(key: &[u8]) -> ListedObject {
        ListedObject::left_out(key, LeftOut::Excluded)
    }
}

fn add(builder: &mut GitignoreBuilder, pattern: &str) -> Result<()> {
    // These lines of a `.gitignore` say nothing: whoever gives one as a pattern means something else.
    let says_nothing = pattern.starts_with('#') || pattern.trim_start_matches('!').trim_matches(['/', ' ']).is_empty();
    if says_nothing || pattern.contains(['\n', '\0']) {
        return Err(refused(pattern, "it names nothing; write \\# for a name that begins with #"));
    }
    builder.add_line(None, pattern).map(|_| ()).map_err(|error| match error {
        ignore::Error::Glob { err, .. } => refused(pattern, &err),
        other => refused(pattern, &other.to_string()),
    })
}

fn refused(pattern: &str, why: &str) -> Error {
    Error::config(format!("'{}' is no pattern of names to exclude: {why}", pattern.escape_debug()))
        .with_hint("patterns are those of .gitignore files, such as '*.tmp', '_temporary/' or '/a/**/b'")
}

fn matches(set: &Gitignore, path: &[u8], is_folder: bool) -> bool {
    set.matched(Path::new(OsStr::from_bytes(path)), is_folder).is_ignore()
}

/// The folders that `path` lies in, from the outermost on: `a` and `a/b` of `a/b/c`.
fn folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(slash, _)| &path[..slash])
}

/// Judges what an origin lists, whether or not it did so itself.
pub struct Sieve {
    exclusion: Exclusion,
    /// The folder of the object before, with a slash at its end, and whether it is one that is not wanted: most listings
    /// name the files of a folder one after the other.
    recent: (Vec<u8>, bool),
}

impl Sieve {
    pub fn new(exclusion: Exclusion) -> Self {
        Sieve { exclusion, recent: (Vec::new(), false) }
    }

    /// Makes of what is not wanted something that is left out.
    pub fn sift(&mut self, batch: &mut [ListedObject]) {
        if self.exclusion.is_empty() {
            return;
        }
        for object in batch {
            if self.is_unwanted(object) {
                *object = Exclusion::left_out(&object.key);
            }
        }
    }

    fn is_unwanted(&mut self, object: &ListedObject) -> bool {
        let (key, marked) = match object.key.strip_suffix(b"/") {
            Some(key) => (key, true),
            None => (&*object.key, false),
        };
        if self.is_within_unwanted(key) {
            return true;
        }
        match object.kind {
            ObjectKind::LeftOut(LeftOut::Excluded) => true,
            // What could not be looked at may be either.
            ObjectKind::LeftOut(_) => self.exclusion.has(key, false) || self.exclusion.has(key, true),
            ObjectKind::Directory => self.exclusion.has(key, true),
            ObjectKind::File => self.exclusion.has(key, marked),
            ObjectKind::Symlink(_) => self.exclusion.has(&object.key, false),
        }
    }

    fn is_within_unwanted(&mut self, key: &[u8]) -> bool {
        let folder = key.iter().rposition(|byte| *byte == b'/').map_or(&[][..], |slash| &key[..=slash]);
        if self.recent.0 != folder {
            let unwanted = folders(folder).any(|each| self.exclusion.has(each, true));
            self.recent = (folder.to_vec(), unwanted);
        }
        self.recent.1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn exclude(patterns: &[&str], below: &str) -> Exclude {
        Exclude { patterns: patterns.iter().map(|&pattern| pattern.to_owned()).collect(), below: below.to_owned() }
    }

    /// Which of `keys` stay; those that end with a slash are folders.
    fn left<'a>(patterns: &[&str], keys: &[&'a str]) -> Vec<&'a str> {
        left_below(patterns, "", keys)
    }

    fn left_below<'a>(patterns: &[&str], below: &str, keys: &[&'a str]) -> Vec<&'a str> {
        let mut sieve = Sieve::new(Exclusion::new(&exclude(patterns, below)).unwrap());
        let object = |key: &str| ListedObject {
            kind: if key.ends_with('/') { ObjectKind::Directory } else { ObjectKind::File },
            ..ListedObject::left_out(key.as_bytes(), LeftOut::Special)
        };
        let mut batch: Vec<_> = keys.iter().map(|key| object(key)).collect();
        sieve.sift(&mut batch);
        let is_left = |object: &ListedObject| object.kind != ObjectKind::LeftOut(LeftOut::Excluded);
        keys.iter().zip(&batch).filter(|(_, object)| is_left(object)).map(|(key, _)| *key).collect()
    }

    #[test]
    fn patterns_mean_what_they_mean_in_a_gitignore() {
        let keys = ["a.tmp", "a.tmp/x", "d/b.tmp", "d/c", "d/e/c", "tmp", "d/tmp/x", "e/d/c"];
        assert_eq!(
            left(&["*.tmp"], &keys),
            ["d/c", "d/e/c", "tmp", "d/tmp/x", "e/d/c"],
            "at any depth, and what is below"
        );
        assert_eq!(
            left(&["tmp/"], &keys),
            ["a.tmp", "a.tmp/x", "d/b.tmp", "d/c", "d/e/c", "tmp", "e/d/c"],
            "only folders"
        );
        assert_eq!(left(&["/d"], &keys), ["a.tmp", "a.tmp/x", "tmp", "e/d/c"], "only at the top");
        assert_eq!(
            left(&["d/c"], &keys),
            ["a.tmp", "a.tmp/x", "d/b.tmp", "d/e/c", "tmp", "d/tmp/x", "e/d/c"],
            "a slash anchors"
        );
        assert_eq!(left(&["d/*"], &keys), ["a.tmp", "a.tmp/x", "tmp", "e/d/c"], "no star is for a slash");
        assert_eq!(
            left(&["d/**/c"], &keys),
            ["a.tmp", "a.tmp/x", "d/b.tmp", "tmp", "d/tmp/x", "e/d/c"],
            "two stars are"
        );
        assert_eq!(left(&["**/d/c"], &["d/c", "e/d/c", "c"]), ["c"]);
        assert_eq!(left(&["[ab]?.bin", "*.{x,y}"], &["a1.bin", "c1.bin", "q.x", "q.z"]), ["c1.bin", "q.z"]);
        assert_eq!(left(&["*.bin", "!keep.bin"], &["a.bin", "keep.bin", "d/keep.bin"]), ["keep.bin", "d/keep.bin"]);
        assert_eq!(
            left(&["d/", "!d/keep"], &["d/keep"]),
            [""; 0],
            "nothing comes back out of a folder that is left out"
        );
        assert_eq!(left(&["*", "!*/", "!*.jpg"], &["a/", "a/b.jpg", "a/b.txt", "c.jpg"]), ["a/", "a/b.jpg", "c.jpg"]);
        assert_eq!(left(&["\\#x", "\\!y", "a\\*"], &["#x", "!y", "a*", "ab"]), ["ab"]);
    }

    #[test]
    fn folders_are_told_by_their_kind_or_by_the_slash_of_a_marker() {
        let mut sieve = Sieve::new(Exclusion::new(&exclude(&["Trash/"], "")).unwrap());
        let marker = ListedObject { kind: ObjectKind::File, ..ListedObject::left_out(b"Trash/", LeftOut::Special) };
        let link = ListedObject {
            kind: ObjectKind::Symlink(b"x"[..].into()),
            ..ListedObject::left_out(b"Trash", LeftOut::Special)
        };
        let closed = ListedObject::left_out(b"a/Trash", LeftOut::Unreadable);
        let mut batch = [marker, link.clone(), closed, ListedObject::left_out(b"", LeftOut::Special)];
        sieve.sift(&mut batch);
        let excluded = [&b"Trash/"[..], b"a/Trash"].map(Exclusion::left_out);
        assert_eq!(
            batch,
            [excluded[0].clone(), link, excluded[1].clone(), ListedObject::left_out(b"", LeftOut::Special)]
        );
    }

    #[test]
    fn names_may_be_any_bytes() {
        let exclusion = Exclusion::new(&exclude(&["*.tmp", "a?"], "")).unwrap();
        assert!(
            exclusion.has(b"\xff\xfe.tmp", false) && exclusion.has(b"x\n.tmp", false) && exclusion.has(b"a\n", false)
        );
        assert!(!exclusion.has(b"\xff", false) && !exclusion.has(b"", true));
    }

    #[test]
    fn a_part_of_what_patterns_are_of_is_judged_by_where_it_lies() {
        assert_eq!(left_below(&["/sub/x", "y"], "sub", &["x", "d/x", "y", "sub/x"]), ["d/x", "sub/x"]);
        assert_eq!(left_below(&["/a/"], "a/b/", &["x", "d/y"]), [""; 0]);
        assert_eq!(left_below(&["/b/"], "a/b", &["x"]), ["x"]);
    }

    /// `tests/unit/settings/test_exclusions.py` has the same ones.
    const GOOD: &[&str] = &[
        "*.tmp",
        "_temporary/",
        "/top",
        "a/**/b",
        "**/x",
        "!keep",
        "\\#x",
        "\\!x",
        "[a-z]?",
        "[]]",
        "[!]a]",
        "[a-]",
        "a b",
        "a\\ ",
        "{a,b}.x",
        "[{]",
        "\\[",
        "\\{",
        "x[[]",
        "a\\/",
        "@eaDir",
        "grüße-*",
        "[^x]",
    ];
    const BAD: &[&str] =
        &["", "  ", "#x", "!", "/", "!/", "a\nb", "[a", "[]", "[!]", "[z-a]", "{a,b", "a}", "a\\", "a\\\\\\"];

    #[test]
    fn what_has_no_meaning_is_refused_in_words() {
        Exclusion::new(&exclude(GOOD, "")).unwrap();
        for pattern in BAD {
            let error = Exclusion::new(&exclude(&["good", pattern], "")).unwrap_err();
            let shown = pattern.escape_debug().to_string();
            assert!(error.message().contains(&format!("'{shown}'")), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.contains(".gitignore")), "{error}");
        }
    }
}
