//! All files of a copy: some at a time, each fault told with its path, the others copied all the same.

use std::sync::Arc;

use futures::StreamExt;
use tokio_util::sync::CancellationToken;

use super::content::SourceFile;
use super::counts::Counts;
use super::file::{Copying, File};
use super::ledger::Ledger;
use crate::budget::Budget;
use crate::error::Result;
use crate::ids::FileId;
use crate::origin::{ObjectVersion, Origin, Target};

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
