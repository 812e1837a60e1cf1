//! Files that programs write: names and contents over those of a snapshot, kept on a disk of this machine, and put into
//! the origin when they are closed, renamed or synced. Promises to programs: `docs/writing.md`.
//!
//! A name of the origin is only ever changed by who holds its lock (`locks.rs`), and each time to what the name stands for
//! here at that moment. So a rename or removal beside an upload of the old name never leaves the wrong content there.

mod changes;
mod copies;
mod core;
mod found;
mod handles;
mod listing;
mod locks;
mod names;
mod publishing;
mod report;
mod settled;
mod staged;
mod tree;
mod upkeep;

pub use self::core::{Parts, WritableTree, WritingOptions};
pub use report::{Unpublished, WritingStatus};
