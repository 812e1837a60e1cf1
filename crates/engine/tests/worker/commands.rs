//! What one command may ask of a worker.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use headrace_engine::error::ErrorKind;
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::PeerCommand;

use crate::members::{Plan, Worker, client, key, object, primary, view};
use crate::support::{KIB, MIB, MemoryOrigin};

const BLOCK: u64 = 64 * KIB;
/// What a file is said to have, by a name that anybody may make up.
const BLOCKS: u32 = 1 << 29;
const SIZE: u64 = BLOCKS as u64 * BLOCK;
const PLAN: Plan = Plan { block_bytes: BLOCK, memory_bytes: 16 * BLOCK, quota_bytes: 64 * MIB };

#[tokio::test]
async fn a_command_about_more_blocks_than_a_worker_looks_at_in_a_moment_is_refused() {
    let origin = MemoryOrigin::new();
    let worker = Worker::start(0, &origin, &PLAN).await;
    worker.cluster.set_view(view(1, 1, std::slice::from_ref(&worker))).unwrap();
    let (key, first, count, block_size) = (key(&object("a", SIZE, 1)), 0, BLOCKS, BLOCK as u32);
    for command in [
        PeerCommand::Verify { key: key.clone(), first, count, block_size },
        PeerCommand::Warm { key: key.clone(), first, count, block_size },
        PeerCommand::Bring { key: key.clone(), first, count, block_size },
    ] {
        let (client, address) = (client(&Metrics::new()), worker.address());
        let asked = client.command(&address, &command);
        let told = tokio::time::timeout(Duration::from_secs(60), asked).await.expect("an answer");
        let error = told.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
        assert!(error.message().contains("536870912 blocks at once"), "{error:?}");
    }
}

#[tokio::test]
async fn what_one_owner_fetches_for_another_ones_load_is_asked_for_no_reader() {
    let origin = MemoryOrigin::new();
    origin.put("a", 4 * BLOCK, 1);
    let workers = [Worker::start(0, &origin, &PLAN).await, Worker::start(1, &origin, &PLAN).await];
    let view = view(1, 2, &workers);
    workers.iter().for_each(|worker| worker.cluster.set_view(view.clone()).unwrap());
    let object = object("a", 4 * BLOCK, 1);
    let second = &workers[1 - primary(&view, &object, BLOCK)];
    let load = PeerCommand::Warm { key: key(&object), first: 0, count: 4, block_size: BLOCK as u32 };
    let told = client(&Metrics::new()).command(&second.address(), &load).await.unwrap();
    assert_eq!(told["held_bytes"], 4 * BLOCK, "{told}");
    assert!(matches!(origin.asked_for(), (0, 1..)), "{:?}", origin.asked_for());
}
