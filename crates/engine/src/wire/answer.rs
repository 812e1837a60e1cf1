//! One answer as its consumer sees it: a stream that gives the peer credit as it is consumed, and cancels when dropped.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures::Stream;

use crate::error::{Error, Result};
use crate::wire::link::{Asked, Link};
use crate::wire::pending::Event;
use crate::wire::read::ended;

pub struct WireAnswer {
    link: Arc<Link>,
    asked: Asked,
    peer: Arc<str>,
    /// Looked at already, not consumed.
    first: Option<Bytes>,
    /// What the peer may send in all, as far as it was told.
    granted: u64,
    expected: u64,
    received: u64,
    /// Consumed since the last credit.
    consumed: u32,
    over: bool,
}

impl WireAnswer {
    /// `expected` is the answer's length, or more if it is not known.
    pub fn new(link: Arc<Link>, asked: Asked, peer: Arc<str>, expected: u64) -> Self {
        let granted = u64::from(asked.window);
        WireAnswer { link, asked, peer, first: None, granted, expected, received: 0, consumed: 0, over: false }
    }

    /// Waits for the first bytes; false when the peer does not have what was asked for.
    pub async fn begins(&mut self) -> Result<bool> {
        match self.asked.events.recv().await {
            Some(Event::Data(bytes)) => {
                self.first = Some(bytes);
                Ok(true)
            }
            Some(Event::Absent) => {
                self.over = true;
                Ok(false)
            }
            Some(Event::Failed(error)) => Err(self.failed(error)),
            None => Err(self.failed(ended("early", None))),
        }
    }

    fn failed(&mut self, error: Error) -> Error {
        self.over = true;
        error.with_context("peer", &self.peer)
    }

    fn consume(&mut self, bytes: Bytes) -> Bytes {
        self.received += bytes.len() as u64;
        self.consumed = self.consumed.saturating_add(bytes.len() as u32);
        if self.consumed >= self.asked.window / 2 && self.granted < self.expected {
            self.link.give_credit(self.asked.id, self.consumed);
            self.granted += u64::from(self.consumed);
            self.consumed = 0;
        }
        bytes
    }
}

impl Stream for WireAnswer {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Bytes>>> {
        if self.over {
            return Poll::Ready(None);
        }
        if let Some(bytes) = self.first.take() {
            return Poll::Ready(Some(Ok(self.consume(bytes))));
        }
        match ready!(self.asked.events.poll_recv(context)) {
            Some(Event::Data(bytes)) => Poll::Ready(Some(Ok(self.consume(bytes)))),
            Some(Event::Failed(error)) => Poll::Ready(Some(Err(self.failed(error)))),
            Some(Event::Absent) => Poll::Ready(Some(Err(self.failed(ended("in the middle of an answer", None))))),
            None => {
                self.over = true;
                Poll::Ready(None)
            }
        }
    }
}

impl Drop for WireAnswer {
    fn drop(&mut self) {
        self.link.cancel(self.asked.id);
    }
}
