//! The services of a worker: it serves blocks, fetching those it lacks, and carries out commands on its cache.
//!
//! Knows the wire's service interface, the transfer and the cluster; no sockets, no configuration.

mod answering;
mod checksums;
mod commands;
mod drain;
mod frames;
mod service;
mod serving;
mod waiting;

pub use service::BlockService;
