//! Reads one version of one file: each reply tells the file's attributes after the read, and they must be the snapshot's.

use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::unfold;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::{ByteRange, Stamp, Version};
use crate::origin::nfs::Nfs;
use crate::origin::nfs::export::Export;
use crate::origin::nfs::failure::{Failure, status};
use crate::origin::nfs::procedures::{self as nfs, Attributes, Found, Handle, Kind};
use crate::origin::remote::stale;
use crate::origin::{ByteStream, ObjectVersion};

/// A file that was the snapshot's version when it was found.
pub(super) struct Opened {
    origin: Nfs,
    export: Arc<Export>,
    handle: Handle,
    key: String,
    attributes: Attributes,
}

impl Opened {
    /// Finds the object's file, if it still is the object's version.
    pub async fn open(origin: &Nfs, object: &ObjectVersion) -> Result<Self> {
        let key = String::from_utf8_lossy(&object.key).into_owned();
        let (export, found) = find(origin, object, &key).await?;
        let attributes = match found.attributes {
            Some(attributes) => attributes,
            None => export.attributes(&found.handle).await.map_err(|failure| read_error(origin, &key, &failure))?,
        };
        let same = attributes.kind == Kind::File
            && attributes.size == object.size
            && object.version.mtime_ns() == Some(attributes.mtime_ns)
            && stamp_of(&object.version).is_none_or(|stamp| stamp == attributes.stamp);
        if !same {
            return Err(stale(&key, "is another version than in the snapshot"));
        }
        Ok(Opened { origin: origin.clone(), export, handle: found.handle, key, attributes })
    }

    /// The bytes of `range`, piece by piece as the server likes them.
    pub fn stream(self, range: ByteRange) -> ByteStream {
        let rest = range.clamp_to(self.attributes.size);
        unfold(Some((self, rest)), |state| async {
            let (opened, rest) = state.filter(|(_, rest)| !rest.is_empty())?;
            match opened.piece(rest).await {
                Ok(data) => {
                    let rest = ByteRange { start: rest.start + data.len() as u64, end: rest.end };
                    Some((Ok(data), Some((opened, rest))))
                }
                Err(error) => Some((Err(error), None)),
            }
        })
        .boxed()
    }

    /// The next bytes of `rest`; servers may give fewer than they were asked for.
    async fn piece(&self, rest: ByteRange) -> Result<Bytes> {
        let count = rest.length().min(self.export.read_bytes.into()) as u32;
        let failed = |failure: Failure| read_error(&self.origin, &self.key, &failure);
        let reply = self.export.client.call(nfs::read_call(&self.handle, rest.start, count)).await.map_err(failed)?;
        let piece = nfs::piece(reply, count).map_err(failed)?;
        let now = match piece.attributes {
            Some(attributes) => attributes,
            None => self.export.attributes(&self.handle).await.map_err(failed)?,
        };
        if now != self.attributes {
            return Err(stale(&self.key, "changes while it is read"));
        }
        if piece.data.is_empty() {
            return Err(Error::new(ErrorKind::Unexpected, format!("cannot read {:?}: the answer is empty", self.key))
                .with_retry(Retry::Temporary));
        }
        Ok(piece.data)
    }
}

/// The file of an object. A server that knows our handles no more is mounted anew, once.
async fn find(origin: &Nfs, object: &ObjectVersion, key: &str) -> Result<(Arc<Export>, Found)> {
    let Some(names) = names(&object.key) else {
        return Err(Error::new(ErrorKind::Unsupported, format!("cannot read {key:?}: it is no path below a folder")));
    };
    let action = format!("read {}", key.escape_debug());
    let export = origin.export(&action).await?;
    match export.find(&object.key, &names).await {
        Err(failure) if failure.unsettles() => {
            origin.forget(&export).await;
            let export = origin.export(&action).await?;
            let found = export.find(&object.key, &names).await;
            found.map(|found| (export, found)).map_err(|failure| read_error(origin, key, &failure))
        }
        outcome => outcome.map(|found| (export, found)).map_err(|failure| read_error(origin, key, &failure)),
    }
}

/// Of what the version does not say nothing is asked.
fn stamp_of(version: &Version) -> Option<Stamp> {
    if let Version::Stamped { stamp, .. } = version { Some(*stamp) } else { None }
}

fn read_error(origin: &Nfs, key: &str, failure: &Failure) -> Error {
    match failure {
        failure if failure.is_gone() => stale(key, "was deleted since the snapshot"),
        Failure::Status(status::ISDIR | status::INVAL) => stale(key, "is no regular file any more"),
        failure => origin.explain(failure, &format!("read {}", key.escape_debug())),
    }
}

/// The names of a path, or `None` for what cannot be asked for: a name that is empty, `.` or `..`, or holds a NUL.
pub(super) fn names(path: &[u8]) -> Option<Vec<&[u8]>> {
    let names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let odd = |name: &&[u8]| matches!(*name, b"" | b"." | b"..") || name.contains(&0);
    if names.iter().any(odd) { None } else { Some(names) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_leads_out_has_no_names() {
        assert_eq!(names(b"a/b c").as_deref(), Some(&[&b"a"[..], b"b c"][..]));
        for bad in [&b""[..], b"/a", b"a/", b"a//b", b"../a", b"a/..", b"./a", b"a\0b"] {
            assert_eq!(names(bad), None, "{bad:?}");
        }
    }
}
