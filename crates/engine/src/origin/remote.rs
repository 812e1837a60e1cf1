//! One remote service: an OpenDAL service that builds and signs requests, the wire that sends them, and the rules of
//! an exact read. The protocols differ in how they list and in what tells versions apart; that is theirs.
//!
//! The service is used without OpenDAL's operator: an operator trims and collapses paths, and two keys that differ in
//! a blank would be one (see `docs/decisions/0001-opendal.md`).

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::unfold;
use http::{Request, StatusCode};
use opendal::options::{ListOptions, ReadOptions};
use opendal::raw::oio::ReadStreamDyn;
use opendal::raw::{OpList, OpRead, OpReader, OpStat};
use opendal::{Buffer, BytesRange};

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::{ByteRange, Version};
use crate::origin::checksum_mode::ChecksumMode;
use crate::origin::fault::{Cause, Fault};
use crate::origin::listing::Start;
use crate::origin::place::OriginNames;
use crate::origin::service::{Current, Service};
use crate::origin::version::{bare_tag, http_seconds, quoted_if_strong, same_tag};
use crate::origin::wire::{AnswerSlot, HttpAnswer, Keep, Wire};
use crate::origin::{ByteStream, ObjectVersion};

/// No answer to a question is longer.
const MAX_ANSWER_BYTES: usize = 64 << 10;

/// A service, the wire under it, and the words about it.
#[derive(Clone)]
pub(super) struct Remote {
    pub service: Service,
    pub wire: Wire,
    pub place: OriginNames,
}

/// An open body and the head of its answer.
pub(super) struct Body {
    pub answer: HttpAnswer,
    stream: Box<dyn ReadStreamDyn>,
}

impl Remote {
    /// Opens `range` of the object at `path` (the whole key, in the service's spelling), on condition that its entity
    /// tag is `if_match`.
    pub async fn open(&self, path: &str, range: ByteRange, if_match: Option<String>) -> Result<Body> {
        self.open_bytes(path, BytesRange::new(range.start, Some(range.length())), if_match, None).await
    }

    /// The same for all of the object, without naming a range: some services tell checksums only so, and some only when
    /// they are asked.
    pub async fn open_whole(&self, path: &str, if_match: Option<String>, mode: Option<ChecksumMode>) -> Result<Body> {
        self.open_bytes(path, BytesRange::default(), if_match, mode).await
    }

    async fn open_bytes(
        &self,
        path: &str,
        range: BytesRange,
        if_match: Option<String>,
        mode: Option<ChecksumMode>,
    ) -> Result<Body> {
        let action = || format!("read {}", shown(path));
        refuse_unreachable_key(path)?;
        let (context, slot) = self.wire.context(Keep::Head, mode);
        let options = ReadOptions { if_match, range, ..Default::default() };
        let (range, arguments, _): (BytesRange, OpRead, OpReader) = options.into();
        let service = self.service.ready(&action(), &self.wire).await?;
        let reader =
            service.read_dyn(&context, path, arguments).map_err(|error| self.place.explain(&action(), &error))?;
        let opened = reader.open_dyn(range).await;
        let (_, stream) = opened.map_err(|error| service.refused(self.explain_read(path, &error, &slot)))?;
        let answer = slot.take().ok_or_else(|| self.place.explain_fault(&action(), &Cause::Garbled.into()))?;
        Ok(Body { answer, stream })
    }

    /// The whole document at `path`: an index page or a small answer.
    pub async fn document(&self, action: &str, path: &str) -> Result<HttpAnswer> {
        let (context, slot) = self.wire.context(Keep::Whole, None);
        let (range, arguments, _): (BytesRange, OpRead, OpReader) = ReadOptions::default().into();
        let service = self.service.ready(action, &self.wire).await?;
        let reader = service.read_dyn(&context, path, arguments).map_err(|error| self.place.explain(action, &error))?;
        let outcome = reader.open_dyn(range).await.map(|_| ());
        self.captured(action, outcome, &slot, &service)
    }

    /// The answer to a request that the service has no word for.
    pub async fn ask(&self, action: &str, url: &str) -> Result<Bytes> {
        let explain = |fault: Fault| self.place.explain_fault(action, &fault);
        let request = Request::get(url).body(Buffer::new()).map_err(|_| explain(Cause::Garbled.into()))?;
        let answer = self.wire.send(request, self.wire.silence).await.map_err(explain)?;
        if !answer.status().is_success() {
            return Err(explain(self.wire.refusal(answer).await));
        }
        self.wire.whole_body(answer, MAX_ANSWER_BYTES).await.map_err(explain)
    }

    /// The head of the object at `path`. `mode`: it is asked to tell the checksum.
    pub async fn head(&self, action: &str, path: &str, mode: Option<ChecksumMode>) -> Result<HttpAnswer> {
        let (context, slot) = self.wire.context(Keep::Whole, mode);
        let service = self.service.ready(action, &self.wire).await?;
        let outcome = service.stat_dyn(&context, path, OpStat::new()).await.map(|_| ());
        self.captured(action, outcome, &slot, &service)
    }

