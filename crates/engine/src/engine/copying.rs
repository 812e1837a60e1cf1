//! Copies from a dataset or from storage to a target, with the parts of an engine: its origins, its snapshot, its members.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::job::{Job, JobState, Progress};
use super::state::StateDirectory;
use super::{listing, names, parts};
use crate::cluster::Cluster;
use crate::config::{EngineConfig, OriginConfig, SnapshotPolicy};
use crate::copy::{self, CopyJob, Counts, Item, ItemKind, Ledger, Limits, Sources};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileKey;
use crate::metrics::Metrics;
use crate::origin::{ObjectVersion, Origin, Target, open_target};
use crate::snapshot::{NodeIndex, NodeKind, Rejections, Snapshot};
use crate::sync::{Condvar, Mutex};

const LEDGER: &str = "copy.hrc";
/// S3 takes no smaller parts but the last one.
const SMALLEST_PART_BYTES: u64 = 5 << 20;
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// One copy.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CopyConfig {
    /// Where the data is read: origins, or the members of a cluster. Its state directory is this copy's alone.
    pub source: EngineConfig,
    /// The file or folder of the source; empty for all of it.
    #[serde(default)]
    pub source_path: String,
    pub target: OriginConfig,
    /// Files at the same time.
    #[serde(default = "default_files")]
    pub files: usize,
    #[serde(default = "default_part_bytes")]
    pub part_bytes: u64,
}

fn default_files() -> usize {
    16
}

fn default_part_bytes() -> u64 {
    16 << 20
}

/// A copy that is ready to begin: its source is listed, its target answers.
pub struct Copier {
    runtime: Mutex<Option<Runtime>>,
    cluster: Option<Arc<Cluster>>,
    metrics: Metrics,
    job: Arc<RunningCopy>,
    copy: Mutex<Option<CopyJob>>,
    _state: StateDirectory,
}

impl Copier {
    /// Takes the state directory, lists the source, and looks whether the target can be written.
    pub fn open(config: CopyConfig) -> Result<Self> {
        let part_bytes = config.part_bytes;
        if part_bytes < SMALLEST_PART_BYTES {
            return Err(Error::config(format!("parts of {part_bytes} bytes are too small: 5 MiB is the least")));
        }
        let state = StateDirectory::own(&config.source.state_directory)?;
        let runtime = parts::runtime(config.source.transfer.threads)?;
        let metrics = Metrics::new();
        let cluster = config.source.cluster.as_ref();
        let cluster = cluster.map(|cluster| parts::open_cluster(cluster, &metrics, runtime.handle())).transpose()?;
        let within = runtime.enter();
        let origins = parts::open_origins(&config.source, cluster.as_ref(), &metrics)?;
        let target = open_target(&config.target, &config.source.transfer, &metrics)?;
        refuse_overlap(&config, &origins, &*target)?;
        drop(within);
        let snapshot = source_snapshot(&config.source, &state, &runtime, &origins)?;
        let sources = Arc::new(SnapshotSources::new(snapshot, origins, config.source_path.as_bytes())?);
        let ready = target.clone();
        runtime.block_on(async move { ready.prepare().await })?;
        let ledger = Arc::new(Ledger::open(&state.path().join(LEDGER), target.name())?);
        let counts = Arc::new(Counts::default());
        let limits = Limits { files: config.files, part_bytes, memory: parts::budgets(&config.source).memory };
        let job = Arc::new(RunningCopy {
            counts: counts.clone(),
            total_files: sources.total_files,
            total_bytes: sources.total_bytes,
            left_out: sources.left_out.clone(),
            cancelled: CancellationToken::new(),
            ended: Mutex::new(None),
            changed: Condvar::new(),
        });
        let copy = CopyJob { sources, target, ledger, limits, counts };
        let (runtime, copy) = (Mutex::new(Some(runtime)), Mutex::new(Some(copy)));
        Ok(Copier { runtime, cluster, metrics, job, copy, _state: state })
    }

    /// Begins, the first time that it is called.
    pub fn start(&self) -> Result<Arc<dyn Job>> {
        let runtime = self.runtime.lock();
        let Some(runtime) = runtime.as_ref() else {
            return Err(Error::new(ErrorKind::Cancelled, "the copy is closed"));
        };
        if let Some(copy) = self.copy.lock().take() {
            let job = self.job.clone();
            runtime.spawn(async move {
                let outcome = copy.run(job.cancelled.clone()).await;
                job.end(outcome);
            });
        }
        Ok(self.job.clone())
    }

    /// Goes by this view of the workers from now on.
    pub fn set_view(&self, view: &Value) -> Result<()> {
        match &self.cluster {
            Some(cluster) => cluster.set_view(parts::view(view)?),
            None => Ok(()),
        }
    }

