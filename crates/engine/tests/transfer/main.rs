//! Blocks on their way from the storage.

mod ahead;
mod background;
mod disks;
mod proof;
mod single_flight;
mod support;
