//! Reads one version of one local file: size, times and number must be the snapshot's before and after every piece.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::unfold;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::local::beneath::{open_file, open_root};
use crate::origin::local::stamp::{is_version, nanoseconds};
use crate::origin::remote::stale;
use crate::origin::{ByteStream, ObjectVersion};

/// Large enough to make the two extra system calls of a piece cheap, small enough to pass the first one on early.
const PIECE_BYTES: u64 = 1 << 20;

/// A file that was the snapshot's version when it was opened.
pub(super) struct Opened {
    file: File,
    path: PathBuf,
    key: String,
    identity: Identity,
}

/// What changes whenever content does. The change time catches a write within one tick of the modification time's
/// clock, and a time that was set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Identity {
    size: u64,
    mtime_ns: i64,
    ctime_ns: i64,
}

impl Identity {
    fn of(metadata: &Metadata) -> Self {
        Identity {
            size: metadata.size(),
            mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
            ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Opened {
    /// Opens the object's file, if it still is the object's version.
    pub fn open(directory: &Path, object: &ObjectVersion) -> Result<Self> {
        let key = String::from_utf8_lossy(&object.key).into_owned();
        let root = open_root(directory).map_err(|error| Error::from_io("open the folder", directory, error))?;
        let path = directory.join(&key);
        let file = open_file(&root, &object.key).map_err(|error| open_error(&path, &key, error))?;
        let metadata = file.metadata().map_err(|error| Error::from_io("read", &path, error))?;
        let identity = Identity::of(&metadata);
        let same = metadata.is_file() && identity.size == object.size && is_version(&metadata, &object.version);
        if !same {
            return Err(stale(&key, "is another version than in the snapshot"));
        }
        Ok(Opened { file, path, key, identity })
    }

    /// The bytes of `range`, piece by piece, each read where blocking is allowed.
    pub fn stream(self, range: ByteRange) -> ByteStream {
        let rest = range.clamp_to(self.identity.size);
        unfold(Some((self, rest)), |state| async {
            let (opened, rest) = state.filter(|(_, rest)| !rest.is_empty())?;
            let piece = ByteRange::new(rest.start, rest.length().min(PIECE_BYTES));
            let read = tokio::task::spawn_blocking(move || (opened.read(piece), opened)).await;
            match read {
                Ok((Ok(bytes), opened)) => {
                    Some((Ok(bytes), Some((opened, ByteRange { start: piece.end, end: rest.end }))))
                }
                Ok((Err(error), _)) => Some((Err(error), None)),
                Err(_) => Some((Err(Error::new(ErrorKind::Unexpected, "a read was broken off")), None)),
            }
        })
        .boxed()
    }

    fn read(&self, piece: ByteRange) -> Result<Bytes> {
        let bytes = self.read_bytes(piece).map_err(|error| self.read_error(error))?;
        let now = self.file.metadata().map_err(|error| self.read_error(error))?;
        if Identity::of(&now) != self.identity || bytes.len() as u64 != piece.length() {
            return Err(stale(&self.key, "changes while it is read"));
        }
        Ok(bytes.into())
    }

    fn read_bytes(&self, piece: ByteRange) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(piece.length() as usize);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(piece.start))?;
        file.take(piece.length()).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_error(&self, error: io::Error) -> Error {
        if error.raw_os_error() == Some(libc::ESTALE) {
            return stale(&self.key, "was deleted on the file server");
        }
        // A failing disk or file server may recover; the retry layer bounds the hope.
        Error::from_io("read", &self.path, error).with_retry(Retry::Temporary)
    }
}

fn open_error(path: &Path, key: &str, error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ESTALE) => stale(key, "was deleted since the snapshot"),
        Some(libc::ELOOP | libc::EXDEV) => stale(key, "is, or stands behind, a symbolic link now"),
        Some(libc::ENXIO) => stale(key, "is no regular file any more"),
        Some(libc::EMFILE | libc::ENFILE | libc::EIO | libc::EINTR | libc::EAGAIN) => {
            Error::from_io("open", path, error).with_retry(Retry::Temporary)
        }
        _ => Error::from_io("open", path, error),
    }
}
