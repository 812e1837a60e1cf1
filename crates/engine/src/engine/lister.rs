//! The part of an engine that a master needs: it lists origins into snapshots, and has loads carried out. Caches nothing
//! and serves nobody.

use std::path::PathBuf;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::holding::SnapshotOrders;
use super::job::Job;
use super::state::StateDirectory;
use super::{listing, parts};
use crate::cluster::{Cluster, HoldJob, HoldWish};
use crate::config::EngineConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::BlockSize;
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::snapshot::Snapshot;
use crate::sync::Mutex;
use crate::transfer::Source;
use crate::vfs::Selection;
use crate::wire::{MOST_EVICTED, PeerCommand};

/// Files that one worker of an older version is told of at the same time.
const UNDER_WAY: usize = 256;

/// The origins of a dataset, and the snapshots taken of them.
pub struct Lister {
    config: EngineConfig,
    state: StateDirectory,
    block_size: BlockSize,
    runtime: Runtime,
    origins: Vec<Arc<dyn Origin>>,
    cluster: Option<Arc<Cluster>>,
    metrics: Metrics,
    current: Mutex<Snapshot>,
    refreshing: Mutex<()>,
}

/// A new snapshot.
pub struct Listed {
    pub version: u64,
    pub path: PathBuf,
    /// What differs from the one before, and what it holds.
    pub report: Value,
}

impl Lister {
    /// Takes the state directory and a first snapshot, or the last one if the origins do not answer.
    pub fn open(config: EngineConfig) -> Result<Self> {
        let state = StateDirectory::own(&config.state_directory)?;
        let block_size = parts::block_size(&config)?;
        let runtime = parts::runtime(config.transfer.threads)?;
        let metrics = Metrics::new();
        let cluster = config.cluster.as_ref();
        let cluster = cluster.map(|cluster| parts::open_cluster(cluster, &metrics, runtime.handle())).transpose()?;
        let _within = runtime.enter();
        let origins = parts::open_origins(&config, None, &metrics)?;
        let (snapshot, _) = listing::first_snapshot(&config, &state, runtime.handle(), &origins)?;
        drop(_within);
        let (current, refreshing) = (Mutex::new(snapshot), Mutex::new(()));
        Ok(Lister { config, state, block_size, runtime, origins, cluster, metrics, current, refreshing })
    }

    /// The snapshot that is current now.
    pub fn current(&self) -> Listed {
        self.listed(&self.current.lock(), Value::Null)
    }

    /// Lists the origins again.
    pub fn refresh(&self) -> Result<Listed> {
        let _one_at_a_time = self.refreshing.lock();
        let path = self.state.snapshot_path(self.state.next_version());
        let before = self.current.lock().clone();
        let handle = self.runtime.handle();
        listing::check_all(handle, &self.origins, false)?;
        let (snapshot, difference) = listing::take_snapshot(handle, &self.origins, &self.config, &path, Some(&before))?;
        let difference = serde_json::to_value(difference).unwrap_or(Value::Null);
        self.state.prune(snapshot.version(), &[]);
        *self.current.lock() = snapshot.clone();
        Ok(self.listed(&snapshot, difference))
    }

    fn listed(&self, snapshot: &Snapshot, difference: Value) -> Listed {
        let version = snapshot.version();
        let notices = self.origins.iter().filter_map(|origin| Some(format!("{}: {}", origin.name(), origin.notice()?)));
        let report = json!({
            "version": version,
            "files": snapshot.files(),
            "bytes": snapshot.total_bytes(),
            "difference": difference,
            "notices": notices.collect::<Vec<_>>(),
        });
        Listed { version, path: self.state.snapshot_path(version), report }
    }

    /// Canonical names of the origins with the places that they have in the tree.
    pub fn origins(&self) -> Vec<(String, String)> {
        let paths = self.config.origins.iter().map(|mount| mount.path.clone());
        paths.zip(self.origins.iter().map(|origin| origin.name().to_owned())).collect()
    }

    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Goes by this view of the workers from now on.
    pub fn set_view(&self, view: &Value) -> Result<()> {
        self.cluster()?.set_view(parts::view(view)?)
    }

