//! The data plane of Headrace.
//!
//! Layers, bottom to top; a module uses only what stands before it (checked by `tools/rust_layers.py`):
//! floor (`error`, `ids`, `secret`, `sync`, `budget`, `metrics`, `config`, `checksum`)
//! ← `origin`, `snapshot`, `staging`, `store`, `ring`, `wire` (unaware of each other) ← `cluster`, `lease`, `copy` ← `transfer` ← `vfs` ← `writing` ← `fuse`, `serve`, `worker` ← `engine`.

pub mod budget;
pub mod checksum;
pub mod config;
pub mod error;
mod fields;
pub mod ids;
mod local_peers;
pub mod metrics;
mod own_files;
mod page_cache;
pub mod secret;
pub mod sync;

pub mod origin;
pub mod ring;
pub mod snapshot;
pub mod staging;
pub mod store;
pub mod wire;

pub mod cluster;
pub mod copy;
pub mod lease;
pub mod transfer;
pub mod vfs;
pub mod writing;

pub mod fuse;
pub mod serve;
pub mod worker;

pub mod engine;
