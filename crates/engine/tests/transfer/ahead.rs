//! Read-ahead: long requests, several at a time, within the memory budget; and what the store declines is fetched once
//! a pass all the same.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::*;
use futures::future::join_all;
use headrace_engine::config::TransferConfig;
use headrace_engine::ids::ByteRange;
use headrace_engine::transfer::ReaderState;

const BLOCK: u64 = 256 * KIB;

#[tokio::test]
async fn one_sequential_reader_keeps_several_long_requests_open() {
    let setup = setup();
    let source = setup.origin.put("a", 40 * MIB, 1);
    scan(&setup.transfer, &source, 1, 128 * KIB, &ReaderState::new()).await;
    assert_eq!(setup.origin.bytes_sent(), source.size(), "every byte once");
    let longest = setup.origin.ranges().iter().map(ByteRange::length).max();
    // The window is 16 blocks here and is cut into four requests.
    assert_eq!(longest, Some(4 * BLOCK));
    assert!(setup.origin.request_count() <= 60, "{} requests for 160 blocks", setup.origin.request_count());
    assert!(setup.origin.most_open.load(Ordering::SeqCst) >= 4);
    assert!(setup.metrics.readahead_bytes.get() > 38 * MIB);
}

#[tokio::test]
async fn the_start_of_a_file_is_read_ahead_and_a_jump_is_not() {
    let setup = setup();
    let source = setup.origin.put("a", 40 * MIB, 2);
    let reader = ReaderState::new();
    read(&setup.transfer, &source, ByteRange::new(0, 4096), &reader).await;
    settle().await;
    assert_eq!(setup.origin.bytes_sent(), 2 * BLOCK, "the block asked for and one more");
    for place in [31, 7, 19, 25, 11_u64] {
        read(&setup.transfer, &source, ByteRange::new(place * MIB, 4096), &reader).await;
    }
    settle().await;
    assert_eq!(setup.origin.bytes_sent(), 7 * BLOCK, "one block for each jump");
}

#[tokio::test]
async fn a_reader_without_a_cache_fetches_each_byte_once_however_small_its_reads() {
    let setup = setup_with(None, 8 * MIB, config(BLOCK));
    let source = setup.origin.put("a", 24 * MIB, 3);
    scan(&setup.transfer, &source, 3, 16 * KIB, &ReaderState::new()).await;
    assert_eq!(setup.origin.bytes_sent(), source.size());
    assert!(setup.budgets.memory.used() <= 8 * MIB);
    setup.transfer.close().await;
    assert_eq!(setup.budgets.memory.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_cache_costs_one_fetch_a_pass_of_what_it_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path(), 8 * MIB, BLOCK);
    let setup = setup_with(Some(store.clone()), 16 * MIB, config(BLOCK));
    let source = setup.origin.put("a", 16 * MIB, 4);
    for pass in 1..=4 {
        let before = setup.origin.request_count();
        scan(&setup.transfer, &source, 4, 128 * KIB, &ReaderState::new()).await;
        until("the cache is full", || store.cached_bytes(&source.id()) >= 7 * MIB).await;
        let mut ranges = setup.origin.ranges().split_off(before);
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "pass {pass} fetched twice: {ranges:?}");
        let fetched: u64 = ranges.iter().map(ByteRange::length).sum();
        // What is still in memory from the pass before need not be fetched; what the store gave up meanwhile must.
        assert!(pass == 1 || fetched < source.size(), "pass {pass} fetched {fetched}");
    }
    assert!(store.cached_bytes(&source.id()) >= 7 * MIB);
    setup.transfer.close().await;
    assert_eq!(setup.budgets.memory.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_stored_is_read_from_the_store_and_its_memory_is_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let setup = setup_with(Some(store(folder.path(), 64 * MIB, BLOCK)), 8 * MIB, config(BLOCK));
    let source = setup.origin.put("a", 20 * MIB + 5, 5);
    scan(&setup.transfer, &source, 5, 100_000, &ReaderState::new()).await;
    until("the memory is back", || setup.budgets.memory.used() == 0).await;
    assert_eq!(setup.transfer.blocks_in_memory(), 0);
    let hits = setup.metrics.read_hit_bytes.get();
    scan(&setup.transfer, &source, 5, 100_000, &ReaderState::new()).await;
    assert_eq!(setup.origin.bytes_sent(), source.size());
    assert_eq!(setup.metrics.read_hit_bytes.get() - hits, source.size());
}