    /// One raw page of at most `limit` of the keys that begin with `prefix`.
    pub async fn page(&self, prefix: &str, start: Start<'_>, limit: usize, recursive: bool) -> Result<HttpAnswer> {
        let action = format!("list {}", self.place.name);
        let (context, slot) = self.wire.listing_context(start.token());
        let start_after = start.key().map(str::to_owned);
        let arguments = OpList::from(ListOptions { limit: Some(limit), start_after, recursive, ..Default::default() });
        let service = self.service.ready(&action, &self.wire).await?;
        let mut lister =
            service.list_dyn(&context, prefix, arguments).map_err(|error| self.place.explain(&action, &error))?;
        let outcome = lister.next_dyn().await.map(|_| ());
        self.captured(&action, outcome, &slot, &service)
    }

    /// The captured answer, or the error that came in its place.
    fn captured(
        &self,
        action: &str,
        outcome: opendal::Result<()>,
        slot: &AnswerSlot,
        service: &Current,
    ) -> Result<HttpAnswer> {
        match (slot.take(), outcome) {
            (Some(answer), _) => Ok(answer),
            (None, Err(error)) => Err(service.refused(self.place.explain_with(action, &error, slot.no_keys()))),
            (None, Ok(())) => Err(self.place.explain_fault(action, &Cause::Garbled.into())),
        }
    }

    /// A refused read: an object that the snapshot knows and the origin does not is stale, not merely absent.
    fn explain_read(&self, path: &str, error: &opendal::Error, slot: &AnswerSlot) -> Error {
        let plain = self.place.explain_with(&format!("read {}", shown(path)), error, slot.no_keys());
        let Some(Fault { cause: Cause::Refused(refusal), .. }) = Fault::inside(error) else { return plain };
        match refusal.status {
            404 if plain.kind() == ErrorKind::NotFound && refusal.code != "NoSuchBucket" => {
                stale(path, "was deleted since the snapshot")
            }
            304 | 412 => stale(path, "is another version than in the snapshot"),
            416 => stale(path, "is shorter than in the snapshot"),
            _ => plain,
        }
    }
}

impl Body {
    /// For servers that were asked for the range in other ways than by the header, and answer 200: the body begins at
    /// the range, and neither its length nor its date say anything about the whole object.
    pub fn begins_at(&mut self, range: ByteRange) {
        self.answer.status = StatusCode::PARTIAL_CONTENT;
        self.answer.headers = http::HeaderMap::new();
        if let Ok(value) =
            http::HeaderValue::from_str(&format!("bytes {}-{}/*", range.start, range.end.saturating_sub(1)))
        {
            self.answer.headers.insert("content-range", value);
        }
    }

    /// Checks that the answer is that of `object`, and gives exactly the bytes of `range`.
    pub fn exactly(self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let path = String::from_utf8_lossy(&object.key).into_owned();
        let skip = skipped_bytes(&self.answer, &path, object, range)?;
        check_version(&self.answer, &path, &object.version)?;
        let state = Exact { stream: self.stream, path, skip, left: range.length() };
        Ok(unfold(Some(state), |state| async { state?.next().await }).boxed())
    }
}

/// The rest of an exact read.
struct Exact {
    stream: Box<dyn ReadStreamDyn>,
    path: String,
    /// Bytes before the range that the server sent although it was asked for a range.
    skip: u64,
    left: u64,
}

impl Exact {
    async fn next(mut self) -> Option<(Result<Bytes>, Option<Self>)> {
        while self.left > 0 {
            let piece = match self.stream.read_dyn().await {
                Ok(piece) if !piece.is_empty() => piece.to_bytes(),
                Ok(_) => return Some((Err(short_body(&self.path, self.left)), None)),
                Err(_) => return Some((Err(broken_body(&self.path, self.left)), None)),
            };
            if let Some(piece) = self.cut(piece) {
                return Some((Ok(piece), Some(self)));
            }
        }
        None
    }

    /// What of `piece` belongs to the range.
    fn cut(&mut self, mut piece: Bytes) -> Option<Bytes> {
        let skipped = self.skip.min(piece.len() as u64);
        self.skip -= skipped;
        let _ = piece.split_to(skipped as usize);
        if piece.len() as u64 > self.left {
            tracing::debug!(key = self.path, "the origin sent more than it was asked for; the rest was cut off");
            piece.truncate(self.left as usize);
        }
        self.left -= piece.len() as u64;
        (!piece.is_empty()).then_some(piece)
    }
}

/// How many bytes of the body come before the range; an error when the answer tells another size or another range.
fn skipped_bytes(answer: &HttpAnswer, path: &str, object: &ObjectVersion, range: ByteRange) -> Result<u64> {
    let size = object.size;
    if answer.status == StatusCode::PARTIAL_CONTENT {
        let Some((start, total)) = answer.header("content-range").and_then(content_range) else {
            return Err(confused(path, "the answer does not tell which range it is"));
        };
        if total.is_some_and(|total| total != size) {
            return Err(stale(path, "has another size than in the snapshot"));
        }
        return if start == range.start {
            Ok(0)
        } else {
            Err(confused(path, "the answer is another range than asked for"))
        };
    }
    let length = answer.header("content-length").and_then(|text| text.parse::<u64>().ok());
    match length {
        // The version is the right one, so the length is wrong.
        Some(length) if length != size && is_tagged(answer, &object.version) => {
            Err(confused(path, "the answer tells another length than the object has"))
        }
        Some(length) if length != size => Err(stale(path, "has another size than in the snapshot")),
        _ => Ok(range.start),
    }
}

