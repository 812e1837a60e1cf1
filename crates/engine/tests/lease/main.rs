//! Blocks of a worker on the same node that are read from the worker's own files.

#[path = "../fuse/support.rs"]
mod fuse;
#[path = "../fuse/tree.rs"]
mod tree;

mod mount;
mod processes;
mod strangers;
mod support;
mod wrong;

#[path = "../transfer/support.rs"]
mod transfer;

#[test]
#[ignore = "the worker of the other tests"]
fn worker_process() {
    support::work();
}
