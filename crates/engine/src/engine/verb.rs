//! The control verbs of the local socket, typed; both sides of the conversation use these.

use serde::{Deserialize, Serialize};

/// What an attached process may ask of the owner. Inodes name files or folders of the current snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "lowercase", deny_unknown_fields)]
pub enum Verb {
    Status,
    Metrics,
    Refresh,
    Warm {
        inodes: Vec<u64>,
    },
    Verify {
        inodes: Vec<u64>,
    },
    Evict {
        inodes: Vec<u64>,
    },
    Progress {
        job: u64,
    },
    Cancel {
        job: u64,
    },
    /// Paths are bytes.
    Sync {
        ours: Vec<Vec<u8>>,
        theirs: Vec<Vec<u8>>,
    },
}
