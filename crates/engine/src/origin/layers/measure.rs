//! Counts read requests, their bytes and the time to the first byte.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::checksum::Checksum;
use crate::error::Result;
use crate::ids::ByteRange;
use crate::metrics::Metrics;
use crate::origin::{ByteStream, Capability, ListedObject, ObjectVersion, Origin, WholeObject};

pub(super) struct Measured {
    inner: Arc<dyn Origin>,
    metrics: Metrics,
}

impl Measured {
    pub fn new(inner: Arc<dyn Origin>, metrics: Metrics) -> Self {
        Measured { inner, metrics }
    }
}

#[async_trait]
impl Origin for Measured {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn capability(&self) -> Capability {
        self.inner.capability()
    }

    async fn check(&self) -> Result<()> {
        self.inner.check().await
    }

    async fn list(&self, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.inner.list(sink).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let started = Instant::now();
        self.metrics.origin_requests.inc();
        let body = self.inner.read(object, range).await?;
        Ok(self.counted(body, started))
    }

    async fn read_whole(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let started = Instant::now();
        self.metrics.origin_requests.inc();
        let (body, told) = self.inner.read_whole(object).await?;
        Ok((self.counted(body, started), told))
    }

    async fn checksum(&self, object: &ObjectVersion) -> Result<Option<Checksum>> {
        self.inner.checksum(object).await
    }
}

impl Measured {
    fn counted(&self, body: ByteStream, started: Instant) -> ByteStream {
        let (bytes, first_byte) = (self.metrics.origin_bytes.clone(), self.metrics.origin_first_byte_seconds.clone());
        let mut waiting = true;
        let counted = body.inspect(move |piece| {
            let Ok(piece) = piece else { return };
            bytes.inc_by(piece.len() as u64);
            if std::mem::take(&mut waiting) {
                first_byte.observe(started.elapsed().as_secs_f64());
            }
        });
        counted.boxed()
    }
}
