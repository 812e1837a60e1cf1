//! The proof that the received bytes are the origin's: compared with the origin's own checksum of the whole object.
//!
//! A file of one block comes in one answer, which tells the checksum as well: nobody gets a byte of it before it was
//! compared (`request`). A larger file is compared once all of it is in the store. A file that differs is dropped and fetched once
//! more; one that differs again is refused. Why so, and what it costs: `docs/decisions/0022-origin-checksums.md`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Notify;

use super::context::Context;
use super::faults::{closing_error, wrong_content};
use super::judging::{Effort, Verdict};
use super::order::OrderedFiles;
use super::source::Source;
use super::sums_here::FileHere;
use crate::checksum::Kind;
use crate::error::Result;
use crate::ids::FileId;
use crate::origin::Checksums;
use crate::store::{Blocks, Proof};
use crate::sync::Mutex;

/// What does not match is fetched so often in all.
pub(super) const FETCHES: u32 = 2;
/// Whoever wants to know how comparisons end waits so long for an origin that does not tell its checksum.
const PATIENCE: Duration = Duration::from_secs(10);
/// So many files that did not match are named.
const TOLD_MAX: usize = 10;

/// Files that did not match, and those that are being compared.
#[derive(Debug, Default)]
pub(crate) struct Doubts {
    wrong: Mutex<HashMap<FileId, u32>>,
    comparing: Mutex<HashSet<FileId>>,
    /// Told when a comparison has ended.
    compared: Notify,
    /// The last ones that did not match, for people.
    told: Mutex<VecDeque<Mismatch>>,
}

/// A file of which other bytes came than the origin's checksum says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    pub path: String,
    /// The name of the checksum's kind.
    pub checksum: &'static str,
}

impl Doubts {
    /// True when the file was wrong as often as it is fetched.
    pub(crate) fn refuses(&self, file: &FileId) -> bool {
        self.wrong.lock().get(file).is_some_and(|times| *times >= FETCHES)
    }

    fn note_wrong(&self, file: FileId) {
        *self.wrong.lock().entry(file).or_default() += 1;
    }

    fn forget(&self, file: &FileId) {
        self.wrong.lock().remove(file);
    }

    /// Those that did not match, and were not seen to match since.
    fn wrong(&self) -> HashSet<FileId> {
        self.wrong.lock().keys().copied().collect()
    }

    fn tell(&self, mismatch: Mismatch) {
        let mut told = self.told.lock();
        told.retain(|known| *known != mismatch);
        told.push_back(mismatch);
        if told.len() > TOLD_MAX {
            told.pop_front();
        }
    }

    fn end_comparison(&self, file: &FileId) {
        self.comparing.lock().remove(file);
        self.compared.notify_waiters();
    }

    /// Waits until all comparisons that are under way now have ended.
    async fn compared(&self) {
        let begun = self.comparing.lock().clone();
        loop {
            let one_more = self.compared.notified();
            if self.comparing.lock().is_disjoint(&begun) {
                return;
            }
            one_more.await;
        }
    }
}

/// A file whose comparison is due; it counts as being compared.
pub(crate) struct DueComparison(Source);

/// Compares files with their origin, and remembers those that did not match.
pub(super) struct Comparisons {
    context: Arc<Context>,
    doubts: Doubts,
}

impl Comparisons {
    pub(super) fn new(context: &Arc<Context>) -> Arc<Self> {
        Arc::new(Comparisons { context: context.clone(), doubts: Doubts::default() })
    }

    /// True when the file was wrong as often as it is fetched.
    pub(super) fn refuses(&self, file: &FileId) -> bool {
        self.doubts.refuses(file)
    }

    /// True where a request for the checksum adds little to those for the content.
    fn is_worth_asking(&self, source: &Source) -> bool {
        match source.origin().capability().checksums {
            Checksums::Never => false,
            Checksums::WithContent => true,
            Checksums::Apart => self.context.block_count(source) > 1,
        }
    }

    /// The comparison of the file, if all of it is in the store by now.
    pub(super) fn due_comparison(&self, source: &Source) -> Option<DueComparison> {
        let blocks = self.context.blocks.as_ref().filter(|_| self.is_worth_asking(source))?;
        let due = blocks.is_whole(&source.id(), source.size()) && blocks.proof(&source.id()).is_none();
        (due && self.doubts.comparing.lock().insert(source.id())).then(|| DueComparison(source.clone()))
    }

