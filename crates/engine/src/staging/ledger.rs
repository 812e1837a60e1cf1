//! The ledger of a staging folder: a file that records are appended to, replayed when it is opened, and written anew then
//! and when it has grown.
//!
//! An append is one `write`: a process that is killed leaves at most one torn record, at the end, which nobody was told of.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::record::{Record, decode, encode};
use super::state::State;
use crate::error::{Error, ErrorKind, Result};
use crate::own_files;

const MAGIC: &[u8; 8] = b"\x89HRSTG\r\n";
const VERSION: u32 = 1;
const HEAD_BYTES: usize = 32;
/// A ledger is written anew when it has so many bytes, and four times as many as it was written anew with.
const COMPACT_BYTES: u64 = 16 << 20;

/// A ledger and what it tells. Whatever changes is first appended, and then known.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    head: [u8; HEAD_BYTES],
    file: File,
    length: u64,
    /// The length at which it is written anew.
    compact_at: u64,
    state: State,
}

impl Ledger {
    /// The ledger at `path` of the target of this name, an empty one if there is none. Requests of the kernel are
    /// forgotten unless the connection `goes_on`.
    ///
    /// One of another version, or that is damaged before its end, is refused: what it tells of may be in no bucket yet.
    pub fn open(path: &Path, target: &str, goes_on: bool) -> Result<Self> {
        let head = head(target);
        let mut state = read(path, &head)?;
        if !goes_on {
            state.forget_requests();
        }
        let (file, length) = write_anew(path, &head, &state)?;
        Ok(Ledger { path: path.to_owned(), head, file, length, compact_at: limit_after(length), state })
    }

    pub fn state(&self) -> &State {
        &self.state
    }

    /// Appends a record, and then goes by it. On an error neither has happened.
    pub fn commit(&mut self, record: Record) -> Result<()> {
        let bytes = encode(&record);
        if let Err(error) = self.file.write_all_at(&bytes, self.length) {
            // What was written of it is no record, and the next one is written over it.
            let _ = self.file.set_len(self.length);
            return Err(Error::from_io("write the ledger", &self.path, error));
        }
        self.length += bytes.len() as u64;
        self.state.apply(record);
        if self.length >= self.compact_at {
            self.compact();
        }
        Ok(())
    }

    /// Writes it anew, without what no longer matters. On an error it goes on as it is.
    fn compact(&mut self) {
        match write_anew(&self.path, &self.head, &self.state) {
            Ok((file, length)) => (self.file, self.length) = (file, length),
            Err(error) => tracing::warn!("the staging ledger stays long for now: {error}"),
        }
        self.compact_at = limit_after(self.length);
    }

    /// Has the disk keep what was appended, also over a loss of power.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::from_io("write the ledger", &self.path, error))
    }
}

/// Puts a ledger that tells this state, and no more, in the place of the one at `path`.
fn write_anew(path: &Path, head: &[u8], state: &State) -> Result<(File, u64)> {
    let temporary = path.with_extension("new");
    let failed = |error| Error::from_io("write the ledger", path, error);
    let mut bytes = head.to_vec();
    state.records().iter().for_each(|record| bytes.extend(encode(record)));
    let file = own_files::options().create(true).truncate(true).write(true).open(&temporary).map_err(failed)?;
    (&file).write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    std::fs::rename(&temporary, path).map_err(failed)?;
    if let Some(folder) = path.parent() {
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    }
    Ok((file, bytes.len() as u64))
}

fn limit_after(length: u64) -> u64 {
    COMPACT_BYTES.max(length.saturating_mul(4))
}

fn head(target: &str) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    head[12..28].copy_from_slice(&blake3::hash(target.as_bytes()).as_bytes()[..16]);
    let sum = crc32c::crc32c(&head[..28]);
    head[28..].copy_from_slice(&sum.to_le_bytes());
    head
}

