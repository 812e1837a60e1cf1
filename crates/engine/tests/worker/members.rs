//! Workers over one origin in memory, each with a store, a budget and a server of its own.
#![allow(dead_code, clippy::unwrap_used)]

use std::sync::Arc;

use headrace_engine::budget::Budgets;
use headrace_engine::cluster::{Cluster, ClusterOptions, HandoverOrigin, Identity};
use headrace_engine::ids::{BlockSize, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ObjectVersion, Origin};
use headrace_engine::ring::{Member, MemberId, MemberState, Ring, View, stripe_of};
use headrace_engine::store::{Blocks, Store};
use headrace_engine::transfer::{ReaderState, Source, Transfer};
use headrace_engine::wire::{ClientOptions, ClientSecurity, PeerClient, PeerServer, ServerSecurity, Token};
use headrace_engine::worker::BlockService;
use tokio::runtime::Handle;

use crate::support::{MemoryOrigin, budgets, config, store};

fn token() -> Token {
    Token::new("a token that all tests know").unwrap()
}

pub fn client(metrics: &Metrics) -> PeerClient {
    PeerClient::new(ClientSecurity::token_only(token()), ClientOptions::default(), metrics)
}

pub struct Worker {
    pub transfer: Arc<Transfer>,
    pub store: Arc<Store>,
    pub cluster: Arc<Cluster>,
    pub metrics: Metrics,
    pub budgets: Budgets,
    pub service: Arc<BlockService>,
    pub server: PeerServer,
    origin: Arc<MemoryOrigin>,
    _folder: tempfile::TempDir,
}

/// How a worker is made.
pub struct Plan {
    pub block_bytes: u64,
    pub memory_bytes: u64,
    pub quota_bytes: u64,
}

impl Worker {
    /// Member `number`, which knows only itself yet.
    pub async fn start(number: usize, origin: &Arc<MemoryOrigin>, plan: &Plan) -> Worker {
        let folder = tempfile::tempdir().unwrap();
        let store = store(folder.path(), plan.quota_bytes, plan.block_bytes);
        Self::over(number, origin, plan, store, folder).await
    }

    pub async fn over(
        number: usize,
        origin: &Arc<MemoryOrigin>,
        plan: &Plan,
        store: Arc<Store>,
        folder: tempfile::TempDir,
    ) -> Worker {
        let (metrics, budgets, runtime) = (Metrics::new(), budgets(plan.memory_bytes), Handle::current());
        let identity = Some(Identity { member: MemberId(format!("worker-{number}").into()) });
        let options = ClusterOptions { node: format!("node-{number}"), identity, ..ClusterOptions::default() };
        let alone = View { epoch: 0, replicas: 1, members: vec![member(number, "127.0.0.1:1".into(), 0)] };
        let cluster =
            Cluster::new(alone, Arc::new(client(&metrics)), options, metrics.clone(), runtime.clone()).unwrap();
        let blocks = Some(store.clone() as Arc<dyn Blocks>);
        let transfer =
            Transfer::new(blocks, runtime, budgets.clone(), metrics.clone(), config(plan.block_bytes)).unwrap();
        let origins = [origin.clone() as Arc<dyn Origin>];
        let service = BlockService::new(transfer.clone(), store.clone(), cluster.clone(), origins, metrics.clone());
        let listen = "127.0.0.1:0".parse().unwrap();
        let server =
            PeerServer::start(listen, ServerSecurity::token_only(token()), service.clone(), &metrics).await.unwrap();
        Worker { transfer, store, cluster, metrics, budgets, service, server, origin: origin.clone(), _folder: folder }
    }

    pub fn address(&self) -> String {
        self.server.address().to_string()
    }

    /// The object as this worker fills its cache with it.
    pub fn source(&self, object: &ObjectVersion) -> Source {
        let handover = HandoverOrigin::new(self.origin.clone(), self.cluster.clone(), self.transfer.block_size());
        Source::new(key(object), object.clone(), Arc::new(handover))
    }

    /// Reads all of the object as a mount would through this worker.
    pub async fn read(&self, object: &ObjectVersion) -> Vec<u8> {
        let range = headrace_engine::ids::ByteRange::new(0, object.size);
        crate::support::read(&self.transfer, &self.source(object), range, &ReaderState::still()).await
    }

    /// What it did because another one failed or lagged.
    pub fn detours(&self) -> u64 {
        self.metrics.cluster_failovers.get() + self.metrics.cluster_hedges.get()
    }
}

pub fn member(number: usize, address: String, joined_epoch: u64) -> Member {
    Member {
        id: MemberId(format!("worker-{number}").into()),
        address,
        node: format!("node-{number}"),
        weight: 100,
        state: MemberState::Active,
        joined_epoch,
        cached_bytes: 0,
        lease_socket: None,
    }
}

pub fn view(epoch: u64, replicas: u32, workers: &[Worker]) -> View {
    let members = workers.iter().enumerate().map(|(number, worker)| member(number, worker.address(), 0)).collect();
    View { epoch, replicas, members }
}

pub fn object(name: &str, size: u64, seed: u64) -> ObjectVersion {
    let version = Version::Etag(format!("e{seed}").into_bytes().into());
    ObjectVersion { key: name.as_bytes().into(), size, version }
}

pub fn key(object: &ObjectVersion) -> FileKey {
    let (path, version) = (object.key.clone(), object.version.clone());
    FileKey { dataset: "memory://test".into(), path, size: object.size, version }
}

/// The number of the member that owns the first block of the object before all others.
pub fn primary(view: &View, object: &ObjectVersion, block_bytes: u64) -> usize {
    let ring = Ring::new(view.clone()).unwrap();
    let block_size = BlockSize::new(block_bytes as u32).unwrap();
    ring.owners(stripe_of(&key(object).id(), 0, block_size))[0]
}
