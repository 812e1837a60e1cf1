//! The ledger of a staging folder: a file that records are appended to, replayed and written anew when it is opened.
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

/// A ledger and what it tells. Whatever changes is first appended, and then known.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: File,
    length: u64,
    state: State,
}

impl Ledger {
    /// The ledger at `path` of the target of this name, an empty one if there is none. Requests of the kernel are
    /// forgotten unless the connection `goes_on`.
    ///
    /// One of another version, or whose head is damaged, is refused: what it tells of may be in no bucket yet.
    pub fn open(path: &Path, target: &str, goes_on: bool) -> Result<Self> {
        let mut state = read(path, target)?;
        if !goes_on {
            state.forget_requests();
        }
        Ledger::create(path, target, state)
    }

    fn create(path: &Path, target: &str, state: State) -> Result<Self> {
        let temporary = path.with_extension("new");
        let failed = |error| Error::from_io("write the ledger", path, error);
        let mut bytes = head(target).to_vec();
        state.records().iter().for_each(|record| bytes.extend(encode(record)));
        let file = own_files::options().create(true).truncate(true).write(true).open(&temporary).map_err(failed)?;
        (&file).write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
        std::fs::rename(&temporary, path).map_err(failed)?;
        if let Some(folder) = path.parent() {
            File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        }
        Ok(Ledger { path: path.to_owned(), file, length: bytes.len() as u64, state })
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
        Ok(())
    }

    /// Has the disk keep what was appended, also over a loss of power.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::from_io("write the ledger", &self.path, error))
    }
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

fn read(path: &Path, target: &str) -> Result<State> {
    let mut bytes = Vec::new();
    match own_files::options().read(true).open(path) {
        Ok(mut file) => {
            file.read_to_end(&mut bytes).map_err(|error| Error::from_io("read the ledger", path, error))?;
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(State::default()),
        Err(error) => return Err(Error::from_io("read the ledger", path, error)),
    }
    let Some(mut rest) = bytes.strip_prefix(&head(target)[..]) else {
        let message = format!("the ledger {} is of another version or origin, or damaged", path.display());
        return Err(Error::new(ErrorKind::Corrupt, message).with_hint(
            "files that were written may lie beside it, and in no bucket: move that folder away, and look into it",
        ));
    };
    let mut state = State::default();
    while let Some((record, length)) = decode(rest) {
        state.apply(record);
        rest = &rest[length..];
    }
    if !rest.is_empty() {
        tracing::warn!(path = %path.display(), bytes = rest.len(), "the end of the staging ledger was cut off by a kill, or is damaged");
    }
    Ok(state)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;

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

    #[test]
    fn the_ledger_of_another_origin_or_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = kept(folder.path(), &[Record::Changed { inode: 1 }]);
        assert_eq!(Ledger::open(&path, "another", false).unwrap_err().kind(), ErrorKind::Corrupt);
        std::fs::write(&path, b"nonsense").unwrap();
        assert_eq!(Ledger::open(&path, "t", false).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
