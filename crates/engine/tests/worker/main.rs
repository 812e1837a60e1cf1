//! Workers of one cluster in one process: what they owe each other, over real connections.

#[path = "../fuse/support.rs"]
mod mounts;
#[path = "../transfer/support.rs"]
mod support;
#[path = "../fuse/tree.rs"]
mod tree;

mod bringing;
mod circles;
mod commands;
mod hanging_commands;
mod hanging_disk;
mod hanging_end;
mod hanging_file;
mod hanging_owner;
mod leaving;
mod members;
