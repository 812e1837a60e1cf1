//! Blocks on their way from the storage.

mod ahead;
mod background;
mod disks;
mod parts;
mod proof;
mod single_flight;
mod support;