    /// The values of all metrics as OpenMetrics text.
    pub fn metrics_text(&self) -> String {
        self.metrics.encode()
    }

    /// Ends it; what was begun at the target stays for the next one, unless the copy was cancelled before.
    pub fn close(&self) {
        self.cluster.iter().for_each(|cluster| cluster.close());
        if let Some(runtime) = self.runtime.lock().take() {
            runtime.shutdown_timeout(SHUTDOWN_GRACE);
        }
    }
}

/// A new list of the source, or the one that a master has made. Never an old one in the place of a new one.
fn source_snapshot(
    config: &EngineConfig,
    state: &StateDirectory,
    runtime: &Runtime,
    origins: &[Arc<dyn Origin>],
) -> Result<Snapshot> {
    if config.snapshot == SnapshotPolicy::Keep {
        return state.latest_snapshot().ok_or_else(|| Error::new(ErrorKind::NotFound, "there is no list of files yet"));
    }
    let path = state.snapshot_path(state.next_version());
    listing::check_all(runtime.handle(), origins, false)?;
    let (snapshot, _) = listing::take_snapshot(runtime.handle(), origins, config, &path, None)?;
    state.prune(snapshot.version(), &[]);
    Ok(snapshot)
}

fn refuse_overlap(config: &CopyConfig, origins: &[Arc<dyn Origin>], target: &dyn Target) -> Result<()> {
    let to = settled(target.name());
    for (mount, origin) in config.source.origins.iter().zip(origins) {
        let Some(from) = part_of(origin.name(), &mount.path, &config.source_path) else { continue };
        if copy::overlaps(&settled(&from), &to) {
            let message = format!("cannot copy {from} to {to}: one lies in the other");
            return Err(Error::config(message).with_hint("copy to a place outside of the source"));
        }
    }
    Ok(())
}

/// The name of what an origin adds to `path` of a tree in which it stands at `mount`; `None` when that is nothing.
fn part_of(name: &str, mount: &str, path: &str) -> Option<String> {
    let (mount, path) = (mount.trim_matches('/'), path.trim_matches('/'));
    let inside = |outer: &str, inner: &str| {
        let rest = if outer.is_empty() { inner } else { inner.strip_prefix(outer)? };
        (outer.is_empty() || rest.is_empty() || rest.starts_with('/')).then(|| rest.trim_matches('/').to_owned())
    };
    if inside(path, mount).is_some() {
        return Some(name.to_owned());
    }
    let rest = inside(mount, path)?;
    let (place, endpoint) = match name.rsplit_once('@').filter(|_| !name.starts_with("local://")) {
        Some((place, endpoint)) => (place, format!("@{endpoint}")),
        None => (name, String::new()),
    };
    Some(format!("{}/{rest}{endpoint}", place.trim_end_matches('/')))
}

/// The name with links in a folder's path followed as far as it exists.
fn settled(name: &str) -> String {
    let Some(path) = name.strip_prefix("local://") else { return name.to_owned() };
    let mut above = Path::new(path);
    let mut below = PathBuf::new();
    loop {
        if let Ok(real) = above.canonicalize() {
            let whole = if below.as_os_str().is_empty() { real } else { real.join(below) };
            return format!("local://{}", whole.display());
        }
        let (Some(parent), Some(last)) = (above.parent(), above.file_name()) else { return name.to_owned() };
        below = if below.as_os_str().is_empty() { last.into() } else { Path::new(last).join(below) };
        above = parent;
    }
}

/// What a snapshot has at and below a path.
struct SnapshotSources {
    snapshot: Snapshot,
    origins: Vec<Arc<dyn Origin>>,
    names: Vec<Arc<str>>,
    items: Vec<NodeIndex>,
    /// How many bytes of each path are above what is copied.
    prefix: usize,
    total_files: u64,
    total_bytes: u64,
    left_out: String,
}

impl SnapshotSources {
    fn new(snapshot: Snapshot, origins: Vec<Arc<dyn Origin>>, path: &[u8]) -> Result<Self> {
        let start = names::find(&snapshot, path)?;
        let above = snapshot.path(start.index);
        let mut items = Vec::new();
        let prefix = if start.kind == NodeKind::Directory {
            snapshot.walk(start.index, &mut |index, _| {
                items.push(index);
                true
            });
            if above.is_empty() { 0 } else { above.len() + 1 }
        } else {
            items.push(start.index);
            above.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)
        };
        let nodes = items.iter().filter_map(|index| snapshot.node(*index));
        let (mut total_files, mut total_bytes) = (0, 0);
        for node in nodes.filter(|node| node.kind != NodeKind::Directory) {
            total_files += 1;
            total_bytes += if node.kind == NodeKind::File { node.size } else { 0 };
        }
        let names = origins.iter().map(|origin| Arc::from(origin.name())).collect();
        let left_out = named(&snapshot.rejections());
        Ok(SnapshotSources { snapshot, origins, names, items, prefix, total_files, total_bytes, left_out })
    }
}

