//! One origin of each protocol over contents that a test changes as it likes.

use std::path::PathBuf;
use std::sync::Arc;

use futures::StreamExt;
use headrace_engine::config::{Exclude, OriginConfig, TransferConfig};
use headrace_engine::error::Result;
use headrace_engine::ids::{ByteRange, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{Exclusion, ListedObject, ObjectKind, ObjectVersion, Origin, is_to_be_listed_anew, open};
use headrace_engine::secret::Secret;

use super::wire::{Handler, Server, serve};
use super::{ACCESS_KEY, BUCKET, SECRET_KEY, World, ganesha, hdfs, nfs, oss, s3, web};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Local,
    S3,
    Oss,
    Webhdfs,
    Http,
    Nfs,
    /// The same over a real server, which not every machine has.
    Ganesha,
}

pub struct Fixture {
    pub protocol: Protocol,
    pub origin: Arc<dyn Origin>,
    pub metrics: Metrics,
    pub world: Arc<World>,
    pub folder: Option<tempfile::TempDir>,
    pub server: Option<Server>,
    pub nfs: Option<nfs::NfsServer>,
}

pub fn settings() -> TransferConfig {
    TransferConfig { timeout_s: 2.0, retries: 3, concurrency: 8, ..TransferConfig::default() }
}

pub async fn fixture(protocol: Protocol) -> Fixture {
    fixture_with(protocol, "data", settings()).await
}

pub async fn fixture_with(protocol: Protocol, prefix: &str, settings: TransferConfig) -> Fixture {
    let handler: Handler = match protocol {
        Protocol::Local => return local(settings),
        Protocol::Nfs => return over_nfs(prefix, settings).await,
        Protocol::Ganesha => return over_ganesha(settings),
        Protocol::S3 => s3::handle,
        Protocol::Oss => oss::handle,
        Protocol::Webhdfs => hdfs::handle,
        Protocol::Http => web::handle,
    };
    served(protocol, handler, prefix, settings).await
}

pub async fn served(protocol: Protocol, handler: Handler, prefix: &str, settings: TransferConfig) -> Fixture {
    let world = World::new();
    let server = serve(world.clone(), handler).await;
    let config = config(protocol, &server.address, prefix);
    let metrics = Metrics::new();
    let origin = open(&config, &settings, &metrics).unwrap();
    Fixture { protocol, origin, metrics, world, folder: None, server: Some(server), nfs: None }
}

fn local(settings: TransferConfig) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let config = OriginConfig::Local { directory: folder.path().to_owned(), ignore_change_times: false };
    let metrics = Metrics::new();
    let origin = open(&config, &settings, &metrics).unwrap();
    let world = World::new();
    Fixture { protocol: Protocol::Local, origin, metrics, world, folder: Some(folder), server: None, nfs: None }
}

async fn over_nfs(prefix: &str, settings: TransferConfig) -> Fixture {
    let world = World::new();
    let server = nfs::serve(world.clone()).await;
    let config = config(Protocol::Nfs, &server.address.to_string(), prefix);
    let metrics = Metrics::new();
    let origin = open(&config, &settings, &metrics).unwrap();
    Fixture { protocol: Protocol::Nfs, origin, metrics, world, folder: None, server: None, nfs: Some(server) }
}

fn over_ganesha(settings: TransferConfig) -> Fixture {
    let server = ganesha::ganesha().unwrap();
    let folder = tempfile::tempdir_in(&server.export).unwrap();
    let config = OriginConfig::Nfs {
        server: server.address.clone(),
        port: None,
        mount_port: None,
        directory: folder.path().to_str().unwrap().to_owned(),
        uid: None,
        gid: None,
        ignore_change_times: false,
    };
    let (metrics, world) = (Metrics::new(), World::new());
    let origin = open(&config, &settings, &metrics).unwrap();
    Fixture { protocol: Protocol::Ganesha, origin, metrics, world, folder: Some(folder), server: None, nfs: None }
}

pub fn config(protocol: Protocol, address: &str, prefix: &str) -> OriginConfig {
    let (key, secret) = (Some(Secret::new(ACCESS_KEY)), Some(Secret::new(SECRET_KEY)));
    let (bucket, prefix, endpoint) = (BUCKET.to_owned(), prefix.to_owned(), address.to_owned());
    match protocol {
        Protocol::Local | Protocol::Ganesha => {
            OriginConfig::Local { directory: PathBuf::from(prefix), ignore_change_times: false }
        }
        Protocol::S3 => OriginConfig::S3 {
            bucket,
            prefix,
            endpoint: Some(endpoint),
            region: None,
            path_style: true,
            ignore_checksums: false,
            access_key_id: key,
            secret_access_key: secret,
            session_token: None,
            anonymous: false,
            requester_pays: false,
            renewal: None,
        },
        Protocol::Oss => OriginConfig::Oss {
            bucket,
            prefix,
            endpoint,
            path_style: true,
            ignore_checksums: false,
            access_key_id: key,
            access_key_secret: secret,
            security_token: None,
            anonymous: false,
            renewal: None,
        },
        Protocol::Webhdfs => OriginConfig::Webhdfs {
            endpoint,
            directory: format!("/{prefix}"),
            user: None,
            delegation_token: Some(Secret::new(SECRET_KEY)),
            renewal: None,
        },
        Protocol::Http => OriginConfig::Http {
            endpoint,
            directory: format!("/{prefix}"),
            username: None,
            password: None,
            token: Some(Secret::new("hunter2")),
            renewal: None,
        },
        Protocol::Nfs => {
            let (host, port) = address.rsplit_once(':').unwrap();
            let port = Some(port.parse().unwrap());
            let directory = format!("{}/{prefix}", nfs::EXPORT);
            OriginConfig::Nfs {
                server: host.to_owned(),
                port,
                mount_port: port,
                directory,
                uid: None,
                gid: None,
                ignore_change_times: false,
            }
        }
    }
}

