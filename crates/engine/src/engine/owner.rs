//! The process that owns a dataset's cache: opens every part, keeps the current snapshot, answers control verbs.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};

use super::coverage::Coverage;
use super::forgetting::Forgetting;
use super::job::{Job, Jobs};
use super::report;
use super::state::StateDirectory;
use super::status::Status;
use super::verb::Verb;
use super::views::{self, Views};
use super::{listing, parts, revalidation, verification, writing};
use crate::budget::{Budget, Budgets};
use crate::cluster::Cluster;
use crate::config::{EngineConfig, SnapshotPolicy};
use crate::error::{Error, ErrorKind, Result};
use crate::fuse::{self, Delivery, Mode, MountHandle, MountOptions};
use crate::metrics::Metrics;
use crate::origin::Origin;
use crate::serve::{Control, ServeCounters, ServeLimits, Server, Welcome};
use crate::snapshot::{Difference, Snapshot, difference_inodes};
use crate::store::{Blocks, Store};
use crate::sync::Mutex;
use crate::transfer::{Transfer, on_disks};
use crate::vfs::{Blobs, FileSystem, Tree};
use crate::writing::WritableTree;

/// How long a refresh waits for the kernel to hear of it.
const TOLD_WITHIN: Duration = Duration::from_secs(10);

/// Datasets whose files are smaller than this on average are mounted without opens.
const ELIDE_BELOW_MEAN_BYTES: u64 = 1 << 20;

/// One dataset, owned by this process.
pub struct Owner {
    config: EngineConfig,
    state: StateDirectory,
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    origins: Vec<Arc<dyn Origin>>,
    cluster: Option<Arc<Cluster>>,
    store: Option<Arc<Store>>,
    transfer: Arc<Transfer>,
    tree: Arc<Tree>,
    /// Over the tree, where programs may write.
    written: Option<Arc<WritableTree>>,
    budgets: Budgets,
    replies: Budget,
    metrics: Metrics,
    jobs: Jobs,
    mounts: Mutex<Vec<Arc<MountHandle>>>,
    views: Views,
    forgetting: Arc<Forgetting>,
    coverage: Coverage,
    server: Mutex<Option<Server>>,
    refresh_error: Mutex<Option<String>>,
    refreshing: Mutex<()>,
    instance: u64,
}

impl Owner {
    /// Takes the state directory and the cache folders, gets a snapshot, and serves other processes of this machine.
    ///
    /// `Busy` when another process owns them: attach to that one instead.
    pub fn open(config: EngineConfig) -> Result<Arc<Self>> {
        Self::open_in(StateDirectory::own(&config.state_directory)?, config)
    }

    /// The same in its state directory, which is taken already.
    pub fn open_in(state: StateDirectory, config: EngineConfig) -> Result<Arc<Self>> {
        state.note_opening(true)?;
        let policy = config.snapshot;
        let owner = Self::assemble(state, config, false)?;
        owner.serve()?;
        owner.state.note_opening(false)?;
        if policy == SnapshotPolicy::Revalidate {
            revalidation::start(&owner, |owner| owner.refresh().map(|_| owner.snapshot().version()))?;
        }
        Ok(owner)
    }

    /// Takes the place of a process that died or stepped back: everything as it was, and the mount that it served goes
    /// on. Starts with the newest snapshot that is here, whatever the policy, since programs have files of it open.
    pub fn resume(
        config: EngineConfig,
        kept: fuse::KeptMount,
        options: MountOptions,
    ) -> Result<(Arc<Self>, Arc<MountHandle>)> {
        let state = StateDirectory::own(&config.state_directory)?;
        let owner = Self::assemble(state, EngineConfig { snapshot: SnapshotPolicy::Keep, ..config }, true)?;
        owner.tree.recall(owner.state.older_snapshots(owner.snapshot().version()));
        let mount = owner.resume_mount(kept, options)?;
        // Not before it is known which files are open.
        owner.written.iter().for_each(|written| written.finish_in_background());
        // Last: until the mount holds its files in place, nobody may make the cache evict.
        owner.serve()?;
        Ok((owner, mount))
    }

