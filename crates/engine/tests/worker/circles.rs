//! Workers that fill from each other never wait for each other in a circle, neither by memory nor by what each takes the
//! other for: every byte comes from the origin once, and nobody has to give up on anybody.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use futures::future::join_all;
use headrace_engine::origin::ObjectVersion;
use headrace_engine::ring::View;

use crate::members::{Plan, Worker, object, primary, view};
use crate::support::{KIB, MIB, MemoryOrigin, pattern};

const BLOCK: u64 = 64 * KIB;
const FILES: u64 = 24;

/// Two owners of everything, with memory for four blocks each.
async fn pair(origin: &Arc<MemoryOrigin>) -> Vec<Worker> {
    let plan = Plan { block_bytes: BLOCK, memory_bytes: 4 * BLOCK, quota_bytes: 64 * MIB };
    let workers = vec![Worker::start(0, origin, &plan).await, Worker::start(1, origin, &plan).await];
    set_view(&workers, &view(1, 2, &workers));
    workers
}

fn set_view(workers: &[Worker], view: &View) {
    workers.iter().for_each(|worker| worker.cluster.set_view(view.clone()).unwrap());
}

fn put(origin: &Arc<MemoryOrigin>, size: u64) -> Vec<ObjectVersion> {
    let make = |seed| {
        origin.put(&format!("file-{seed}"), size, seed);
        object(&format!("file-{seed}"), size, seed)
    };
    (0..FILES).map(make).collect()
}

async fn check(worker: &Worker, seed: usize, object: &ObjectVersion) {
    assert!(worker.read(object).await == pattern(object.size, seed as u64), "wrong bytes of file {seed}");
}

/// Each worker reads what the other one fetches for both, all at once: every block of memory is wanted before the first
/// answer comes.
async fn cross(workers: &[Worker], objects: &[ObjectVersion]) {
    let view = workers[0].cluster.ring().view().clone();
    let reads = objects.iter().enumerate().map(|(seed, object)| {
        let replica = &workers[1 - primary(&view, object, BLOCK)];
        check(replica, seed, object)
    });
    join_all(reads).await;
}

fn assert_once(origin: &Arc<MemoryOrigin>, workers: &[Worker], bytes: u64) {
    let detours: Vec<u64> = workers.iter().map(Worker::detours).collect();
    assert_eq!((origin.bytes_sent(), &detours[..]), (bytes, &[0, 0][..]), "bytes of the origin, and who gave up");
}

#[tokio::test]
async fn replicas_that_fill_from_each_other_with_little_memory_never_wait_in_a_circle() {
    let origin = MemoryOrigin::new();
    let (workers, objects) = (pair(&origin).await, put(&origin, BLOCK));
    cross(&workers, &objects).await;
    assert_once(&origin, &workers, FILES * BLOCK);
}

#[tokio::test]
async fn nor_do_they_with_files_of_several_blocks() {
    let origin = MemoryOrigin::new();
    let (workers, objects) = (pair(&origin).await, put(&origin, 5 * BLOCK + 77));
    cross(&workers, &objects).await;
    assert_once(&origin, &workers, FILES * (5 * BLOCK + 77));
}

#[tokio::test]
async fn two_that_take_each_other_for_the_first_owner_do_not_wait_for_each_other() {
    let origin = MemoryOrigin::new();
    let (workers, objects) = (pair(&origin).await, put(&origin, BLOCK));
    let view = view(1, 2, &workers);
    // The same places under each other's names: who came first before comes second now.
    let mut turned = view.clone();
    turned.epoch = 2;
    turned.members[0].weight = 1;
    let ours = objects
        .iter()
        .enumerate()
        .find(|(_, object)| primary(&view, object, BLOCK) == 0 && primary(&turned, object, BLOCK) == 1);
    let (seed, disputed) = ours.expect("a file that changes its first owner");
    workers[0].cluster.set_view(turned).unwrap();
    tokio::join!(check(&workers[0], seed, disputed), check(&workers[1], seed, disputed));
    assert_eq!(origin.bytes_sent(), BLOCK);
}
