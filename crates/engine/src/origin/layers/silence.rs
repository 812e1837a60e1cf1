//! An origin that says nothing for too long has failed, before the first byte or in the middle of a body.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::timeout;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::layers::Layer;
use crate::origin::{ByteStream, ObjectVersion, Origin, WholeObject};

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
impl Layer for Watched {
    fn inner(&self) -> &dyn Origin {
        &*self.inner
    }

    async fn read_through(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        match timeout(self.silence, self.inner.read(object, range)).await {
            Ok(body) => Ok(self.watched(body?)),
            Err(_) => Err(silent(self.name(), self.silence)),
        }
    }

    async fn read_whole_through(&self, object: &ObjectVersion) -> Result<WholeObject> {
        match timeout(self.silence, self.inner.read_whole(object)).await {
            Ok(whole) => whole.map(|(body, told)| (self.watched(body), told)),
            Err(_) => Err(silent(self.name(), self.silence)),
        }
    }
}

impl Watched {
    fn watched(&self, body: ByteStream) -> ByteStream {
        let (name, silence) = (Arc::<str>::from(self.name()), self.silence);
        futures::stream::unfold(Some(body), move |body| next(body, name.clone(), silence)).boxed()
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
