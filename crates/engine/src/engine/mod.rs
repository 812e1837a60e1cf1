//! The assembled engine: as the owner of a cache, or attached to the process that owns it, one face for both; as a worker
//! of a cluster; and as the part of its master that touches data.

mod attached;
mod copying;
mod coverage;
mod face;
mod forgetting;
mod heap;
mod holding;
mod job;
mod joining;
mod lister;
mod listing;
mod names;
mod owner;
mod parts;
mod report;
mod revalidation;
mod state;
mod status;
mod verb;
mod verification;
mod views;
mod warming;
mod worker;
mod writing;

pub use copying::{Copier, CopyConfig};
pub use face::{Engine, Role};
pub use job::{Job, JobState, Progress};
pub use lister::{Listed, Lister};
pub use listing::check_one;
pub use names::Entry;
pub use owner::Owner;
pub use status::Status;
pub use worker::Worker;