fn read(path: &Path, head: &[u8]) -> Result<State> {
    let mut bytes = Vec::new();
    match own_files::options().read(true).open(path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(|error| Error::from_io("read the ledger", path, error))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(State::default()),
        Err(error) => return Err(Error::from_io("read the ledger", path, error)),
    }
    let Some(mut rest) = bytes.strip_prefix(head) else { return Err(damaged(path)) };
    let mut state = State::default();
    while let Some((record, length)) = decode(rest) {
        state.apply(record);
        rest = &rest[length..];
    }
    // A kill tears the last record. One with others behind it was damaged by something else, and whoever went on without
    // those would take files of theirs away.
    if (1..rest.len()).any(|offset| decode(&rest[offset..]).is_some()) {
        return Err(damaged(path));
    }
    if !rest.is_empty() {
        tracing::warn!(path = %path.display(), bytes = rest.len(), "the last record of the staging ledger was cut off by a kill");
    }
    Ok(state)
}

fn damaged(path: &Path) -> Error {
    let message = format!("the ledger {} is of another version or origin, or damaged", path.display());
    Error::new(ErrorKind::Corrupt, message).with_hint(
        "files that were written may lie beside it, and in no bucket: move that folder away, and look into it",
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

    use super::super::FIRST_INODE;
    use super::super::record::Kind;
    use super::super::record::tests::records;
    use super::*;

    fn kept(folder: &Path, records: &[Record]) -> (PathBuf, Vec<State>) {
        let path = folder.join("ledger");
        let mut ledger = Ledger::open(&path, "t", false).unwrap();
        let mut states = vec![ledger.state().clone()];
        for record in records {
            ledger.commit(record.clone()).unwrap();
            states.push(ledger.state().clone());
        }
        (path, states)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// However much of it a kill leaves, what is read is what was known after some record, and all before it.
        #[test]
        fn any_beginning_of_it_is_read_as_what_was_known_then(
            written in prop::collection::vec(records(), 1..25),
            cut in any::<prop::sample::Index>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let (path, states) = kept(folder.path(), &written);
            let bytes = std::fs::read(&path).unwrap();
            let start = bytes.len() - written.iter().map(|record| encode(record).len()).sum::<usize>();
            let cut = HEAD_BYTES + cut.index(bytes.len() - HEAD_BYTES + 1);
            std::fs::write(&path, &bytes[..cut]).unwrap();
            let lengths = written.iter().scan(start, |length, record| {
                *length += encode(record).len();
                Some(*length)
            });
            let whole = lengths.take_while(|length| *length <= cut).count();
            let ledger = Ledger::open(&path, "t", true).unwrap();
            prop_assert_eq!(ledger.state(), &states[whole]);
            // And once more, from what it was written anew to.
            drop(ledger);
            let again = Ledger::open(&path, "t", true).unwrap();
            prop_assert_eq!(again.state(), &states[whole]);
        }
    }

    fn made(inode: u64, path: &[u8]) -> Record {
        Record::Made { inode, kind: Kind::File, mode: 0o644, uid: 1, gid: 1, path: path.to_vec(), request: 0 }
    }

    #[test]
    fn a_record_that_is_damaged_before_others_ends_no_reading_in_silence() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = kept(folder.path(), &[made(FIRST_INODE, b"a"), made(FIRST_INODE + 1, b"b")]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEAD_BYTES + 12] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(Ledger::open(&path, "t", true).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing of it is written over");
    }

    #[test]
    fn one_that_has_grown_is_written_anew_and_tells_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = kept(folder.path(), &[made(FIRST_INODE, b"a")]);
        let mut ledger = Ledger::open(&path, "t", false).unwrap();
        ledger.compact_at = ledger.length + 1000;
        for _ in 0..1000 {
            ledger.commit(Record::Changed { inode: FIRST_INODE }).unwrap();
            ledger.compact_at = ledger.compact_at.min(2000);
        }
        assert!(std::fs::metadata(&path).unwrap().len() < 3000);
        ledger.commit(Record::Closed { inode: FIRST_INODE }).unwrap();
        let state = ledger.state().clone();
        drop(ledger);
        assert_eq!(Ledger::open(&path, "t", true).unwrap().state(), &state);
    }

    #[test]
    fn the_ledger_of_another_origin_or_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = kept(folder.path(), &[Record::Changed { inode: 1 }]);
        assert_eq!(Ledger::open(&path, "another", false).unwrap_err().kind(), ErrorKind::Corrupt);
        std::fs::write(&path, b"nonsense").unwrap();
        assert_eq!(Ledger::open(&path, "t", false).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