    /// `goes_on`: for a mount that another process has served.
    fn assemble(state: StateDirectory, config: EngineConfig, goes_on: bool) -> Result<Arc<Self>> {
        if config.writable && !goes_on {
            writing::check(&config)?;
        }
        let block_size = parts::block_size(&config)?;
        let runtime = parts::runtime(config.transfer.threads)?;
        let handle = runtime.handle().clone();
        let (metrics, (budgets, replies)) = (Metrics::new(), parts::budgets_with_replies(&config));
        let cluster = config.cluster.as_ref();
        let cluster = cluster.map(|cluster| parts::open_cluster(cluster, &metrics, runtime.handle())).transpose()?;
        let origins = parts::open_origins(&config, cluster.as_ref(), &metrics)?;
        let target = config.writable.then(|| writing::open_target(&config, &metrics, runtime.handle())).transpose()?;
        if let (Some(target), false) = (&target, goes_on) {
            writing::try_writing(target, runtime.handle())?;
        }
        let (snapshot, refresh_error) = listing::first_snapshot(&config, &state, runtime.handle(), &origins)?;
        let store = parts::open_store(&config, block_size, &budgets, &metrics)?;
        let blocks = match (&store, &cluster) {
            (Some(store), _) => Some(store.clone() as Arc<dyn Blocks>),
            (None, Some(cluster)) => Some(parts::lease_blocks(cluster, block_size, &budgets)?),
            (None, None) => None,
        };
        let transfer = Transfer::new(blocks, handle.clone(), budgets.clone(), metrics.clone(), config.transfer)?;
        let tree = Tree::new(snapshot, origins.clone(), transfer.clone(), parts::own_files(config.writable));
        if let (Some(error), true, false) = (&refresh_error, config.writable, goes_on) {
            return Err(Error::new(ErrorKind::Unreachable, format!("the origin cannot be listed: {error}"))
                .with_hint("a writable mount begins with a new list; mount again once the storage answers"));
        }
        let written = match (target, origins.first()) {
            (Some(target), Some(origin)) => {
                let with = (&budgets, &metrics, &handle);
                Some(writing::open(&config, target, origin.clone(), &tree, with, goes_on)?)
            }
            _ => None,
        };
        if let (Some(written), false) = (&written, goes_on) {
            writing::finish_earlier(written, &handle);
        }
        let forgetting = Forgetting::start(&tree, transfer.store().map(AsRef::as_ref), &handle);
        let owner = Arc::new(Owner {
            config,
            state,
            runtime: Mutex::new(Some(runtime)),
            handle,
            origins,
            cluster,
            store,
            transfer,
            tree,
            written,
            budgets,
            replies,
            metrics,
            jobs: Jobs::default(),
            mounts: Mutex::new(Vec::new()),
            views: Views::default(),
            forgetting,
            coverage: Coverage::default(),
            server: Mutex::new(None),
            refresh_error: Mutex::new(refresh_error),
            refreshing: Mutex::new(()),
            instance: std::time::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos() as u64),
        });
        owner.note_snapshot();
        Ok(owner)
    }

    /// Lets other processes of this machine in.
    fn serve(self: &Arc<Self>) -> Result<()> {
        let face = Arc::new(Face(Arc::downgrade(self)));
        let limits = ServeLimits { memory: self.replies.clone(), ..ServeLimits::default() };
        let counters = ServeCounters {
            stalled: self.metrics.local_stalled.clone(),
            direct_bytes: self.metrics.read_hit_bytes.clone(),
        };
        let server = Server::start(self.state.path(), self.tree.clone(), face, self.handle.clone(), limits, counters)?;
        *self.server.lock() = Some(server);
        Ok(())
    }

    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    pub fn snapshot(&self) -> Snapshot {
        self.tree.snapshot()
    }

    /// Tells this owner from those before and after it, whatever numbers their processes have: inodes are of one owner.
    pub fn instance(&self) -> u64 {
        self.instance
    }

    pub fn runtime(&self) -> &Handle {
        &self.handle
    }

    pub fn state_directory(&self) -> &Path {
        self.state.path()
    }

    /// Lists the origins again and moves readers on to the new snapshot at their next look-up, also those that come by
    /// the kernel's memory of names: who is told of the new list shall find what it says.
    pub fn refresh(&self) -> Result<Difference> {
        let _one_at_a_time = self.refreshing.lock();
        let outcome = self.refresh_now();
        *self.refresh_error.lock() = outcome.as_ref().err().map(ToString::to_string);
        outcome
    }

    fn refresh_now(&self) -> Result<Difference> {
        let (snapshot, difference) = self.next_snapshot()?;
        self.wait_until_told(self.move_on(snapshot.clone()));
        self.views.show(&self.state, &self.tree, &snapshot)?;
        self.prune();
        Ok(difference)
    }

    /// Until the kernel has forgotten, for a while: it may hold such a message until a reader lets go of a page.
    fn wait_until_told(&self, deliveries: Vec<Delivery>) {
        let all = async {
            for delivery in deliveries {
                let _ = delivery.await;
            }
        };
        let _ = self.handle.block_on(async { tokio::time::timeout(TOLD_WITHIN, all).await });
    }

    /// Moves readers on to the newest snapshot of the state directory, which somebody else has put there; its version.
    pub fn adopt_snapshot(&self) -> Result<u64> {
        let _one_at_a_time = self.refreshing.lock();
        let newest = self.state.latest_snapshot().ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("there is no snapshot in {}", self.state.path().display()))
        })?;
        let version = newest.version();
        // Another one of the same version is of a master that lost its earlier ones.
        if newest.identity() != self.tree.snapshot().identity() {
            // Not waited for: the kernel forgets while requests go on.
            drop(self.move_on(newest));
            self.show_missed();
            self.prune();
        }
        Ok(version)
    }

    /// Goes by this view of the cluster from now on. `Unsupported` when this is no member of one.
    pub fn set_view(&self, view: &Value) -> Result<()> {
        match &self.cluster {
            Some(cluster) => cluster.set_view(parts::view(view)?),
            None => Err(Error::new(ErrorKind::Unsupported, "this engine is not a member of a cluster")),
        }
    }

    fn move_on(&self, snapshot: Snapshot) -> Vec<Delivery> {
        let before = self.tree.refresh(snapshot.clone());
        self.store.iter().for_each(|store| self.coverage.forget(store));
        let mounts = self.mounts.lock();
        let listening = mounts.iter().filter(|mount| mount.mode() != Mode::View);
        let told = listening.map(|mount| announce(mount, &before, &snapshot)).collect();
        drop(mounts);
        self.note_snapshot();
        told
    }

    /// Once readers have moved on.
    fn prune(&self) {
        self.state.prune(self.snapshot().version(), &self.tree.versions_in_use());
    }

    fn next_snapshot(&self) -> Result<(Snapshot, Difference)> {
        let path = self.state.snapshot_path(self.state.next_version());
        let current = self.tree.snapshot();
        listing::check_all(&self.handle, &self.origins, self.config.writable)?;
        listing::take_snapshot(&self.handle, &self.origins, &self.config, &path, Some(&current))
    }

    fn note_snapshot(&self) {
        let snapshot = self.tree.snapshot();
        let rejected = snapshot.rejections().unwished();
        self.metrics.snapshot_files.set(snapshot.files());
        self.metrics.snapshot_bytes.set(snapshot.total_bytes());
        self.metrics.snapshot_rejected_keys.set(rejected);
        self.metrics.snapshot_version.set(snapshot.version());
    }

    /// Brings every byte of the files at and below `paths` in; the job and the number it goes by.
    pub fn warm(&self, paths: &[impl AsRef<[u8]>]) -> Result<(u64, Arc<dyn Job>)> {
        if self.store.is_none() && self.config.cluster.is_some() {
            let message = "this mount keeps nothing itself: the workers of its cluster do";
            let hint = "`headrace load --cluster URL PATH` brings data into their caches";
            return Err(Error::new(ErrorKind::Unsupported, message).with_hint(hint));
        }
        let job: Arc<dyn Job> = self.transfer.warm(Arc::new(self.tree.select(paths)?))?;
        Ok((self.jobs.add(job.clone()), job))
    }

    /// Reads the cached blocks of the files at and below `paths` back, compares whole files with the checksums that their
    /// origins keep, and drops what is wrong.
    pub fn verify(&self, paths: &[impl AsRef<[u8]>]) -> Result<(u64, Arc<dyn Job>)> {
        let Some(store) = &self.store else {
            return Err(Error::new(ErrorKind::Unsupported, "there is no cache to verify")
                .with_hint("mount with --cache PATH:QUOTA"));
        };
        let files = Arc::new(self.tree.select(paths)?);
        let (store, transfer, runtime) = (store.clone(), self.transfer.clone(), self.handle.clone());
        let job = verification::start(verification::Tools { store, transfer, runtime }, files)
            .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot start the verification").with_source(error))?;
        Ok((self.jobs.add(job.clone()), job))
    }

    /// Drops the cached blocks of the files at and below `paths`; the bytes given back. `Timeout`, once the others are
    /// gone, when some lie on a disk that hangs.
    pub fn evict(&self, paths: &[impl AsRef<[u8]>]) -> Result<u64> {
        let selected = Arc::new(self.tree.select(paths)?);
        let Some(store) = &self.store else { return Ok(0) };
        let (evicting, chosen) = (store.clone(), selected.clone());
        let evict = move || chosen.sources().map(|source| evicting.evict(&source.id())).sum();
        let evicted = self.handle.block_on(on_disks(&self.handle, &**store, evict))?;
        store.within_reach(selected.sources().map(|source| source.id()))?;
        Ok(evicted)
    }

    /// How long a call on a cache disk may take before the disk counts as hanging.
    pub fn set_disk_patience(&self, patience: Duration) {
        self.store.iter().for_each(|store| store.set_disk_patience(patience));
    }

    /// Mounts the tree; it stays until `MountHandle::unmount`, an unmount from outside, or `close`.
    pub fn mount(&self, mountpoint: &Path, options: MountOptions) -> Result<Arc<MountHandle>> {
        let writable = self.written.is_some();
        let options = MountOptions { mode: self.resolve(options.mode), writable, ..options };
        let snapshot = self.snapshot();
        let (handle, metrics, budgets) = (self.handle.clone(), self.metrics.clone(), self.budgets.clone());
        if options.mode == Mode::View {
            let mounted = self.views.mount(|| {
                let blobs = Blobs::new(self.tree.clone())?;
                let ready = views::Ready::make(&self.state, &self.tree, &blobs, &snapshot)?;
                let (content, list) = (blobs.clone(), ready.list());
                let mounted = fuse::mount_view(content, list, mountpoint, options, handle, metrics, budgets)?;
                Ok((mounted, blobs))
            })?;
            // There may be another by now.
            self.show_missed();
            return Ok(self.add_mount(mounted));
        }
        let mounted = fuse::mount(self.filesystem(), mountpoint, options, handle, metrics, budgets)?;
        drop(mounted.announce(snapshot.identity(), |_| ()));
        Ok(self.add_mount(Arc::new(mounted)))
    }

    fn add_mount(&self, mounted: Arc<MountHandle>) -> Arc<MountHandle> {
        self.forgetting.add(&mounted);
        self.mounts.lock().push(mounted.clone());
        mounted
    }

    /// What a mount shows.
    fn filesystem(&self) -> Arc<dyn FileSystem> {
        match &self.written {
            Some(written) => written.clone(),
            None => self.tree.clone(),
        }
    }

    fn resume_mount(&self, kept: fuse::KeptMount, options: MountOptions) -> Result<Arc<MountHandle>> {
        let options = MountOptions { writable: self.written.is_some(), ..options };
        let (handle, metrics, budgets) = (self.handle.clone(), self.metrics.clone(), self.budgets.clone());
        let mounted = match kept.shown()? {
            Some(identities) => self.views.mount(|| {
                let (blobs, _until_opened) = views::make_again(&self.state, &self.tree, &identities)?;
                Ok((fuse::resume(blobs.clone(), kept, options, handle, metrics, budgets)?, blobs))
            })?,
            None => Arc::new(fuse::resume(self.filesystem(), kept, options, handle, metrics, budgets)?),
        };
        self.metrics.mount_restarts.inc_by(mounted.resumed());
        if mounted.mode() == Mode::View {
            self.show_missed();
        } else {
            self.announce_missed(&mounted);
        }
        Ok(self.add_mount(mounted))
    }

    /// Shows the current snapshot in views that show another: there is a new one, or the process before has died between
    /// taking it and showing it. Where that fails, the next snapshot is another try.
    fn show_missed(&self) {
        if let Err(error) = self.views.show(&self.state, &self.tree, &self.snapshot()) {
            tracing::warn!(%error, "a view goes on with an older list of files");
        }
    }

    /// The process before may have died between taking a snapshot and telling the kernel what it changed.
    fn announce_missed(&self, mounted: &MountHandle) {
        let (known, current) = (mounted.announced(), self.snapshot());
        if known == current.identity() {
            return;
        }
        let older = self.state.older_snapshots(current.version());
        match older.into_iter().find(|snapshot| snapshot.identity() == known) {
            Some(before) => drop(announce(mounted, &before, &current)),
            None => drop(mounted.announce_all(current.identity(), move |tell| {
                current.directory_inodes().for_each(tell);
            })),
        }
    }

    /// What `auto` means for this dataset. An open costs a round trip that many small files feel and a few large ones do
    /// not; passthrough is the other way round (measured in docs/decisions/0005-mount-modes.md).
    fn resolve(&self, mode: Mode) -> Mode {
        let snapshot = self.tree.snapshot();
        let mean_bytes = snapshot.total_bytes() / snapshot.files().max(1);
        match mode {
            Mode::Auto if mean_bytes < ELIDE_BELOW_MEAN_BYTES && self.written.is_none() => Mode::Elide,
            chosen => chosen,
        }
    }

    /// Fetches `paths` in their order, ahead of `client`, which is going to read them.
    pub fn prefetch(&self, client: u64, paths: &[impl AsRef<[u8]>]) -> Result<()> {
        drop(self.transfer.prefetch(client, Arc::new(self.tree.select(paths)?)));
        Ok(())
    }

    /// The values of all metrics as OpenMetrics text.
    pub fn metrics_text(&self) -> String {
        report::metrics_text(
            &self.metrics,
            &self.budgets,
            Some(&self.replies),
            self.store.as_deref(),
            &self.mounts.lock(),
        )
    }

    pub fn status(&self) -> Status {
        let mut mounts = self.mounts.lock();
        mounts.retain(|mount| !mount.wait(Some(Duration::ZERO)));
        report::Facts {
            config: &self.config,
            origins: &self.origins,
            snapshot_path: &self.state.snapshot_path(self.snapshot().version()),
            refresh_error: self.refresh_error.lock().clone(),
            tree: &self.tree,
            store: self.store.as_deref(),
            transfer: &self.transfer,
            coverage: &self.coverage,
            budgets: &self.budgets,
            replies: &self.replies,
            metrics: &self.metrics,
            mounts: &mounts,
            written: self.written.as_deref(),
        }
        .status()
    }

    pub(super) fn carry_out(&self, verb: Verb) -> Result<Value> {
        Ok(match verb {
            Verb::Status => encode(self.status())?,
            Verb::Metrics => json!(self.metrics_text()),
            Verb::Refresh => self.refresh_report()?,
            Verb::Warm { inodes } => json!({ "job": self.warm(&self.paths(&inodes))?.0 }),
            Verb::Verify { inodes } => json!({ "job": self.verify(&self.paths(&inodes))?.0 }),
            Verb::Evict { inodes } => json!(self.evict(&self.paths(&inodes))?),
            Verb::Sync { ours, theirs } => json!(self.sync(&ours, &theirs)?),
            Verb::Progress { job } => encode(self.jobs.get(job)?.progress())?,
            Verb::Cancel { job } => {
                self.jobs.get(job)?.cancel();
                Value::Null
            }
        })
    }

    /// Tries once more to put what was written into the origin; how many names were done.
    pub fn sync(&self, ours: &[Vec<u8>], theirs: &[Vec<u8>]) -> Result<u64> {
        let Some(written) = &self.written else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "this mount is read-only: there is nothing to put anywhere",
            )
            .with_hint("mount with --writable to write"));
        };
        self.handle.block_on(async {
            for path in ours {
                written.take_ours(path).await?;
            }
            for path in theirs {
                written.take_theirs(path).await?;
            }
            Ok(written.finish().await? + (ours.len() + theirs.len()) as u64)
        })
    }

    fn refresh_report(&self) -> Result<Value> {
        let mut report = encode(self.refresh()?)?;
        let snapshot = self.tree.snapshot();
        report["version"] = json!(snapshot.version());
        report["files"] = json!(snapshot.files());
        report["bytes"] = json!(snapshot.total_bytes());
        Ok(report)
    }

    /// The paths of those inodes that the current snapshot still has.
    fn paths(&self, inodes: &[u64]) -> Vec<Vec<u8>> {
        let snapshot = self.tree.snapshot();
        inodes.iter().filter_map(|inode| snapshot.find_inode(*inode)).map(|index| snapshot.path(index)).collect()
    }

    /// Whether another process goes on with a mount of this one.
    fn is_succeeded(&self) -> bool {
        self.mounts.lock().iter().any(|mount| mount.is_handed_over())
    }

    /// Ends everything in order: mounts, other processes, jobs, transfers, the store. Safe to call twice. `Timeout` names
    /// the cache folders that could not be closed, since their disk hangs: they are not waited for.
    pub fn close(&self) -> Result<()> {
        let is_succeeded = self.is_succeeded();
        if let (Some(server), true) = (&mut *self.server.lock(), is_succeeded) {
            server.expect_successor();
        }
        for mount in self.mounts.lock().drain(..) {
            if let Err(error) = mount.unmount(true) {
                tracing::warn!(%error, "cannot unmount while closing");
            }
        }
        drop(self.server.lock().take());
        if let (Some(written), false) = (&self.written, is_succeeded)
            && let Err(error) = self.handle.block_on(written.finish()).and_then(|_| written.begin_anew())
        {
            tracing::error!("at the end of the mount: {error}");
        }
        self.jobs.cancel_all();
        self.cluster.iter().for_each(|cluster| cluster.close());
        self.handle.block_on(self.transfer.close());
        let runtime = self.runtime.lock().take();
        if let Some(runtime) = runtime {
            runtime.shutdown_timeout(parts::shutdown_grace(self.store.as_deref()));
        }
        let closed = self.store.as_ref().map_or(Ok(()), |store| store.close());
        self.state.release();
        closed
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "closing the engine");
        }
    }
}

