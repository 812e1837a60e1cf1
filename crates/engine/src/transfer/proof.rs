//! The proof that the received bytes are the origin's: compared with the origin's own checksum of the whole object.
//!
//! A file of one block comes in one answer, which tells the checksum as well: nobody gets a byte of it before it was
//! compared. A larger file is compared once all of it is in the store. A file that differs is dropped and fetched once
//! more; one that differs again is refused. Why so, and what it costs: `docs/decisions/0022-origin-checksums.md`.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde::Serialize;
use tokio::sync::Notify;

use super::Transfer;
use super::fetch::{Span, closing_error, wrong_content, wrong_length};
use super::flight::{Flight, Stretch};
use super::judging::{Effort, Verdict};
use super::order::OrderedFiles;
use super::source::Source;
use super::sums_here::FileHere;
use crate::checksum::{Checksum, Kind};
use crate::error::Result;
use crate::ids::{ByteRange, FileId};
use crate::origin::{ByteStream, Checksums};
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

impl Transfer {
    /// Fetches the only block of a file in one answer. Where that tells the file's checksum, readers are answered once
    /// it was compared, and otherwise as bytes arrive.
    pub(crate) async fn stream_whole(self: &Arc<Self>, span: &Span, flight: &Arc<Flight>) -> Result<()> {
        let flights = std::slice::from_ref(flight);
        for _ in 0..FETCHES {
            let (stream, told) = span.source.origin().read_whole(span.source.object()).await?;
            if told.is_none() {
                flight.note_proof(Proof::NoChecksum);
            }
            // One of several parts is compared when the block is in the store.
            let Some(told) = told.filter(|told| told.parts().is_none_or(|count| count == 1)) else {
                return self.pour(span, flights, Stretch::Tail, whole(&span.source), stream).await;
            };
            let (pieces, sum) = self.receive(&span.source, told.kind(), stream).await?;
            let computed = if told.parts().is_some() { Checksum::of_parts(told.kind(), [sum]) } else { sum };
            if computed == told || !told.can_accuse() {
                flight.note_proof(if computed == told { Proof::Proven } else { Proof::NoChecksum });
                let mut position = 0;
                for piece in pieces {
                    let length = piece.len() as u64;
                    self.arrived(span, flights, Stretch::Tail, position, piece);
                    position += length;
                }
                return Ok(());
            }
            self.tell_mismatch(&span.source, told.kind());
        }
        Err(wrong_content(&span.source))
    }

    /// All of an answer, and its checksum.
    async fn receive(&self, source: &Source, kind: Kind, mut stream: ByteStream) -> Result<(Vec<Bytes>, Checksum)> {
        let (mut pieces, mut sum, mut arrived) = (Vec::new(), self.sums.begin(kind), 0);
        while let Some(piece) = stream.next().await {
            let piece = piece?;
            arrived += piece.len() as u64;
            if arrived > source.size() {
                return Err(wrong_length(source, whole(source), "more"));
            }
            sum.update(&piece);
            pieces.push(piece);
        }
        if arrived < source.size() {
            Err(wrong_length(source, whole(source), "fewer"))
        } else {
            Ok((pieces, sum.finish().await?))
        }
    }

    /// True for files of one block whose only answer may tell their checksum.
    pub(crate) fn comes_with_checksum(&self, source: &Source) -> bool {
        self.blocks(source) == 1 && source.origin().capability().checksums == Checksums::WithContent
    }

    /// True where a request for the checksum adds little to those for the content.
    fn is_worth_asking(&self, source: &Source) -> bool {
        match source.origin().capability().checksums {
            Checksums::Never => false,
            Checksums::WithContent => true,
            Checksums::Apart => self.blocks(source) > 1,
        }
    }

