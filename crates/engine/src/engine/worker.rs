//! One worker of a cluster: a cache that serves other processes, here by descriptor and elsewhere over the network.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::runtime::{Handle, Runtime};

use super::job::Job;
use super::state::StateDirectory;
use super::{parts, report};
use crate::budget::{Budget, Budgets};
use crate::cluster::Cluster;
use crate::config::{ClusterConfig, EngineConfig, WorkerConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::FileId;
use crate::lease::{LeaseLimits, LeaseServer};
use crate::metrics::Metrics;
use crate::store::Store;
use crate::sync::Mutex;
use crate::transfer::Transfer;
use crate::wire::{PeerServer, Rights, ServerLimits, ServerSecurity, Token};
use crate::worker::BlockService;

const LEASE_SOCKET: &str = "lease.sock";

/// A worker at work.
pub struct Worker {
    state: StateDirectory,
    runtime: Mutex<Option<Runtime>>,
    handle: Handle,
    store: Arc<Store>,
    transfer: Arc<Transfer>,
    cluster: Arc<Cluster>,
    service: Arc<BlockService>,
    server: PeerServer,
    leases: Mutex<Option<LeaseServer>>,
    budgets: Budgets,
    answers: Budget,
    metrics: Metrics,
}

impl Worker {
    /// Takes the state directory and the cache folders, and serves. `Config` when the configuration names no cache or no
    /// cluster; `Busy` when another process has them, or the address.
    pub fn open(config: EngineConfig) -> Result<Self> {
        let cluster_config = config.cluster.as_ref().ok_or_else(|| Error::config("a worker needs a cluster"))?;
        let own =
            cluster_config.worker.as_ref().ok_or_else(|| Error::config("a worker needs a name and an address"))?;
        let state = StateDirectory::own(&config.state_directory)?;
        let block_size = parts::block_size(&config)?;
        let runtime = parts::runtime(config.transfer.threads)?;
        let handle = runtime.handle().clone();
        let (metrics, (budgets, answers)) = (Metrics::new(), parts::budgets_with_replies(&config));
        let cluster = parts::open_cluster(cluster_config, &metrics, &handle)?;
        let origins = {
            let _within = runtime.enter();
            parts::open_origins(&config, None, &metrics)?
        };
        let store = parts::open_store(&config, block_size, &budgets, &metrics)?.ok_or_else(|| {
            Error::config("a worker needs a cache").with_hint("name a cache folder: --cache PATH:QUOTA")
        })?;
        let transfer =
            Transfer::new(Some(store.clone()), handle.clone(), budgets.clone(), metrics.clone(), config.transfer)?;
        let service = BlockService::new(transfer.clone(), store.clone(), cluster.clone(), origins, metrics.clone());
        let server = handle.block_on(PeerServer::start_with(
            listen_address(own)?,
            server_security(cluster_config)?,
            service.clone(),
            &metrics,
            ServerLimits { memory: answers.clone(), ..ServerLimits::default() },
        ))?;
        let leases = LeaseServer::start(&state.path().join(LEASE_SOCKET), store.clone(), LeaseLimits::default())?;
        Ok(Worker {
            state,
            runtime: Mutex::new(Some(runtime)),
            handle,
            store,
            transfer,
            cluster,
            service,
            server,
            leases: Mutex::new(Some(leases)),
            budgets,
            answers,
            metrics,
        })
    }

    /// The address that it listens on, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Where processes of this machine get descriptors of cached files.
    pub fn lease_socket(&self) -> PathBuf {
        self.state.path().join(LEASE_SOCKET)
    }

    /// Goes by this view from now on.
    pub fn set_view(&self, view: &Value) -> Result<()> {
        self.cluster.set_view(parts::view(view)?)
    }

    /// Keeps these files, and no others, whatever else needs room.
    pub fn set_pinned(&self, files: HashSet<FileId>) {
        self.store.set_all_pinned(files);
    }

    /// Starts handing over what is here; the view must say that this worker is draining.
    pub fn drain(&self) -> Result<Arc<dyn Job>> {
        let job = self.handle.block_on(self.service.drain())?;
        Ok(job)
    }

    /// What a heartbeat tells.
    pub fn status(&self) -> Value {
        let (usage, hanging) = (self.store.usage(), self.store.hanging_folders());
        let metrics = &self.metrics;
        json!({
            "levels": usage,
            "capacity_bytes": usage.iter().map(|level| level.quota_bytes).sum::<u64>(),
            "cached_bytes": usage.iter().map(|level| level.content_bytes).sum::<u64>(),
            "pinned_bytes": self.store.pinned_bytes(),
            "epoch": self.cluster.ring().view().epoch,
            "origin_bytes": metrics.origin_bytes.get(),
            "loaded_bytes": metrics.origin_loaded_bytes.get(),
            "peer_bytes": metrics.cluster_read_bytes.get(),
            "hit_bytes": metrics.read_hit_bytes.get(),
            "miss_bytes": metrics.read_miss_bytes.get(),
            "hanging_folders": hanging.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
            "evicted_blocks": metrics.store_evicted_blocks.get(),
            "corrupt_blocks": metrics.store_corrupt_blocks.get(),
        })
    }

    /// The values of all metrics as OpenMetrics text.
    pub fn metrics_text(&self) -> String {
        report::metrics_text(&self.metrics, &self.budgets, Some(&self.answers), Some(&self.store), &[])
    }

    /// Ends everything in order; the cache stays for the next start. Safe to call twice. `Timeout` names the cache folders
    /// that could not be closed, since their disk hangs: they are not waited for.
    pub fn close(&self) -> Result<()> {
        let Some(runtime) = self.runtime.lock().take() else { return Ok(()) };
        drop(self.leases.lock().take());
        self.cluster.close();
        self.handle.block_on(async {
            self.server.close().await;
            self.transfer.close().await;
        });
        runtime.shutdown_timeout(parts::shutdown_grace(Some(&self.store)));
        let closed = self.store.close();
        self.state.release();
        closed
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "closing the worker");
        }
    }
}

fn listen_address(config: &WorkerConfig) -> Result<SocketAddr> {
    config.listen.parse().map_err(|_| {
        Error::new(ErrorKind::Config, format!("'{}' is not an address to listen on", config.listen))
            .with_hint("write for example 0.0.0.0:7031")
    })
}

fn server_security(config: &ClusterConfig) -> Result<ServerSecurity> {
    let token = Token::new(config.token.expose())?;
    token.derived(Rights::Worker)?;
    let security = match &config.tls {
        None => ServerSecurity::token_only(token.clone()),
        Some(tls) => match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                ServerSecurity::with_tls(token.clone(), certificate, key, tls.client_authority.as_deref())?
            }
            _ => return Err(Error::config("a worker with TLS needs its own certificate and key")),
        },
    };
    Ok(match &config.token_file {
        Some(file) => security.with_token_file(token, file.clone()),
        None => security,
    })
}
