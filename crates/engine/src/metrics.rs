//! The registry of every metric of the engine: name, unit, help and labels stand here before anything counts.
//!
//! `docs/reference/metrics.md` is generated from what `Metrics::encode` describes. Counters are cheap atomics: they may
//! be touched on the hot path, but never under a label look-up there; labelled families hand out their counters once.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
pub use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

/// A gauge of unsigned values.
pub type UnsignedGauge = Gauge<u64, AtomicU64>;

/// The label of per-level metrics: the level's number, fastest first, and its medium.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct LevelLabel {
    pub level: u32,
    pub medium: String,
}

/// The label of counters split by reason or kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ReasonLabel {
    pub reason: String,
}

/// Every metric of one engine. Clones share the counters.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    pub read_hit_bytes: Counter,
    pub read_miss_bytes: Counter,
    pub read_requests: Counter,
    pub read_errors: Family<ReasonLabel, Counter>,
    pub read_seconds: Histogram,
    pub passthrough_opens: Counter,
    pub passthrough_estimated_bytes: Counter,
    pub origin_requests: Counter,
    pub origin_bytes: Counter,
    pub origin_loaded_bytes: Counter,
    pub origin_retries: Counter,
    pub origin_errors: Family<ReasonLabel, Counter>,
    pub origin_checksum_mismatches: Counter,
    pub origin_unordered: UnsignedGauge,
    pub origin_first_byte_seconds: Histogram,
    pub fills: Counter,
    pub fills_joined: Counter,
    pub prefetch_bytes: Counter,
    pub prefetch_queue: UnsignedGauge,
    pub readahead_bytes: Counter,
    pub store_used_bytes: Family<LevelLabel, UnsignedGauge>,
    pub store_quota_bytes: Family<LevelLabel, UnsignedGauge>,
    pub store_blocks: Family<LevelLabel, UnsignedGauge>,
    pub store_evicted_bytes: Counter,
    pub store_evicted_blocks: Counter,
    pub store_declined_blocks: Family<ReasonLabel, Counter>,
    pub store_corrupt_blocks: Counter,
    pub store_promoted_blocks: Counter,
    pub store_demoted_blocks: Counter,
    pub budget_used: Family<ReasonLabel, UnsignedGauge>,
    pub budget_limit: Family<ReasonLabel, UnsignedGauge>,
    pub snapshot_files: UnsignedGauge,
    pub snapshot_bytes: UnsignedGauge,
    pub snapshot_rejected_keys: UnsignedGauge,
    pub snapshot_version: UnsignedGauge,
    pub fuse_requests: Family<ReasonLabel, Counter>,
    pub fuse_given_bytes: Counter,
    pub mount_restarts: Counter,
    pub written_bytes: Counter,
    pub write_failures: Counter,
    pub local_stalled: Counter,
    pub cluster_epoch: UnsignedGauge,
    pub cluster_members: UnsignedGauge,
    pub cluster_suspects: UnsignedGauge,
    pub cluster_waiting_reads: UnsignedGauge,
    pub cluster_failovers: Counter,
    pub cluster_hedges: Counter,
    pub cluster_read_bytes: Counter,
    pub cluster_own_node_bytes: Counter,
    pub cluster_brought_bytes: Counter,
    pub cluster_forwarded_bytes: Counter,
    pub peer: PeerMetrics,
}

/// From 50 microseconds to about 100 seconds.
fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(50e-6, 2.0, 22))
}

/// Registers under the name `headrace_<name>` and returns a handle.
macro_rules! register {
    ($registry:ident, $name:literal, $help:literal, $metric:expr) => {{
        let metric = $metric;
        $registry.register(concat!("headrace_", $name), $help, metric.clone());
        metric
    }};
    ($registry:ident, $name:literal, $unit:expr, $help:literal, $metric:expr) => {{
        let metric = $metric;
        $registry.register_with_unit(concat!("headrace_", $name), $help, $unit, metric.clone());
        metric
    }};
}

