//! The origin of a mount: bytes from workers, for whoever has neither credentials nor a way to the storage.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use tokio::sync::mpsc;

use super::Cluster;
use super::reading::Reading;
use super::segments::segments;
use super::wanted::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, ByteRange};
use crate::origin::{ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectVersion, Origin};

/// Segments of one read whose first bytes are on the way while an earlier one is consumed.
const SEGMENTS_AT_A_TIME: usize = 2;

/// One origin of a dataset, read through the cluster.
pub struct MemberOrigin {
    name: Arc<str>,
    cluster: Arc<Cluster>,
    block_size: BlockSize,
}

impl MemberOrigin {
    /// `name` is the canonical name of the origin that the workers read from; blocks are identified by it.
    pub fn new(name: &str, cluster: Arc<Cluster>, block_size: BlockSize) -> Self {
        MemberOrigin { name: name.into(), cluster, block_size }
    }

    fn wanted(&self, object: &ObjectVersion) -> Wanted {
        Wanted::of(&self.name, object, self.block_size)
    }
}

#[async_trait]
impl Origin for MemberOrigin {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: false,
            etags: true,
            symlinks: false,
            checksums: Checksums::Never,
        }
    }

    async fn check(&self) -> Result<()> {
        Ok(())
    }

    async fn list(&self, _excluded: &Exclusion, _sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        Err(Error::new(ErrorKind::Unsupported, "a member of a cluster gets its list of files from the master"))
    }

    async fn bring(&self, object: &ObjectVersion, range: ByteRange) -> Result<u64> {
        match segments(range.clamp_to(object.size)).next() {
            Some(segment) => self.cluster.bring(&self.wanted(object), segment).await,
            None => Ok(0),
        }
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let wanted = self.wanted(object);
        let cluster = self.cluster.clone();
        let opened = futures::stream::iter(segments(range.clamp_to(object.size))).map(move |segment| {
            let mut reading = Reading::new(cluster.clone(), wanted.clone(), segment);
            async move { reading.open().await.map(|()| reading.into_stream()) }
        });
        let mut opened = Box::pin(opened.buffered(SEGMENTS_AT_A_TIME));
        // The first is waited for here, so that what fails at once is told at once.
        let Some(first) = opened.next().await else { return Ok(futures::stream::empty().boxed()) };
        let first = first?;
        Ok(futures::stream::once(async { Ok(first) }).chain(opened).try_flatten().boxed())
    }
}
