//! Every byte of the origin is fetched once, whoever reads it and in whatever order; readers are answered early, and a
//! failure reaches all of them and nobody after them.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::*;
use futures::future::join_all;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::transfer::ReaderState;
use proptest::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_readers_of_a_cold_file_cause_one_fetch() {
    let setup = setup();
    let source = setup.origin.put("a", 3 * MIB + 17, 1);
    let readers = (0..64).map(|_| {
        let (transfer, source) = (setup.transfer.clone(), source.clone());
        tokio::spawn(async move {
            let reader = ReaderState::new();
            transfer.read(&source, ByteRange::new(0, source.size()), &reader).await.unwrap().to_vec().unwrap()
        })
    });
    for content in join_all(readers).await {
        assert!(content.unwrap() == pattern(source.size(), 1));
    }
    assert_eq!(setup.origin.bytes_sent(), source.size());
}

#[tokio::test]
async fn the_asked_for_offset_is_fetched_first_and_answered_before_the_block_is_complete() {
    let setup = setup();
    let source = setup.origin.put("a", MIB, 2);
    setup.origin.piece_bytes.store(16 << 10, Ordering::SeqCst);
    let gate = setup.origin.close_gate();
    let (transfer, wanted) = (setup.transfer.clone(), source.clone());
    let range = ByteRange::new(512 * KIB + 130 * KIB, 4 * KIB);
    let read = tokio::spawn(async move { transfer.read(&wanted, range, &ReaderState::new()).await });
    // The block is 256 KiB from 512 KiB on; 130 KiB into it is in the third 64 KiB, and its first piece is enough.
    gate.add_permits(1);
    let reply = read.await.unwrap().unwrap();
    assert!(reply.to_vec().unwrap() == pattern(MIB, 2)[range.start as usize..range.end as usize]);
    let block = ByteRange::new(512 * KIB, 256 * KIB);
    assert_eq!(setup.origin.ranges(), [ByteRange { start: block.start + 128 * KIB, end: block.end }]);
    assert!(setup.transfer.read_cached(&source, block, &ReaderState::new()).unwrap().is_none());
    setup.origin.open_gate();
    // The rest of the block follows by itself: its end, then its head.
    until("the block is complete", || {
        setup.transfer.read_cached(&source, block, &ReaderState::new()).unwrap().is_some()
    })
    .await;
    assert_eq!(setup.origin.ranges()[1], ByteRange { start: block.start, end: block.start + 128 * KIB });
    assert_eq!(setup.origin.bytes_sent(), block.length());
}

#[tokio::test]
async fn a_reader_of_the_head_does_not_wait_for_the_tail() {
    let setup = setup();
    let source = setup.origin.put("a", 256 * KIB, 3);
    let gate = setup.origin.close_gate();
    let reader = ReaderState::new();
    let tail = setup.transfer.read(&source, ByteRange::new(200 * KIB, 56 * KIB), &reader);
    let head = setup.transfer.read(&source, ByteRange::new(0, 64 * KIB), &reader);
    let both = async {
        let (tail, head) = tokio::join!(tail, head);
        (tail.unwrap().length(), head.unwrap().length())
    };
    let permits = async {
        until("two requests are open", || setup.origin.open.load(Ordering::SeqCst) == 2).await;
        gate.add_permits(1000);
    };
    let (lengths, ()) = tokio::join!(both, permits);
    assert_eq!(lengths, (56 << 10, 64 << 10));
    assert_eq!(setup.origin.bytes_sent(), 256 * KIB);
}

#[tokio::test]
async fn a_failure_reaches_every_waiter_and_the_next_read_tries_again() {
    let setup = setup();
    let source = setup.origin.put("a", 100 * KIB, 4);
    setup.origin.failures.store(1, Ordering::SeqCst);
    let reader = ReaderState::new();
    let whole = ByteRange::new(0, source.size());
    let reads = join_all((0..8).map(|_| setup.transfer.read(&source, whole, &reader))).await;
    assert!(reads.iter().all(|read| matches!(read, Err(error) if error.kind() == ErrorKind::Unreachable)));
    assert_eq!(setup.origin.request_count(), 1);
    let again = setup.transfer.read(&source, whole, &reader).await.unwrap();
    assert!(again.to_vec().unwrap() == pattern(source.size(), 4));
}

#[tokio::test]
async fn a_short_answer_is_an_error_and_never_data() {
    let setup = setup();
    let source = setup.origin.put("a", 100 * KIB, 5);
    setup.origin.short_answers.store(1, Ordering::SeqCst);
    let reader = ReaderState::new();
    let whole = ByteRange::new(0, source.size());
    let error = setup.transfer.read(&source, whole, &reader).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(setup.transfer.read(&source, whole, &reader).await.is_ok());
}

#[tokio::test]
async fn a_changed_object_is_stale_for_all_and_is_not_kept() {
    let setup = setup();
    let source = setup.origin.put("a", 100 * KIB, 6);
    setup.origin.put("a", 100 * KIB, 7);
    let reader = ReaderState::new();
    for _ in 0..2 {
        let error = setup.transfer.read(&source, ByteRange::new(0, 10), &reader).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Stale);
    }
    assert_eq!(setup.transfer.blocks_in_memory(), 0);
}

