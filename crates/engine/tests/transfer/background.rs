//! Known orders and warm-ups: in order, politely, resumable, and "complete" only when it is true.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use headrace_engine::config::TransferConfig;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::transfer::{OrderedFiles, ReaderState, Source, WarmState};

const BLOCK: u64 = 256 * KIB;

fn files(origin: &Arc<MemoryOrigin>, count: u64, size: u64) -> Vec<Source> {
    (0..count).map(|n| origin.put(&format!("f{n:05}"), size, n)).collect()
}

fn order_of_requests(origin: &MemoryOrigin) -> Vec<String> {
    origin.requests.lock().iter().map(|(key, _)| String::from_utf8(key.clone()).unwrap()).collect()
}

#[tokio::test]
async fn an_order_is_fetched_in_its_order_and_each_byte_once() {
    let setup = setup();
    let mut sources = files(&setup.origin, 60, 10_000);
    sources.reverse();
    let expected: Vec<String> = sources.iter().map(Source::path).collect();
    let order = setup.transfer.prefetch(1, Arc::new(sources.clone()));
    order.ended().await;
    until("all arrived", || setup.metrics.fills.get() == 60).await;
    // Requests that are open together reach the origin in any order; it is the order of the starts that counts.
    let seen = order_of_requests(&setup.origin);
    let place = |path: &String| expected.iter().position(|other| other == path).unwrap();
    assert!(seen.iter().enumerate().all(|(at, path)| place(path).abs_diff(at) <= 16), "{seen:?}");
    for source in &sources {
        let seed = source.path()[1..].parse().unwrap();
        let reply = setup.transfer.read_cached(source, ByteRange::new(0, 10_000), &ReaderState::new()).unwrap();
        assert!(reply.unwrap().to_vec().unwrap() == pattern(10_000, seed));
    }
    assert_eq!(setup.origin.bytes_sent(), 600_000);
    assert_eq!(setup.metrics.prefetch_queue.get(), 0);
}

#[tokio::test]
async fn what_a_warm_up_fetches_is_asked_for_no_reader_and_all_else_is() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup_with(Some(store(folder.path(), 64 * MIB, BLOCK)), 4 * MIB, config(BLOCK));
    let (warmed, others) = (files(&setup.origin, 3, BLOCK), setup.origin.put("large", 8 * BLOCK, 9));
    let job = setup.transfer.warm(Arc::new(warmed.clone())).unwrap();
    job.ended().await;
    assert_eq!(setup.origin.asked_for(), (0, 3));
    for source in &warmed {
        read(&setup.transfer, source, ByteRange::new(0, BLOCK), &ReaderState::new()).await;
    }
    assert_eq!(setup.origin.asked_for(), (0, 3), "they are here");
    scan(&setup.transfer, &others, 9, 64 * KIB, &ReaderState::new()).await;
    let ordered = setup.origin.put("ordered", BLOCK, 10);
    setup.transfer.prefetch(1, Arc::new(vec![ordered])).ended().await;
    until("the order is here", || setup.metrics.prefetch_bytes.get() == 4 * BLOCK).await;
    let (for_readers, for_loads) = setup.origin.asked_for();
    assert!(for_readers > 1 && for_loads == 3, "{for_readers}, {for_loads}");
}

#[tokio::test]
async fn the_window_follows_the_client_through_a_long_order() {
    let setup = setup_with(None, 4 * MIB, config(BLOCK));
    let sources = files(&setup.origin, 100, BLOCK);
    let order = setup.transfer.prefetch(1, Arc::new(sources.clone()));
    let reader = ReaderState::new();
    for (seed, source) in sources.iter().enumerate() {
        until("the file is fetched ahead", || order.position() > seed).await;
        assert!(order.bytes_ahead() <= 2 * MIB + BLOCK);
        assert!(read(&setup.transfer, source, ByteRange::new(0, BLOCK), &reader).await == pattern(BLOCK, seed as u64));
    }
    order.ended().await;
    assert_eq!(setup.origin.bytes_sent(), 100 * BLOCK, "each file once, and none dropped before it was read");
}

