//! The local server: other processes of this machine read through the owner of a cache.
//!
//! One process owns a cache folder; data-loader workers, the SDK and the command line attach to it over a Unix socket.
//! A file that is whole in the cache is handed over as an open descriptor, so its reads cost no round trip at all; other
//! reads and all control verbs are framed messages. `docs/format/local-protocol.md` describes every byte.

mod client;
mod direct;
mod frame;
mod interrupt;
mod leased;
mod message;
mod patience;
mod place;
mod server;
mod socket;

pub use client::Client;
pub use interrupt::ask_while_waiting;
pub(crate) use interrupt::{check as check_interrupt, pause as interruptible_pause};
pub use leased::LeasedFile;
pub use message::{ReadItem, Welcome};
pub use patience::Patience;
pub use server::{Control, ServeCounters, ServeLimits, Server};

#[cfg(test)]
mod tests;