    /// Compares the file in the background.
    pub(super) fn start_comparison(self: &Arc<Self>, DueComparison(source): DueComparison) {
        let comparisons = self.clone();
        let compare = async move {
            if let Err(error) = comparisons.prove(&source, Effort::Cheap).await {
                tracing::debug!(path = source.path(), %error, "a file was not compared with its checksum at the origin");
            }
            comparisons.doubts.end_comparison(&source.id());
        };
        self.context.spawn(compare);
    }

    /// Those of `files` that turned out to be wrong, and are not in the store any more; waits for the comparisons that
    /// are under way.
    pub(super) async fn found_wrong(&self, files: &dyn OrderedFiles) -> Vec<Source> {
        // What was not compared by then is compared all the same.
        let _ = tokio::time::timeout(PATIENCE, self.doubts.compared()).await;
        let wrong = self.doubts.wrong();
        let Some(blocks) = self.context.blocks.as_ref().filter(|_| !wrong.is_empty()) else { return Vec::new() };
        let named = (0..files.count()).filter_map(|position| files.get(position));
        named.filter(|file| wrong.contains(&file.id()) && !blocks.is_whole(&file.id(), file.size())).collect()
    }

    /// Compares a file of which all is in the store with the origin's checksum, whatever the kind; gives a file that was
    /// refused another try. `Corrupt` when it differs: it is dropped then. Files that are not whole, or proven already,
    /// are left alone.
    pub(super) async fn compare(&self, source: &Source) -> Result<()> {
        self.doubts.forget(&source.id());
        let told = source.origin().capability().checksums != Checksums::Never;
        let Some(blocks) = self.context.blocks.as_ref().filter(|_| told) else { return Ok(()) };
        if !blocks.is_whole(&source.id(), source.size()) || blocks.proof(&source.id()) == Some(Proof::Proven) {
            return Ok(());
        }
        self.prove(source, Effort::Any).await
    }

    async fn prove(&self, source: &Source, effort: Effort) -> Result<()> {
        tokio::select! {
            biased;
            () = self.context.closing.cancelled() => Err(closing_error()),
            outcome = self.prove_now(source, effort) => outcome,
        }
    }

    async fn prove_now(&self, source: &Source, effort: Effort) -> Result<()> {
        let Some(blocks) = self.context.blocks.clone() else { return Ok(()) };
        let id = source.id();
        let Some(told) = source.origin().checksum(source.object()).await? else {
            self.note(blocks, id, Proof::NoChecksum).await;
            return Ok(());
        };
        if effort == Effort::Cheap && !told.kind().is_cheap() {
            return Ok(());
        }
        let file = FileHere {
            source: source.clone(),
            blocks: blocks.clone(),
            block_size: self.context.block_size,
            runtime: self.context.runtime.clone(),
            closing: self.context.closing.clone(),
        };
        match file.judge(told, effort).await? {
            Verdict::Gone | Verdict::Later => Ok(()),
            Verdict::Incomparable => {
                self.note(blocks, id, Proof::NoChecksum).await;
                Ok(())
            }
            Verdict::Right => {
                self.note(blocks, id, Proof::Proven).await;
                self.doubts.forget(&id);
                Ok(())
            }
            Verdict::Wrong => {
                // On a thread that may wait for a disk; out of sight at once.
                let _ = self.context.runtime.spawn_blocking(move || blocks.discard(&id)).await;
                self.doubts.note_wrong(id);
                self.tell_mismatch(source, told.kind());
                Err(wrong_content(source))
            }
        }
    }

    /// Notes what is known of the file; on a thread that may wait for a disk.
    async fn note(&self, blocks: Arc<dyn Blocks>, id: FileId, proof: Proof) {
        // Where the runtime is going away, the next process compares once more.
        let _ = self.context.runtime.spawn_blocking(move || blocks.note_proof(&id, proof)).await;
    }

    /// The last files of which other bytes came than the origin's checksum says.
    pub(super) fn mismatches(&self) -> Vec<Mismatch> {
        self.doubts.told.lock().iter().cloned().collect()
    }

    pub(super) fn tell_mismatch(&self, source: &Source, kind: Kind) {
        self.doubts.tell(Mismatch { path: source.path(), checksum: kind.name() });
        self.context.metrics.origin_checksum_mismatches.inc();
        tracing::warn!(
            "the bytes of {} that came are not those that the origin has: their {} differs; they are dropped",
            source.path().escape_debug(),
            kind.name()
        );
    }
}
