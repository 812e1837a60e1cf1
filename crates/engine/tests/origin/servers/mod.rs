//! Small servers for the tests of origins, inside the test process: they speak S3, OSS, WebHDFS, plain HTTP and NFS,
//! check signatures, and lie when a test tells them to.
#![allow(dead_code, clippy::unwrap_used)]

pub mod fixture;
pub mod ganesha;
pub mod hdfs;
pub mod nfs;
pub mod oss;
pub mod s3;
pub mod web;
pub mod wire;
pub mod writing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use wire::{Reply, Request};

pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
pub const SECRET_KEY: &str = "s3cr3t-hunter2/+=";
pub const BUCKET: &str = "bucket";

/// One stored object.
#[derive(Clone, Debug)]
pub struct Stored {
    pub body: Vec<u8>,
    pub etag: String,
    pub mtime_s: i64,
}

impl Stored {
    /// What a file system would call it by: another one for each version.
    pub fn number(&self) -> u64 {
        self.etag.strip_prefix("tag-").map_or(0, |version| version.parse::<u64>().unwrap() + 100)
    }
}

type Tamper = Box<dyn Fn(&Request, Reply) -> Reply + Send>;
type Gate = Box<dyn Fn(&Request) -> Option<Reply> + Send>;

/// What a server holds, counts and lies about.
pub struct World {
    pub objects: Mutex<BTreeMap<String, Stored>>,
    tamper: Mutex<Option<Tamper>>,
    gate: Mutex<Option<Gate>>,
    pub requests: AtomicU64,
    pub in_flight: AtomicU64,
    pub most_in_flight: AtomicU64,
    versions: AtomicU64,
    /// Uploads in parts that were begun and neither finished nor aborted.
    pub uploads: Mutex<BTreeMap<String, writing::Upload>>,
    /// Bytes of files that were sent here.
    pub received: AtomicU64,
}

impl World {
    pub fn new() -> Arc<Self> {
        Arc::new(World {
            objects: Mutex::default(),
            tamper: Mutex::default(),
            gate: Mutex::default(),
            requests: AtomicU64::new(0),
            in_flight: AtomicU64::new(0),
            most_in_flight: AtomicU64::new(0),
            versions: AtomicU64::new(0),
            uploads: Mutex::default(),
            received: AtomicU64::new(0),
        })
    }

    pub fn put(&self, key: &str, body: &[u8]) {
        let version = self.versions.fetch_add(1, Ordering::SeqCst);
        let stored =
            Stored { body: body.to_vec(), etag: format!("tag-{version}"), mtime_s: 1_700_000_000 + version as i64 };
        self.objects.lock().insert(key.to_owned(), stored);
    }

    /// Another object in the place of this one, of the same time.
    pub fn replace(&self, key: &str, body: &[u8]) {
        let mtime_s = self.get(key).unwrap().mtime_s;
        self.put(key, body);
        self.objects.lock().get_mut(key).unwrap().mtime_s = mtime_s;
    }

    pub fn remove(&self, key: &str) {
        self.objects.lock().remove(key);
    }

    pub fn get(&self, key: &str) -> Option<Stored> {
        self.objects.lock().get(key).cloned()
    }

    /// From now on every honest reply passes through `tamper`.
    pub fn tamper(&self, tamper: impl Fn(&Request, Reply) -> Reply + Send + 'static) {
        *self.tamper.lock() = Some(Box::new(tamper));
    }

    /// From now on a request for which `gate` has a reply gets that, and nothing else becomes of it.
    pub fn guard(&self, gate: impl Fn(&Request) -> Option<Reply> + Send + 'static) {
        *self.gate.lock() = Some(Box::new(gate));
    }

    pub fn turned_away(&self, request: &Request) -> Option<Reply> {
        self.gate.lock().as_ref().and_then(|gate| gate(request))
    }

    pub fn be_honest(&self) {
        *self.tamper.lock() = None;
    }

    pub fn tampered(&self, request: &Request, reply: Reply) -> Reply {
        match &*self.tamper.lock() {
            Some(tamper) => tamper(request, reply),
            None => reply,
        }
    }
}

/// The reply to a GET or HEAD of one object, with ranges and conditions.
pub fn object_reply(request: &Request, stored: &Stored, with_etag: bool) -> Reply {
    let etag = format!("\"{}\"", stored.etag);
    if request.header("if-match").is_some_and(|wanted| wanted != etag) {
        return Reply::status(412);
    }
    let size = stored.body.len();
    let mut reply = match request.header("range").and_then(|range| parse_range(range, size)) {
        Some((start, _)) if start >= size => return Reply::status(416),
        Some((start, end)) => Reply::status(206)
            .with("content-range", &format!("bytes {start}-{}/{size}", end - 1))
            .body(&stored.body[start..end]),
        None => Reply::status(200).body(&stored.body),
    };
    if with_etag {
        reply = reply.with("etag", &etag);
    }
    reply.with("last-modified", &http_date(stored.mtime_s)).with("content-type", "application/octet-stream")
}

