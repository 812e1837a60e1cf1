//! A mount beside the worker that owns what it reads: what is read ahead is stored by the worker and read from its files.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use headrace_engine::cluster::{Cluster, ClusterOptions, MemberOrigin};
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::{BlockSize, ByteRange};
use headrace_engine::lease::{LeaseLimits, LeaseOptions, LeaseServer, LeasedBlocks};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::ObjectVersion;
use headrace_engine::ring::View;
use headrace_engine::store::Blocks;
use headrace_engine::transfer::{ReaderState, Source, Transfer};
use tokio::runtime::Handle;

use crate::members::{Plan, Worker, client, key, member, object};
use crate::support::{KIB, MIB, MemoryOrigin, budgets, config, pattern, read, scan, until};

const BLOCK: u64 = MIB;
const SIZE: u64 = 24 * BLOCK + 7;
const STEP: u64 = 128 * KIB;
const PATIENCE: Duration = Duration::from_secs(60);
/// What is slow by chance is no part of a test that does not say so.
const HOUR: Duration = Duration::from_secs(3600);

/// A worker and a mount on one machine.
struct Machine {
    origin: Arc<MemoryOrigin>,
    worker: Worker,
    // Ends before the folder that its socket is in.
    _lender: LeaseServer,
    transfer: Arc<Transfer>,
    source: Source,
    metrics: Metrics,
    _place: tempfile::TempDir,
}

impl Machine {
    async fn new(quota_bytes: u64) -> Machine {
        Self::with_mount_on("node-0", quota_bytes).await
    }

    /// The worker is on `node-0`.
    async fn with_mount_on(node: &str, quota_bytes: u64) -> Machine {
        let (place, origin) = (tempfile::tempdir().unwrap(), MemoryOrigin::new());
        origin.put("large", SIZE, 1);
        let plan = Plan { block_bytes: BLOCK, memory_bytes: 64 * MIB, quota_bytes };
        let worker = Worker::start(0, &origin, &plan).await;
        let socket = place.path().join("worker.sock");
        let lender = LeaseServer::start(&socket, worker.store.clone(), LeaseLimits::default()).unwrap();
        let mut lending = member(0, worker.address(), 0);
        lending.lease_socket = Some(socket);
        let view = View { epoch: 1, replicas: 1, members: vec![lending] };
        worker.cluster.set_view(view.clone()).unwrap();
        let (metrics, runtime, budgets) = (Metrics::new(), Handle::current(), budgets(64 * MIB));
        let options = ClusterOptions { node: node.into(), hedge: false, ..ClusterOptions::default() };
        let cluster =
            Cluster::new(view, Arc::new(client(&metrics)), options, metrics.clone(), runtime.clone()).unwrap();
        let block_size = BlockSize::new(BLOCK as u32).unwrap();
        let place_of = cluster.clone();
        let leased = LeasedBlocks::new(
            Arc::new(move || place_of.lease_socket()),
            block_size,
            budgets.descriptors.clone(),
            LeaseOptions { patience: PATIENCE, ..LeaseOptions::default() },
        );
        let blocks = Some(leased.unwrap() as Arc<dyn Blocks>);
        let transfer = Transfer::new(blocks, runtime, budgets, metrics.clone(), config(BLOCK)).unwrap();
        transfer.set_bring_patience(HOUR);
        let large: ObjectVersion = object("large", SIZE, 1);
        let source =
            Source::new(key(&large), large.clone(), Arc::new(MemberOrigin::new("memory://test", cluster, block_size)));
        Machine { origin, worker, _lender: lender, transfer, source, metrics, _place: place }
    }

    async fn scan(&self) {
        let reader = ReaderState::new();
        let reading = scan(&self.transfer, &self.source, 1, STEP, &reader);
        tokio::time::timeout(PATIENCE, reading).await.expect("a reader waits for ever");
    }

    fn received_bytes(&self) -> u64 {
        self.metrics.peer.received_bytes.get()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_read_ahead_is_stored_by_the_worker_and_comes_over_no_connection() {
    let machine = Machine::new(256 * MIB).await;
    machine.scan().await;
    let (received, brought) = (machine.received_bytes(), machine.metrics.cluster_brought_bytes.get());
    // An eighth of a block where it was not read ahead.
    assert!(received < SIZE / 6, "{received} bytes of {SIZE} came over a connection");
    assert!(brought > 0);
    assert_eq!(machine.origin.bytes_sent(), SIZE, "each byte once");
    assert!(machine.metrics.readahead_bytes.get() > SIZE / 2, "what was read ahead counts as that");
    assert_eq!(machine.metrics.read_hit_bytes.get() + machine.metrics.read_miss_bytes.get(), SIZE);
    machine.transfer.close().await;
    assert_eq!(machine.transfer.blocks_in_memory(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_known_order_will_want_is_stored_by_the_worker_before_it_is_wanted() {
    let machine = Machine::new(256 * MIB).await;
    let _order = machine.transfer.prefetch(1, Arc::new(vec![machine.source.clone()]));
    let (worker, file) = (&machine.worker.store, machine.source.id());
    until("the worker has the file", || worker.whole_file(&file, SIZE).is_some()).await;
    machine.scan().await;
    let received = machine.received_bytes();
    assert!(received < SIZE / 6, "{received} bytes of {SIZE} came over a connection");
    assert_eq!(machine.origin.bytes_sent(), SIZE, "each byte once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_does_not_fit_into_the_cache_is_read_all_the_same() {
    let machine = Machine::new(4 * BLOCK).await;
    for _ in 0..2 {
        machine.scan().await;
    }
    machine.transfer.close().await;
    assert_eq!(machine.transfer.blocks_in_memory(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_waits_for_a_block_that_comes_slowly_has_its_first_bytes_before_its_last_are_there() {
    let machine = Machine::new(256 * MIB).await;
    machine.transfer.set_bring_patience(Duration::from_millis(100));
    machine.origin.close_end_gate();
    let (reader, content) = (ReaderState::new(), pattern(SIZE, 1));
    for range in [ByteRange::new(0, STEP), ByteRange::new(BLOCK, 4 * KIB)] {
        let reading = read(&machine.transfer, &machine.source, range, &reader);
        let bytes = tokio::time::timeout(PATIENCE, reading).await.expect("bytes of a block that is not whole");
        assert!(bytes == content[range.start as usize..range.end as usize]);
    }
    assert!((0..2).all(|index| !machine.worker.store.may_contain(&machine.source.id(), index)), "nothing was tried");
    machine.origin.open_end_gate();
    machine.scan().await;
    assert_eq!(machine.origin.bytes_sent(), SIZE, "each byte once");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mount_on_another_machine_has_all_bytes_sent() {
    let machine = Machine::with_mount_on("node-1", 256 * MIB).await;
    machine.scan().await;
    assert_eq!(machine.metrics.cluster_brought_bytes.get(), 0);
    assert_eq!(machine.received_bytes(), SIZE);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_gone_keeps_no_other_from_being_brought() {
    let machine = Machine::new(256 * MIB).await;
    let gone: ObjectVersion = object("gone", SIZE, 2);
    let gone = Source::new(key(&gone), gone, machine.source.origin().clone());
    let reader = ReaderState::new();
    let reading = machine.transfer.read(&gone, ByteRange::new(0, STEP), &reader);
    let answer = tokio::time::timeout(PATIENCE, reading).await.expect("a reader waits for ever");
    assert_eq!(answer.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    machine.scan().await;
    let received = machine.received_bytes();
    assert!(received < SIZE / 6, "{received} bytes of {SIZE} came over a connection");
}
