//! The store's metrics, handed out once: counting takes no label look-up.

use std::collections::HashMap;

use prometheus_client::metrics::counter::Counter;

use crate::config::Medium;
use crate::metrics::{LevelLabel, Metrics, ReasonLabel, UnsignedGauge};

/// Every reason for which a block is not kept.
pub const REASONS: [&str; 14] = [
    NO_CACHE,
    NO_ROOM,
    DISK_FULL,
    DISK_QUOTA,
    DISK_ERROR,
    READ_ONLY,
    SET_ASIDE,
    DISK_HANGS,
    NO_DESCRIPTOR,
    IN_PROGRESS,
    WRONG_LENGTH,
    TOO_LARGE,
    KEY_TOO_LONG,
    CLOSED,
];

/// There is no cache folder at all.
pub const NO_CACHE: &str = "no-cache";
/// The quota is used by what the policy keeps.
pub const NO_ROOM: &str = "no-room";
pub const DISK_FULL: &str = "disk-full";
pub const DISK_QUOTA: &str = "disk-quota";
pub const DISK_ERROR: &str = "disk-error";
pub const READ_ONLY: &str = "read-only";
/// Every folder failed a moment ago and is left alone for a while.
pub const SET_ASIDE: &str = "set-aside";
/// A disk does not answer: every one, or the one that this block was on its way to.
pub const DISK_HANGS: &str = "disk-hangs";
pub const NO_DESCRIPTOR: &str = "no-descriptor";
/// The same block is just being written or removed.
pub const IN_PROGRESS: &str = "in-progress";
/// The content is not as long as the block.
pub const WRONG_LENGTH: &str = "wrong-length";
/// The file has more blocks than the index can number.
pub const TOO_LARGE: &str = "file-too-large";
pub const KEY_TOO_LONG: &str = "key-too-long";
pub const CLOSED: &str = "closed";

/// True for what a block was declined for at the moment: a little later it may be taken.
pub fn is_passing(reason: &str) -> bool {
    let passing = [DISK_FULL, DISK_QUOTA, DISK_ERROR, READ_ONLY, SET_ASIDE, DISK_HANGS, NO_DESCRIPTOR, IN_PROGRESS];
    passing.contains(&reason)
}

#[derive(Debug)]
pub struct Counters {
    declined: HashMap<&'static str, Counter>,
    pub corrupt: Counter,
    pub evicted_blocks: Counter,
    pub evicted_bytes: Counter,
    pub promoted: Counter,
    pub demoted: Counter,
}

/// The gauges of one level.
#[derive(Debug, Clone)]
pub struct LevelGauges {
    pub used_bytes: UnsignedGauge,
    pub blocks: UnsignedGauge,
}

impl Counters {
    pub fn new(metrics: &Metrics) -> Self {
        let counter = |reason: &str| {
            metrics.store_declined_blocks.get_or_create(&ReasonLabel { reason: reason.to_owned() }).clone()
        };
        Counters {
            declined: REASONS.iter().map(|reason| (*reason, counter(reason))).collect(),
            corrupt: metrics.store_corrupt_blocks.clone(),
            evicted_blocks: metrics.store_evicted_blocks.clone(),
            evicted_bytes: metrics.store_evicted_bytes.clone(),
            promoted: metrics.store_promoted_blocks.clone(),
            demoted: metrics.store_demoted_blocks.clone(),
        }
    }

    pub fn declined(&self, reason: &'static str) {
        if let Some(counter) = self.declined.get(reason) {
            counter.inc();
        }
    }
}

impl LevelGauges {
    /// The gauges of level `number`, its quota set.
    pub fn new(metrics: &Metrics, number: usize, medium: Medium, quota_bytes: u64) -> Self {
        let label = LevelLabel { level: number as u32, medium: format!("{medium:?}").to_uppercase() };
        metrics.store_quota_bytes.get_or_create(&label).set(quota_bytes);
        LevelGauges {
            used_bytes: metrics.store_used_bytes.get_or_create(&label).clone(),
            blocks: metrics.store_blocks.get_or_create(&label).clone(),
        }
    }
}
