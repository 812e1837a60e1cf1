//! The parts that every role of an engine is made of, each from its configuration.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::{Handle, Runtime};

use crate::budget::{Budget, Budgets};
use crate::cluster::{Cluster, ClusterOptions, Identity, MemberOrigin};
use crate::config::{ClusterConfig, EngineConfig, OriginConfig, TlsConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::BlockSize;
use crate::lease::{IsLocal, LeaseOptions, LeasedBlocks};
use crate::metrics::Metrics;
use crate::origin::{self, Exclusion, Origin};
use crate::ring::{MemberId, View};
use crate::store::{Blocks, Store, StoreConfig};
use crate::vfs::Ownership;
use crate::wire::{ClientOptions, ClientSecurity, PeerClient, Token};

/// The files belong to whoever runs the engine, who alone may write to them if anybody may.
pub fn own_files(writable: bool) -> Ownership {
    let own = Ownership::new(nix::unistd::geteuid().as_raw(), nix::unistd::getegid().as_raw());
    if writable { Ownership { file_mode: 0o644, directory_mode: 0o755, ..own } } else { own }
}

pub fn block_size(config: &EngineConfig) -> Result<BlockSize> {
    let bytes = config.transfer.block_size_bytes;
    BlockSize::new(bytes).ok_or_else(|| {
        Error::config(format!("a block size of {bytes} bytes is not a power of two between 64 KiB and 64 MiB"))
    })
}

pub fn runtime(threads: usize) -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        .thread_name("headrace-io")
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot start the engine's threads").with_source(error))
}

pub fn budgets(config: &EngineConfig) -> Budgets {
    Budgets {
        memory: Budget::memory(config.limits.memory_bytes),
        descriptors: Budget::count("descriptors", config.limits.descriptors),
        inodes: Budget::count("inodes", config.limits.inodes),
    }
}

/// The same for an owner that other processes attach to, and for a worker: an eighth of the memory is for replies to
/// them. Apart, since a reply may wait for blocks, and blocks must never wait for a reply.
pub fn budgets_with_replies(config: &EngineConfig) -> (Budgets, Budget) {
    let replies = config.limits.memory_bytes / 8;
    let memory = Budget::memory(config.limits.memory_bytes - replies);
    (Budgets { memory, ..budgets(config) }, Budget::memory(replies))
}

pub fn open_origins(
    config: &EngineConfig,
    cluster: Option<&Arc<Cluster>>,
    metrics: &Metrics,
) -> Result<Vec<Arc<dyn Origin>>> {
    if config.origins.is_empty() {
        return Err(Error::config("a dataset needs at least one origin"));
    }
    // A wrong pattern is told now, and not when the first list is half done.
    config.origins.iter().try_for_each(|mount| Exclusion::new(&mount.exclude).map(|_| ()))?;
    let block_size = block_size(config)?;
    let open = |origin: &OriginConfig| match (origin, cluster) {
        (OriginConfig::Cluster { name }, Some(cluster)) => {
            Ok(Arc::new(MemberOrigin::new(name, cluster.clone(), block_size)) as Arc<dyn Origin>)
        }
        _ => origin::open(origin, &config.transfer, metrics),
    };
    config.origins.iter().map(|mount| open(&mount.origin)).collect()
}

pub fn open_store(
    config: &EngineConfig,
    block_size: BlockSize,
    budgets: &Budgets,
    metrics: &Metrics,
) -> Result<Option<Arc<Store>>> {
    if config.cache.is_empty() {
        return Ok(None);
    }
    let store = StoreConfig { levels: config.cache.clone(), block_size, policy: config.eviction };
    Store::open(store, budgets.clone(), metrics.clone()).map(Some)
}

/// How long background work may take to end when the engine closes: what waits for a disk that hangs will not.
pub fn shutdown_grace(store: Option<&Store>) -> Duration {
    match store.and_then(Blocks::hanging) {
        None => Duration::from_secs(5),
        Some(_) => Duration::from_secs(1),
    }
}

/// The cluster that `config` describes, without a word to anybody yet.
pub fn open_cluster(config: &ClusterConfig, metrics: &Metrics, runtime: &Handle) -> Result<Arc<Cluster>> {
    let _within = runtime.enter();
    let options = ClientOptions {
        connect_timeout: seconds(config.connect_timeout_s),
        silence: seconds(config.silence_s),
        ..ClientOptions::default()
    };
    let peers = PeerClient::new(client_security(config)?, options, metrics);
    let options = ClusterOptions {
        node: config.node.clone(),
        identity: config.worker.as_ref().map(|worker| Identity { member: MemberId(worker.id.as_str().into()) }),
        read_deadline: seconds(config.read_deadline_s),
        hedge: config.hedge,
    };
    Cluster::new(view(&config.view)?, Arc::new(peers), options, metrics.clone(), runtime.clone())
}

/// The blocks of a worker on this machine, read from its own files. Which one that is follows the view.
pub fn lease_blocks(cluster: &Arc<Cluster>, block_size: BlockSize, budgets: &Budgets) -> Result<Arc<dyn Blocks>> {
    let (local, view) = (cluster.clone(), cluster.clone());
    let is_local: IsLocal = Arc::new(move |file, index| local.is_local(file, index, block_size));
    let options = LeaseOptions { is_local, ..LeaseOptions::default() };
    let leased =
        LeasedBlocks::new(Arc::new(move || view.lease_socket()), block_size, budgets.descriptors.clone(), options)?;
    Ok(leased)
}

/// A view as Python hands it over.
pub fn view(json: &serde_json::Value) -> Result<View> {
    View::from_json(json.to_string().as_bytes())
}

fn client_security(config: &ClusterConfig) -> Result<ClientSecurity> {
    let token = Token::new(config.token.expose())?;
    let security = match &config.tls {
        None => ClientSecurity::token_only(token.clone()),
        Some(TlsConfig { authority, certificate, key, .. }) => {
            let identity = certificate.as_deref().zip(key.as_deref());
            ClientSecurity::with_tls(token.clone(), authority, identity)?
        }
    };
    Ok(match &config.token_file {
        Some(file) => security.with_token_file(token, file.clone()),
        None => security,
    })
}

fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or(Duration::from_secs(1))
}
