//! HDFS through WebHDFS or HttpFS: OpenDAL's service sends the requests, the answers are read here.
//!
//! A read is tied to its version by asking for the file's status after the file was opened and before its first byte
//! is passed on: HDFS never changes written blocks, so a file that still has the snapshot's number, time and length at
//! that moment was opened in the snapshot's version.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use opendal::Builder;
use opendal::raw::{Servicer, percent_encode_path};
use opendal::services::Webhdfs;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::checksum::Checksum;
use crate::config::OriginConfig;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::{ByteRange, Stamp, Version};
use crate::origin::bucket::folder_prefix;
use crate::origin::endpoint::Endpoint;
use crate::origin::listing::Start;
use crate::origin::pace::Pace;
use crate::origin::place::OriginNames;
use crate::origin::redirects::Redirects;
use crate::origin::remote::{Remote, key_text, stale};
use crate::origin::service::Service;
use crate::origin::wire::{HttpAnswer, Wire};
use crate::origin::{
    ByteStream, Capability, Checksums, Exclusion, LeftOut, ListedObject, ObjectKind, ObjectVersion, Origin,
    build_error, deliver, promptly,
};
use crate::secret::Secret;

#[derive(Clone)]
pub(super) struct Hdfs {
    remote: Remote,
    /// Empty, or the directory without a leading and with a trailing slash.
    directory: String,
    pace: Pace,
    /// The cluster tells checksums that depend on how a file was written, and is not asked for more of them.
    unsummed: Arc<AtomicBool>,
}

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Hdfs> {
    let OriginConfig::Webhdfs { endpoint, directory, .. } = config else { return Err(not_webhdfs()) };
    let endpoint = web_address(endpoint)?;
    let directory = folder_prefix(directory);
    let place = OriginNames {
        name: format!("webhdfs://{}/{}", endpoint.host(), directory.trim_end_matches('/')).into(),
        endpoint: endpoint.as_str().to_owned(),
        bucket: None,
        credential_hint: "the user, or the delegation token",
        denied_hint: None,
    };
    let wire = Wire::new(&endpoint, Redirects::AnyHost, pace.concurrency, pace.silence)?;
    let named = place.clone();
    let service = Service::new(config, None, move |config| make(config, &named))?;
    Ok(Hdfs { remote: Remote { service, wire, place }, directory, pace, unsummed: Arc::default() })
}

fn make(config: &OriginConfig, place: &OriginNames) -> Result<Servicer> {
    let OriginConfig::Webhdfs { endpoint, .. } = config else { return Err(not_webhdfs()) };
    let builder = Webhdfs::default().root("/").endpoint(web_address(endpoint)?.as_str()).disable_list_batch();
    // The service puts both into the URL as they are.
    let builder = match Caller::of(config) {
        Caller::Nobody => builder,
        Caller::User(user) => builder.user_name(&user),
        Caller::Token(token) => builder.delegation(token.expose()),
    };
    Ok(Arc::new(builder.build().map_err(|error| build_error(place, &error))?))
}

