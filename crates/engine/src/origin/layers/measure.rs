//! Counts read requests, their bytes and the time to the first byte.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;

use crate::error::Result;
use crate::ids::ByteRange;
use crate::metrics::Metrics;
use crate::origin::layers::Layer;
use crate::origin::{Asker, ByteStream, ObjectVersion, Origin, WholeObject};

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
impl Layer for Measured {
    fn inner(&self) -> &dyn Origin {
        &*self.inner
    }

    async fn read_through(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let started = Instant::now();
        self.metrics.origin_requests.inc();
        let body = self.inner.read(object, range).await?;
        Ok(self.counted(body, started))
    }

    async fn read_whole_through(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let started = Instant::now();
        self.metrics.origin_requests.inc();
        let (body, told) = self.inner.read_whole(object).await?;
        Ok((self.counted(body, started), told))
    }
}

impl Measured {
    fn counted(&self, body: ByteStream, started: Instant) -> ByteStream {
        let (bytes, first_byte) = (self.metrics.origin_bytes.clone(), self.metrics.origin_first_byte_seconds.clone());
        let loaded = (Asker::current() == Asker::Load).then(|| self.metrics.origin_loaded_bytes.clone());
        let mut waiting = true;
        let counted = body.inspect(move |piece| {
            let Ok(piece) = piece else { return };
            bytes.inc_by(piece.len() as u64);
            if let Some(loaded) = &loaded {
                loaded.inc_by(piece.len() as u64);
            }
            if std::mem::take(&mut waiting) {
                first_byte.observe(started.elapsed().as_secs_f64());
            }
        });
        counted.boxed()
    }
}
