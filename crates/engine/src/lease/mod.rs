//! Blocks of this machine that another process owns: the worker lends its data files, a mount reads them directly. No
//! byte of content goes through the socket; see `docs/format/lease-protocol.md`. Knows no rings, transfers or names.
//!
//! - `message`: what is said, as bytes; `socket`: how it gets there;
//! - `server`: the worker's side, over its `Store`;
//! - `lanes`, `table`, `marks`, `client`: the mount's side, a `store::Blocks`.

mod client;
mod lanes;
mod marks;
mod message;
mod server;
mod socket;
mod table;

pub use client::{IsLocal, LeaseOptions, LeasedBlocks};
pub use lanes::LeaseSocket;
pub use server::{LeaseLimits, LeaseServer};