fn web_address(endpoint: &str) -> Result<Endpoint> {
    Endpoint::parse(&if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") })
}

fn not_webhdfs() -> Error {
    Error::config("not the configuration of a WebHDFS origin")
}

/// Who asks, as it stands in a URL.
enum Caller {
    Nobody,
    User(String),
    Token(Secret),
}

impl Caller {
    fn of(config: &OriginConfig) -> Self {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        match config {
            OriginConfig::Webhdfs { delegation_token: Some(token), .. } => {
                Caller::Token(Secret::new(encoded(token.expose())))
            }
            OriginConfig::Webhdfs { user: Some(user), .. } => Caller::User(encoded(user)),
            _ => Caller::Nobody,
        }
    }

    /// What every query ends with.
    fn query(&self) -> Secret {
        Secret::new(match self {
            Caller::Nobody => String::new(),
            Caller::User(user) => format!("&user.name={user}"),
            Caller::Token(token) => format!("&delegation={}", token.expose()),
        })
    }
}

/// A directory still to be listed.
#[derive(Default)]
struct Directory {
    /// Empty for the root, else with a slash at its end.
    below: String,
    /// What it is; `None` for the root.
    object: Option<ListedObject>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct StatusesAnswer {
    file_statuses: Statuses,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Statuses {
    file_status: Vec<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    path_suffix: String,
    #[serde(rename = "type")]
    kind: Kind,
    length: u64,
    modification_time: i64,
    /// The number of the file, which no other one gets; HttpFS does not tell it.
    #[serde(default)]
    file_id: u64,
    symlink: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ChecksumAnswer {
    file_checksum: FileChecksum,
}

#[derive(Deserialize)]
struct FileChecksum {
    algorithm: String,
    bytes: String,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "UPPERCASE")]
enum Kind {
    File,
    Directory,
    Symlink,
}

impl Status {
    fn mtime_ns(&self) -> i64 {
        self.modification_time.saturating_mul(1_000_000)
    }

    fn stamp(&self) -> Option<Stamp> {
        (self.file_id != 0).then_some(Stamp { ctime_ns: 0, number: self.file_id })
    }

    /// Whether the file can be that version. A number counts where both know it: HttpFS and the namenode may stand behind one
    /// address, and an older list has none.
    fn is_version(&self, version: &Version) -> bool {
        let same_number = match (version, self.stamp()) {
            (Version::Stamped { stamp, .. }, Some(told)) => *stamp == told,
            _ => true,
        };
        same_number && version.mtime_ns() == Some(self.mtime_ns())
    }
}

impl Hdfs {
    /// The statuses of what is in the directory at `path`; of a file, its own status without a name.
    async fn statuses(&self, path: &str) -> Result<Vec<Status>> {
        let answer = self.remote.page(path.trim_end_matches('/'), Start::Beginning, usize::MAX, false).await?;
        Ok(self.parse::<StatusesAnswer>(&answer)?.file_statuses.file_status)
    }

    /// The status of the file at `path`. Asked for by LISTSTATUS: OpenDAL's own `stat` would ask for the root first, and
    /// create it if it were not there.
    async fn file_status(&self, path: &str) -> Result<Status> {
        let statuses = self.statuses(path).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => stale(path, "was deleted since the snapshot"),
            _ => error,
        })?;
        let file =
            statuses.into_iter().next().filter(|status| status.path_suffix.is_empty() && status.kind == Kind::File);
        file.ok_or_else(|| stale(path, "is no file any more"))
    }

    /// What the cluster says of the file's content, as far as it depends on the content alone.
    async fn file_checksum(&self, path: &str) -> Result<Option<Checksum>> {
        let action = format!("ask for the checksum of {}", path.escape_debug());
        let (endpoint, encoded) = (&self.remote.place.endpoint, percent_encode_path(path));
        let caller = Caller::of(&self.remote.service.config()).query();
        let url = format!("{endpoint}/webhdfs/v1/{encoded}?op=GETFILECHECKSUM{}", caller.expose());
        let answer = match self.pace.patiently(|| self.remote.ask(&action, &url)).await {
            Ok(answer) => answer,
            Err(error) if error.is_temporary() => return Err(error),
            // Who may read a file may still not be told this.
            Err(_) => return Ok(None),
        };
        let Ok(ChecksumAnswer { file_checksum }) = serde_json::from_slice(&answer) else { return Ok(None) };
        if file_checksum.algorithm.starts_with("MD5-of-") {
            self.unsummed.store(true, Ordering::Relaxed);
        }
        Ok(Checksum::of_hdfs(&file_checksum.algorithm, &file_checksum.bytes))
    }

    /// True when the file is still that of the snapshot; `Stale` when it is gone.
    async fn is_same(&self, path: &str, object: &ObjectVersion) -> Result<bool> {
        let status = self.file_status(path).await?;
        Ok(status.length == object.size && status.is_version(&object.version))
    }

    fn path(&self, object: &ObjectVersion) -> Result<String> {
        Ok(format!("{}{}", self.directory, key_text(&object.key)?))
    }

    fn parse<'a, T: Deserialize<'a>>(&self, answer: &'a HttpAnswer) -> Result<T> {
        serde_json::from_slice(&answer.body).map_err(|_| {
            let place = &self.remote.place.name;
            Error::new(
                ErrorKind::Corrupt,
                format!("cannot list {place}: the answer is not that of WebHDFS, or was cut off"),
            )
            .with_hint("the endpoint must be the web address of the namenode or of HttpFS: check host and port")
            .with_retry(Retry::Temporary)
        })
    }

    /// The names in one directory, and the directories among them, which tell of themselves once they were listed.
    async fn walk(&self, directory: Directory, excluded: &Exclusion) -> Result<(Vec<ListedObject>, Vec<Directory>)> {
        let Directory { below, object } = directory;
        let path = format!("{}{below}", self.directory);
        let statuses = match self.pace.patiently(|| self.statuses(&path)).await {
            Ok(statuses) => statuses,
            Err(error) if error.kind() == ErrorKind::PermissionDenied && object.is_some() => {
                // Whether it is the directory that lets nobody in, or a token that does not hold any more.
                self.pace.patiently(|| self.statuses(&self.directory)).await?;
                return Ok((
                    vec![ListedObject::left_out(below.trim_end_matches('/').as_bytes(), LeftOut::Unreadable)],
                    Vec::new(),
                ));
            }
            Err(error) => return Err(error),
        };
        let (listed, directories) = self.sorted(&below, statuses, excluded)?;
        Ok((object.into_iter().chain(listed).collect(), directories))
    }

    fn sorted(
        &self,
        below: &str,
        statuses: Vec<Status>,
        excluded: &Exclusion,
    ) -> Result<(Vec<ListedObject>, Vec<Directory>)> {
        let (mut objects, mut directories) = (Vec::with_capacity(statuses.len()), Vec::new());
        for status in statuses {
            if status.path_suffix.is_empty() {
                return Err(self.not_a_directory(below));
            }
            let key = format!("{below}{}", status.path_suffix);
            if status.kind == Kind::Directory {
                if matches!(status.path_suffix.as_str(), "." | "..") || status.path_suffix.contains('/') {
                    return Err(self.not_a_directory(below));
                }
                if excluded.has(key.as_bytes(), true) {
                    objects.push(Exclusion::left_out(key.as_bytes()));
                    continue;
                }
                directories.push(Directory { below: format!("{key}/"), object: Some(listed(key, status)) });
                continue;
            }
            objects.push(listed(key, status));
        }
        Ok((objects, directories))
    }

    fn not_a_directory(&self, below: &str) -> Error {
        Error::new(
            ErrorKind::NotDirectory,
            format!("cannot list {below:?} of {}: it is not a directory", self.remote.place.name),
        )
    }
}

fn listed(key: String, status: Status) -> ListedObject {
    let (mtime_ns, stamp) = (status.mtime_ns(), status.stamp().filter(|_| status.kind == Kind::File));
    let (kind, size) = match status.kind {
        Kind::File => (ObjectKind::File, status.length),
        Kind::Directory => (ObjectKind::Directory, 0),
        Kind::Symlink => (ObjectKind::Symlink(status.symlink.unwrap_or_default().into_bytes().into()), 0),
    };
    ListedObject { key: key.into_bytes().into(), kind, size, mtime_ns, etag: None, stamp, permissions: None }
}

#[async_trait]
impl Origin for Hdfs {
    fn name(&self) -> &str {
        &self.remote.place.name
    }

    fn capability(&self) -> Capability {
        let checksums = if self.unsummed.load(Ordering::Relaxed) { Checksums::Never } else { Checksums::Apart };
        Capability { conditional_read: true, list_from_key: false, etags: false, symlinks: true, checksums }
    }

    async fn check(&self) -> Result<()> {
        let place = &self.remote.place;
        let walked = promptly(place, &self.pace, || self.statuses(&self.directory)).await;
        match walked.and_then(|statuses| self.sorted("", statuses, &Exclusion::default())) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(Error::new(ErrorKind::NotFound, format!("the directory of {} does not exist", place.name))
                    .with_hint("check the path"))
            }
            other => other.map(|_| ()),
        }
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let mut waiting = vec![Directory::default()];
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.pace.concurrency {
                let Some(directory) = waiting.pop() else { break };
                under_way.push(self.walk(directory, excluded));
            }
            let Some(walked) = under_way.next().await else { return Ok(()) };
            let (objects, directories) = walked?;
            waiting.extend(directories);
            deliver(&sink, objects).await?;
        }
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let path = self.path(object)?;
        let opened = self.remote.open(&path, range, None).await;
        // Also after a refusal, for which HDFS has no code of its own: an offset beyond the end of a shorter version.
        let telling =
            opened.as_ref().err().is_none_or(|error| !error.is_temporary() && error.kind() != ErrorKind::Stale);
        if telling && !self.is_same(&path, object).await? {
            return Err(stale(&path, "is another version than in the snapshot"));
        }
        let mut body = opened?;
        body.begins_at(range);
        body.exactly(object, range)
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        let path = self.path(object)?;
        let Some(told) = self.file_checksum(&path).await? else { return Ok(None) };
        // Asked for after the checksum: what is said of another version says nothing of this one.
        Ok(self.pace.patiently(|| self.is_same(&path, object)).await?.then_some(told))
    }
}
