//! Workers of one cluster in one process: what they owe each other, over real connections.

#[path = "../transfer/support.rs"]
mod support;

mod circles;
mod members;