/// The budget's gauge is watched while far more readers than memory are at work. It buys trust in the one promise that
/// the whole process depends on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_in_little_memory_all_finish_and_never_exceed_it() {
    let setup = setup_with(None, 2 * MIB, config(BLOCK));
    let budget = setup.budgets.memory.clone();
    let watched = budget.clone();
    let watch = tokio::spawn(async move {
        loop {
            assert!(watched.used() <= watched.limit());
            tokio::task::yield_now().await;
        }
    });
    let gate = setup.origin.close_gate();
    let scan_one = |n| {
        let source = setup.origin.put(&format!("f{n}"), 3 * MIB, n);
        let transfer = setup.transfer.clone();
        tokio::spawn(async move { scan(&transfer, &source, n, 200_000, &ReaderState::new()).await })
    };
    let readers: Vec<_> = (0..24).map(scan_one).collect();
    until("readers wait for memory", || budget.waits() > 0).await;
    gate.add_permits(1_000_000);
    join_all(readers).await.into_iter().for_each(|reader| reader.unwrap());
    assert!(!watch.is_finished(), "the budget was exceeded");
    watch.abort();
    setup.transfer.close().await;
    assert_eq!(budget.used(), 0);
}

#[tokio::test]
async fn a_block_as_large_as_the_memory_still_arrives() {
    let setup = setup_with(None, BLOCK, config(BLOCK));
    let source = setup.origin.put("a", 4 * BLOCK, 6);
    scan(&setup.transfer, &source, 6, BLOCK / 2, &ReaderState::new()).await;
    let huge = setup_with(None, BLOCK / 2, config(BLOCK));
    let source = huge.origin.put("a", 2 * BLOCK, 7);
    scan(&huge.transfer, &source, 7, BLOCK / 2, &ReaderState::new()).await;
    assert!(huge.budgets.memory.used() <= huge.budgets.memory.limit());
}

#[tokio::test]
async fn read_ahead_leaves_memory_and_requests_to_readers() {
    let config = TransferConfig { concurrency: 4, ..config(BLOCK) };
    let setup = setup_with(None, 4 * MIB, config);
    let source = setup.origin.put("a", 64 * MIB, 8);
    let gate = setup.origin.close_gate();
    let ahead: Vec<_> = (0..12).map(|n| n * 5 * MIB).collect();
    let readers: Vec<_> = ahead.iter().map(|_| ReaderState::new()).collect();
    let mut waiting = Vec::new();
    for (start, reader) in ahead.iter().zip(&readers) {
        // Two reads in a row make a position sequential.
        for step in 0..2 {
            let range = ByteRange::new(start + step * 64 * KIB, 64 * KIB);
            let mut read = Box::pin(setup.transfer.read(&source, range, reader));
            assert!(futures::poll!(read.as_mut()).is_pending());
            waiting.push(read);
        }
    }
    settle().await;
    let (open, used) = (setup.origin.open.load(Ordering::SeqCst), setup.budgets.memory.used());
    assert!(open <= 12 + 3, "{open} requests: at most three are ahead of readers");
    assert!(used >= 12 * BLOCK, "{used} bytes: every reader has its block");
    gate.add_permits(100_000);
    join_all(waiting).await.into_iter().for_each(|read| assert_eq!(read.unwrap().length(), 64 << 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_readers_of_one_inode_share_every_fetch() {
    // A quarter of the memory remembers what the fastest reader has consumed: here the whole file.
    let setup = setup_with(None, 128 * MIB, config(BLOCK));
    let source = setup.origin.put("a", 20 * MIB, 9);
    let shared = Arc::new(ReaderState::new());
    let readers = (0..6).map(|_| {
        let (transfer, source, shared) = (setup.transfer.clone(), source.clone(), shared.clone());
        tokio::spawn(async move { scan(&transfer, &source, 9, 128 * KIB, &shared).await })
    });
    join_all(readers).await.into_iter().for_each(|reader| reader.unwrap());
    assert_eq!(setup.origin.bytes_sent(), source.size());
}
