//! The typed configuration of an engine, as Python hands it over (JSON, unknown keys refused).
//!
//! Python parses what people write (URLs, option names of the seeds, environment variables, files); here only plain,
//! checked values arrive. Units stand in the names.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::BlockSize;
use crate::secret::Secret;

/// One engine: one dataset, its origins, its cache and its limits.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineConfig {
    /// The dataset's name, for people.
    pub name: String,
    /// At least one.
    pub origins: Vec<OriginMount>,
    /// Cache levels, fastest first. May be empty: then every read goes to the origin.
    pub cache: Vec<LevelConfig>,
    /// Where snapshots, the lock and the local socket live; created if missing.
    pub state_directory: PathBuf,
    #[serde(default)]
    pub limits: Limits,
    #[serde(default)]
    pub transfer: TransferConfig,
    #[serde(default)]
    pub eviction: EvictionPolicy,
    #[serde(default)]
    pub snapshot: SnapshotPolicy,
    /// Set in members of a cluster.
    #[serde(default)]
    pub cluster: Option<ClusterConfig>,
    /// Programs may write to its mount.
    #[serde(default)]
    pub writable: bool,
}

/// What a process needs to be a member of a cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClusterConfig {
    /// The view to start with, see `ring::View`.
    pub view: serde_json::Value,
    /// The secret that all members share.
    pub token: Secret,
    /// Where the token is read again when that changes.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// The machine that this process runs on: its workers are asked first.
    pub node: String,
    #[serde(default = "default_read_deadline_s")]
    pub read_deadline_s: f64,
    #[serde(default = "default_true")]
    pub hedge: bool,
    /// Longest silence of a worker that is asked something, before another one is.
    #[serde(default = "default_silence_s")]
    pub silence_s: f64,
    #[serde(default = "default_connect_timeout_s")]
    pub connect_timeout_s: f64,
    #[serde(default)]
    pub tls: Option<TlsConfig>,
    /// Set in workers.
    #[serde(default)]
    pub worker: Option<WorkerConfig>,
}

/// PEM files of TLS between members.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// Who signed the members' certificates.
    pub authority: PathBuf,
    /// This member's own; workers need both.
    #[serde(default)]
    pub certificate: Option<PathBuf>,
    #[serde(default)]
    pub key: Option<PathBuf>,
    /// Who signed the certificates of those who ask a worker; without it they need none.
    #[serde(default)]
    pub client_authority: Option<PathBuf>,
}

/// What only a worker has.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkerConfig {
    /// Its name in the view.
    pub id: String,
    /// `address:port` to listen on; port 0 for any.
    pub listen: String,
}

fn default_read_deadline_s() -> f64 {
    300.0
}

fn default_silence_s() -> f64 {
    2.0
}

fn default_connect_timeout_s() -> f64 {
    1.0
}

fn default_true() -> bool {
    true
}

/// Which snapshot an engine starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SnapshotPolicy {
    /// A new one; the last one if the origin does not answer.
    #[default]
    Refresh,
    /// The last one; a new one only if there is none.
    Keep,
    /// The last one, and a new one as soon as there is one; at once a new one only if there is none.
    Revalidate,
}

impl SnapshotPolicy {
    /// Whether the last snapshot does for the start, if there is one.
    pub fn starts_with_the_last(self) -> bool {
        self != SnapshotPolicy::Refresh
    }
}

/// One origin and where its tree appears.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OriginMount {
    /// Slash-separated place in the dataset's tree; empty for the root.
    pub path: String,
    pub origin: OriginConfig,
    /// A list of the dataset that leaves something out is refused.
    #[serde(default)]
    pub strict: bool,
    #[serde(default)]
    pub exclude: Exclude,
}

/// What of an origin somebody does not want.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// Patterns of `.gitignore` files.
    pub patterns: Vec<String>,
    /// Where the origin lies below the folder that the patterns are of; empty for that folder itself.
    #[serde(default)]
    pub below: String,
}