    /// Starts having the files at and below `paths` held by their owners.
    pub fn load(&self, paths: &[impl AsRef<[u8]>], wish: HoldWish) -> Result<Arc<dyn Job>> {
        let orders = SnapshotOrders::new(self.select(paths)?, self.block_size);
        Ok(HoldJob::start(self.cluster()?, Arc::new(orders), self.block_size, wish))
    }

    /// Has every worker drop the files at and below `paths`; the bytes given back. Fails when a worker does not answer,
    /// after all others have done it.
    pub fn evict(&self, paths: &[impl AsRef<[u8]>]) -> Result<u64> {
        let (selected, cluster) = (self.select(paths)?, self.cluster()?);
        let mut members: Vec<_> = cluster.addresses().into_iter().map(Evicting::at).collect();
        let mut sources = selected.sources();
        self.runtime.block_on(async {
            loop {
                let files: Vec<Source> = sources.by_ref().take(MOST_EVICTED).collect();
                if files.is_empty() {
                    break;
                }
                futures::future::join_all(members.iter_mut().map(|member| member.evict(cluster, &files))).await;
            }
        });
        let evicted_bytes: u64 = members.iter().map(|member| member.evicted_bytes).sum();
        match members.into_iter().find_map(|member| member.failure) {
            None => Ok(evicted_bytes),
            Some(error) => {
                let others = "what the other workers held is gone; evict again when this one is back";
                let hint = error.hint().map_or_else(|| others.to_owned(), |hint| format!("{hint}; {others}"));
                Err(error.with_context("evicted_bytes", evicted_bytes).with_hint(hint))
            }
        }
    }

    /// The ids of the files at and below `paths`, as workers know them, one after the other.
    pub fn file_ids(&self, paths: &[impl AsRef<[u8]>]) -> Result<Vec<u8>> {
        Ok(self.select(paths)?.sources().flat_map(|source| source.id().0).collect())
    }

    /// The values of all metrics as OpenMetrics text.
    pub fn metrics_text(&self) -> String {
        self.metrics.encode()
    }

    pub fn close(&self) {
        self.cluster.iter().for_each(|cluster| cluster.close());
    }

    fn select(&self, paths: &[impl AsRef<[u8]>]) -> Result<Selection> {
        Selection::of(self.current.lock().clone(), self.origins.clone(), paths)
    }

    fn cluster(&self) -> Result<&Arc<Cluster>> {
        self.cluster.as_ref().ok_or_else(|| Error::new(ErrorKind::Unsupported, "no cluster is configured"))
    }
}

/// One worker that is told to drop files.
struct Evicting {
    address: String,
    evicted_bytes: u64,
    /// At the first one it is given up.
    failure: Option<Error>,
}

impl Evicting {
    fn at(address: String) -> Self {
        Evicting { address, evicted_bytes: 0, failure: None }
    }

    async fn evict(&mut self, cluster: &Cluster, files: &[Source]) {
        if self.failure.is_some() {
            return;
        }
        match self.tell(cluster, files).await {
            Ok(evicted_bytes) => self.evicted_bytes += evicted_bytes,
            Err(error) => self.failure = Some(error),
        }
    }

    async fn tell(&self, cluster: &Cluster, files: &[Source]) -> Result<u64> {
        let ids = files.iter().map(Source::id).collect();
        match cluster.tell(&self.address, &PeerCommand::EvictMany { ids }).await {
            // It is of an older version, which knows the command for one file only.
            Err(error) if error.kind() == ErrorKind::Config => self.tell_one_by_one(cluster, files).await,
            report => Ok(evicted_bytes(&report?)),
        }
    }

    async fn tell_one_by_one(&self, cluster: &Cluster, files: &[Source]) -> Result<u64> {
        let evicting = files.iter().map(|source| async move {
            // Workers hear of the end of a pin with their next heartbeat only.
            cluster.tell(&self.address, &PeerCommand::Pin { id: source.id(), pinned: false }).await?;
            cluster.tell(&self.address, &PeerCommand::Evict { key: (**source.key()).clone() }).await
        });
        let reports = stream::iter(evicting).buffer_unordered(UNDER_WAY);
        reports.try_fold(0, |sum, report| async move { Ok(sum + evicted_bytes(&report)) }).await
    }
}

fn evicted_bytes(report: &Value) -> u64 {
    report["evicted_bytes"].as_u64().unwrap_or(0)
}
