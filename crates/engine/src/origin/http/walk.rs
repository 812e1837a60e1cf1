//! Lists a web server's tree: index pages and HEAD requests, many at the same time.

use std::collections::HashSet;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use url::Url;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::Version;
use crate::origin::http::Web;
use crate::origin::http::index::{Name, Sense, names};
use crate::origin::http::to_do::{Link, Question, ToDo, last, object, parent};
use crate::origin::remote::validator;
use crate::origin::version::http_seconds;
use crate::origin::wire::HttpAnswer;
use crate::origin::{Exclusion, LeftOut, ListedObject, ObjectKind, deliver};

/// Objects are handed on in batches of this size, so that a large flat folder streams.
const BATCH: usize = 256;
/// What HTTP tells times by, and a little more.
const SECOND: Duration = Duration::from_millis(1050);
/// Deeper trees are taken for a server whose folders link to themselves under ever longer names.
const MAX_DEPTH: usize = 64;

/// What came of one step of the walk.
enum Step {
    /// What the page of a folder names.
    Folder {
        below: String,
        names: Vec<Name>,
    },
    /// A name that was taken for that of a file.
    IsFolder {
        below: String,
        name: Name,
    },
    LeftOut {
        key: String,
        reason: LeftOut,
    },
    File(Option<ListedObject>),
    /// What no page of their own folder names.
    Unnamed(Vec<Link>),
}

impl Web {
    /// The names on the index page of the folder `below` (empty or with a trailing slash).
    pub(super) async fn index(&self, below: &str) -> Result<Vec<Name>> {
        let action = format!("list {below:?} of {}", self.remote.place.name);
        let path = format!("{}{below}", self.folder);
        let answer = self.remote.document(&action, &path).await?;
        let page = answer.header("content-type").is_none_or(|kind| kind.contains("html"));
        let address = self.address(&path);
        match address {
            Some(address) if page => Ok(names(&answer.body, &address)),
            _ => Err(Error::new(
                ErrorKind::NotDirectory,
                format!("cannot {action}: it answers with a file, not with an index page"),
            )
            .with_hint("the address must be that of a folder whose index page the server shows")),
        }
    }

    /// The URL of a folder, as links on its page are relative to it.
    fn address(&self, path: &str) -> Option<Url> {
        Url::parse(&format!("{}/{}", self.endpoint.as_str(), opendal::raw::percent_encode_path(path))).ok()
    }

    pub(super) async fn walk(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let mut to_do = ToDo::new(excluded);
        let mut under_way = FuturesUnordered::new();
        let mut census = Census::default();
        loop {
            while under_way.len() < self.pace.concurrency {
                let Some(question) = to_do.next(under_way.is_empty()) else { break };
                under_way.push(self.step(question));
            }
            let Some(step) = under_way.next().await else { break };
            match step? {
                Step::File(object) => {
                    census.count(object.as_ref());
                    to_do.batch.extend(object);
                }
                Step::LeftOut { key, reason } => {
                    census.count_left_out(reason);
                    to_do.batch.push(ListedObject::left_out(key.as_bytes(), reason));
                }
                Step::Unnamed(links) => to_do.files.extend(links),
                Step::IsFolder { below, name } => self.sort(&below, vec![name], &mut to_do)?,
                Step::Folder { below, names } => {
                    if !below.is_empty() {
                        to_do.batch.push(object(below.trim_end_matches('/').into(), ObjectKind::Directory));
                    }
                    self.sort(&below, names, &mut to_do)?
                }
            }
            if to_do.batch.len() >= BATCH {
                deliver(&sink, std::mem::take(&mut to_do.batch)).await?;
            }
        }
        census.check(&self.remote.place.name)?;
        if census.unreadable {
            // Whether it is the folder's fault, or that of credentials that do not hold any more.
            self.pace.patiently(|| self.index("")).await?;
        }
        deliver(&sink, to_do.batch).await
    }

    /// Puts the names of one page where they belong.
    fn sort(&self, below: &str, names: Vec<Name>, to_do: &mut ToDo<'_>) -> Result<()> {
        if below.matches('/').count() >= MAX_DEPTH {
            return Err(Error::new(
                ErrorKind::Corrupt,
                format!("{} has folders within folders without end", self.remote.place.name),
            ));
        }
        names.into_iter().for_each(|name| to_do.add(below, name));
        Ok(())
    }

    async fn step(&self, question: Question) -> Result<Step> {
        match question {
            Question::File(link) => self.file(link).await,
            Question::Folder(link) => self.folder(link).await,
            Question::Deep { folder, links } => self.unnamed(&folder, links).await,
        }
    }

    /// Those of `links`, which lead into `folder` from elsewhere, that its own page does not name.
    async fn unnamed(&self, folder: &str, mut links: Vec<Link>) -> Result<Step> {
        let named = match self.pace.patiently(|| self.index(folder)).await {
            Ok(names) => names.into_iter().filter(|name| !name.folder).map(|name| name.bytes).collect(),
            Err(error) if left_out_by(&error).is_some() || error.kind() == ErrorKind::NotFound => HashSet::new(),
            Err(error) => return Err(error),
        };
        links.retain(|link| !named.contains(last(&link.key).as_bytes()));
        Ok(Step::Unnamed(links))
    }