    /// The comparison of the file, if all of it is in the store by now.
    pub(crate) fn due_comparison(&self, source: &Source) -> Option<DueComparison> {
        let blocks = self.blocks.as_ref().filter(|_| self.is_worth_asking(source))?;
        let due = blocks.is_whole(&source.id(), source.size()) && blocks.proof(&source.id()).is_none();
        (due && self.doubts.comparing.lock().insert(source.id())).then(|| DueComparison(source.clone()))
    }

    /// Compares the file in the background.
    pub(crate) fn start_comparison(self: &Arc<Self>, DueComparison(source): DueComparison) {
        let transfer = self.clone();
        let compare = async move {
            if let Err(error) = transfer.prove(&source, Effort::Cheap).await {
                tracing::debug!(path = source.path(), %error, "a file was not compared with its checksum at the origin");
            }
            transfer.doubts.end_comparison(&source.id());
        };
        drop(self.tasks.spawn_on(compare, &self.runtime));
    }

    /// Those of `files` that turned out to be wrong, and are not in the store any more; waits for the comparisons that
    /// are under way.
    pub(crate) async fn found_wrong(&self, files: &dyn OrderedFiles) -> Vec<Source> {
        // What was not compared by then is compared all the same.
        let _ = tokio::time::timeout(PATIENCE, self.doubts.compared()).await;
        let wrong = self.doubts.wrong();
        let Some(blocks) = self.blocks.as_ref().filter(|_| !wrong.is_empty()) else { return Vec::new() };
        let named = (0..files.count()).filter_map(|position| files.get(position));
        named.filter(|file| wrong.contains(&file.id()) && !blocks.is_whole(&file.id(), file.size())).collect()
    }

    /// Compares a file of which all is in the store with the origin's checksum, whatever the kind; gives a file that was
    /// refused another try. `Corrupt` when it differs: it is dropped then. Files that are not whole, or proven already,
    /// are left alone.
    pub async fn compare(&self, source: &Source) -> Result<()> {
        self.doubts.forget(&source.id());
        let told = source.origin().capability().checksums != Checksums::Never;
        let Some(blocks) = self.blocks.as_ref().filter(|_| told) else { return Ok(()) };
        if !blocks.is_whole(&source.id(), source.size()) || blocks.proof(&source.id()) == Some(Proof::Proven) {
            return Ok(());
        }
        self.prove(source, Effort::Any).await
    }

    async fn prove(&self, source: &Source, effort: Effort) -> Result<()> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => Err(closing_error()),
            outcome = self.prove_now(source, effort) => outcome,
        }
    }

    async fn prove_now(&self, source: &Source, effort: Effort) -> Result<()> {
        let Some(blocks) = self.blocks.clone() else { return Ok(()) };
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
            block_size: self.block_size,
            runtime: self.runtime.clone(),
            closing: self.closing.clone(),
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
                let _ = self.runtime.spawn_blocking(move || blocks.discard(&id)).await;
                self.doubts.note_wrong(id);
                self.tell_mismatch(source, told.kind());
                Err(wrong_content(source))
            }
        }
    }

    /// Notes what is known of the file; on a thread that may wait for a disk.
    async fn note(&self, blocks: Arc<dyn Blocks>, id: FileId, proof: Proof) {
        // Where the runtime is going away, the next process compares once more.
        let _ = self.runtime.spawn_blocking(move || blocks.note_proof(&id, proof)).await;
    }

    /// The last files of which other bytes came than the origin's checksum says.
    pub fn mismatches(&self) -> Vec<Mismatch> {
        self.doubts.told.lock().iter().cloned().collect()
    }

    fn tell_mismatch(&self, source: &Source, kind: Kind) {
        self.doubts.tell(Mismatch { path: source.path(), checksum: kind.name() });
        self.metrics.origin_checksum_mismatches.inc();
        tracing::warn!(
            "the bytes of {} that came are not those that the origin has: their {} differs; they are dropped",
            source.path().escape_debug(),
            kind.name()
        );
    }
}

fn whole(source: &Source) -> ByteRange {
    ByteRange::new(0, source.size())
}
