//! All files of a copy: some at a time, each fault told with its path, the others copied all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::content::SourceFile;
use super::file::{Copying, File, shown};
use super::ledger::Ledger;
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::origin::{ObjectVersion, Origin, Target};
use crate::sync::Mutex;

/// Faults that are told one by one; of those after them only the number.
const FAULTS_TOLD: usize = 100;
/// So many files that fail one after the other are not the files' fault: the rest is not tried.
const FAULTS_IN_A_ROW: u32 = 100;

/// One name of the source, and what it is called at the target.
pub struct Item {
    pub key: Vec<u8>,
    pub kind: ItemKind,
}

pub enum ItemKind {
    Folder,
    Link { text: Vec<u8> },
    File { origin: Arc<dyn Origin>, object: ObjectVersion, id: FileId },
}

/// Everything that is to be copied, made one by one so that millions fit. Folders come before what is in them.
pub trait Sources: Send + Sync + 'static {
    fn count(&self) -> usize;
    fn get(&self, position: usize) -> Option<Item>;
}

/// The bounds of a copy.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Files at the same time.
    pub files: usize,
    pub part_bytes: u64,
    pub memory: Budget,
}

/// How far a copy is.
#[derive(Debug, Default)]
pub struct Counts {
    done_files: AtomicU64,
    done_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    faults: AtomicU64,
    in_a_row: AtomicU32,
    told: Mutex<Vec<String>>,
}

impl Counts {
    /// Files and links that are at the target and were compared.
    pub fn done_files(&self) -> u64 {
        self.done_files.load(Ordering::Relaxed)
    }

    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Bytes written to the target by this process.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes.load(Ordering::Relaxed)
    }

    pub fn faults(&self) -> u64 {
        self.faults.load(Ordering::Relaxed)
    }

    /// A sentence a fault, for the first of them.
    pub fn told(&self) -> Vec<String> {
        self.told.lock().clone()
    }

    pub(super) fn sent(&self, bytes: u64) {
        self.sent_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn done(&self, bytes: u64) {
        self.in_a_row.store(0, Ordering::Relaxed);
        self.done_files.fetch_add(1, Ordering::Relaxed);
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn failed(&self, key: &[u8], error: &Error) {
        self.in_a_row.fetch_add(1, Ordering::Relaxed);
        self.faults.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(key = %shown(key), %error, "not copied");
        let mut told = self.told.lock();
        if told.len() < FAULTS_TOLD {
            told.push(sentence(key, error));
        }
    }

    fn goes_nowhere(&self) -> bool {
        self.in_a_row.load(Ordering::Relaxed) >= FAULTS_IN_A_ROW
    }
}

/// The path first, then what went wrong and what to do.
fn sentence(key: &[u8], error: &Error) -> String {
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}: {error}{hint}", shown(key))
}

/// One copy, from its ledger to its end.
pub struct CopyJob {
    pub sources: Arc<dyn Sources>,
    pub target: Arc<dyn Target>,
    pub ledger: Arc<Ledger>,
    pub limits: Limits,
    pub counts: Arc<Counts>,
}

impl CopyJob {
    /// Copies everything, or all but what fails (see `Counts`). What was begun and is not finished is taken away, also when
    /// `cancelled` ends it. Fails when the target cannot be looked at.
    pub async fn run(self, cancelled: CancellationToken) -> Result<()> {
        let survey = tokio::select! {
            () = cancelled.cancelled() => None,
            survey = self.target.survey() => survey?,
        };
        let copying = Copying {
            target: self.target,
            ledger: self.ledger,
            survey,
            memory: self.limits.memory,
            part_bytes: self.limits.part_bytes,
            counts: self.counts.clone(),
        };
        let (sources, counts) = (self.sources, self.counts);
        let positions = (0..sources.count()).take_while(|_| !counts.goes_nowhere());
        let everything = futures::stream::iter(positions).for_each_concurrent(self.limits.files.max(1), |position| {
            let item = sources.get(position);
            let (copying, counts) = (&copying, &counts);
            async move {
                if let Some(item) = item {
                    one(copying, item, counts).await;
                }
            }
        });
        tokio::select! {
            () = cancelled.cancelled() => {}
            () = everything => {}
        }
        for (path, _) in copying.ledger.all_underway() {
            copying.give_up_path(path).await;
        }
        Ok(())
    }
}

async fn one(copying: &Copying, item: Item, counts: &Counts) {
    let Item { key, kind } = item;
    let (outcome, bytes) = match kind {
        ItemKind::Folder => {
            if let Err(error) = copying.target.make_folder(&key).await {
                counts.failed(&key, &error);
            }
            return;
        }
        ItemKind::Link { text } => (copying.target.make_link(&key, &text).await, 0),
        ItemKind::File { origin, object, id } => {
            let bytes = object.size;
            let file = File { source: SourceFile { origin, object }, id, key: key.clone() };
            (copying.copy(&file).await, bytes)
        }
    };
    match outcome {
        Ok(()) => counts.done(bytes),
        Err(error) => counts.failed(&key, &error),
    }
}