fn parse_range(range: &str, size: usize) -> Option<(usize, usize)> {
    let (start, end) = range.strip_prefix("bytes=")?.split_once('-')?;
    let start: usize = start.parse().ok()?;
    let end = end.parse::<usize>().map_or(size, |end| (end + 1).min(size));
    Some((start, end))
}

pub fn time(seconds: i64) -> opendal::raw::Timestamp {
    opendal::raw::Timestamp::from_second(seconds).unwrap()
}

pub fn http_date(seconds: i64) -> String {
    time(seconds).format_http_date()
}

/// A `ListBucketResult` for the query, as S3 and OSS both answer it: keys are encoded where that is asked for.
pub fn list_page(world: &World, request: &Request) -> Reply {
    let prefix = queried(request, "prefix").unwrap_or_default();
    let objects = world.objects.lock();
    let start = match after(request) {
        Some(after) if after >= prefix => std::ops::Bound::Excluded(after),
        _ => std::ops::Bound::Included(prefix.clone()),
    };
    let matching = objects.range((start, std::ops::Bound::Unbounded)).take_while(|(key, _)| key.starts_with(&prefix));
    page_of(request, matching)
}

/// The same of a server that orders keys by what `order` makes of them.
pub fn list_page_in<K: Ord>(world: &World, request: &Request, order: impl Fn(&str) -> K) -> Reply {
    let prefix = queried(request, "prefix").unwrap_or_default();
    let after = after(request).map(|after| order(&after));
    let objects = world.objects.lock();
    let is_asked = |key: &str| key.starts_with(&prefix) && after.as_ref().is_none_or(|after| order(key) > *after);
    let mut matching: Vec<_> = objects.iter().filter(|(key, _)| is_asked(key)).collect();
    matching.sort_by_key(|(key, _)| order(key));
    page_of(request, matching.into_iter())
}

fn queried(request: &Request, name: &str) -> Option<String> {
    request.query().into_iter().find(|(key, _)| key == name).map(|(_, value)| value)
}

fn after(request: &Request) -> Option<String> {
    queried(request, "continuation-token").or(queried(request, "start-after"))
}

fn page_of<'a>(request: &Request, mut matching: impl Iterator<Item = (&'a String, &'a Stored)>) -> Reply {
    let limit: usize = queried(request, "max-keys").map_or(1000, |text| text.parse().unwrap());
    let is_encoded = queried(request, "encoding-type").as_deref() == Some("url");
    let spelled = |key: &str, is_encoded| if is_encoded { form_value(key) } else { escape(key) };
    let page: Vec<_> = matching.by_ref().take(limit).collect();
    let truncated = matching.next().is_some();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult>");
    xml += &format!("<IsTruncated>{truncated}</IsTruncated><KeyCount>{}</KeyCount>", page.len());
    if let (true, Some((last, _))) = (truncated, page.last()) {
        // S3's token is no key, and is not encoded; OSS's is.
        let is_oss = request.header("authorization").is_some_and(|text| text.starts_with("OSS "));
        let token = spelled(last, is_encoded && is_oss);
        xml += &format!("<NextContinuationToken>{token}</NextContinuationToken>");
    }
    page.iter().for_each(|(key, stored)| xml += &entry(&spelled(key, is_encoded), stored));
    if is_encoded {
        xml += "<EncodingType>url</EncodingType>";
    }
    xml += "</ListBucketResult>";
    Reply::status(200).with("content-type", "application/xml").body(xml.as_bytes())
}

/// An entry whose key is spelled for XML already.
pub fn entry(key: &str, stored: &Stored) -> String {
    format!(
        "<Contents><Key>{key}</Key><LastModified>{}</LastModified><ETag>&quot;{}&quot;</ETag><Size>{}</Size></Contents>",
        time(stored.mtime_s),
        stored.etag,
        stored.body.len()
    )
}

fn form_value(text: &str) -> String {
    let kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./*".contains(&byte);
    text.bytes()
        .map(|byte| match byte {
            b' ' => "+".to_owned(),
            kept_byte if kept(kept_byte) => char::from(kept_byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

pub fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            character if character.is_control() => escaped += &format!("&#{};", character as u32),
            character => escaped.push(character),
        }
    }
    escaped
}

pub fn xml_error(status: u16, code: &str) -> Reply {
    let body = format!("<Error><Code>{code}</Code><Message>You sent {SECRET_KEY}</Message></Error>");
    Reply::status(status).with("content-type", "application/xml").body(body.as_bytes())
}