/// What nobody excluded, and yet is not in the list: each rule with how many names it left out.
fn named(rejections: &Rejections) -> String {
    let found: Vec<_> = rejections.unwished_rules().map(|(rule, count)| format!("{rule} {count}")).collect();
    found.join(", ")
}

impl Sources for SnapshotSources {
    fn count(&self) -> usize {
        self.items.len()
    }

    fn get(&self, position: usize) -> Option<Item> {
        let index = *self.items.get(position)?;
        let node = self.snapshot.node(index)?;
        let key = self.snapshot.path(index).get(self.prefix..)?.to_vec();
        let kind = match node.kind {
            NodeKind::Directory => ItemKind::Folder,
            NodeKind::Symlink => ItemKind::Link { text: self.snapshot.symlink_target(index)? },
            NodeKind::File => {
                let number = usize::from(node.origin);
                let path: Box<[u8]> = self.snapshot.origin_key(index).into();
                let version = self.snapshot.file_version(index)?;
                let object = ObjectVersion { key: path.clone(), size: node.size, version: version.clone() };
                let id = FileKey { dataset: self.names.get(number)?.clone(), path, size: node.size, version }.id();
                ItemKind::File { origin: self.origins.get(number)?.clone(), object, id }
            }
        };
        Some(Item { key, kind })
    }
}

/// A copy under way, or ended.
struct RunningCopy {
    counts: Arc<Counts>,
    total_files: u64,
    total_bytes: u64,
    left_out: String,
    cancelled: CancellationToken,
    ended: Mutex<Option<(JobState, String)>>,
    changed: Condvar,
}

impl RunningCopy {
    fn end(&self, outcome: Result<()>) {
        let faults = self.counts.faults();
        let (done, total) = (self.counts.done_files(), self.total_files);
        let state = match &outcome {
            Err(_) => JobState::Failed,
            Ok(()) if faults == 0 && done == total => JobState::Done,
            Ok(()) if self.cancelled.is_cancelled() => JobState::Cancelled,
            Ok(()) => JobState::Failed,
        };
        let message = match (&outcome, state) {
            (Err(error), _) => error.to_string(),
            (_, JobState::Done) if !self.left_out.is_empty() => {
                format!(
                    "{done} files are there and were compared; not copied, as the source has them: {}",
                    self.left_out
                )
            }
            (_, JobState::Done) => format!("{done} files are there and were compared"),
            (_, JobState::Cancelled) => format!("cancelled: {done} of {total} files are there"),
            _ => {
                let first = self.counts.told().into_iter().next().unwrap_or_default();
                let untried = total.saturating_sub(done + faults);
                let rest = if untried > 0 { format!(", {untried} were not tried") } else { String::new() };
                format!("{faults} failed{rest}, {done} of {total} files are there: {first}")
            }
        };
        *self.ended.lock() = Some((state, message));
        self.changed.notify_all();
    }
}

impl Job for RunningCopy {
    fn progress(&self) -> Progress {
        let (state, message) = self.ended.lock().clone().unwrap_or((JobState::Running, String::new()));
        Progress {
            state,
            done_bytes: self.counts.done_bytes(),
            total_bytes: self.total_bytes,
            done_files: self.counts.done_files(),
            total_files: self.total_files,
            origin_bytes: self.counts.sent_bytes(),
            did_not_fit_bytes: 0,
            errors: self.counts.told(),
            message,
            cached_by_worker: BTreeMap::new(),
        }
    }

    fn cancel(&self) {
        self.cancelled.cancel();
    }

    fn wait(&self, timeout: Duration) -> bool {
        let mut ended = self.ended.lock();
        if ended.is_none() {
            let _ = self.changed.wait_for(&mut ended, timeout);
        }
        ended.is_some()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_part_of_an_origin_that_a_path_means() {
        for (mount, path, expected) in [
            ("", "", Some("s3://b/p@h")),
            ("", "x/y", Some("s3://b/p/x/y@h")),
            ("data", "", Some("s3://b/p@h")),
            ("data", "data/x", Some("s3://b/p/x@h")),
            ("data/deep", "data", Some("s3://b/p@h")),
            ("data", "database", None),
            ("data", "other", None),
        ] {
            assert_eq!(part_of("s3://b/p@h", mount, path).as_deref(), expected, "{mount} {path}");
        }
    }

    #[test]
    fn links_to_a_folder_are_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        std::fs::create_dir(real.join("a")).unwrap();
        std::os::unix::fs::symlink(real.join("a"), real.join("b")).unwrap();
        let name = format!("local://{}", real.join("b/new/deep").display());
        assert_eq!(settled(&name), format!("local://{}", real.join("a/new/deep").display()));
    }
}
