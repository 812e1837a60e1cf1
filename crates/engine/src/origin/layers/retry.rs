//! Tries again what is temporary, with back-off, and resumes a body where it broke off.
//!
//! Bytes already handed on are never fetched again, and the resumed read is of the same version: a change in between
//! ends the stream with `Stale`.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::layers::Layer;
use crate::origin::pace::Pace;
use crate::origin::{ByteStream, ObjectVersion, Origin, WholeObject};

/// So much progress makes earlier failures forgotten; less would let a server that sends a byte and hangs up keep us
/// busy for ever.
const PROGRESS_BYTES: u64 = 256 << 10;

pub(super) struct Retried {
    inner: Arc<dyn Origin>,
    pace: Pace,
}

impl Retried {
    pub fn new(inner: Arc<dyn Origin>, pace: Pace) -> Self {
        Retried { inner, pace }
    }
}

#[async_trait]
impl Layer for Retried {
    fn inner(&self) -> &dyn Origin {
        &*self.inner
    }

    async fn read_through(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let rest = range.clamp_to(object.size);
        if rest.is_empty() {
            return Ok(futures::stream::empty().boxed());
        }
        let mut reading = self.reading(object, rest);
        reading.open().await?;
        Ok(reading.stream())
    }

    /// A body that is resumed is still that of the first answer, and of its checksum: the version is the same.
    async fn read_whole_through(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let mut reading = self.reading(object, ByteRange::new(0, object.size));
        let told = reading.open_whole().await?;
        Ok((reading.stream(), told))
    }
}

impl Retried {
    fn reading(&self, object: &ObjectVersion, rest: ByteRange) -> Reading {
        let (inner, pace, object) = (self.inner.clone(), self.pace.clone(), object.clone());
        Reading { inner, pace, object, rest, body: None, failures: 0, progress: 0 }
    }
}

/// One read under way.
struct Reading {
    inner: Arc<dyn Origin>,
    pace: Pace,
    object: ObjectVersion,
    /// What has not been handed on yet.
    rest: ByteRange,
    body: Option<ByteStream>,
    failures: u32,
    /// Bytes since the last failure.
    progress: u64,
}

impl Reading {
    fn stream(self) -> ByteStream {
        futures::stream::unfold(Some(self), |reading| async { reading?.next().await }).boxed()
    }

    async fn open_whole(&mut self) -> Result<Option<Checksum>> {
        loop {
            match self.inner.read_whole(&self.object).await {
                Ok((body, told)) => {
                    self.body = Some(body);
                    return Ok(told);
                }
                Err(error) => self.pace.pause_or_fail(error, &mut self.failures).await?,
            }
        }
    }

    async fn open(&mut self) -> Result<()> {
        while self.body.is_none() {
            match self.inner.read(&self.object, self.rest).await {
                Ok(body) => self.body = Some(body),
                Err(error) => self.pace.pause_or_fail(error, &mut self.failures).await?,
            }
        }
        Ok(())
    }

    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        while !self.rest.is_empty() {
            if let Err(error) = self.open().await {
                return Some((Err(error), None));
            }
            let piece = self.body.as_mut()?.next().await;
            let outcome = match piece {
                Some(Ok(piece)) => return Some((Ok(self.advance(piece)), Some(self))),
                Some(Err(error)) => self.body_failed(error).await,
                None => self.body_failed(ended_early(self.rest)).await,
            };
            if let Err(error) = outcome {
                return Some((Err(error), None));
            }
        }
        None
    }

    async fn body_failed(&mut self, error: Error) -> Result<()> {
        self.body = None;
        self.progress = 0;
        self.pace.pause_or_fail(error, &mut self.failures).await
    }

    fn advance(&mut self, mut piece: Bytes) -> Bytes {
        piece.truncate(usize::try_from(self.rest.length()).unwrap_or(usize::MAX));
        let length = piece.len() as u64;
        self.rest.start += length;
        self.progress += length;
        if self.progress >= PROGRESS_BYTES {
            (self.failures, self.progress) = (0, 0);
        }
        if self.rest.is_empty() {
            // Frees the permit and the connection now rather than when the caller drops the stream.
            self.body = None;
        }
        piece
    }
}

fn ended_early(rest: ByteRange) -> Error {
    Error::new(ErrorKind::Unexpected, "cannot read: the body ended early")
        .with_context("missing_bytes", rest.length())
        .with_retry(Retry::Temporary)
}
