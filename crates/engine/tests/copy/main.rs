//! Copies between storages: what a run does, and what it writes to each kind of target.

#[path = "../origin/servers/mod.rs"]
mod servers;

mod run;
mod targets;