#[tokio::test]
async fn a_fetch_that_served_nobody_stops_when_the_last_reader_goes_away_early() {
    let setup = setup();
    let source = setup.origin.put("a", 256 * KIB, 8);
    setup.origin.close_gate();
    let reader = ReaderState::new();
    let whole = ByteRange::new(0, 4096);
    {
        let first = setup.transfer.read(&source, whole, &reader);
        let second = setup.transfer.read(&source, whole, &reader);
        tokio::pin!(first, second);
        assert!(futures::poll!(first.as_mut()).is_pending());
        assert!(futures::poll!(second.as_mut()).is_pending());
        until("the request is open", || setup.origin.open.load(Ordering::SeqCst) == 1).await;
    }
    until("the request is dropped", || setup.origin.open.load(Ordering::SeqCst) == 0).await;
    until("the memory is back", || setup.budgets.memory.used() == 0).await;
    setup.origin.open_gate();
    assert_eq!(setup.transfer.read(&source, whole, &reader).await.unwrap().length(), 4096);
}

#[tokio::test]
async fn a_reader_that_goes_away_takes_nothing_from_the_others() {
    let setup = setup();
    let source = setup.origin.put("a", 256 * KIB, 9);
    setup.origin.close_gate();
    let reader = ReaderState::new();
    let range = ByteRange::new(0, source.size());
    let staying = setup.transfer.read(&source, range, &reader);
    tokio::pin!(staying);
    {
        let leaving = setup.transfer.read(&source, range, &reader);
        tokio::pin!(leaving);
        assert!(futures::poll!(leaving.as_mut()).is_pending());
        assert!(futures::poll!(staying.as_mut()).is_pending());
    }
    setup.origin.open_gate();
    assert!(staying.await.unwrap().to_vec().unwrap() == pattern(source.size(), 9));
    assert_eq!(setup.origin.request_count(), 1);
}

#[tokio::test]
async fn closing_fails_who_waits_and_gives_all_memory_back() {
    let setup = setup();
    let source = setup.origin.put("a", MIB, 10);
    setup.origin.close_gate();
    let (transfer, wanted) = (setup.transfer.clone(), source.clone());
    let read = tokio::spawn(async move { transfer.read(&wanted, ByteRange::new(0, 10), &ReaderState::new()).await });
    until("the request is open", || setup.origin.open.load(Ordering::SeqCst) > 0).await;
    setup.transfer.close().await;
    assert_eq!(read.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!((setup.budgets.memory.used(), setup.transfer.blocks_in_memory()), (0, 0));
    let late = setup.transfer.read(&source, ByteRange::new(0, 10), &ReaderState::new()).await;
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Cancelled);
}

#[tokio::test]
async fn the_edges_of_a_file_are_exact() {
    let setup = setup();
    let source = setup.origin.put("a", 256 * KIB + 1, 11);
    let empty = setup.origin.put("empty", 0, 12);
    let reader = ReaderState::new();
    let read = async |source, start, length| {
        setup.transfer.read(source, ByteRange::new(start, length), &reader).await.unwrap().to_vec().unwrap()
    };
    assert_eq!(read(&source, 256 * KIB, 100).await, &pattern(source.size(), 11)[(256 << 10)..]);
    assert_eq!(read(&source, 256 * KIB + 1, 100).await, b"");
    assert_eq!(read(&source, u64::MAX - 5, 100).await, b"");
    assert_eq!(read(&source, 256 * KIB - 1, 2).await, &pattern(source.size(), 11)[(256 << 10) - 1..]);
    assert_eq!(read(&empty, 0, 100).await, b"");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Memory is ample, so nothing may be fetched twice, whatever the readers do.
    #[test]
    fn any_readers_get_the_right_bytes_and_no_byte_is_fetched_twice(
        size in 1..3_000_000_u64,
        piece in 1_000..200_000_usize,
        readers in prop::collection::vec(prop::collection::vec((any::<u64>(), 1..600_000_u64), 1..6), 1..8),
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let setup = setup_with(None, 64 * MIB, config(128 * KIB));
            setup.origin.piece_bytes.store(piece, Ordering::SeqCst);
            let source = setup.origin.put("a", size, size);
            let expected = pattern(size, size);
            let shared = Arc::new(ReaderState::new());
            let tasks = readers.into_iter().map(|reads| {
                let (transfer, source, expected, shared) =
                    (setup.transfer.clone(), source.clone(), expected.clone(), shared.clone());
                tokio::spawn(async move {
                    for (start, length) in reads {
                        let range = ByteRange::new(start % size, length).clamp_to(size);
                        let reply = match transfer.read_cached(&source, range, &shared).unwrap() {
                            Some(reply) => reply,
                            None => transfer.read(&source, range, &shared).await.unwrap(),
                        };
                        assert!(reply.to_vec().unwrap() == expected[range.start as usize..range.end as usize]);
                    }
                })
            });
            join_all(tasks).await.into_iter().for_each(|task| task.unwrap());
            setup.transfer.close().await;
            let mut ranges = setup.origin.ranges();
            ranges.sort_by_key(|range| range.start);
            assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start), "{ranges:?}");
            assert_eq!(setup.budgets.memory.used(), 0);
        });
    }
}
