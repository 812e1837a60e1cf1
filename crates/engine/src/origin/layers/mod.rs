//! Layers around every origin, one file each: from the outside in retry, limit, silence, measure.
//!
//! A layer is an origin around an origin. Layers act on reads; listings, checks and questions for a checksum go through
//! unchanged, because they consist of many requests, to each of which their protocol applies the same pace itself.

mod limit;
mod measure;
mod retry;
mod silence;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::pace::Pace;
use super::{ByteStream, Capability, Exclusion, ListedObject, ObjectVersion, Origin, Part, WholeObject};
use crate::checksum::Checksum;
use crate::error::Result;
use crate::ids::ByteRange;

/// The origin inside all layers.
pub(super) fn wrap(origin: Arc<dyn Origin>, pace: &Pace) -> Arc<dyn Origin> {
    let origin = Arc::new(measure::Measured::new(origin, pace.metrics.clone()));
    let origin = Arc::new(silence::Watched::new(origin, pace.silence));
    let origin = Arc::new(limit::Limited::new(origin, pace.clone()));
    Arc::new(retry::Retried::new(origin, pace.clone()))
}

/// What a layer says of its own: how it reads. All else is the inner origin's.
#[async_trait]
trait Layer: Send + Sync + 'static {
    fn inner(&self) -> &dyn Origin;

    /// As `Origin::read`.
    async fn read_through(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream>;

    /// As `Origin::read_whole`.
    async fn read_whole_through(&self, object: &ObjectVersion) -> Result<WholeObject>;
}

#[async_trait]
impl<L: Layer> Origin for L {
    fn name(&self) -> &str {
        self.inner().name()
    }

    fn capability(&self) -> Capability {
        self.inner().capability()
    }

    fn notice(&self) -> Option<String> {
        self.inner().notice()
    }

    async fn check(&self) -> Result<()> {
        self.inner().check().await
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.inner().list(excluded, sink).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        self.read_through(object, range).await
    }

    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        self.read_whole_through(object).await
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        self.inner().checksum(object).await
    }

    async fn part(&self, object: &ObjectVersion, number: u32) -> Result<Option<Part>> {
        self.inner().part(object, number).await
    }
}