// Below the macro, which it uses.
mod peer;
pub use peer::PeerMetrics;

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// A fresh set, all zero.
    pub fn new() -> Self {
        let mut r = Registry::default();
        Metrics {
            read_hit_bytes: register!(
                r,
                "read_hit",
                Unit::Bytes,
                "Bytes that were here when a reader asked for them, read ahead or cached (without passthrough: see headrace_passthrough_estimated_bytes_total)",
                Counter::default()
            ),
            read_miss_bytes: register!(
                r,
                "read_miss",
                Unit::Bytes,
                "Bytes that readers had to wait for the origin for",
                Counter::default()
            ),
            read_requests: register!(r, "read_requests", "Read requests of all readers", Counter::default()),
            read_errors: register!(r, "read_errors", "Reads that failed, by kind of error", Family::default()),
            read_seconds: register!(
                r,
                "read",
                Unit::Seconds,
                "Time from request to answer of reads that missed",
                seconds()
            ),
            passthrough_opens: register!(
                r,
                "passthrough_opens",
                "Opens whose reads the kernel serves from the cache file itself",
                Counter::default()
            ),
            passthrough_estimated_bytes: register!(
                r,
                "passthrough_estimated",
                Unit::Bytes,
                "Estimate of the bytes that the kernel read from cache files itself, which it does not tell: each such open counts as one read of the whole file",
                Counter::default()
            ),
            origin_requests: register!(r, "origin_requests", "Read requests sent to origins", Counter::default()),
            origin_bytes: register!(
                r,
                "origin",
                Unit::Bytes,
                "Bytes of file content received from origins",
                Counter::default()
            ),
            origin_loaded_bytes: register!(
                r,
                "origin_loaded",
                Unit::Bytes,
                "Those of headrace_origin_bytes that a load or a warm-up asked for, and no reader",
                Counter::default()
            ),
            origin_retries: register!(
                r,
                "origin_retries",
                "Requests to origins that were tried again",
                Counter::default()
            ),
            origin_errors: register!(
                r,
                "origin_errors",
                "Requests to origins that failed for good, by kind of error",
                Family::default()
            ),
            origin_checksum_mismatches: register!(
                r,
                "origin_checksum_mismatches",
                "Files whose bytes did not match the checksum that the origin keeps of them: dropped and fetched again",
                Counter::default()
            ),
            origin_unordered: register!(
                r,
                "origin_unordered",
                "Buckets whose keys were seen to come in another order than that of their bytes, or not whole: they are listed with one request at a time",
                UnsignedGauge::default()
            ),
            origin_first_byte_seconds: register!(
                r,
                "origin_first_byte",
                Unit::Seconds,
                "Time from a request to an origin to its first byte",
                seconds()
            ),
            fills: register!(r, "fills", "Blocks fetched from an origin", Counter::default()),
            fills_joined: register!(
                r,
                "fills_joined",
                "Reads that joined a fetch already under way",
                Counter::default()
            ),
            prefetch_bytes: register!(
                r,
                "prefetch",
                Unit::Bytes,
                "Bytes fetched because a known order or a warm-up asked for them",
                Counter::default()
            ),
            prefetch_queue: register!(
                r,
                "prefetch_queue_files",
                "Files of known orders that are still to be looked at",
                UnsignedGauge::default()
            ),
            readahead_bytes: register!(
                r,
                "readahead",
                Unit::Bytes,
                "Bytes fetched ahead of a sequential reader",
                Counter::default()
            ),
            store_used_bytes: register!(
                r,
                "store_used",
                Unit::Bytes,
                "Bytes of blocks kept, by level",
                Family::default()
            ),
            store_quota_bytes: register!(r, "store_quota", Unit::Bytes, "Quota, by level", Family::default()),
            store_blocks: register!(r, "store_blocks", "Blocks kept, by level", Family::default()),
            store_evicted_bytes: register!(
                r,
                "store_evicted",
                Unit::Bytes,
                "Bytes of blocks evicted",
                Counter::default()
            ),
            store_evicted_blocks: register!(r, "store_evicted_blocks", "Blocks evicted", Counter::default()),
            store_declined_blocks: register!(
                r,
                "store_declined_blocks",
                "Blocks that were served but not kept, by reason",
                Family::default()
            ),
            store_corrupt_blocks: register!(
                r,
                "store_corrupt_blocks",
                "Blocks whose checksum did not match: dropped and fetched again",
                Counter::default()
            ),
            store_promoted_blocks: register!(
                r,
                "store_promoted_blocks",
                "Blocks moved to a faster level",
                Counter::default()
            ),
            store_demoted_blocks: register!(
                r,
                "store_demoted_blocks",
                "Blocks moved to a slower level",
                Counter::default()
            ),
            budget_used: register!(
                r,
                "budget_used",
                "What is taken of a budget (memory in bytes, descriptors, inodes)",
                Family::default()
            ),
            budget_limit: register!(r, "budget_limit", "The limit of a budget", Family::default()),
            snapshot_files: register!(r, "snapshot_files", "Files in the current snapshot", UnsignedGauge::default()),
            snapshot_bytes: register!(
                r,
                "snapshot_size",
                Unit::Bytes,
                "Bytes of all files in the current snapshot",
                UnsignedGauge::default()
            ),
            snapshot_rejected_keys: register!(
                r,
                "snapshot_rejected_keys",
                "Keys of the origin that no file system can hold, without what was excluded",
                UnsignedGauge::default()
            ),
            snapshot_version: register!(
                r,
                "snapshot_version",
                "Version of the current snapshot",
                UnsignedGauge::default()
            ),
            mount_restarts: register!(
                r,
                "mount_restarts",
                "Times that a new process took over the running mount, after a crash or for an upgrade",
                Counter::default()
            ),
            written_bytes: register!(
                r,
                "written",
                Unit::Bytes,
                "Bytes of files that programs wrote and the origin holds",
                Counter::default()
            ),
            write_failures: register!(
                r,
                "write_failures",
                "Times that a written file could not be put into the origin",
                Counter::default()
            ),
            local_stalled: register!(
                r,
                "local_stalled",
                "Connections of the SDK that were closed since the program did not take its answer",
                Counter::default()
            ),
            fuse_requests: register!(r, "fuse_requests", "Requests of the kernel, by operation", Family::default()),
            fuse_given_bytes: register!(
                r,
                "fuse_given_bytes",
                "Bytes given to the page cache unasked, beside pages that were asked for one by one",
                Counter::default()
            ),
            cluster_epoch: register!(
                r,
                "cluster_epoch",
                "Number of the view that this process goes by; it grows with every change of members",
                UnsignedGauge::default()
            ),
            cluster_members: register!(
                r,
                "cluster_members",
                "Workers in the view that this process goes by",
                UnsignedGauge::default()
            ),
            cluster_suspects: register!(
                r,
                "cluster_suspects",
                "Workers that did not answer this process and have not answered since",
                UnsignedGauge::default()
            ),
            cluster_waiting_reads: register!(
                r,
                "cluster_waiting_reads",
                "Reads that wait because no worker answers at all",
                UnsignedGauge::default()
            ),
            cluster_failovers: register!(
                r,
                "cluster_failovers",
                "Times that a read went on at another worker",
                Counter::default()
            ),
            cluster_hedges: register!(
                r,
                "cluster_hedges",
                "Times that a second replica was asked since the first was slow",
                Counter::default()
            ),
            cluster_read_bytes: register!(
                r,
                "cluster_read",
                Unit::Bytes,
                "Bytes of file content received from workers",
                Counter::default()
            ),
            cluster_own_node_bytes: register!(
                r,
                "cluster_own_node",
                Unit::Bytes,
                "Those of them that a worker of the same machine sent",
                Counter::default()
            ),
            cluster_brought_bytes: register!(
                r,
                "cluster_brought",
                Unit::Bytes,
                "Bytes that the worker of the same machine stored for this process, which read them from its files",
                Counter::default()
            ),
            cluster_forwarded_bytes: register!(
                r,
                "cluster_forwarded",
                Unit::Bytes,
                "Bytes that this worker passed on from another one without keeping them",
                Counter::default()
            ),
            peer: PeerMetrics::register(&mut r),
            registry: Arc::new(r),
        }
    }

    /// All values in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => unreachable!("writing metrics into a string failed: {error}"),
        }
    }
}
