//! The limits of a server's clients, each bound with its reason.

use std::time::Duration;

use crate::budget::Budget;

/// The bounds of one `PeerServer`.
#[derive(Debug, Clone)]
pub struct ServerLimits {
    /// Connections at the same time. A mount has one or two to each worker.
    pub connections: usize,
    /// Of these, those that have not proved that they know the token. When there is one more, another one of them goes.
    pub handshakes: usize,
    /// Of these, those of one address. Behind that of a node there may be hundreds of clients, which come at once.
    pub handshakes_of_address: usize,
    /// Answers under way on one connection; each costs a task and a few queued frames.
    pub requests: u32,
    /// A handshake takes a few round trips.
    pub handshake: Duration,
    /// How long a wrong token waits for its answer.
    pub refusal: Duration,
    /// A client that is not heard of for this long is gone; it is asked for a sign of life before.
    pub silence: Duration,
    /// A client that asks for nothing for this long may connect again.
    pub idle: Duration,
    /// A client whose socket takes nothing for this long is frozen.
    pub stall: Duration,
    /// The same while another answer waits for memory.
    pub stall_in_want: Duration,
    /// An answer of which the client takes nothing for this long is given up. It may ask again.
    pub unread: Duration,
    /// For the content of frames that wait to be sent, on all connections together.
    pub memory: Budget,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            connections: 1024,
            handshakes: 512,
            handshakes_of_address: 256,
            requests: 1024,
            handshake: Duration::from_secs(5),
            refusal: Duration::from_secs(1),
            silence: Duration::from_secs(60),
            idle: Duration::from_secs(600),
            stall: Duration::from_secs(30),
            stall_in_want: Duration::from_secs(2),
            unread: Duration::from_secs(60),
            memory: Budget::memory(64 << 20),
        }
    }
}
