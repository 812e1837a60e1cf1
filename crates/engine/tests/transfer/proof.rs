//! Other bytes under the right headers: found by the origin's own checksum, fetched once more, and refused if wrong again.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::*;
use headrace_engine::checksum::Kind;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::store::{Blocks, Proof, Store};
use headrace_engine::transfer::{ReaderState, Source, WarmState};

const BLOCK: u64 = 256 * KIB;
const LARGE: u64 = 3 * BLOCK + 17;

fn stored(folder: &tempfile::TempDir) -> (Setup, Arc<Store>) {
    let store = store(folder.path(), 64 * MIB, BLOCK);
    (setup_with(Some(store.clone()), 64 * MIB, config(BLOCK)), store)
}

async fn read_all(setup: &Setup, source: &Source) -> Result<Vec<u8>, ErrorKind> {
    let range = ByteRange::new(0, source.size());
    let reply = setup.transfer.read(source, range, &ReaderState::new()).await;
    reply.map(|reply| reply.to_vec().unwrap()).map_err(|error| error.kind())
}

/// Lies about every request until the file is whole and was compared; nothing of it is in the store then.
async fn fill_with_lies(setup: &Setup, store: &Store, source: &Source) {
    let before = setup.metrics.origin_checksum_mismatches.get();
    setup.origin.lies.store(1000, Ordering::SeqCst);
    assert!(read_all(setup, source).await.unwrap() != pattern(source.size(), 7), "not proven yet: it is not whole");
    until("it was compared", || setup.metrics.origin_checksum_mismatches.get() > before).await;
    until("it was dropped", || store.cached_bytes(&source.id()) == 0 && setup.transfer.blocks_in_memory() == 0).await;
    setup.origin.lies.store(0, Ordering::SeqCst);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_of_one_block_is_compared_before_anybody_gets_a_byte_of_it() {
    for kind in [Kind::Crc32c, Kind::Crc64Nvme, Kind::Crc32, Kind::Crc64Ecma, Kind::Sha256, Kind::Md5] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_summed("a", BLOCK - 5, 7, kind);
        setup.origin.lies.store(1, Ordering::SeqCst);
        // The end of it, for which a request would begin in the middle otherwise.
        let range = ByteRange::new(BLOCK - 105, 100);
        let end = setup.transfer.read(&source, range, &ReaderState::new()).await.unwrap().to_vec().unwrap();
        assert!(end == pattern(source.size(), 7)[range.start as usize..], "{kind:?}");
        assert_eq!((setup.origin.request_count(), setup.metrics.origin_checksum_mismatches.get()), (2, 1));
        until("it is proven", || store.proof(&source.id()) == Some(Proof::Proven)).await;
    }
}

