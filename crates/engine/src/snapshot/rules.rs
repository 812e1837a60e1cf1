//! The keys that can be files, and the fate of those that cannot. The same table for people:
//! `docs/semantics.md`, "Names".

use super::NAME_MAX;
use crate::error::{Error, ErrorKind, Result};
use crate::origin::{LeftOut, ListedObject, ObjectKind};

/// The longest path, counted from the dataset's root.
pub(super) const PATH_MAX: usize = 4096;
const TARGET_MAX: usize = 4095;
const SAMPLES_PER_RULE: usize = 100;
const SAMPLE_BYTES: usize = 256;

/// Why a name was left out. The names are stable: `status`, metrics and tests use them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rule {
    /// A segment is `.` or `..`.
    RelativeSegment,
    /// `a//b`, a leading slash, or no name at all.
    EmptySegment,
    /// A segment is longer than 255 bytes.
    NameTooLong,
    /// The path is longer than 4096 bytes.
    PathTooLong,
    NulByte,
    /// Not UTF-8, from an origin whose names must be.
    InvalidUtf8,
    /// The origin's listing tells the key with a character that stands for one it cannot tell, so nobody can ask for it.
    GarbledKey,
    /// A key is a file and, with more behind a slash, a folder: the folder stays.
    FileAndFolder,
    /// `a/` with content: the folder is made, the content has no place.
    FolderMarkerContent,
    /// The origin listed the name twice: the newest stays.
    Duplicate,
    /// A link whose text is empty, has a NUL or is longer than 4095 bytes.
    SymlinkTarget,
    /// Two origins claim the path: the first in the dataset's list keeps it.
    MountConflict,
    /// More bytes than a file offset can count.
    FileTooLarge,
    /// The origin tells nothing that would tell a changed file from this one.
    NoVersion,
    /// A pipe, a socket or a device.
    SpecialFile,
    /// A folder that may not be listed, or a name that may not be looked at.
    Unreadable,
    /// A link of an index page that may be the name of a file, but leads to none.
    UnclearLink,
    /// Somebody said that it is not wanted.
    Excluded,
}

impl Rule {
    pub const ALL: [Rule; 18] = [
        Rule::RelativeSegment,
        Rule::EmptySegment,
        Rule::NameTooLong,
        Rule::PathTooLong,
        Rule::NulByte,
        Rule::InvalidUtf8,
        Rule::GarbledKey,
        Rule::FileAndFolder,
        Rule::FolderMarkerContent,
        Rule::Duplicate,
        Rule::SymlinkTarget,
        Rule::MountConflict,
        Rule::FileTooLarge,
        Rule::NoVersion,
        Rule::SpecialFile,
        Rule::Unreadable,
        Rule::UnclearLink,
        Rule::Excluded,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Rule::RelativeSegment => "relative-segment",
            Rule::EmptySegment => "empty-segment",
            Rule::NameTooLong => "name-too-long",
            Rule::PathTooLong => "path-too-long",
            Rule::NulByte => "nul-byte",
            Rule::InvalidUtf8 => "invalid-utf8",
            Rule::GarbledKey => "garbled-key",
            Rule::FileAndFolder => "file-and-folder",
            Rule::FolderMarkerContent => "folder-marker-content",
            Rule::Duplicate => "duplicate",
            Rule::SymlinkTarget => "symlink-target",
            Rule::MountConflict => "mount-conflict",
            Rule::FileTooLarge => "file-too-large",
            Rule::NoVersion => "no-version",
            Rule::SpecialFile => "special-file",
            Rule::Unreadable => "unreadable",
            Rule::UnclearLink => "unclear-link",
            Rule::Excluded => "excluded",
        }
    }
}

/// Names that no file system can hold, and why each was left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Rejections {
    /// (rule's name, how many keys), only rules that met a key.
    pub counts: Vec<(String, u64)>,
    /// (rule's name, the key with invalid bytes escaped): at most 100 of each rule.
    pub samples: Vec<(String, String)>,
}

impl Rejections {
    /// How much was left out that somebody may miss: all but what was excluded on purpose.
    pub fn unwished(&self) -> u64 {
        self.unwished_rules().map(|(_, count)| count).sum()
    }

    /// The rules by which, and how much each.
    pub fn unwished_rules(&self) -> impl Iterator<Item = (&str, u64)> {
        let found = self.counts.iter().map(|(rule, count)| (rule.as_str(), *count));
        found.filter(|(rule, _)| *rule != Rule::Excluded.name())
    }
}

/// Counts every rejection and keeps a bounded sample of each rule's keys.
#[derive(Debug, Default)]
pub(super) struct Rejected {
    counts: [u64; Rule::ALL.len()],
    samples: Vec<(Rule, String)>,
}

impl Rejected {
    /// Counts one key; `sample` is only called while the rule's sample has room.
    pub(super) fn count(&mut self, rule: Rule, sample: impl FnOnce() -> Vec<u8>) {
        let count = &mut self.counts[rule as usize];
        if *count < SAMPLES_PER_RULE as u64 {
            self.samples.push((rule, escape(&sample())));
        }
        *count += 1;
    }

    /// An error that names one of the keys, if there are any but those that nobody wants.
    pub(super) fn refuse(&self) -> Result<()> {
        let Some((rule, key)) = self.samples.iter().find(|(rule, _)| *rule != Rule::Excluded) else { return Ok(()) };
        let count: u64 = self.counts.iter().sum::<u64>() - self.counts[Rule::Excluded as usize];
        let message =
            format!("the list would leave out {count} of the origin's names, such as '{key}' ({})", rule.name());
        Err(Error::new(ErrorKind::Unsupported, message).with_hint(
            "change what the origin has there, exclude it by a pattern (`--exclude`), or do without `strict`: \
             `headrace status` then shows them",
        ))
    }

