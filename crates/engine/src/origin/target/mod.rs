//! Targets of writes: one trait, an implementation for buckets and one for folders.
//!
//! A target knows nothing of sources, ledgers or what a copy is. A file appears under its name whole, or not at all; what
//! a write leaves behind when its process is killed can be gone on with, or taken away, by whoever has its token.

mod bucket;
mod folder;
mod upload;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use crate::config::{OriginConfig, TransferConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ByteRange, Version};
use crate::metrics::Metrics;
use crate::origin::checksum_mode::Keys;
use crate::origin::pace::Pace;
use crate::origin::{ByteStream, oss, s3};

/// What stands under a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetEntry {
    pub size: u64,
    /// What reads are tied to.
    pub version: Version,
    /// Changes whenever the content does: of a bucket the entity tag, of a folder the numbers that the kernel keeps.
    pub mark: Mark,
}

/// A digest of what tells two contents of one name apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark(pub [u8; 16]);

impl Mark {
    /// The first half of BLAKE3 over the bytes.
    pub fn of(bytes: &[u8]) -> Self {
        let mut mark = [0; 16];
        mark.copy_from_slice(&blake3::hash(bytes).as_bytes()[..16]);
        Mark(mark)
    }
}

/// Everything that a target holds, by the digest of its name: 40 bytes a name, so that millions fit.
pub type Survey = HashMap<Mark, (u64, Mark)>;

/// What another process needs to go on with a write, or to take away what it left.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begun {
    /// The upload's id in a bucket, a part of the temporary name in a folder.
    pub token: String,
    /// What the target calls each part that it keeps, in order from the first.
    pub parts: Vec<String>,
}

/// Hears of a write what must outlive its process, before anything further is sent.
pub trait Notes: Send + Sync {
    fn begun(&self, token: &str);
    fn kept(&self, part: u32, tag: &str);
}

/// A place that data is written to.
#[async_trait]
pub trait Target: Send + Sync + 'static {
    /// The canonical name without secrets, as an origin at the same place has it.
    fn name(&self) -> &str;

    /// Makes the place ready, or fails within seconds with a message for a person.
    async fn prepare(&self) -> Result<()>;

    /// Everything that is there now; `None` where asking for each name costs no more.
    async fn survey(&self) -> Result<Option<Survey>>;

    /// Fails with a message for a person when no file can ever have this name here.
    fn refuse_name(&self, key: &[u8]) -> Result<()>;

    /// What stands under a name. `IsDirectory` when it is a folder.
    async fn look(&self, key: &[u8]) -> Result<Option<TargetEntry>>;

    /// Bytes of what `look` found, or `Stale` once it is something else.
    async fn read(&self, key: &[u8], held: &TargetEntry, range: ByteRange) -> Result<ByteStream>;

    /// Makes a folder and those above it; where folders are no things, nothing.
    async fn make_folder(&self, key: &[u8]) -> Result<()>;

    /// Makes a symbolic link of this text, in the place of one of another text.
    async fn make_link(&self, key: &[u8], text: &[u8]) -> Result<()>;

    /// Begins to write a file of `size` bytes in parts of `part_bytes` (the last one may be shorter), or goes on with one
    /// that was begun.
    async fn write(
        &self,
        key: &[u8],
        layout: Layout,
        begun: Option<Begun>,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>>;

    /// The same for a new file that the storage itself shall put in place only while `expected` stands there, where it can
    /// be asked for that: `Stale` otherwise. For a target that `open_writable` made.
    async fn write_over(
        &self,
        key: &[u8],
        layout: Layout,
        expected: Expected,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>>;

    /// Takes away what a write left that nobody goes on with. Nothing there is no fault.
    async fn abandon(&self, key: &[u8], token: &str) -> Result<()>;

    /// Removes the file under a name. Nothing there is no fault.
    async fn remove(&self, key: &[u8]) -> Result<()>;

    /// Removes a folder that holds nothing; where folders are no things, what marks one.
    async fn remove_folder(&self, key: &[u8]) -> Result<()>;

    /// Fails with a message for a person when files cannot be written here. Leaves nothing behind.
    async fn try_writing(&self) -> Result<()>;
}

/// What is to stand under a name when a file is put there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Nothing,
    This(Version),
}

/// How a file is cut into parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub size: u64,
    pub part_bytes: u64,
}

/// A file being written; nobody sees it before it is finished.
#[async_trait]
pub trait Writing: Send {
    /// How many parts are there from an earlier process; `part` takes those after them.
    fn before(&self) -> usize;

    /// Writes the next part. Temporary faults were tried again.
    async fn part(&mut self, bytes: Bytes) -> Result<()>;

    /// Puts the file under its name; what stands there then.
    async fn finish(&mut self) -> Result<TargetEntry>;

    /// Has the file belong to `owner` (user and group), where that may be, with these permission bits. Where files have
    /// neither, nothing.
    async fn belongs_to(&mut self, _owner: (u32, u32), _mode: u32) -> Result<()> {
        Ok(())
    }
}

/// The target that `config` describes. Sends nothing yet. Use it within a tokio runtime.
pub fn open_target(config: &OriginConfig, settings: &TransferConfig, metrics: &Metrics) -> Result<Arc<dyn Target>> {
    let pace = Pace::new(settings, metrics, config);
    match config {
        OriginConfig::Local { directory, .. } => folder::Folder::open(config, directory, settings, metrics),
        OriginConfig::S3 { .. } => bucket::BucketTarget::open(s3::connect(config, &pace, &Keys::default())?, pace),
        OriginConfig::Oss { .. } => bucket::BucketTarget::open(oss::connect(config, &pace)?, pace),
        _ => Err(Error::new(ErrorKind::Unsupported, "nothing can be written to an origin of this kind")
            .with_hint("targets are S3, OSS and folders of this machine")),
    }
}

/// The target of programs' own files that `config` describes. The storage compares what arrives with its checksum.
pub fn open_writable(config: &OriginConfig, settings: &TransferConfig, metrics: &Metrics) -> Result<Arc<dyn Target>> {
    let pace = Pace::new(settings, metrics, config);
    match config {
        OriginConfig::Local { directory, .. } => folder::Folder::open(config, directory, settings, metrics),
        OriginConfig::S3 { .. } => bucket::BucketTarget::open(s3::connect_to_write(config, &pace)?, pace),
        _ => Err(Error::new(ErrorKind::Unsupported, "a mount cannot write to an origin of this kind")
            .with_hint("origins of writable mounts are S3 and folders of this machine; mount without --writable")),
    }
}
