//! An origin that is a bucket with keys: what S3 and OSS have in common, which is all but how a request is signed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use http::HeaderMap;
use tokio::sync::mpsc;

use crate::checksum::Checksum;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::checksum_mode::ChecksumMode;
use crate::origin::listing::decode::{Told as KeyTold, form_value};
use crate::origin::listing::page::{self, Page, PageEntry};
use crate::origin::listing::ranges::{PageSource, list_all};
use crate::origin::listing::sequence::list_in_sequence;
use crate::origin::listing::{Start, is_disorder};
use crate::origin::pace::Pace;
use crate::origin::remote::{Remote, condition, demand_validator, is_tagged, key_text, stale};
use crate::origin::wire::HttpAnswer;
use crate::origin::{
    ByteStream, Capability, Checksums, Exclusion, LeftOut, ListedObject, ObjectKind, ObjectVersion, Origin, Part,
    WholeObject, promptly,
};

/// Without a key: whoever may see the state of a cluster may not see its names.
const UNORDERED: &str = "keys come in another order than that of their bytes, or not whole (the log says which): \
                         listed with one request at a time, which takes longer";

#[derive(Clone)]
pub(super) struct Bucket {
    remote: Remote,
    /// Empty, or ends with a slash.
    prefix: String,
    pace: Pace,
    /// `None`: nothing that they tell is believed.
    told: Option<Told>,
    /// Its keys do not come in the order of their bytes: it is listed page after page.
    unordered: Arc<AtomicBool>,
}

/// How an origin tells the checksums of whole objects.
#[derive(Clone)]
pub(super) struct Told {
    /// What the headers of an answer say.
    pub by: fn(&HeaderMap) -> Option<Checksum>,
    /// `None`: it says all that it has without being asked.
    pub mode: Option<ChecksumMode>,
}

impl Bucket {
    /// `prefix`: the folder to show, with or without slashes around it.
    pub fn new(remote: Remote, prefix: &str, pace: Pace, told: Option<Told>) -> Self {
        Bucket { remote, prefix: folder_prefix(prefix), pace, told, unordered: Arc::default() }
    }

    async fn page(&self, prefix: &str, start: Start<'_>, limit: usize) -> Result<Page> {
        let answer = self.remote.page(prefix, start, limit, true).await?;
        let mut page = page::parse(&answer.body).map_err(|fault| self.no_page(&fault.to_string()))?;
        if page.is_encoded && self.remote.wire.encodes_tokens() {
            page.continuation = page.continuation.map(|token| self.decoded_token(&token)).transpose()?;
        }
        Ok(page)
    }

    fn decoded_token(&self, token: &str) -> Result<String> {
        let decoded = form_value(token).and_then(|bytes| String::from_utf8(bytes).ok());
        decoded.ok_or_else(|| self.no_page("it does not tell how to go on"))
    }

    fn no_page(&self, fault: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("cannot list {}: {fault}", self.remote.place.name))
            .with_hint("check that the endpoint is that of the storage service")
            .with_retry(Retry::Temporary)
    }

    /// The whole key.
    fn path(&self, object: &ObjectVersion) -> Result<String> {
        let key = key_text(&object.key)?;
        if key.starts_with('/') && self.prefix.is_empty() {
            return Err(stale(key, "has a key that begins with a slash, which no path can have"));
        }
        Ok(format!("{}{key}", self.prefix))
    }

    /// What an answer about one part tells; where it tells nothing of parts, none is asked for any more.
    fn told_part(answer: &HttpAnswer, object: &ObjectVersion, mode: &ChecksumMode) -> Option<Part> {
        let number = |name| answer.header(name).and_then(|text| text.trim().parse().ok());
        // What is said of another version says nothing of this one.
        is_tagged(answer, &object.version).then_some(())?;
        let Some(count) = number("x-amz-mp-parts-count") else {
            mode.give_up();
            return None;
        };
        Some(Part { length: number("content-length")?, count: u32::try_from(count).ok()? })
    }

    fn listed(&self, entry: PageEntry) -> Option<ListedObject> {
        let key = match &entry.told {
            KeyTold::NotUtf8(bytes) => bytes.strip_prefix(self.prefix.as_bytes())?,
            KeyTold::Whole | KeyTold::Garbled => entry.key.strip_prefix(&self.prefix)?.as_bytes(),
        };
        // The marker of the prefix itself is the root, which is there anyway.
        if key.is_empty() {
            return None;
        }
        let kind = match entry.told {
            KeyTold::Garbled => ObjectKind::LeftOut(LeftOut::Garbled),
            _ if key.ends_with(b"/") && entry.size == 0 => ObjectKind::Directory,
            _ => ObjectKind::File,
        };
        let (size, mtime_ns, etag) = (entry.size, entry.mtime_ns, entry.etag);
        Some(ListedObject { key: key.into(), kind, size, mtime_ns, etag, stamp: None, permissions: None })
    }

    async fn list_either_way(&self, sink: &mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let deliver = |entries: Vec<PageEntry>| {
            let batch: Vec<ListedObject> = entries.into_iter().filter_map(|entry| self.listed(entry)).collect();
            super::deliver(sink, batch)
        };
        let pages = Pages { bucket: self.clone() };
        if self.unordered.load(Ordering::Relaxed) {
            return list_in_sequence(&pages, &self.prefix, deliver).await;
        }
        let outcome = list_all(Arc::new(pages), &self.prefix, self.pace.concurrency, deliver).await;
        if let Err(error) = &outcome
            && is_disorder(error)
            && !self.unordered.swap(true, Ordering::Relaxed)
        {
            self.pace.metrics.origin_unordered.inc();
            let cause = error.message();
            tracing::warn!(origin = self.name(), "{cause}; it is listed again, with one request at a time from now on");
        }
        outcome
    }
}