    pub(super) fn into_rejections(mut self) -> Rejections {
        self.samples.sort_by_key(|(rule, _)| *rule as usize);
        Rejections {
            counts: Rule::ALL
                .iter()
                .map(|&rule| (rule.name().to_owned(), self.counts[rule as usize]))
                .filter(|(_, count)| *count > 0)
                .collect(),
            samples: self.samples.into_iter().map(|(rule, key)| (rule.name().to_owned(), key)).collect(),
        }
    }
}

/// `key` as one printable line: control characters and bytes that are not UTF-8 escaped, long keys cut.
pub(super) fn escape(key: &[u8]) -> String {
    let mut line = String::new();
    for chunk in key[..key.len().min(SAMPLE_BYTES)].utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => line.push_str("\\\\"),
                plain if is_printable(plain) => line.push(plain),
                other => line.extend(other.escape_default()),
            }
        }
        chunk.invalid().iter().for_each(|byte| line.push_str(&format!("\\x{byte:02x}")));
    }
    if key.len() > SAMPLE_BYTES {
        line.push('…');
    }
    line
}

/// False for what moves a terminal's cursor or turns the direction of text.
fn is_printable(character: char) -> bool {
    !character.is_control()
        && !matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// What a key stands for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict<'a> {
    /// A file or link with this path.
    Entry(&'a [u8]),
    /// A directory; the rule is set when there was content that has no place.
    Directory(&'a [u8], Option<Rule>),
    /// The origin's own root: nothing to make.
    Root,
}

/// Judges one listed object. `room` is how many bytes its path may have; `posix` tells that the origin is a file system
/// of this machine, whose names may hold any bytes but `/` and NUL.
pub(super) fn judge(object: &ListedObject, room: usize, posix: bool) -> std::result::Result<Verdict<'_>, Rule> {
    if let ObjectKind::LeftOut(reason) = object.kind {
        return Err(rule_of(reason));
    }
    let key: &[u8] = &object.key;
    let marker = key.strip_suffix(b"/").filter(|_| !matches!(object.kind, ObjectKind::Symlink(_)));
    if key.is_empty() && object.kind == ObjectKind::Directory {
        return Ok(Verdict::Root);
    }
    let path = marker.unwrap_or(key);
    check_path(path, room, posix)?;
    if object.kind == ObjectKind::Directory || marker.is_some() {
        let content = marker.is_some() && object.size > 0 && !posix;
        return Ok(Verdict::Directory(path, content.then_some(Rule::FolderMarkerContent)));
    }
    if let ObjectKind::Symlink(target) = &object.kind {
        check_target(target)?;
    }
    if object.size > i64::MAX as u64 { Err(Rule::FileTooLarge) } else { Ok(Verdict::Entry(path)) }
}

fn rule_of(reason: LeftOut) -> Rule {
    match reason {
        LeftOut::Unversioned => Rule::NoVersion,
        LeftOut::Garbled => Rule::GarbledKey,
        LeftOut::Special => Rule::SpecialFile,
        LeftOut::Unreadable => Rule::Unreadable,
        LeftOut::UnclearLink => Rule::UnclearLink,
        LeftOut::Excluded => Rule::Excluded,
    }
}

/// Whether `path` can be a path below a directory, in the order in which `docs/semantics.md` lists the rules.
pub(super) fn check_path(path: &[u8], room: usize, posix: bool) -> std::result::Result<(), Rule> {
    if path.contains(&0) {
        return Err(Rule::NulByte);
    }
    path.split(|&byte| byte == b'/').try_for_each(check_segment)?;
    if path.len() > room {
        return Err(Rule::PathTooLong);
    }
    if !posix && std::str::from_utf8(path).is_err() { Err(Rule::InvalidUtf8) } else { Ok(()) }
}

fn check_segment(segment: &[u8]) -> std::result::Result<(), Rule> {
    match segment {
        b"" => Err(Rule::EmptySegment),
        b"." | b".." => Err(Rule::RelativeSegment),
        long if long.len() > NAME_MAX => Err(Rule::NameTooLong),
        _ => Ok(()),
    }
}

fn check_target(target: &[u8]) -> std::result::Result<(), Rule> {
    if target.is_empty() || target.len() > TARGET_MAX || target.contains(&0) {
        return Err(Rule::SymlinkTarget);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_bounded_and_printable() {
        let mut rejected = Rejected::default();
        for number in 0..1000 {
            rejected.count(Rule::NulByte, || format!("a\0{number}").into_bytes());
        }
        let rejections = rejected.into_rejections();
        assert_eq!(rejections.counts, [("nul-byte".to_owned(), 1000)]);
        assert_eq!(rejections.samples.len(), SAMPLES_PER_RULE);
        assert_eq!(rejections.samples[0].1, "a\\u{0}0");
    }

    #[test]
    fn escaping_leaves_nothing_that_moves_a_terminal() {
        assert_eq!(escape("grüße\\\n".as_bytes()), "grüße\\\\\\n");
        assert_eq!(escape(b"\xff\x1b[2J"), "\\xff\\u{1b}[2J");
        assert_eq!(escape("a\u{202e}b".as_bytes()), "a\\u{202e}b");
        assert_eq!(escape(&[b'x'; 5000]).chars().count(), SAMPLE_BYTES + 1);
    }
}
