//! The requests under way on one connection of a client, and what has come of each.

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use crate::error::{Error, Result};
use crate::wire::frame::damaged;

/// What arrives for one request, in order. The channel's end after data means that the answer is complete.
#[derive(Debug)]
pub enum Event {
    Data(Bytes),
    Absent,
    Failed(Error),
}

struct Request {
    events: mpsc::UnboundedSender<Event>,
    /// What the server may still send. It may overdraw once, by one frame.
    credit: i64,
    received: u64,
    expected: Option<u64>,
    _slot: OwnedSemaphorePermit,
}

/// All requests under way, by number.
#[derive(Default)]
pub struct Pending {
    requests: HashMap<u32, Request>,
    last_id: u32,
    closed: bool,
}

impl Pending {
    /// The number for a new request of which `expected` bytes are wanted (`None`: the server knows), and what will arrive
    /// for it. `None` when the connection is over.
    pub fn open(
        &mut self,
        window: u32,
        expected: Option<u64>,
        slot: OwnedSemaphorePermit,
    ) -> Option<(u32, mpsc::UnboundedReceiver<Event>)> {
        if self.is_spent() {
            return None;
        }
        // Numbers are never used twice on one connection (`is_spent`), so what comes late has no one to confuse.
        self.last_id += 1;
        let (events, receiver) = mpsc::unbounded_channel();
        let request = Request { events, credit: i64::from(window), received: 0, expected, _slot: slot };
        self.requests.insert(self.last_id, request);
        Some((self.last_id, receiver))
    }

    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// How many requests were ever opened.
    pub fn opened(&self) -> u32 {
        self.last_id
    }

    /// True when no more requests can be opened.
    pub fn is_spent(&self) -> bool {
        self.closed || self.last_id >= u32::MAX - 1
    }

    pub fn add_credit(&mut self, id: u32, bytes: u32) -> bool {
        self.requests.get_mut(&id).map(|request| request.credit += i64::from(bytes)).is_some()
    }

    /// Forgets a request; false when it was over already.
    pub fn remove(&mut self, id: u32) -> bool {
        self.requests.remove(&id).is_some()
    }

    /// Ends a request without data, or with an error in the middle of it; true when somebody still waited.
    pub fn end(&mut self, id: u32, event: Event) -> bool {
        // A receiver that is gone has its own cancellation under way.
        self.requests.remove(&id).map(|request| request.events.send(event)).is_some()
    }

    /// Hands on a frame's data. An error means that the server does not keep to the protocol.
    pub fn data(&mut self, id: u32, bytes: Bytes, last: bool) -> Result<()> {
        let Some(request) = self.requests.get_mut(&id) else { return Ok(()) };
        if request.credit <= 0 {
            return Err(damaged("a peer sends more than it was given credit for"));
        }
        request.credit -= bytes.len() as i64;
        request.received += bytes.len() as u64;
        let complete = request.expected.is_none_or(|expected| request.received == expected);
        if request.expected.is_some_and(|expected| request.received > expected)
            || (last && !complete)
            || bytes.is_empty()
        {
            return Err(damaged("a peer sends another number of bytes than it was asked for"));
        }
        let _ = request.events.send(Event::Data(bytes));
        if last {
            self.requests.remove(&id);
        }
        Ok(())
    }

    /// Fails everything under way, and everything that would be opened later. Returns how many were under way.
    pub fn close(&mut self, error: &Error) -> usize {
        self.closed = true;
        let requests = std::mem::take(&mut self.requests);
        requests.values().for_each(|request| drop(request.events.send(Event::Failed(error.clone()))));
        requests.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use tokio::sync::Semaphore;

    fn open(pending: &mut Pending, window: u32, expected: u64) -> (u32, mpsc::UnboundedReceiver<Event>) {
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a slot");
        pending.open(window, Some(expected), slot).expect("an open connection")
    }

    #[test]
    fn data_beyond_the_credit_or_the_range_is_refused() {
        let bytes = |count| Bytes::from(vec![0; count]);
        let mut pending = Pending::default();
        let (id, _events) = open(&mut pending, 10, 100);
        assert!(pending.data(id, bytes(20), false).is_ok(), "one frame may overdraw");
        assert!(pending.data(id, bytes(1), false).is_err(), "a second may not");
        let (id, _events) = open(&mut pending, 10, 5);
        assert!(pending.data(id, bytes(6), true).is_err());
        let (id, _events) = open(&mut pending, 10, 5);
        assert!(pending.data(id, bytes(4), true).is_err(), "an answer must not end early");
        assert!(pending.data(99, bytes(4), true).is_ok(), "late data of a cancelled request is dropped");
    }

    #[test]
    fn a_closed_connection_fails_all_requests_with_its_reason() {
        let mut pending = Pending::default();
        let (_, mut events) = open(&mut pending, 10, 5);
        assert_eq!(pending.close(&damaged("gone")), 1);
        assert!(matches!(events.try_recv(), Ok(Event::Failed(error)) if error.message() == "gone"));
        let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a slot");
        assert!(pending.open(1, None, slot).is_none() && pending.is_spent());
    }
}