#[tokio::test]
async fn files_that_were_read_before_their_turn_are_skipped() {
    let setup = setup_with(None, 2 * MIB, config(BLOCK));
    let sources = files(&setup.origin, 12, BLOCK);
    let gate = setup.origin.close_gate();
    let order = setup.transfer.prefetch(1, Arc::new(sources.clone()));
    until("the window is full", || setup.origin.open.load(Ordering::SeqCst) >= 4).await;
    gate.add_permits(100_000);
    // From behind: these are read long before the order comes to them.
    for source in sources[6..].iter().rev() {
        read(&setup.transfer, source, ByteRange::new(0, BLOCK), &ReaderState::new()).await;
    }
    for source in &sources[..6] {
        read(&setup.transfer, source, ByteRange::new(0, BLOCK), &ReaderState::new()).await;
    }
    order.ended().await;
    settle().await;
    assert_eq!(setup.origin.bytes_sent(), 12 * BLOCK);
}

#[tokio::test]
async fn a_new_order_replaces_the_clients_old_one_and_no_other() {
    let setup = setup_with(None, 2 * MIB, config(BLOCK));
    let sources = files(&setup.origin, 50, BLOCK);
    setup.origin.close_gate();
    let first = setup.transfer.prefetch(1, Arc::new(sources.clone()));
    let other = setup.transfer.prefetch(2, Arc::new(sources[..1].to_vec()));
    let second = setup.transfer.prefetch(1, Arc::new(sources[40..].to_vec()));
    first.ended().await;
    other.ended().await;
    assert!(first.position() < 50);
    second.cancel();
    second.ended().await;
    assert_eq!(setup.metrics.prefetch_queue.get(), 0);
}

