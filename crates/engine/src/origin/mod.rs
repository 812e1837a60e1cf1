//! Origins of data: one trait, one implementation per protocol, and layers (retry, limit, metrics) around any of them.
//!
//! An origin knows nothing of snapshots, blocks or caches. It lists objects and streams bytes of one version of one object.

mod asker;
mod bucket;
mod checksum_mode;
mod endpoint;
mod exclusion;
mod fault;
mod http;
mod key_encoding;
mod layers;
mod listing;
mod local;
mod machine_addresses;
mod nfs;
mod open;
mod oss;
mod pace;
mod place;
mod proxies;
mod redirects;
mod remote;
pub mod renewal;
mod s3;
mod service;
mod spelling;
mod target;
mod unsaid_scheme;
mod version;
mod webhdfs;
mod wire;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use tokio::sync::mpsc;

use crate::checksum::Checksum;
use crate::error::{Error, Result};
use crate::ids::{ByteRange, Stamp, Version};

pub use asker::Asker;
pub use exclusion::{Exclusion, Sieve};
pub use open::open;
use open::{both_keys, build_error, deadline, deliver, promptly};
pub use target::{
    Begun, Expected, Layout, Mark, Notes, Survey, Target, TargetEntry, Writing, open_target, open_writable,
};

/// What an origin can do; callers and contract tests choose by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capability {
    /// Reads carry the version: a changed object is noticed by the origin itself.
    pub conditional_read: bool,
    /// Listing can start in the middle of the key space and so run in parallel inside one folder.
    pub list_from_key: bool,
    /// Listings tell entity tags.
    pub etags: bool,
    /// Symbolic links exist.
    pub symlinks: bool,
    pub checksums: Checksums,
}

/// How an origin tells the checksums that it keeps of whole objects, if it keeps any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksums {
    Never,
    /// With an answer that holds the whole object, and by itself.
    WithContent,
    /// By itself alone: each costs a request of its own.
    Apart,
}

/// What a listed name is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectKind {
    File,
    /// A real directory or a folder marker.
    Directory,
    /// The link's text, as stored.
    Symlink(Box<[u8]>),
    /// Something that is there and cannot be shown.
    LeftOut(LeftOut),
}

/// Why an origin cannot show something that it has. The snapshot counts it, as it counts keys that no file can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeftOut {
    /// Nothing tells one version of the file from another.
    Unversioned,
    /// An object of whose key not all is told: nobody can ask for it.
    Garbled,
    /// A pipe, a socket or a device: it holds no data to cache.
    Special,
    /// A folder that may not be listed, or a name that may not be looked at.
    Unreadable,
    /// A link of an index page that may be the name of a file, but leads to none.
    UnclearLink,
    /// Somebody said that it is not wanted, nor what is below.
    Excluded,
}

/// Whether a listing ended only since it came in another order than expected: what it sent is to be forgotten, and the same
/// origin's next listing takes another way. Each origin asks for that once.
pub fn is_to_be_listed_anew(error: &Error) -> bool {
    listing::is_disorder(error)
}

impl ListedObject {
    /// What the origin has at `key` and cannot show.
    pub fn left_out(key: &[u8], reason: LeftOut) -> Self {
        let kind = ObjectKind::LeftOut(reason);
        ListedObject { key: key.into(), kind, size: 0, mtime_ns: 0, etag: None, stamp: None, permissions: None }
    }
}

/// One name of an origin, as the origin tells it. Nothing is cleaned here: the snapshot judges keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Key below the origin's prefix: bytes, no leading slash added or removed.
    pub key: Box<[u8]>,
    pub kind: ObjectKind,
    pub size: u64,
    pub mtime_ns: i64,
    /// Entity tag without quotes, where the origin has one.
    pub etag: Option<Box<[u8]>>,
    /// What tells a file's version beside its time, where the origin has no entity tags and knows more.
    pub stamp: Option<Stamp>,
    /// Who may read it, where the origin knows users.
    pub permissions: Option<Permissions>,
}

impl ListedObject {
    /// The time of a marker of a folder for which the origin tells none.
    pub const UNTOLD_TIME: i64 = i64::MIN;
}

