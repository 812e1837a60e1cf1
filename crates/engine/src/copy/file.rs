//! One file: decided, written part by part, compared, noted.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::content::{SourceFile, holds};
use super::counts::{Counts, shown};
use super::decision::{Decision, Done, decide};
use super::layout::{layout_of, parts, range};
use super::ledger::{Ledger, Underway};
use super::record::Record;

use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileId;
use crate::origin::{Begun, Layout, Mark, Notes, Survey, Target, TargetEntry};
use crate::sync::Mutex;

/// Writes of one file before it is given up: what was read back was not what was written.
const WRITES_MAX: u32 = 3;
/// A modification time so young does not tell apart what is written in the same moment.
const YOUNG: Duration = Duration::from_secs(2);

/// What all files of a copy share.
pub struct Copying {
    pub target: Arc<dyn Target>,
    pub ledger: Arc<Ledger>,
    pub survey: Option<Survey>,
    pub memory: Budget,
    pub part_bytes: u64,
    pub counts: Arc<Counts>,
}

/// One file and its name at the target.
pub struct File {
    pub source: SourceFile,
    pub id: FileId,
    pub key: Vec<u8>,
}

impl File {
    fn size(&self) -> u64 {
        self.source.object.size
    }

    fn path(&self) -> Mark {
        Mark::of(&self.key)
    }

    /// Another content could have the same version: then the ledger is not to speak for this file.
    fn may_change_unseen(&self) -> bool {
        let Some(ns) = self.source.object.version.mtime_ns() else { return false };
        let age = SystemTime::now().duration_since(UNIX_EPOCH + Duration::from_nanos(ns.max(0) as u64));
        age.is_ok_and(|age| age < YOUNG)
    }
}

impl Copying {
    /// Has the file at the target, compared, or fails.
    pub async fn copy(&self, file: &File) -> Result<()> {
        self.target.refuse_name(&file.key)?;
        let before = self.ledger.underway(file.path());
        let goes_on = before.as_ref().is_some_and(|underway| underway.source == file.id);
        if let (Some(underway), false) = (&before, goes_on) {
            self.give_up(file.path(), underway).await?;
        }
        if !goes_on && self.is_there(file).await? {
            return Ok(());
        }
        self.written(file, before.filter(|_| goes_on)).await
    }

    /// Whether the file needs nothing: the ledger knows it, or its bytes are the same.
    async fn is_there(&self, file: &File) -> Result<bool> {
        let held = match &self.survey {
            Some(survey) => survey.get(&file.path()).copied(),
            None => self.target.look(&file.key).await?.map(|held| (held.size, held.mark)),
        };
        match decide(file.id, file.size(), self.ledger.done(file.path()), held) {
            Decision::Skip => Ok(true),
            Decision::Copy => Ok(false),
            Decision::Compare => self.is_same(file).await,
        }
    }

    async fn is_same(&self, file: &File) -> Result<bool> {
        let Some(held) = self.target.look(&file.key).await? else { return Ok(false) };
        if held.size != file.size() {
            return Ok(false);
        }
        let layout = layout_of(file.size(), self.part_bytes);
        let contents = file.source.contents(layout).await?;
        let same = holds(&*self.target, &file.key, &held, layout, &contents).await?;
        if same {
            self.note_done(file, &held);
        }
        Ok(same)
    }

    async fn written(&self, file: &File, mut before: Option<Underway>) -> Result<()> {
        for attempt in 1.. {
            let resumed = before.is_some();
            match self.write_once(file, before.take()).await {
                Ok(Some(held)) => {
                    self.note_done(file, &held);
                    return Ok(());
                }
                Ok(None) if attempt < WRITES_MAX => {
                    tracing::warn!(key = %shown(&file.key), "what the target holds is not what was written; written again");
                }
                Ok(None) => break,
                // What was begun is not there any more: a bucket clears up old uploads by its own rules.
                Err(error) if resumed && error.kind() == ErrorKind::NotFound => {
                    self.give_up_path(file.path()).await;
                }
                Err(error) => {
                    self.give_up_path(file.path()).await;
                    return Err(error);
                }
            }
        }
        self.ledger.note(Record::Ended { path: file.path() });
        let message =
            format!("cannot copy {}: what was read back from the target is not what was written", shown(&file.key));
        Err(Error::new(ErrorKind::Corrupt, message)
            .with_hint("check the storage, or whether somebody else writes there"))
    }

