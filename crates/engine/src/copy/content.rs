//! Bytes of either side: a part in one piece, and whether two sides hold the same.

use bytes::{Bytes, BytesMut};
use futures::StreamExt;

use super::counts::shown;
use super::layout::{parts, range};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::{ByteStream, Layout, Mark, ObjectVersion, Origin, Target, TargetEntry};

/// One file of a source.
#[derive(Clone)]
pub struct SourceFile {
    pub origin: std::sync::Arc<dyn Origin>,
    pub object: ObjectVersion,
}

impl SourceFile {
    /// The bytes of `range`, whole.
    pub async fn bytes(&self, range: ByteRange) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let stream = self.origin.read(&self.object, range).await?;
        whole(stream, range).await
    }

    /// Digests of the parts' contents.
    pub async fn contents(&self, layout: Layout) -> Result<Vec<Mark>> {
        let mut contents = Vec::new();
        for part in 0..parts(layout) {
            let range = range(layout, part);
            contents.push(digest(self.origin.read(&self.object, range).await?, range).await?);
        }
        Ok(contents)
    }
}

/// Whether what the target holds is, part by part, of these contents. Reads all of it, or up to the first difference;
/// `Stale` once something else stands there.
pub async fn holds(
    target: &dyn Target,
    key: &[u8],
    held: &TargetEntry,
    layout: Layout,
    contents: &[Mark],
) -> Result<bool> {
    if held.size != layout.size || contents.len() != parts(layout) {
        return Ok(false);
    }
    for (part, content) in contents.iter().enumerate() {
        let found = part_held(target, key, held, range(layout, part)).await;
        if found.map_err(|error| unlike_found(key, error))? != *content {
            return Ok(false);
        }
    }
    Ok(true)
}

async fn part_held(target: &dyn Target, key: &[u8], held: &TargetEntry, range: ByteRange) -> Result<Mark> {
    digest(target.read(key, held, range).await?, range).await
}

/// The same failure in the words of a copy, where it is told as one of a snapshot.
fn unlike_found(key: &[u8], error: Error) -> Error {
    if error.kind() != ErrorKind::Stale {
        return error;
    }
    let message = format!("cannot read {} back from the target: another file stands there by now", shown(key));
    Error::new(ErrorKind::Stale, message).with_hint("check whether somebody else writes there, and copy again")
}

async fn whole(mut stream: ByteStream, range: ByteRange) -> Result<Bytes> {
    let mut bytes = BytesMut::with_capacity(range.length() as usize);
    while let Some(piece) = stream.next().await {
        bytes.extend_from_slice(&piece?);
    }
    if bytes.len() as u64 == range.length() { Ok(bytes.freeze()) } else { Err(short()) }
}

async fn digest(mut stream: ByteStream, range: ByteRange) -> Result<Mark> {
    let (mut hasher, mut length) = (blake3::Hasher::new(), 0);
    while let Some(piece) = stream.next().await {
        let piece = piece?;
        length += piece.len() as u64;
        hasher.update(&piece);
    }
    if length != range.length() {
        return Err(short());
    }
    let mut mark = [0; 16];
    mark.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    Ok(Mark(mark))
}

fn short() -> Error {
    Error::new(ErrorKind::Unexpected, "a read ended before the end of its range")
}