#[tokio::test]
async fn readers_do_not_wait_behind_a_prefetch() {
    let setup = setup_with(None, 4 * MIB, TransferConfig { concurrency: 4, ..config(BLOCK) });
    let sources = files(&setup.origin, 100, BLOCK);
    let wanted = setup.origin.put("wanted", BLOCK, 7);
    let gate = setup.origin.close_gate();
    setup.transfer.prefetch(1, Arc::new(sources));
    until("the prefetch is at work", || setup.origin.open.load(Ordering::SeqCst) == 2).await;
    settle().await;
    assert_eq!(setup.origin.open.load(Ordering::SeqCst), 2, "half of the requests, no more");
    assert!(setup.budgets.memory.free() >= MIB, "a quarter of the memory is left for readers");
    let transfer = setup.transfer.clone();
    let read =
        tokio::spawn(async move { read(&transfer, &wanted, ByteRange::new(0, BLOCK), &ReaderState::new()).await });
    until("the reader's request is open", || setup.origin.open.load(Ordering::SeqCst) == 3).await;
    gate.add_permits(100_000);
    assert!(read.await.unwrap() == pattern(BLOCK, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_is_complete_when_every_byte_is_in_and_costs_nothing_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 64 * MIB, BLOCK);
    let setup = setup_with(Some(store.clone()), 16 * MIB, config(BLOCK));
    let mut sources = files(&setup.origin, 300, 20_000);
    sources.push(setup.origin.put("large", 10 * MIB + 3, 1000));
    sources.push(setup.origin.put("empty", 0, 1001));
    let total = 300 * 20_000 + 10 * MIB + 3;
    for fetched in [total, 0] {
        let before = setup.origin.bytes_sent();
        let job = setup.transfer.warm(Arc::new(sources.clone())).unwrap();
        job.ended().await;
        let progress = job.progress();
        assert_eq!(progress.state, WarmState::Complete, "{progress:?}");
        assert_eq!((progress.done_bytes, progress.total_bytes), (total, total));
        assert_eq!((progress.done_files, progress.total_files), (302, 302));
        assert_eq!((progress.origin_bytes, setup.origin.bytes_sent() - before), (fetched, fetched));
        assert!(job.wait(Duration::ZERO));
    }
    assert!(sources.iter().all(|source| store.cached_bytes(&source.id()) == source.size()));
    until("the memory is given back", || setup.budgets.memory.used() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_warm_up_says_so_and_the_next_one_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup_with(Some(store(folder.path(), 64 * MIB, BLOCK)), 16 * MIB, config(BLOCK));
    let sources = files(&setup.origin, 200, 50_000);
    let gate = setup.origin.close_gate();
    let job = setup.transfer.warm(Arc::new(sources.clone())).unwrap();
    gate.add_permits(60);
    until("some are in", || job.progress().done_files >= 10).await;
    assert!(!job.wait(Duration::from_millis(1)));
    job.cancel();
    job.ended().await;
    assert_eq!(job.progress().state, WarmState::Cancelled);
    setup.origin.open_gate();
    gate.add_permits(100_000);
    let again = setup.transfer.warm(Arc::new(sources)).unwrap();
    again.ended().await;
    assert_eq!(again.progress().state, WarmState::Complete, "{:?}", again.progress());
    assert_eq!(setup.origin.bytes_sent(), 200 * 50_000, "nothing was fetched twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_that_does_not_fit_says_how_much_and_stops_early() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 16 * MIB, BLOCK);
    let setup = setup_with(Some(store.clone()), 16 * MIB, config(BLOCK));
    let source = setup.origin.put("large", 400 * MIB, 1);
    let mut sources = vec![source];
    sources.extend(files(&setup.origin, 20, MIB));
    let job = setup.transfer.warm(Arc::new(sources)).unwrap();
    job.ended().await;
    let progress = job.progress();
    assert_eq!(progress.state, WarmState::Incomplete);
    let used: u64 = store.usage().iter().map(|level| level.used_bytes).sum();
    assert!(progress.done_bytes > 12 * MIB && progress.done_bytes <= used, "{progress:?}");
    assert!(progress.did_not_fit_bytes >= 64 * MIB, "{progress:?}");
    assert!(progress.message.contains("did not fit"), "{}", progress.message);
    assert!(setup.origin.bytes_sent() < 200 * MIB, "{} bytes fetched in vain", setup.origin.bytes_sent());
    until("the memory is back", || setup.budgets.memory.used() == 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_with_failures_is_incomplete_and_names_them() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup_with(Some(store(folder.path(), 64 * MIB, BLOCK)), 16 * MIB, config(BLOCK));
    let sources = files(&setup.origin, 30, 1000);
    setup.origin.put("f00007", 1000, 999);
    let job = setup.transfer.warm(Arc::new(sources)).unwrap();
    job.ended().await;
    let progress = job.progress();
    assert_eq!((progress.state, progress.failed_blocks, progress.done_files), (WarmState::Incomplete, 1, 29));
    assert!(progress.errors[0].contains("f00007") && progress.errors[0].contains("changed"), "{progress:?}");
}

/// Ten files, of which asking for the sixth is a fault.
struct Faulty(Vec<Source>);

impl OrderedFiles for Faulty {
    fn count(&self) -> usize {
        10
    }

    fn get(&self, position: usize) -> Option<Source> {
        Some(self.0[position].clone())
    }

    fn total_bytes(&self) -> u64 {
        10_000
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fault_of_our_own_ends_a_warm_up_and_an_order_for_those_who_wait() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup_with(Some(store(folder.path(), 64 * MIB, BLOCK)), 16 * MIB, config(BLOCK));
    let five = files(&setup.origin, 5, 1000);
    let job = setup.transfer.warm(Arc::new(Faulty(five.clone()))).unwrap();
    let order = setup.transfer.prefetch(1, Arc::new(Faulty(five)));
    let ended = async { tokio::join!(job.ended(), order.ended()) };
    tokio::time::timeout(Duration::from_secs(60), ended).await.expect("somebody waits for ever");
    assert!(job.progress().state.is_end() && !job.progress().errors.is_empty(), "{:?}", job.progress());
    assert_eq!((order.position(), setup.metrics.prefetch_queue.get()), (5, 0));
}

#[tokio::test]
async fn there_is_nothing_to_warm_without_a_cache() {
    let setup = setup();
    let error = setup.transfer.warm(Arc::new(Vec::<Source>::new())).unwrap_err();
    assert!(error.kind() == ErrorKind::Config && error.hint().is_some());
}
