//! A bucket as a target: S3 and OSS. Small files go in one request, others in parts; both appear whole or not at all.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use opendal::options::WriteOptions;
use opendal::raw::oio::WriteDyn;
use opendal::raw::{OpDelete, OpWrite};
use opendal::{Buffer, Capability};
use tokio::sync::mpsc;

use super::upload::Upload;
use super::{Begun, Expected, Layout, Mark, Notes, Survey, Target, TargetEntry, Writing};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ByteRange, Version};
use crate::origin::bucket::{Bucket, folder_prefix};
use crate::origin::fault::{Cause, Fault};
use crate::origin::pace::Pace;
use crate::origin::remote::{Remote, condition, key_text};
use crate::origin::service::Current;
use crate::origin::version::bare_tag;
use crate::origin::{ByteStream, Exclusion, ListedObject, ObjectVersion, Origin, is_to_be_listed_anew, layers};

/// S3 and OSS keep no longer key.
const KEY_MAX_BYTES: usize = 1024;
const BATCHES_IN_FLIGHT: usize = 16;

pub(super) struct BucketTarget {
    remote: Remote,
    prefix: String,
    pace: Pace,
    /// The same place for reading.
    origin: Arc<dyn Origin>,
}

impl BucketTarget {
    pub fn open((remote, prefix): (Remote, String), pace: Pace) -> Result<Arc<dyn Target>> {
        let origin = layers::wrap(Arc::new(Bucket::new(remote.clone(), &prefix, pace.clone(), None)), &pace);
        Ok(Arc::new(BucketTarget { remote, prefix: folder_prefix(&prefix), pace, origin }))
    }

    fn path(&self, key: &[u8]) -> Result<String> {
        self.refuse_name(key)?;
        Ok(format!("{}{}", self.prefix, key_text(key)?))
    }

    /// A writer with the newest keys that stands behind the parts that the bucket has.
    async fn writer(&self, path: &str, upload: Arc<Upload>, condition: &Condition) -> Result<Writer> {
        let (service, context) = (self.remote.service.current(), upload.context(&self.remote.wire));
        let opened = service.write_dyn(&context, path, condition.arguments());
        let inner = opened.map_err(|error| self.remote.place.explain(&action(path), &error))?;
        let mut writer = Writer { inner, service, upload };
        for _ in 0..writer.upload.before() {
            // Stands for a part that is there: the upload answers for it, and nothing is sent.
            let stand_in = Bytes::from_static(b"-");
            writer.write(stand_in).await.map_err(|error| self.explain(path, &error, &writer.service))?;
        }
        Ok(writer)
    }

