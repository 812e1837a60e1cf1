//! Copying files to a target so that each is there whole, compared, and never sent twice.
//!
//! Knows origins as sources and targets as targets, and nothing of where either comes from. The promises to a reader
//! stand in `docs/semantics.md`, "Copies"; the ledger's format in `docs/format/copy-ledger.md`.
//!
//! - `decision`, `layout`, `overlap`: pure;
//! - `ledger` (with `record`): what was done, on the disk;
//! - `content`: reading both sides; `counts`: how far it is; `file`: one file; `run`: all of them.

mod content;
mod counts;
mod decision;
mod file;
mod layout;
mod ledger;
mod overlap;
mod record;
mod run;

pub use counts::Counts;
pub use ledger::Ledger;
pub use overlap::overlaps;
pub use run::{CopyJob, Item, ItemKind, Limits, Sources};
