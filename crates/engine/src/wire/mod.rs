//! How mounts, loads and workers speak with each other: framed, versioned, bounded messages over TCP.
//!
//! Many requests share a connection; answers interleave frame by frame. Each answer has a window of credit, so a slow
//! reader holds up nobody else. Both sides prove that they know a token of the cluster, and from which one follows what
//! the client may ask for; TLS is optional. Every byte is described in `docs/format/peer-protocol.md`. Questions and
//! answers are the business of others.
//!
//! - `frame`, `fields`, `message`, `failure`: what the bytes mean;
//! - `token`, `renewed`, `security`, `handshake`: who is who;
//! - `socket`, `read`, `write`, `transport`, `heard`: a connection that carries frames;
//! - `chunk`, `outbox`, `answer_memory`, `sink`, `service`, `answer_task`, `serving`, `limits`, `strangers`, `server`: those who
//!   answer;
//! - `pending`, `link`, `answer`, `peer`, `client_options`, `client`: those who ask.

mod answer;
mod answer_memory;
mod answer_task;
mod chunk;
mod client;
mod client_options;
mod failure;
mod fields;
mod frame;
#[cfg(test)]
mod fuzz;
mod handshake;
mod heard;
mod limits;
mod link;
mod message;
mod outbox;
mod peer;
mod pending;
mod read;
mod renewed;
mod security;
mod server;
mod service;
mod serving;
mod sink;
mod socket;
mod strangers;
mod token;
mod transport;
mod write;

pub use chunk::Chunk;
pub use client::{ByteStream, PeerClient};
pub use client_options::ClientOptions;
pub use failure::REPORTED;
pub use limits::ServerLimits;
pub use message::{Fill, GetRequest, MOST_EVICTED, PURPOSE_READ, PURPOSE_WARM, PeerCommand};
pub use security::{ClientSecurity, ServerSecurity};
pub use server::PeerServer;
pub use service::PeerService;
pub use sink::ChunkSink;
pub use token::{Rights, Token};