    async fn head(&self, path: &str) -> Result<Option<TargetEntry>> {
        let shown = format!("look at {path:?}");
        match self.pace.patiently(|| self.remote.head(&shown, path, None)).await {
            Ok(answer) => {
                let size = answer.header("content-length").and_then(|text| text.parse().ok());
                let tag = answer.headers.get("etag").map(|tag| bare_tag(tag.as_bytes()));
                match (size, tag) {
                    (Some(size), Some(tag)) => Ok(Some(held(size, &tag))),
                    _ => Err(Error::new(
                        ErrorKind::Unsupported,
                        format!("cannot {shown}: {} tells neither size nor entity tag", self.remote.place.endpoint),
                    )),
                }
            }
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Absent, and not the bucket as a whole.
fn is_absent(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound && !error.context().iter().any(|(_, value)| value == "NoSuchBucket")
}

fn held(size: u64, tag: &[u8]) -> TargetEntry {
    TargetEntry { size, version: Version::Etag(tag.into()), mark: Mark::of(tag) }
}

fn action(path: &str) -> String {
    format!("write {}", path.escape_debug())
}

#[async_trait]
impl Target for BucketTarget {
    fn name(&self) -> &str {
        &self.remote.place.name
    }

    async fn prepare(&self) -> Result<()> {
        match self.origin.check().await {
            // Nothing below the prefix yet is how a target begins; no bucket is not.
            Err(error) if is_absent(&error) && error.context().is_empty() => Ok(()),
            other => other,
        }
    }

    async fn survey(&self) -> Result<Option<Survey>> {
        loop {
            match self.survey_once().await {
                Err(error) if is_to_be_listed_anew(&error) => {}
                outcome => return outcome.map(Some),
            }
        }
    }

    fn refuse_name(&self, key: &[u8]) -> Result<()> {
        let refuse = |what: &str| {
            let message =
                format!("{} cannot be a key of {}: {what}", String::from_utf8_lossy(key).escape_debug(), self.name());
            Err(Error::new(ErrorKind::Unsupported, message))
        };
        if std::str::from_utf8(key).is_err() {
            return refuse("it is not valid UTF-8");
        }
        if self.prefix.len() + key.len() > KEY_MAX_BYTES {
            return refuse("it is longer than 1024 bytes");
        }
        if key.split(|byte| *byte == b'/').any(|segment| matches!(segment, b"" | b"." | b"..")) {
            return refuse("it has a segment that is empty, . or ..");
        }
        Ok(())
    }

    async fn look(&self, key: &[u8]) -> Result<Option<TargetEntry>> {
        self.head(&self.path(key)?).await
    }

    async fn read(&self, key: &[u8], held: &TargetEntry, range: ByteRange) -> Result<ByteStream> {
        let object = ObjectVersion { key: key.into(), size: held.size, version: held.version.clone() };
        self.origin.read(&object, range).await
    }

    async fn make_folder(&self, _key: &[u8]) -> Result<()> {
        Ok(())
    }

    async fn make_link(&self, key: &[u8], _text: &[u8]) -> Result<()> {
        let key = String::from_utf8_lossy(key);
        Err(Error::new(ErrorKind::Unsupported, format!("cannot write {key}: a bucket holds no symbolic links")))
    }

    async fn write(
        &self,
        key: &[u8],
        layout: Layout,
        begun: Option<Begun>,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>> {
        let path = self.path(key)?;
        let upload = Upload::new(begun.unwrap_or_default(), notes);
        self.uploading(path, layout, upload, Condition::None).await
    }

    async fn write_over(
        &self,
        key: &[u8],
        layout: Layout,
        expected: Expected,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>> {
        let path = self.path(key)?;
        let condition = match expected {
            Expected::Nothing => Condition::Absent,
            // A weak tag cannot be asked for.
            Expected::This(version) => condition(&version).map_or(Condition::None, Condition::Tagged),
        };
        self.uploading(path, layout, Upload::new(Begun::default(), notes), condition).await
    }

    async fn remove(&self, key: &[u8]) -> Result<()> {
        self.delete(&self.path(key)?).await
    }

    async fn remove_folder(&self, key: &[u8]) -> Result<()> {
        self.delete(&format!("{}/", self.path(key)?)).await
    }

    async fn try_writing(&self) -> Result<()> {
        // An upload in parts that is taken back leaves nothing, and asks for the same right as a file.
        let path = self.path(format!(".headrace-{:016x}", std::process::id()).as_bytes())?;
        let attempt = || async {
            let upload = Upload::new(Begun::default(), Arc::new(NoNotes));
            let mut writer = self.writer(&path, upload, &Condition::None).await?;
            let mut outcome = Ok(());
            for _ in 0..2 {
                outcome = outcome.and(writer.write(Bytes::from_static(b"-")).await);
            }
            let aborted = writer.inner.abort_dyn().await;
            outcome.and(aborted).map_err(|error| self.explain(&path, &error, &writer.service))
        };
        self.pace.patiently(attempt).await
    }

    async fn abandon(&self, key: &[u8], token: &str) -> Result<()> {
        if token.is_empty() {
            return Ok(());
        }
        let path = self.path(key)?;
        let begun = Begun { token: token.to_owned(), parts: vec!["none".to_owned()] };
        let outcome = self
            .pace
            .patiently(|| async {
                // OpenDAL asks for the upload's id with its second piece, and gets the one that is to end.
                let upload = Upload::new(begun.clone(), Arc::new(NoNotes));
                let mut writer = self.writer(&path, upload, &Condition::None).await?;
                let stand_in = writer.write(Bytes::from_static(b"-")).await;
                let outcome = match stand_in {
                    Ok(()) => writer.inner.abort_dyn().await,
                    Err(error) => Err(error),
                };
                outcome.map_err(|error| self.explain(&path, &error, &writer.service))
            })
            .await;
        match outcome {
            Err(error) if is_absent(&error) => Ok(()),
            other => other,
        }
    }
}

impl BucketTarget {
    async fn survey_once(&self) -> Result<Survey> {
        let (sink, mut batches) = mpsc::channel::<Vec<ListedObject>>(BATCHES_IN_FLIGHT);
        let collect = async {
            let mut survey = Survey::new();
            while let Some(batch) = batches.recv().await {
                for object in batch {
                    let tag = object.etag.unwrap_or_default();
                    survey.insert(Mark::of(&object.key), (object.size, Mark::of(&tag)));
                }
            }
            survey
        };
        let nothing = Exclusion::default();
        let (listed, survey) = tokio::join!(self.origin.list(&nothing, sink), collect);
        listed.map(|()| survey)
    }

    async fn uploading(
        &self,
        path: String,
        layout: Layout,
        upload: Arc<Upload>,
        condition: Condition,
    ) -> Result<Box<dyn Writing>> {
        let before = upload.before();
        let writer = self.writer(&path, upload, &condition).await?;
        let target = self.reader();
        Ok(Box::new(Uploading { target, writer, path, layout, condition, before, given: before, last: None }))
    }

    /// Deletes a key; one that is not there is no fault.
    async fn delete(&self, path: &str) -> Result<()> {
        let attempt = || async {
            let service = self.remote.service.current();
            let context = Upload::new(Begun::default(), Arc::new(NoNotes)).context(&self.remote.wire);
            let explain = |error: opendal::Error| {
                service.refused(self.remote.place.explain(&format!("delete {}", path.escape_debug()), &error))
            };
            let mut deleter = service.delete_dyn(&context).map_err(explain)?;
            deleter.delete_dyn(path, OpDelete::new()).await.map_err(explain)?;
            deleter.close_dyn().await.map_err(explain)
        };
        match self.pace.patiently(attempt).await {
            Err(error) if is_absent(&error) => Ok(()),
            other => other,
        }
    }

    fn explain(&self, path: &str, error: &opendal::Error, service: &Current) -> Error {
        service.refused(self.remote.place.explain(&action(path), error))
    }

    /// What a write in progress needs of its target.
    fn reader(&self) -> Self {
        BucketTarget {
            remote: self.remote.clone(),
            prefix: self.prefix.clone(),
            pace: self.pace.clone(),
            origin: self.origin.clone(),
        }
    }
}

/// What the bucket is asked to find under the key when a file is put there.
#[derive(Debug, Clone)]
enum Condition {
    None,
    Absent,
    Tagged(String),
}

impl Condition {
    fn arguments(&self) -> OpWrite {
        let options = match self {
            Condition::None => return OpWrite::default(),
            Condition::Absent => WriteOptions { if_not_exists: true, ..WriteOptions::default() },
            Condition::Tagged(tag) => WriteOptions { if_match: Some(tag.clone()), ..WriteOptions::default() },
        };
        // It fails for conditions by other facts alone.
        OpWrite::from_options(&Capability::default(), options).map_or_else(|_| OpWrite::default(), |(write, _)| write)
    }
}

struct NoNotes;

impl Notes for NoNotes {
    fn begun(&self, _token: &str) {}
    fn kept(&self, _part: u32, _tag: &str) {}
}

/// OpenDAL's writer of one file, with the keys that it signs with. It sends a part when the next one comes, and the last
/// one at the end.
struct Writer {
    inner: Box<dyn WriteDyn>,
    service: Current,
    upload: Arc<Upload>,
}

impl Writer {
    async fn write(&mut self, bytes: Bytes) -> opendal::Result<()> {
        self.inner.write_dyn(Buffer::from(bytes)).await
    }
}

/// A file on its way.
struct Uploading {
    target: BucketTarget,
    writer: Writer,
    path: String,
    layout: Layout,
    condition: Condition,
    before: usize,
    /// Parts that the writer has, and the last of them, which the bucket may not have yet.
    given: usize,
    last: Option<Bytes>,
}

#[async_trait]
impl Writing for Uploading {
    fn before(&self) -> usize {
        self.before
    }

    async fn part(&mut self, bytes: Bytes) -> Result<()> {
        let mut failures = 0;
        loop {
            // A piece that could not be sent stays with the writer, which tries it again with the same call.
            let outcome = {
                let _permit = self.target.pace.permit().await;
                self.writer.write(bytes.clone()).await
            };
            let Err(error) = outcome else {
                (self.given, self.last) = (self.given + 1, Some(bytes));
                return Ok(());
            };
            self.pause_or_fail(self.explain(&error), &mut failures).await?;
        }
    }

    async fn finish(&mut self) -> Result<TargetEntry> {
        let mut failures = 0;
        loop {
            let outcome = {
                let _permit = self.target.pace.permit().await;
                self.writer.inner.close_dyn().await
            };
            match outcome.map_err(|error| self.explain(&error)) {
                Ok(metadata) => {
                    return match metadata.etag() {
                        Some(tag) if !tag.is_empty() => Ok(held(self.layout.size, &bare_tag(tag.as_bytes()))),
                        _ => self.found().await,
                    };
                }
                // An answer that was lost on its way leaves no upload, but the file.
                Err(error) if is_absent(&error) => return self.found().await.map_err(|_| error),
                Err(error) => self.pause_or_fail(error, &mut failures).await?,
            }
        }
    }
}

impl Uploading {
    fn explain(&self, error: &opendal::Error) -> Error {
        let explained = self.target.explain(&self.path, error, &self.writer.service);
        match Fault::inside(error) {
            Some(Fault { cause: Cause::Refused(refusal), .. })
                if matches!(refusal.status, 409 | 412) && !matches!(self.condition, Condition::None) =>
            {
                let message = format!("cannot {}: something else stands there by now", action(&self.path));
                Error::new(ErrorKind::Stale, message).with_source(explained)
            }
            _ => explained,
        }
    }

    /// After a failure: the same upload goes on where it was, by new keys if there are any.
    async fn pause_or_fail(&mut self, error: Error, failures: &mut u32) -> Result<()> {
        self.target.pace.pause_or_fail(error, failures).await?;
        if self.writer.service.has_keys_of(&self.target.remote.service.current()) {
            return Ok(());
        }
        let upload = self.writer.upload.gone_on_with();
        let taken = upload.taken();
        self.writer = self.target.writer(&self.path, upload, &self.condition).await?;
        match &self.last {
            // Nothing is sent by that: it takes the place of the last part.
            Some(last) if taken < self.given => {
                self.writer.write(last.clone()).await.map_err(|error| self.explain(&error))
            }
            _ => Ok(()),
        }
    }

    /// What stands under the name, if it can be what was written.
    async fn found(&self) -> Result<TargetEntry> {
        let found = self.target.head(&self.path).await?.filter(|held| held.size == self.layout.size);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("cannot {}: it is not there", action(&self.path))))
    }
}