/// True when the answer says itself that it is of that version.
pub(super) fn is_tagged(answer: &HttpAnswer, version: &Version) -> bool {
    match (answer.headers.get("etag"), version) {
        (Some(answered), Version::Etag(tag)) => same_tag(answered.as_bytes(), tag),
        _ => false,
    }
}

/// What a server answers about a file's version: its tag, else the time of its last change.
pub(super) fn validator(answer: &HttpAnswer) -> Option<Version> {
    let tag = answer.headers.get("etag").map(|tag| bare_tag(tag.as_bytes())).filter(|tag| !tag.is_empty());
    let seconds = answer.header("last-modified").and_then(http_seconds).filter(|seconds| *seconds != 0);
    match (tag, seconds) {
        (Some(tag), _) => Some(Version::Etag(tag)),
        (None, Some(seconds)) => Some(Version::ModifiedNs(seconds.saturating_mul(1_000_000_000))),
        (None, None) => None,
    }
}

/// An error unless the answer itself tells the version, by the same header as the listing: one that lacks it may have
/// overlooked the request's condition as well. `check_version` compares.
pub(super) fn demand_validator(answer: &HttpAnswer, path: &str, version: &Version) -> Result<()> {
    let (name, told) = match version {
        Version::Etag(_) => ("ETag", answer.headers.contains_key("etag")),
        _ => ("Last-Modified", answer.header("last-modified").and_then(http_seconds).is_some()),
    };
    if told && version.mtime_ns() != Some(0) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!("cannot read {}: the server does not tell the {name} of what it sends", shown(path)),
    )
    .with_hint(
        "without it a file that was changed cannot be told from this one: have the server send it with each answer",
    )
    .with_retry(Retry::Permanent))
}

/// An origin that ignores the condition of the request is noticed by what it answers.
fn check_version(answer: &HttpAnswer, path: &str, version: &Version) -> Result<()> {
    let same = match version {
        Version::Etag(tag) => answer.headers.get("etag").is_none_or(|answered| same_tag(answered.as_bytes(), tag)),
        Version::ModifiedNs(ns) => {
            let answered = answer.header("last-modified").and_then(http_seconds);
            answered.is_none_or(|seconds| seconds == ns.div_euclid(1_000_000_000))
        }
        // Web servers know no stamps: whoever made it compares it by other requests.
        Version::Stamped { .. } => true,
    };
    if same { Ok(()) } else { Err(stale(path, "is another version than in the snapshot")) }
}

/// `bytes 0-9/100` as (0, 100).
fn content_range(text: &str) -> Option<(u64, Option<u64>)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, _) = range.split_once('-')?;
    Some((start.trim().parse().ok()?, total.trim().parse().ok()))
}

/// The condition for a read of `version`, where the origin can be asked one.
pub(super) fn condition(version: &Version) -> Option<String> {
    match version {
        Version::Etag(tag) => quoted_if_strong(tag),
        Version::ModifiedNs(_) | Version::Stamped { .. } => None,
    }
}

/// A key whose path a URL cannot carry: `.` and `..` would be resolved on the way and another key would be read.
fn refuse_unreachable_key(path: &str) -> Result<()> {
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        let message = format!("cannot read {}: its key has a segment . or .., which no URL can carry", shown(path));
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    Ok(())
}

/// The key as text, or why it cannot be asked for.
pub(super) fn key_text(key: &[u8]) -> Result<&str> {
    std::str::from_utf8(key).map_err(|_| {
        let message = format!("cannot read {}: its key is not valid UTF-8", String::from_utf8_lossy(key));
        Error::new(ErrorKind::Unsupported, message)
    })
}

/// The object is another one now.
pub(super) fn stale(path: &str, what: &str) -> Error {
    Error::new(ErrorKind::Stale, format!("cannot read {}: it {what}", shown(path)))
        .with_hint("take a new snapshot with `headrace refresh`")
}

/// An answer that contradicts its request.
fn confused(path: &str, what: &str) -> Error {
    Error::new(ErrorKind::Unexpected, format!("cannot read {}: {what}", shown(path))).with_retry(Retry::Temporary)
}

fn short_body(path: &str, left: u64) -> Error {
    confused(path, "the body ended early").with_context("missing_bytes", left)
}

fn broken_body(path: &str, left: u64) -> Error {
    Error::new(
        ErrorKind::Unreachable,
        format!("cannot read {}: the connection ended in the middle of the body", shown(path)),
    )
    .with_context("missing_bytes", left)
    .with_retry(Retry::Temporary)
}

/// A path on one line.
fn shown(path: &str) -> String {
    path.escape_debug().to_string()
}