/// The local server's view of the owner; weak, so that the server does not keep it alive.
struct Face(std::sync::Weak<Owner>);

impl Face {
    fn owner(&self) -> Result<Arc<Owner>> {
        self.0.upgrade().ok_or_else(closing)
    }
}

impl Control for Face {
    fn welcome(&self) -> Result<Welcome> {
        let owner = self.owner()?;
        let snapshot = owner.state.snapshot_path(owner.snapshot().version());
        Ok(Welcome {
            name: owner.config.name.clone(),
            pid: std::process::id(),
            snapshot,
            instance: owner.instance,
            counts: true,
        })
    }

    fn control(&self, request: Value) -> Result<Value> {
        let verb = serde_json::from_value(request).map_err(|error| {
            Error::new(ErrorKind::Unsupported, format!("the owner does not know this verb: {error}"))
        })?;
        self.owner()?.carry_out(verb)
    }

    fn prefetch(&self, client: u64, inodes: Vec<u64>) -> Result<()> {
        let owner = self.owner()?;
        owner.prefetch(client, &owner.paths(&inodes))
    }
}

/// Tells the kernel what has changed. The difference is made name by name while it is told: as a list it would take about
/// 250 bytes for each file, when all have changed.
fn announce(mount: &MountHandle, before: &Snapshot, after: &Snapshot) -> Delivery {
    let (before, after) = (before.clone(), after.clone());
    mount.announce(after.identity(), move |tell| {
        difference_inodes(&before, &after, &mut |change| tell(change.parent_inode, &change.name));
    })
}

fn encode(report: impl serde::Serialize) -> Result<Value> {
    serde_json::to_value(report)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot write a report").with_source(error))
}

fn closing() -> Error {
    Error::new(ErrorKind::Cancelled, "the engine is closing")
}
