//! The staging folder in use: its ledger, and the files in it that are open.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::RwLock;

use crate::error::{Error, ErrorKind, Result};
use crate::staging::{Content, Ledger, Record, Room, StagingFolder, State};
use crate::sync::Mutex;

/// A staged file that is open.
#[derive(Debug)]
pub struct LiveFile {
    pub file: File,
    /// Held to read by who changes the content, and to write by who must have it stand still.
    pub gate: RwLock<()>,
    version: AtomicU64,
}

impl LiveFile {
    fn new(file: File) -> Arc<Self> {
        Arc::new(LiveFile { file, gate: RwLock::new(()), version: AtomicU64::new(0) })
    }

    /// Grows with every change of the content.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// To be called before and after a change: whoever reads in between sees two versions.
    pub fn note_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
    }

    pub fn size(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(lost)?.len())
    }

    pub fn mtime_ns(&self) -> i64 {
        let metadata = self.file.metadata();
        metadata.map_or(0, |data| data.mtime().saturating_mul(1_000_000_000).saturating_add(data.mtime_nsec()))
    }
}

/// Names, contents and files. The ledger's lock is never held over a wait.
#[derive(Debug)]
pub struct Staged {
    folder: StagingFolder,
    ledger: Mutex<Ledger>,
    live: Mutex<HashMap<u64, Arc<LiveFile>>>,
}

impl Staged {
    /// What lies at `path` of what was written to the target of this name. `goes_on`: on a connection that the kernel has
    /// still.
    pub fn open(path: &Path, target: &str, goes_on: bool) -> Result<Self> {
        let folder = StagingFolder::open(path)?;
        let ledger = Ledger::open(&folder.ledger_path(), target, goes_on)?;
        folder.sweep(|inode| ledger.state().node(inode).is_some_and(|node| !node.settled))?;
        let staged = Staged { folder, ledger: Mutex::new(ledger), live: Mutex::default() };
        staged.note_boot()?;
        Ok(staged)
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub fn file_path(&self, inode: u64) -> std::path::PathBuf {
        self.folder.file_path(inode)
    }

    /// What is known now.
    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(self.ledger.lock().state())
    }

    /// Decides by what is known, and notes what was decided, in one step.
    pub fn decide<T>(&self, decide: impl FnOnce(&mut Ledger) -> Result<T>) -> Result<T> {
        decide(&mut self.ledger.lock())
    }

    pub fn note(&self, record: Record) -> Result<()> {
        self.ledger.lock().commit(record)
    }

    /// Has the disk keep what is known, and the content of that file, which does not change meanwhile.
    pub fn keep(&self, inode: u64) -> Result<()> {
        let live = self.live(inode)?;
        let version = live.version();
        live.file.sync_all().map_err(lost)?;
        let mut ledger = self.ledger.lock();
        if live.version() == version {
            ledger.commit(Record::Kept { inode })?;
        }
        ledger.sync()
    }

    /// After the machine was started anew, what was not kept may be anything: it counts as left open.
    fn note_boot(&self) -> Result<()> {
        let id = boot_id();
        self.decide(|ledger| {
            if ledger.state().boot() == id {
                return Ok(());
            }
            let nodes = ledger.state().nodes();
            let closed = nodes.filter(|(_, node)| node.content == Content::Closed && !node.kept);
            let unsure: Vec<u64> = closed.map(|(inode, _)| inode).collect();
            unsure.into_iter().try_for_each(|inode| ledger.commit(Record::Changed { inode }))?;
            ledger.commit(Record::Booted { id })
        })
    }

    /// Makes the file of a number that was just given, empty.
    pub fn make(&self, inode: u64) -> Result<Arc<LiveFile>> {
        let live = LiveFile::new(self.folder.make(inode)?);
        self.live.lock().insert(inode, live.clone());
        Ok(live)
    }

    /// The staged content of a file.
    pub fn live(&self, inode: u64) -> Result<Arc<LiveFile>> {
        let mut live = self.live.lock();
        if let Some(found) = live.get(&inode) {
            return Ok(found.clone());
        }
        let opened = LiveFile::new(self.folder.open_file(inode)?);
        live.insert(inode, opened.clone());
        Ok(opened)
    }

    /// No program has the file open any more; it is opened again when it is needed. Who still reads it here keeps it: two
    /// of one file would not hear of each other's changes.
    pub fn close(&self, inode: u64) {
        let mut live = self.live.lock();
        if live.get(&inode).is_some_and(|file| Arc::strong_count(file) == 1) {
            live.remove(&inode);
        }
    }

    /// Takes the content away.
    pub fn remove(&self, inode: u64) {
        self.live.lock().remove(&inode);
        self.folder.remove(inode);
    }

    pub fn room(&self) -> Result<Room> {
        self.folder.room()
    }

    /// Bytes of the staged content; 0 where there is none.
    pub fn size(&self, inode: u64) -> u64 {
        std::fs::metadata(self.folder.file_path(inode)).map_or(0, |data| data.len())
    }
}

/// Of this start of the machine; zeros where it is not told.
fn boot_id() -> [u8; 16] {
    let mut id = [0; 16];
    if let Ok(text) = std::fs::read_to_string("/proc/sys/kernel/random/boot_id") {
        id.copy_from_slice(&blake3::hash(text.trim().as_bytes()).as_bytes()[..16]);
    }
    id
}

fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unexpected, format!("a staged file cannot be used: {error}")).with_source(error)
}
