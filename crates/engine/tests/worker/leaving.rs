//! What a worker that leaves hands over, and what it does not wait for.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_engine::cluster::{HoldProgress, HoldState};
use headrace_engine::ids::FileKey;
use headrace_engine::ring::MemberState;
use headrace_engine::store::Put;

use crate::members::{Plan, Worker, key, object, view};
use crate::support::{KIB, MIB, MemoryOrigin, pattern};

const BLOCK: u64 = 64 * KIB;
const SMALL: Plan = Plan { block_bytes: BLOCK, memory_bytes: 16 * MIB, quota_bytes: 8 * BLOCK };
const AMPLE: Plan = Plan { quota_bytes: 64 * MIB, ..SMALL };
const PATIENCE: Duration = Duration::from_secs(600);

/// A worker that stays, and one that leaves.
struct Two {
    stays: Worker,
    leaves: Worker,
}

impl Two {
    async fn start(origin: &Arc<MemoryOrigin>, stays: &Plan) -> Self {
        Self::start_with(origin, stays, &AMPLE).await
    }

    async fn start_with(origin: &Arc<MemoryOrigin>, stays: &Plan, leaves: &Plan) -> Self {
        let workers = [Worker::start(0, origin, stays).await, Worker::start(1, origin, leaves).await];
        let mut seen = view(1, 1, &workers);
        seen.members[1].state = MemberState::Draining;
        workers.iter().for_each(|worker| worker.cluster.set_view(seen.clone()).unwrap());
        let [stays, leaves] = workers;
        Two { stays, leaves }
    }

    async fn drain(&self) -> HoldProgress {
        let job = self.leaves.service.drain().await.unwrap();
        let waiting = job.clone();
        assert!(tokio::task::spawn_blocking(move || waiting.wait(PATIENCE)).await.unwrap(), "{:?}", job.progress());
        job.progress()
    }
}

/// Puts a file of one block into a worker's cache as it is in the origin.
fn keep(worker: &Worker, origin: &Arc<MemoryOrigin>, name: &str, seed: u64) -> FileKey {
    origin.put(name, BLOCK, seed);
    let key = key(&object(name, BLOCK, seed));
    put(worker, &key, pattern(BLOCK, seed));
    key
}

fn put(worker: &Worker, key: &FileKey, content: Bytes) {
    assert_eq!(worker.store.put(&Arc::new(key.clone()), 0, &[content]), Put::Stored);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_has_is_with_the_others_when_it_is_through() {
    let origin = MemoryOrigin::new();
    let two = Two::start(&origin, &AMPLE).await;
    let kept: Vec<_> = (0..5).map(|number| keep(&two.leaves, &origin, &format!("file/{number}"), number)).collect();
    let told = two.drain().await;
    assert_eq!((told.state, told.done_bytes, told.total_bytes), (HoldState::Complete, 5 * BLOCK, 5 * BLOCK));
    assert!(kept.iter().all(|key| two.stays.store.cached_bytes(&key.id()) == BLOCK));
    assert_eq!(origin.bytes_sent(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_disk_has_yet_is_handed_over_from_memory() {
    let origin = MemoryOrigin::new();
    let two = Two::start_with(&origin, &AMPLE, &Plan { quota_bytes: BLOCK - 1, ..AMPLE }).await;
    for number in 0..3 {
        let name = format!("file/{number}");
        origin.put(&name, BLOCK, number);
        let object = object(&name, BLOCK, number);
        assert_eq!(two.leaves.read(&object).await, pattern(BLOCK, number));
        assert_eq!(two.leaves.store.cached_bytes(&key(&object).id()), 0, "it stays in memory");
    }
    let fetched_bytes = origin.bytes_sent();
    let told = two.drain().await;
    assert_eq!((told.state, told.done_bytes, told.total_bytes), (HoldState::Complete, 3 * BLOCK, 3 * BLOCK));
    assert_eq!(two.stays.store.usage().iter().map(|level| level.content_bytes).sum::<u64>(), 3 * BLOCK);
    assert_eq!(origin.bytes_sent(), fetched_bytes, "nothing is fetched again");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_an_origin_that_the_dataset_no_longer_has_keep_nobody() {
    let origin = MemoryOrigin::new();
    let two = Two::start(&origin, &AMPLE).await;
    let known = keep(&two.leaves, &origin, "known", 1);
    let foreign = FileKey { dataset: "memory://of-before".into(), ..known.clone() };
    put(&two.leaves, &foreign, pattern(BLOCK, 2));
    let told = two.drain().await;
    assert_eq!((told.state, told.total_bytes), (HoldState::Complete, BLOCK), "{:?}", told.errors);
    assert_eq!(two.stays.store.cached_bytes(&known.id()), BLOCK);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_others_have_no_room_for_keeps_nobody() {
    let origin = MemoryOrigin::new();
    let two = Two::start(&origin, &SMALL).await;
    // What is pinned gives no room to anything else.
    for number in 0..7 {
        let id = keep(&two.stays, &origin, &format!("pinned/{number}"), number).id();
        two.stays.store.set_pinned(id, true);
    }
    let kept: Vec<_> =
        (10..14).map(|number| keep(&two.leaves, &origin, &format!("leaving/{number}"), number)).collect();
    let told = two.drain().await;
    assert_eq!((told.state, told.total_bytes), (HoldState::Complete, 4 * BLOCK), "{:?}", told.errors);
    assert!(told.done_bytes <= BLOCK, "there is room for one: {told:?}");
    let held = kept.iter().filter(|key| two.stays.store.cached_bytes(&key.id()) > 0).count();
    assert!(held <= 1, "{held}");
    let pinned = two.stays.store.pinned_bytes();
    assert_eq!(pinned, 7 * BLOCK, "what is pinned stays");
}