#[async_trait]
impl Origin for Bucket {
    fn name(&self) -> &str {
        &self.remote.place.name
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: true,
            etags: true,
            symlinks: false,
            checksums: if self.told.is_some() { Checksums::WithContent } else { Checksums::Never },
        }
    }

    fn notice(&self) -> Option<String> {
        self.unordered.load(Ordering::Relaxed).then(|| UNORDERED.to_owned())
    }

    async fn check(&self) -> Result<()> {
        let page = promptly(&self.remote.place, &self.pace, || self.page(&self.prefix, Start::Beginning, 1)).await?;
        if page.entries.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("nothing below {}", self.remote.place.name))
                .with_hint("check bucket and prefix: the listing is empty"));
        }
        Ok(())
    }

    async fn list(&self, _excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.list_either_way(&sink).await.map_err(|error| error.with_context("origin", self.name()))
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let path = self.path(object)?;
        let body = self.remote.open(&path, range, condition(&object.version)).await?;
        demand_validator(&body.answer, &path, &object.version)?;
        body.exactly(object, range)
    }

    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let path = self.path(object)?;
        let mode = self.told.as_ref().and_then(|told| told.mode.clone());
        let body = self.remote.open_whole(&path, condition(&object.version), mode).await?;
        demand_validator(&body.answer, &path, &object.version)?;
        let told = self.told.as_ref().and_then(|told| (told.by)(&body.answer.headers));
        Ok((body.exactly(object, ByteRange::new(0, object.size))?, told))
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        let Some(told) = &self.told else { return Ok(None) };
        let path = self.path(object)?;
        let action = format!("look at {}", path.escape_debug());
        let answer = self.pace.patiently(|| self.remote.head(&action, &path, told.mode.clone())).await?;
        // What is said of another version says nothing of this one.
        Ok(if is_tagged(&answer, &object.version) { (told.by)(&answer.headers) } else { None })
    }

    async fn part(&self, object: &ObjectVersion, number: u32) -> Result<Option<Part>> {
        let mode = self.told.as_ref().and_then(|told| told.mode.as_ref()?.of_part(number));
        let Some(mode) = mode else { return Ok(None) };
        let path = self.path(object)?;
        let action = format!("look at part {number} of {}", path.escape_debug());
        let answer = self.pace.patiently(|| self.remote.head(&action, &path, Some(mode.clone()))).await?;
        Ok(Self::told_part(&answer, object, &mode))
    }
}

/// The bucket's pages, each asked for with the patience of the pace.
struct Pages {
    bucket: Bucket,
}

#[async_trait]
impl PageSource for Pages {
    async fn page(&self, prefix: &str, start: Start<'_>, limit: usize) -> Result<Page> {
        self.bucket.pace.patiently(|| self.bucket.page(prefix, start, limit)).await
    }
}

/// What all keys of the folder begin with.
pub(super) fn folder_prefix(prefix: &str) -> String {
    match prefix.trim_start_matches('/').trim_end_matches('/') {
        "" => String::new(),
        folder => format!("{folder}/"),
    }
}
