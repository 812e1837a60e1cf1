//! The work for one request of a peer, from its message to the end of its answer.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::{PeerMetrics, ReasonLabel};
use crate::wire::chunk::Chunk;
use crate::wire::message::{GetRequest, PeerCommand};
use crate::wire::outbox::{Item, Lane, Outbox};
use crate::wire::service::PeerService;
use crate::wire::sink::{ChunkSink, Progress};
use crate::wire::token::Rights;

/// The work for one request.
pub struct AnswerTask {
    pub lane: Arc<Lane>,
    pub outbox: Arc<Outbox>,
    pub service: Arc<dyn PeerService>,
    pub metrics: PeerMetrics,
    pub version: u16,
    pub rights: Rights,
    pub sends_files: bool,
}

impl AnswerTask {
    /// Answers a `Get`.
    pub async fn get(&self, message: &[u8]) {
        let request = match GetRequest::decode(message, self.version) {
            Ok(request) => request,
            Err(error) => return self.fail(error),
        };
        let progress = Progress::of(request.range.length());
        let sink = ChunkSink::new(self.outbox.clone(), self.lane.clone(), progress.clone(), self.sends_files);
        let Some(outcome) = self.unless_gone(self.service.get(request, sink)).await else { return };
        let missing = progress.lock().await.missing_end(outcome);
        if let Some(error) = missing {
            self.fail(error);
        }
    }

    /// Answers a `Command`.
    pub async fn command(&self, message: &[u8]) {
        let work = async {
            let command = PeerCommand::decode(message)?;
            self.check_rights(&command)?;
            let value = self.service.command(command).await?;
            let text = serde_json::to_vec(&value)
                .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot write a report").with_source(error))?;
            let progress = Progress::of(text.len() as u64);
            let sink = ChunkSink::new(self.outbox.clone(), self.lane.clone(), progress, self.sends_files);
            sink.send(Chunk::Memory(text.into())).await
        };
        if let Some(Err(error)) = self.unless_gone(work).await {
            self.fail(error);
        }
    }

    fn check_rights(&self, command: &PeerCommand) -> Result<()> {
        if self.rights >= command.needed_rights() {
            return Ok(());
        }
        let message = format!("a reader's token is not enough for {}", command.what());
        Err(Error::new(ErrorKind::PermissionDenied, message)
            .with_hint("order it from the master (`headrace load`), with the whole token of the cluster"))
    }

    /// The outcome of `work`, which is dropped when the client no longer wants it. A panic is an error of this answer.
    async fn unless_gone(&self, work: impl Future<Output = Result<()>>) -> Option<Result<()>> {
        tokio::select! {
            outcome = AssertUnwindSafe(work).catch_unwind() => Some(outcome.unwrap_or_else(|_| Err(panicked()))),
            () = self.lane.gone.cancelled() => None,
        }
    }

    /// Ends the answer with an error.
    pub fn fail(&self, error: Error) {
        self.metrics.served_errors.get_or_create(&ReasonLabel { reason: error.kind().name() }).inc();
        self.outbox.push(&self.lane, Item::Failure(error));
    }
}

fn panicked() -> Error {
    Error::new(ErrorKind::Unexpected, "a peer failed while it made an answer; its log says more")
        .with_retry(Retry::Temporary)
}
