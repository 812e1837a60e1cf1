//! The assembled engine: as the owner of a cache, or attached to the process that owns it; one face for both.

mod attached;
mod face;
mod job;
mod listing;
mod names;
mod owner;
mod report;
mod state;
mod status;
mod verb;
mod verification;
mod warming;

pub use face::{Engine, Role};
pub use job::{Job, JobState, Progress};
pub use names::Entry;
pub use owner::Owner;
pub use status::Status;