/// Whose an entry is, and what who may do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Permissions {
    /// The nine bits for owner, group and all others.
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
}

impl Permissions {
    /// Those of `st_mode`, `st_uid` and `st_gid`. What lets a program take over another's rights (set-user-ID, set-group-ID) stays
    /// behind: who may write to the origin shall not decide that here.
    pub fn of(mode: u32, uid: u32, gid: u32) -> Self {
        Permissions { mode: (mode & 0o777) as u16, uid, gid }
    }
}

/// One version of one object, as the snapshot froze it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    /// The origin's key, as `ListedObject::key` had it.
    pub key: Box<[u8]>,
    pub size: u64,
    pub version: Version,
}

/// Content of an object in order, in pieces as they arrive.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// A part that an object was uploaded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its bytes.
    pub length: u64,
    /// How many parts the object has.
    pub count: u32,
}

/// A whole object, and the checksum that the same answer tells of it.
pub type WholeObject = (ByteStream, Option<Checksum>);

/// A place that data comes from. Implementations are cheap to share and hold no per-file state.
#[async_trait]
pub trait Origin: Send + Sync + 'static {
    /// The canonical name without secrets, which block identities are derived from: `s3://bucket/prefix@endpoint`.
    fn name(&self) -> &str;

    fn capability(&self) -> Capability;

    /// What makes this origin slower to list than others of its kind, in words for whoever looks after it. Known once it
    /// was listed.
    fn notice(&self) -> Option<String> {
        None
    }

    /// Fails within seconds, with a message for a person, when the origin cannot be used: wrong key, no such bucket,
    /// no answer. Succeeds otherwise.
    async fn check(&self) -> Result<()>;

    /// Sends every object below the prefix, in batches, in any order, each once; where it ends with an error that
    /// `is_to_be_listed_anew`, it is to be called once more. An origin that knows users tells its top
    /// folder as well, by an empty key. Ends with an error when the listing
    /// is known or suspected to be incomplete (a page that repeats, a truncation without a continuation).
    ///
    /// What is `excluded` need not be looked at: one that walks from folder to folder tells such a folder as
    /// `LeftOut::Excluded`, and does not walk into it. Others may list it all the same: whoever asked sifts what comes.
    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()>;

    /// Streams exactly the bytes of `range` of that version of the object, or ends with an error: `Stale` when the
    /// object is another version now, a temporary error when the body was short. Never yields a byte beyond the range.
    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream>;

    /// Has the bytes of `range`, which begins and ends with blocks, put where the `Blocks` of this machine show them, and
    /// sends none of them; how many from its start on are there, as soon as those of the first block are. 0 where nobody
    /// does that, or it went badly; an error when this object cannot be had, which says nothing of others.
    async fn bring(&self, _object: &ObjectVersion, _range: ByteRange) -> Result<u64> {
        Ok(0)
    }

    /// As `read` of all of the object, with the checksum that the answer tells of it, if it does. Nothing is compared here.
    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        Ok((self.read(object, ByteRange::new(0, object.size)).await?, None))
    }

    /// Up to which byte the beginning of `range` is to be had by `read_shared`; `None` when `read` is the way. No I/O.
    fn shared_until(&self, _object: &ObjectVersion, _range: ByteRange) -> Option<u64> {
        None
    }

    /// The bytes of `range`, which another process fetches for both. They come when it has memory for them, so whoever
    /// asks holds none meanwhile; one that holds the memory of the first block already says `has_begun`, and is not kept
    /// waiting by lack of memory. May end early, with no bytes at all: the rest is to be had by `read`.
    fn read_shared(&self, _object: &ObjectVersion, _range: ByteRange, _has_begun: bool) -> ByteStream {
        Box::pin(futures::stream::empty())
    }

    /// The checksum that the origin keeps of that version of the object, asked for by itself; `None` where there is none.
    async fn checksum(&self, _object: &ObjectVersion) -> Result<Option<Checksum>> {
        Ok(None)
    }
    /// How long part `number`, counted from 1, of that version of the object is; `None` where the origin does not tell it.
    async fn part(&self, _object: &ObjectVersion, _number: u32) -> Result<Option<Part>> {
        Ok(None)
    }
}