    async fn folder(&self, link: Link) -> Result<Step> {
        match self.pace.patiently(|| self.index(&link.key)).await {
            Ok(names) => Ok(Step::Folder { below: link.key, names }),
            Err(error) if link.key.is_empty() => Err(error),
            Err(error) => failed(link, error),
        }
    }

    async fn file(&self, link: Link) -> Result<Step> {
        let key = link.key.clone();
        let path = format!("{}{key}", self.folder);
        let action = format!("ask for the size of {key:?} of {}", self.remote.place.name);
        match self.settled(&action, &path).await {
            // Some index pages link to folders without the slash, and the server redirects.
            Ok(answer) if answer.is_folder => Ok(Step::IsFolder {
                below: parent(&key).to_owned(),
                name: Name { bytes: last(&key).into(), folder: true, sense: link.sense },
            }),
            Ok(answer) => self.listed(key, &answer).map(|object| Step::File(Some(object))),
            Err(error) => failed(link, error),
        }
    }

    /// What the server says of a file, later than the second in which it was last changed where only that second tells its
    /// version: a change within the same second could not be told from this one.
    async fn settled(&self, action: &str, path: &str) -> Result<HttpAnswer> {
        let ask = || self.pace.patiently(|| self.remote.head(action, path, None));
        let answer = ask().await?;
        let seconds = |name| answer.header(name).and_then(http_seconds);
        let is_young = answer.headers.get("etag").is_none()
            && seconds("date").is_some_and(|now| seconds("last-modified") == Some(now));
        if !is_young {
            return Ok(answer);
        }
        tokio::time::sleep(SECOND).await;
        ask().await
    }

    fn listed(&self, key: String, answer: &HttpAnswer) -> Result<ListedObject> {
        let Some(size) = answer.header("content-length").and_then(|text| text.parse().ok()) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("{} does not tell the size of {key:?}", self.remote.place.name),
            )
            .with_hint("the server must answer HEAD requests with a Content-Length")
            .with_retry(Retry::Permanent));
        };
        let mtime_ns = answer.header("last-modified").and_then(http_seconds).unwrap_or(0).saturating_mul(1_000_000_000);
        let (kind, etag) = match validator(answer) {
            Some(Version::Etag(tag)) => (ObjectKind::File, Some(tag)),
            Some(_) => (ObjectKind::File, None),
            None => (ObjectKind::LeftOut(LeftOut::Unversioned), None),
        };
        Ok(ListedObject { size, mtime_ns, etag, ..object(key.into_bytes(), kind) })
    }
}

/// What to make of a link that cannot be followed.
fn failed(link: Link, error: Error) -> Result<Step> {
    let reason = match left_out_by(&error) {
        Some(reason) => reason,
        None if error.kind() == ErrorKind::NotFound && link.sense == Sense::Unclear => LeftOut::UnclearLink,
        // A dead link, as after a deletion: it is not there, so it is not listed.
        None if error.kind() == ErrorKind::NotFound => return Ok(Step::File(None)),
        None => return Err(error),
    };
    Ok(Step::LeftOut { key: link.key.trim_end_matches('/').to_owned(), reason })
}

/// Why what answers so is left out, if it is there.
fn left_out_by(error: &Error) -> Option<LeftOut> {
    // `NotDirectory`: a folder that is told apart by its slash, and shows no page.
    let closed = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::NotDirectory);
    closed.then_some(LeftOut::Unreadable)
}

/// Whether the server tells versions at all, and lets us in everywhere.
#[derive(Default)]
struct Census {
    unreadable: bool,
    versioned: u64,
    unversioned: Option<Box<[u8]>>,
}

impl Census {
    fn count(&mut self, object: Option<&ListedObject>) {
        match object {
            Some(ListedObject { kind: ObjectKind::LeftOut(LeftOut::Unversioned), key, .. }) => {
                self.unversioned.get_or_insert_with(|| key.clone());
            }
            Some(_) => self.versioned += 1,
            None => {}
        }
    }

    fn count_left_out(&mut self, reason: LeftOut) {
        self.unreadable |= reason == LeftOut::Unreadable;
    }

    fn check(&self, place: &str) -> Result<()> {
        let Some(example) = self.unversioned.as_ref().filter(|_| self.versioned == 0) else { return Ok(()) };
        let example = String::from_utf8_lossy(example);
        Err(Error::new(
            ErrorKind::Unsupported,
            format!("{place} tells neither ETag nor Last-Modified of its files, such as {example:?}"),
        )
        .with_hint(
            "without both a changed file cannot be told from the one before: have the server send one of them, as servers do \
             for files on a disk, or serve the data from a folder or a bucket",
        )
        .with_retry(Retry::Permanent))
    }
}
