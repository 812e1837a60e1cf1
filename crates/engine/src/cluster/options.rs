//! The part of a process in its cluster, and its timeouts.

use std::time::Duration;

use crate::ring::MemberId;

/// A worker's own place in the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub member: MemberId,
}

#[derive(Debug, Clone)]
pub struct ClusterOptions {
    /// The machine that this process runs on: owners there are asked first.
    pub node: String,
    /// Set in workers.
    pub identity: Option<Identity>,
    /// How long a read waits for any worker that can serve it.
    pub read_deadline: Duration,
    /// Whether a second replica is asked when the first lags.
    pub hedge: bool,
}

impl Default for ClusterOptions {
    fn default() -> Self {
        ClusterOptions { node: String::new(), identity: None, read_deadline: Duration::from_secs(300), hedge: true }
    }
}
