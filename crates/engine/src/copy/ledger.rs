//! The ledger of one copy: which version of the source became which content of the target, and what was begun.
//!
//! A file that is only appended to. A record that a kill cuts off, or that is damaged, is forgotten with all after it:
//! then bytes are compared instead. It is written anew, compactly, when it is opened.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::decision::Done;
use super::record::{Record, decode, encode};
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::origin::{Begun, Mark};
use crate::own_files;
use crate::sync::Mutex;

const MAGIC: &[u8; 8] = b"\x89HRCPY\r\n";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;

/// A write that is under way, or was when its process ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Underway {
    pub source: FileId,
    pub part_bytes: u64,
    pub key: Vec<u8>,
    pub begun: Begun,
    /// Digests of the parts' contents.
    pub contents: Vec<Mark>,
}

/// What is known of a copy. Shared by all files of it.
pub struct Ledger {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    known: Known,
    /// The first failure to write; from then on nothing more is kept.
    failed: bool,
}

#[derive(Default)]
struct Known {
    done: HashMap<Mark, Done>,
    underway: HashMap<Mark, Underway>,
}

impl Known {
    fn apply(&mut self, record: Record) {
        match record {
            Record::Done { path, done } => {
                self.underway.remove(&path);
                self.done.insert(path, done);
            }
            Record::Begun { path, source, part_bytes, token, key } => {
                let begun = Begun { token, parts: Vec::new() };
                self.underway.insert(path, Underway { source, part_bytes, key, begun, contents: Vec::new() });
            }
            Record::Part { path, number, content, tag } => {
                if let Some(underway) = self.underway.get_mut(&path) {
                    // Parts come in order; one that does not follow is of no use.
                    underway.begun.parts.truncate(number as usize);
                    underway.contents.truncate(number as usize);
                    if underway.contents.len() == number as usize {
                        underway.begun.parts.push(tag);
                        underway.contents.push(content);
                    }
                }
            }
            Record::Ended { path } => {
                self.underway.remove(&path);
            }
        }
    }

    fn records(&self) -> impl Iterator<Item = Record> + '_ {
        let done = self.done.iter().map(|(path, done)| Record::Done { path: *path, done: *done });
        let underway = self.underway.iter().flat_map(|(path, underway)| {
            let Underway { source, part_bytes, key, begun, contents } = underway;
            let head = Record::Begun {
                path: *path,
                source: *source,
                part_bytes: *part_bytes,
                token: begun.token.clone(),
                key: key.clone(),
            };
            let parts = begun.parts.iter().zip(contents).enumerate().map(|(number, (tag, content))| Record::Part {
                path: *path,
                number: number as u32,
                content: *content,
                tag: tag.clone(),
            });
            std::iter::once(head).chain(parts)
        });
        done.chain(underway)
    }
}

impl Ledger {
    /// The ledger of the copy to the target of this name; an empty one when there is none, or it is another target's.
    pub fn open(path: &Path, target: &str) -> Result<Self> {
        let known = read(path, target).map_err(|error| Error::from_io("read the ledger", path, error))?;
        let temporary = path.with_extension("new");
        let write = || -> std::io::Result<File> {
            let opened = own_files::options().create(true).truncate(true).write(true).open(&temporary)?;
            let mut file = std::io::BufWriter::new(opened);
            file.write_all(&head(target))?;
            known.records().try_for_each(|record| file.write_all(&encode(&record)))?;
            let file = file.into_inner().map_err(std::io::IntoInnerError::into_error)?;
            file.sync_all()?;
            std::fs::rename(&temporary, path)?;
            Ok(file)
        };
        let file = write().map_err(|error| Error::from_io("write the ledger", path, error))?;
        Ok(Ledger { path: path.to_owned(), state: Mutex::new(State { file, known, failed: false }) })
    }

    pub fn done(&self, path: Mark) -> Option<Done> {
        self.state.lock().known.done.get(&path).copied()
    }