#[tokio::test]
async fn readers_of_one_block_wait_for_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, _store) = stored(&folder);
    let source = setup.origin.put_summed("a", BLOCK, 7, Kind::Md5);
    let gate = setup.origin.close_gate();
    let (transfer, wanted) = (setup.transfer.clone(), source.clone());
    let begun = tokio::spawn(async move { transfer.read(&wanted, ByteRange::new(0, 10), &ReaderState::new()).await });
    let pieces = BLOCK as usize / setup.origin.piece_bytes.load(Ordering::SeqCst) + 1;
    gate.add_permits(pieces - 1);
    until("all but the last piece came", || gate.available_permits() == 0).await;
    settle().await;
    assert!(!begun.is_finished());
    gate.add_permits(1);
    assert!(begun.await.unwrap().unwrap().to_vec().unwrap() == pattern(BLOCK, 7)[..10]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_block_that_is_wrong_twice_is_an_error_for_now() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_summed("a", BLOCK, 7, Kind::Crc64Nvme);
    setup.origin.lies.store(2, Ordering::SeqCst);
    assert_eq!(read_all(&setup, &source).await, Err(ErrorKind::Corrupt));
    assert_eq!((setup.origin.request_count(), store.cached_bytes(&source.id())), (2, 0));
    assert!(read_all(&setup, &source).await.unwrap() == pattern(BLOCK, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_file_is_compared_once_it_is_whole() {
    for kind in [Kind::Crc32c, Kind::Crc64Nvme] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_summed("a", LARGE, 7, kind);
        fill_with_lies(&setup, &store, &source).await;
        assert!(read_all(&setup, &source).await.unwrap() == pattern(LARGE, 7));
        until("it is proven", || store.proof(&source.id()) == Some(Proof::Proven)).await;
        store.evict(&source.id());
        assert_eq!(store.proof(&source.id()), None, "what comes in its place is to be compared anew");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_larger_file_that_is_wrong_twice_is_refused_until_it_is_asked_for_again() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_summed("a", LARGE, 7, Kind::Crc32c);
    fill_with_lies(&setup, &store, &source).await;
    fill_with_lies(&setup, &store, &source).await;
    let requests = setup.origin.request_count();
    assert_eq!(read_all(&setup, &source).await, Err(ErrorKind::Corrupt));
    assert_eq!(setup.origin.request_count(), requests, "nothing that is refused is fetched");
    // The reader was answered with the first block's error; whoever reads now would share those of the others.
    until("all of them have failed", || setup.transfer.blocks_in_memory() == 0).await;
    setup.transfer.compare(&source).await.unwrap();
    assert!(read_all(&setup, &source).await.unwrap() == pattern(LARGE, 7));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_is_complete_once_what_was_wrong_came_again() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let (right, wrong) =
        (setup.origin.put("right", LARGE, 5), setup.origin.put_summed("wrong", LARGE, 7, Kind::Crc32c));
    setup.transfer.warm(Arc::new(vec![right.clone()])).unwrap().ended().await;
    setup.origin.lies.store(1, Ordering::SeqCst);
    let job = setup.transfer.warm(Arc::new(vec![right, wrong.clone()])).unwrap();
    job.ended().await;
    let progress = job.progress();
    assert_eq!((progress.state, progress.done_bytes, progress.done_files), (WarmState::Complete, 2 * LARGE, 2));
    assert_eq!(store.proof(&wrong.id()), Some(Proof::Proven), "it ends after the comparison");
    assert_eq!(setup.metrics.origin_checksum_mismatches.get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_warm_up_tells_what_the_origin_has_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_summed("a", LARGE, 7, Kind::Crc64Nvme);
    setup.origin.lies.store(1000, Ordering::SeqCst);
    let job = setup.transfer.warm(Arc::new(vec![source.clone()])).unwrap();
    job.ended().await;
    let progress = job.progress();
    assert_eq!((progress.state, progress.done_bytes, progress.done_files), (WarmState::Incomplete, 0, 0));
    assert!(progress.errors[0].contains("sends other bytes of"), "{progress:?}");
    assert!(progress.message.contains("blocks failed"), "{progress:?}");
    assert_eq!((store.cached_bytes(&source.id()), setup.metrics.origin_checksum_mismatches.get()), (0, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_expensive_checksum_of_a_larger_file_is_compared_when_somebody_asks() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_summed("a", LARGE, 7, Kind::Md5);
    setup.origin.lies.store(1000, Ordering::SeqCst);
    read_all(&setup, &source).await.unwrap();
    until("it is whole", || store.is_whole(&source.id(), LARGE)).await;
    assert_eq!(store.proof(&source.id()), None);
    assert_eq!(setup.transfer.compare(&source).await.unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(store.cached_bytes(&source.id()), 0);
    setup.origin.lies.store(0, Ordering::SeqCst);
    read_all(&setup, &source).await.unwrap();
    until("it is whole again", || store.is_whole(&source.id(), LARGE)).await;
    setup.transfer.compare(&source).await.unwrap();
    assert_eq!(store.proof(&source.id()), Some(Proof::Proven));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checksum_that_costs_a_request_is_asked_for_larger_files_alone_or_by_a_person() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    setup.origin.apart.store(true, Ordering::SeqCst);
    let small = setup.origin.put_summed("small", BLOCK, 7, Kind::Crc32c);
    let large = setup.origin.put_summed("large", LARGE, 7, Kind::Crc32c);
    read_all(&setup, &small).await.unwrap();
    read_all(&setup, &large).await.unwrap();
    until("the larger one is proven", || store.proof(&large.id()) == Some(Proof::Proven)).await;
    until("the small one is whole", || store.is_whole(&small.id(), BLOCK)).await;
    assert_eq!(store.proof(&small.id()), None);
    setup.transfer.compare(&small).await.unwrap();
    assert_eq!(store.proof(&small.id()), Some(Proof::Proven));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_has_no_checksum_is_known_to_have_none() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    setup.origin.put_summed("other", 1, 1, Kind::Md5);
    for size in [BLOCK, LARGE] {
        let source = setup.origin.put(&format!("{size}"), size, 7);
        read_all(&setup, &source).await.unwrap();
        until("it is known", || store.proof(&source.id()) == Some(Proof::NoChecksum)).await;
    }
}
