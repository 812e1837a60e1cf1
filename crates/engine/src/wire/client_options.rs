//! How a client behaves; what people may set.

use std::time::Duration;

/// How patient a client is, and how wide.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientOptions {
    /// For the connection, TLS and the handshake together.
    pub connect_timeout: Duration,
    /// A peer that owes an answer and gives no sign of life for this long has failed.
    pub silence: Duration,
    /// Connections to one peer; more than one lets one client use more than one core of each side.
    pub connections_per_peer: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            connect_timeout: Duration::from_secs(3),
            silence: Duration::from_secs(10),
            connections_per_peer: 2,
        }
    }
}
