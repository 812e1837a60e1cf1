//! At most so many requests of one origin in flight: a permit is held until the body ends or is dropped.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;

use crate::error::Result;
use crate::ids::ByteRange;
use crate::origin::layers::Layer;
use crate::origin::pace::Pace;
use crate::origin::{ByteStream, ObjectVersion, Origin, WholeObject};

pub(super) struct Limited {
    inner: Arc<dyn Origin>,
    pace: Pace,
}

impl Limited {
    pub fn new(inner: Arc<dyn Origin>, pace: Pace) -> Self {
        Limited { inner, pace }
    }
}

#[async_trait]
impl Layer for Limited {
    fn inner(&self) -> &dyn Origin {
        &*self.inner
    }

    async fn read_through(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let permit = self.pace.permit().await;
        let body = self.inner.read(object, range).await?;
        Ok(held(body, permit))
    }

    async fn read_whole_through(&self, object: &ObjectVersion) -> Result<WholeObject> {
        let permit = self.pace.permit().await;
        let (body, told) = self.inner.read_whole(object).await?;
        Ok((held(body, permit), told))
    }
}

fn held(body: ByteStream, permit: impl Send + 'static) -> ByteStream {
    let held = futures::stream::unfold((body, permit), |(mut body, permit)| async move {
        let piece = body.next().await?;
        Some((piece, (body, permit)))
    });
    held.boxed()
}