    pub fn underway(&self, path: Mark) -> Option<Underway> {
        self.state.lock().known.underway.get(&path).cloned()
    }

    /// Everything that was begun and not ended.
    pub fn all_underway(&self) -> Vec<(Mark, Underway)> {
        self.state.lock().known.underway.iter().map(|(path, underway)| (*path, underway.clone())).collect()
    }

    /// Keeps a record. One that cannot be kept costs work after the next start, and nothing else.
    pub fn note(&self, record: Record) {
        let mut state = self.state.lock();
        if !state.failed
            && let Err(error) = state.file.write_all(&encode(&record))
        {
            state.failed = true;
            tracing::warn!(path = %self.path.display(), %error, "the ledger cannot be written; a copy that is cut off compares more");
        }
        state.known.apply(record);
    }
}

fn head(target: &str) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..28].copy_from_slice(&Mark::of(target.as_bytes()).0);
    let sum = crc32c::crc32c(&head[..28]);
    head[28..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn read(path: &Path, target: &str) -> std::io::Result<Known> {
    let mut bytes = Vec::new();
    match own_files::options().read(true).open(path) {
        Ok(mut file) => file.read_to_end(&mut bytes)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Known::default()),
        Err(error) => return Err(error),
    };
    let mut known = Known::default();
    let Some(mut rest) = bytes.strip_prefix(&head(target)[..]) else {
        tracing::warn!(path = %path.display(), "the ledger is another target's, or damaged: files are compared instead");
        return Ok(known);
    };
    while let Some((record, length)) = decode(rest) {
        known.apply(record);
        rest = &rest[length..];
    }
    Ok(known)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PATH: Mark = Mark([7; 16]);
    const DONE: Done = Done { source: FileId([1; 16]), target: Mark([2; 16]) };

    fn begun() -> Record {
        Record::Begun { path: PATH, source: DONE.source, part_bytes: 5, token: "t".into(), key: b"k".to_vec() }
    }

    fn part(number: u32) -> Record {
        Record::Part { path: PATH, number, content: Mark([number as u8; 16]), tag: number.to_string() }
    }

    #[test]
    fn it_knows_after_a_kill_what_was_noted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.hrc");
        let ledger = Ledger::open(&path, "t").unwrap();
        ledger.note(Record::Done { path: Mark([9; 16]), done: DONE });
        [begun(), part(0), part(1)].into_iter().for_each(|record| ledger.note(record));
        drop(ledger);
        let ledger = Ledger::open(&path, "t").unwrap();
        assert_eq!(ledger.done(Mark([9; 16])), Some(DONE));
        let underway = ledger.underway(PATH).unwrap();
        assert_eq!((underway.begun.token.as_str(), underway.begun.parts.len()), ("t", 2));
        ledger.note(Record::Done { path: PATH, done: DONE });
        assert_eq!(Ledger::open(&path, "t").unwrap().all_underway(), []);
    }

    #[test]
    fn a_torn_end_is_forgotten_and_what_stands_before_it_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.hrc");
        let ledger = Ledger::open(&path, "t").unwrap();
        [begun(), part(0)].into_iter().for_each(|record| ledger.note(record));
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
        let ledger = Ledger::open(&path, "t").unwrap();
        assert_eq!(ledger.underway(PATH).unwrap().begun.parts.len(), 0);
        ledger.note(part(0));
        assert_eq!(Ledger::open(&path, "t").unwrap().underway(PATH).unwrap().begun.parts.len(), 1);
    }

    #[test]
    fn the_ledger_of_another_target_or_a_damaged_one_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy.hrc");
        Ledger::open(&path, "t").unwrap().note(Record::Done { path: PATH, done: DONE });
        assert_eq!(Ledger::open(&path, "another").unwrap().done(PATH), None);
        std::fs::write(&path, b"nonsense").unwrap();
        assert_eq!(Ledger::open(&path, "t").unwrap().done(PATH), None);
    }
}
