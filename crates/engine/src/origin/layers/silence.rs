//! An origin that says nothing for too long has failed, before the first byte or in the middle of a body.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::{ByteStream, Capability, ListedObject, ObjectVersion, Origin};

pub(super) struct Watched {
    inner: Arc<dyn Origin>,
    silence: Duration,
}

impl Watched {
    pub fn new(inner: Arc<dyn Origin>, silence: Duration) -> Self {
        Watched { inner, silence }
    }
}

#[async_trait]
impl Origin for Watched {
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
        let (name, silence) = (Arc::<str>::from(self.name()), self.silence);
        let body = match timeout(silence, self.inner.read(object, range)).await {
            Ok(body) => body?,
            Err(_) => return Err(silent(&name, silence)),
        };
        Ok(futures::stream::unfold(Some(body), move |body| next(body, name.clone(), silence)).boxed())
    }
}

async fn next(
    body: Option<ByteStream>,
    name: Arc<str>,
    silence: Duration,
) -> Option<(Result<Bytes>, Option<ByteStream>)> {
    let mut body = body?;
    match timeout(silence, body.next()).await {
        Ok(piece) => Some((piece?, Some(body))),
        Err(_) => Some((Err(silent(&name, silence)), None)),
    }
}

fn silent(name: &str, silence: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("no byte from {name} for {:.1} s", silence.as_secs_f64()))
        .with_hint("check the network, or allow a longer silence (transfer timeout)")
        .with_retry(Retry::Temporary)
}