    /// Writes and compares; `None` when the target does not hold what was written.
    async fn write_once(&self, file: &File, before: Option<Underway>) -> Result<Option<TargetEntry>> {
        let layout = match &before {
            Some(underway) => Layout { size: file.size(), part_bytes: underway.part_bytes },
            None => layout_of(file.size(), self.part_bytes),
        };
        let (begun, contents) = match before {
            Some(underway) => (Some(underway.begun), underway.contents),
            None => (None, Vec::new()),
        };
        let notes = Arc::new(FileNotes::new(self.ledger.clone(), file, layout, contents));
        let held = self.send(file, layout, begun, notes.clone()).await?;
        self.compared(file, held, layout, &notes.contents()).await
    }

    /// What the target holds of the file, if it is what was written. Some storages tell another entity tag at the end of
    /// an upload than the object has then: what stands there is looked at once more, and its bytes decide.
    async fn compared(
        &self,
        file: &File,
        told: TargetEntry,
        layout: Layout,
        contents: &[Mark],
    ) -> Result<Option<TargetEntry>> {
        let stale = match holds(&*self.target, &file.key, &told, layout, contents).await {
            Ok(same) => return Ok(same.then_some(told)),
            Err(error) if error.kind() == ErrorKind::Stale => error,
            Err(error) => return Err(error),
        };
        let found = self.target.look(&file.key).await?.filter(|found| found.mark != told.mark);
        let Some(found) = found else { return Err(stale) };
        Ok(holds(&*self.target, &file.key, &found, layout, contents).await?.then_some(found))
    }

    async fn send(
        &self,
        file: &File,
        layout: Layout,
        begun: Option<Begun>,
        notes: Arc<FileNotes>,
    ) -> Result<TargetEntry> {
        // One part on its way out, the next one on its way in.
        let _memory = self.memory.acquire(layout.part_bytes.min(layout.size).saturating_mul(2)).await;
        let mut writing = self.target.write(&file.key, layout, begun, notes.clone()).await?;
        let first = writing.before();
        notes.keep_first(first);
        let count = parts(layout);
        let mut next = file.source.bytes(range(layout, first)).await?;
        for part in first..count {
            let bytes = std::mem::take(&mut next);
            notes.content(part, Mark::of(&bytes));
            let following = range(layout, part + 1);
            let ((), read) = tokio::try_join!(writing.part(bytes), file.source.bytes(following))?;
            self.counts.sent(range(layout, part).length());
            next = read;
        }
        writing.finish().await
    }

    fn note_done(&self, file: &File, held: &TargetEntry) {
        if file.may_change_unseen() {
            self.ledger.note(Record::Ended { path: file.path() });
            return;
        }
        let done = Done { source: file.id, target: held.mark };
        self.ledger.note(Record::Done { path: file.path(), done });
    }

    /// Takes away what was begun under `path` in this copy or before it.
    pub async fn give_up_path(&self, path: Mark) {
        if let Some(underway) = self.ledger.underway(path)
            && let Err(error) = self.give_up(path, &underway).await
        {
            tracing::warn!(key = %shown(&underway.key), %error, "what was begun stays at the target");
        }
    }

    async fn give_up(&self, path: Mark, underway: &Underway) -> Result<()> {
        self.target.abandon(&underway.key, &underway.begun.token).await?;
        self.ledger.note(Record::Ended { path });
        Ok(())
    }
}

/// Notes of one file, into the ledger.
struct FileNotes {
    ledger: Arc<Ledger>,
    path: Mark,
    source: FileId,
    key: Vec<u8>,
    layout: Layout,
    contents: Mutex<Vec<Mark>>,
}

impl FileNotes {
    fn new(ledger: Arc<Ledger>, file: &File, layout: Layout, contents: Vec<Mark>) -> Self {
        let (path, source, key) = (file.path(), file.id, file.key.clone());
        FileNotes { ledger, path, source, key, layout, contents: Mutex::new(contents) }
    }

    fn keep_first(&self, parts: usize) {
        self.contents.lock().truncate(parts);
    }

    fn content(&self, part: usize, content: Mark) {
        let mut contents = self.contents.lock();
        contents.truncate(part);
        contents.push(content);
    }

    fn contents(&self) -> Vec<Mark> {
        self.contents.lock().clone()
    }
}

impl Notes for FileNotes {
    fn begun(&self, token: &str) {
        self.ledger.note(Record::Begun {
            path: self.path,
            source: self.source,
            part_bytes: self.layout.part_bytes,
            token: token.to_owned(),
            key: self.key.clone(),
        });
    }

    fn kept(&self, part: u32, tag: &str) {
        let content = self.contents.lock().get(part as usize).copied();
        if let Some(content) = content {
            self.ledger.note(Record::Part { path: self.path, number: part, content, tag: tag.to_owned() });
        }
    }
}