/// Where data lives, by protocol.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum OriginConfig {
    /// A folder of this machine (or of anything the kernel has mounted).
    Local {
        directory: PathBuf,
        /// Tell files apart by size and modification time alone.
        #[serde(default)]
        ignore_change_times: bool,
    },
    /// S3 and everything that speaks its protocol.
    S3 {
        bucket: String,
        prefix: String,
        /// `https://host[:port]`; `None` for AWS itself.
        endpoint: Option<String>,
        region: Option<String>,
        /// Bucket in the path instead of in the host name.
        path_style: bool,
        /// Do not compare content with what the answers tell of it.
        #[serde(default)]
        ignore_checksums: bool,
        /// All three `None`: the machine's own credential chain. See also `anonymous`.
        access_key_id: Option<Secret>,
        secret_access_key: Option<Secret>,
        session_token: Option<Secret>,
        /// Send unsigned requests.
        anonymous: bool,
        /// Whoever asks pays for it, where the bucket's owner wants it so.
        #[serde(default)]
        requester_pays: bool,
        /// Under which name its keys come anew, see `origin::renewal`.
        #[serde(default)]
        renewal: Option<String>,
    },
    /// Alibaba Cloud OSS by its own protocol and signature.
    Oss {
        bucket: String,
        prefix: String,
        endpoint: String,
        path_style: bool,
        #[serde(default)]
        ignore_checksums: bool,
        access_key_id: Option<Secret>,
        access_key_secret: Option<Secret>,
        security_token: Option<Secret>,
        anonymous: bool,
        #[serde(default)]
        renewal: Option<String>,
    },
    /// HDFS through WebHDFS or HttpFS.
    Webhdfs {
        endpoint: String,
        directory: String,
        user: Option<String>,
        delegation_token: Option<Secret>,
        #[serde(default)]
        renewal: Option<String>,
    },
    /// A folder of an NFS server, by version 3 of the protocol.
    Nfs {
        server: String,
        /// `None`: as the server's port mapper says, else the usual ones.
        port: Option<u16>,
        mount_port: Option<u16>,
        directory: String,
        /// Who asks, as the server sees it; `None`: this process's own.
        uid: Option<u32>,
        gid: Option<u32>,
        /// As of a local folder.
        #[serde(default)]
        ignore_change_times: bool,
    },
    /// The workers of a cluster, who read from the origin of this canonical name.
    Cluster { name: String },
    /// A web server whose folders answer with an index page.
    Http {
        endpoint: String,
        directory: String,
        username: Option<String>,
        password: Option<Secret>,
        token: Option<Secret>,
        #[serde(default)]
        renewal: Option<String>,
    },
}

impl OriginConfig {
    /// The address of its server, where it is one that can be asked in more than one way.
    pub fn endpoint(&self) -> Option<&str> {
        match self {
            OriginConfig::S3 { endpoint, .. } => endpoint.as_deref(),
            OriginConfig::Oss { endpoint, .. }
            | OriginConfig::Webhdfs { endpoint, .. }
            | OriginConfig::Http { endpoint, .. } => Some(endpoint),
            OriginConfig::Local { .. } | OriginConfig::Nfs { .. } | OriginConfig::Cluster { .. } => None,
        }
    }

    /// Under which name its keys come anew, if they do.
    pub fn renewal(&self) -> Option<&str> {
        match self {
            OriginConfig::S3 { renewal, .. }
            | OriginConfig::Oss { renewal, .. }
            | OriginConfig::Webhdfs { renewal, .. }
            | OriginConfig::Http { renewal, .. } => renewal.as_deref(),
            OriginConfig::Local { .. } | OriginConfig::Nfs { .. } | OriginConfig::Cluster { .. } => None,
        }
    }
}

/// One cache level: folders of one medium that share a quota evenly.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelConfig {
    pub medium: Medium,
    /// Each folder with its own quota.
    pub folders: Vec<FolderConfig>,
    /// Eviction starts when this share of the quota is used.
    #[serde(default = "default_high")]
    pub high: f64,
    /// Eviction stops when this share of the quota is used.
    #[serde(default = "default_low")]
    pub low: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderConfig {
    pub path: PathBuf,
    pub quota_bytes: u64,
}

fn default_high() -> f64 {
    0.98
}

fn default_low() -> f64 {
    0.95
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Medium {
    Mem,
    Ssd,
    Hdd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictionPolicy {
    /// Keeps what it has against a scan; see `store/eviction`.
    #[default]
    ScanResistant,
    Lru,
    Lfu,
}

/// The hard limits of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    pub memory_bytes: u64,
    pub descriptors: u64,
    pub inodes: u64,
    /// Memory limit of a list of files that is being made.
    pub listing_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { memory_bytes: 512 << 20, descriptors: 8192, inodes: 64 << 20, listing_bytes: 64 << 30 }
    }
}

/// How data is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TransferConfig {
    /// A power of two, see `BlockSize`. Part of the cache's format: another size means other blocks.
    pub block_size_bytes: u32,
    /// Requests to one origin at the same time.
    pub concurrency: usize,
    /// Most bytes fetched ahead of one sequential reader.
    pub readahead_bytes: u64,
    /// Longest silence of an origin before a request counts as failed.
    pub timeout_s: f64,
    /// Tries after the first for what is temporary.
    pub retries: u32,
    /// Threads that talk to origins.
    pub threads: usize,
}

impl Default for TransferConfig {
    fn default() -> Self {
        TransferConfig {
            block_size_bytes: BlockSize::DEFAULT.bytes(),
            concurrency: 32,
            readahead_bytes: 128 << 20,
            timeout_s: 20.0,
            retries: 5,
            threads: 2,
        }
    }
}