/// The exclusion of what `patterns` match.
pub fn excluding(patterns: &[&str]) -> Exclusion {
    let patterns = patterns.iter().map(|&pattern| pattern.to_owned()).collect();
    Exclusion::new(&Exclude { patterns, below: String::new() }).unwrap()
}

impl Fixture {
    /// Stores an object below the origin's prefix; each time as a new version.
    pub fn put(&self, key: &str, body: &[u8]) {
        let Some(folder) = &self.folder else { return self.world.put(&format!("data/{key}"), body) };
        let path = folder.path().join(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, body).unwrap();
        // File systems tick in milliseconds; two versions within one tick would look the same.
        std::thread::sleep(std::time::Duration::from_millis(if cfg!(target_os = "linux") { 12 } else { 1100 }));
    }

    /// Puts another object in the place of this one, of the same time, as `rsync -t`, `cp -p` and `mv` do.
    pub fn replace(&self, key: &str, body: &[u8]) {
        let Some(folder) = &self.folder else { return self.world.replace(&format!("data/{key}"), body) };
        let (path, new) = (folder.path().join(key), folder.path().join("new"));
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&new, body).unwrap();
        std::fs::File::options().write(true).open(&new).unwrap().set_modified(time).unwrap();
        std::fs::rename(new, path).unwrap();
    }

    pub fn remove(&self, key: &str) {
        match &self.folder {
            Some(folder) => std::fs::remove_file(folder.path().join(key)).unwrap(),
            None => self.world.remove(&format!("data/{key}")),
        }
    }

    /// Everything that the origin lists, but its top folder.
    pub async fn list(&self) -> Result<Vec<ListedObject>> {
        let mut objects = self.list_with_top().await?;
        objects.retain(|object| !object.key.is_empty());
        Ok(objects)
    }

    /// Everything that the origin lists. File systems tell their top folder, too. As a snapshot is taken: once more where
    /// the origin asks for that, which it does once.
    pub async fn list_with_top(&self) -> Result<Vec<ListedObject>> {
        match self.list_once().await {
            Err(error) if is_to_be_listed_anew(&error) => self.list_once().await,
            outcome => outcome,
        }
    }

    pub async fn list_once(&self) -> Result<Vec<ListedObject>> {
        self.list_but(&[]).await
    }

    /// What the origin lists when these patterns are not wanted.
    pub async fn list_but(&self, patterns: &[&str]) -> Result<Vec<ListedObject>> {
        let excluded = excluding(patterns);
        let (sink, mut batches) = tokio::sync::mpsc::channel(4);
        let origin = self.origin.clone();
        let listing = tokio::spawn(async move { origin.list(&excluded, sink).await });
        let mut objects = Vec::new();
        while let Some(batch) = batches.recv().await {
            objects.extend(batch);
        }
        listing.await.unwrap().map(|()| objects)
    }

    /// The listed keys of files, sorted.
    pub async fn files(&self) -> Vec<String> {
        let files = self.list().await.unwrap().into_iter().filter(|object| object.kind == ObjectKind::File);
        let mut keys: Vec<String> = files.map(|object| String::from_utf8(object.key.into_vec()).unwrap()).collect();
        keys.sort();
        keys
    }

    /// The version of `key` as the listing tells it.
    pub async fn version(&self, key: &str) -> ObjectVersion {
        let listed = self.list().await.unwrap();
        let found = listed.into_iter().find(|object| &*object.key == key.as_bytes());
        version_of(&found.unwrap_or_else(|| panic!("{key:?} is not listed")))
    }

    pub async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<Vec<u8>> {
        let mut body = self.origin.read(object, range).await?;
        let mut bytes = Vec::new();
        while let Some(piece) = body.next().await {
            bytes.extend_from_slice(&piece?);
        }
        Ok(bytes)
    }

    pub async fn read_all(&self, object: &ObjectVersion) -> Result<Vec<u8>> {
        self.read(object, ByteRange::new(0, object.size)).await
    }
}

pub fn version_of(object: &ListedObject) -> ObjectVersion {
    let version = Version::told(object.etag.as_deref(), object.mtime_ns, object.stamp);
    ObjectVersion { key: object.key.clone(), size: object.size, version }
}

/// Bytes that differ at every place and repeat nowhere near.
pub fn pattern(length: usize) -> Vec<u8> {
    (0..length as u64).map(|index| (index.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}
