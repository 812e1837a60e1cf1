//! Work that must not grow with the number of files, counted as allocations and requests: time says nothing on a busy
//! machine.

#![allow(clippy::unwrap_used)]

mod counting;
mod evict;
mod names;
mod pins;
mod refresh;
mod status;
