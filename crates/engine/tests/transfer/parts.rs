//! Files that were uploaded in parts, of which the origin keeps the checksum of the parts' checksums alone.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::support::*;
use headrace_engine::checksum::Kind;
use headrace_engine::ids::ByteRange;
use headrace_engine::store::{Blocks, Proof, Store};
use headrace_engine::transfer::{ReaderState, Source};

const BLOCK: u64 = 256 * KIB;
/// As a tool uploads 5.5 MiB in parts of 2 MiB: all alike, but the last.
const EQUAL: [u64; 3] = [2 * MIB, 2 * MIB, 3 * MIB / 2 + 17];
/// Equal as well, of a length that nobody would guess.
const ODD: [u64; 3] = [2_000_003, 2_000_003, 500_000];
const UNEQUAL: [u64; 4] = [2 * MIB, MIB, 1_500_000, 77];

fn stored(folder: &tempfile::TempDir) -> (Setup, Arc<Store>) {
    let store = store(folder.path(), 256 * MIB, BLOCK);
    (setup_with(Some(store.clone()), 64 * MIB, config(BLOCK)), store)
}

/// Brings all of it into the store.
async fn bring(setup: &Setup, store: &Store, source: &Source) -> Vec<u8> {
    let reply = setup.transfer.read(source, ByteRange::new(0, source.size()), &ReaderState::new()).await.unwrap();
    let bytes = reply.to_vec().unwrap();
    until("it is whole or was dropped", || {
        setup.transfer.blocks_in_memory() == 0
            && (store.is_whole(&source.id(), source.size()) || store.cached_bytes(&source.id()) == 0)
    })
    .await;
    bytes
}

async fn proven(store: &Store, source: &Source) {
    until("it is proven", || store.proof(&source.id()) == Some(Proof::Proven)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_a_usual_length_are_proven_without_a_question() {
    for kind in [Kind::Crc32c, Kind::Crc32] {
        for lengths in [&EQUAL[..], &[6 * MIB, 5 * MIB], &[3 * MIB + 1]] {
            let folder = tempfile::tempdir().unwrap();
            let (setup, store) = stored(&folder);
            let source = setup.origin.put_in_parts("a", lengths, 7, kind);
            bring(&setup, &store, &source).await;
            proven(&store, &source).await;
            assert_eq!(setup.origin.part_questions(), 0, "{kind:?} {lengths:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_of_another_length_are_asked_for() {
    for (lengths, questions) in [(&ODD[..], 1), (&UNEQUAL[..], 4)] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_in_parts("a", lengths, 7, Kind::Crc32);
        setup.origin.tell_parts("a", lengths);
        bring(&setup, &store, &source).await;
        proven(&store, &source).await;
        assert_eq!(setup.origin.part_questions(), questions, "{lengths:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_bytes_are_found_by_the_parts_and_fetched_once_more() {
    for lengths in [&EQUAL[..], &ODD, &UNEQUAL, &[3 * MIB + 1]] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_in_parts("a", lengths, 7, Kind::Crc32c);
        setup.origin.tell_parts("a", lengths);
        setup.origin.lies.store(1, Ordering::SeqCst);
        assert!(bring(&setup, &store, &source).await != pattern(source.size(), 7), "not proven yet");
        until("it was dropped", || setup.metrics.origin_checksum_mismatches.get() == 1).await;
        assert_eq!(store.cached_bytes(&source.id()), 0);
        assert!(bring(&setup, &store, &source).await == pattern(source.size(), 7));
        proven(&store, &source).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guess_that_does_not_fit_accuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_in_parts("a", &ODD, 7, Kind::Crc32c);
    // Nothing of parts is told, or something that cannot be.
    for told in [&[][..], &[2 * MIB, 2 * MIB], &[MIB, MIB, MIB], &[u64::MAX, u64::MAX, 3]] {
        setup.origin.tell_parts("a", told);
        bring(&setup, &store, &source).await;
        until("it was looked at", || store.proof(&source.id()) == Some(Proof::NoChecksum)).await;
        setup.transfer.compare(&source).await.unwrap();
        assert!(store.is_whole(&source.id(), source.size()), "{told:?}");
        store.evict(&source.id());
    }
    assert_eq!(setup.metrics.origin_checksum_mismatches.get(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dear_checksum_of_parts_is_compared_when_somebody_asks() {
    for (kind, lengths) in [(Kind::Md5, &ODD[..]), (Kind::Sha256, &UNEQUAL), (Kind::Md5, &[5 * MIB, 5 * MIB, 9])] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_in_parts("a", lengths, 7, kind);
        if lengths[0] != 5 * MIB {
            setup.origin.tell_parts("a", lengths);
        }
        bring(&setup, &store, &source).await;
        assert_eq!((store.proof(&source.id()), setup.origin.part_questions()), (None, 0));
        setup.transfer.compare(&source).await.unwrap();
        assert_eq!(store.proof(&source.id()), Some(Proof::Proven), "{kind:?} {lengths:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entity_tag_of_parts_proves_and_accuses_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let (small, large) = (
        setup.origin.put_in_parts("small", &[1000], 7, Kind::Md5),
        setup.origin.put_in_parts("large", &ODD, 8, Kind::Md5),
    );
    setup.origin.tell_parts("large", &ODD);
    setup.origin.lies.store(1000, Ordering::SeqCst);
    bring(&setup, &store, &small).await;
    bring(&setup, &store, &large).await;
    for source in [&small, &large] {
        setup.transfer.compare(source).await.unwrap();
        assert!(store.is_whole(&source.id(), source.size()));
        assert_eq!(store.proof(&source.id()), Some(Proof::NoChecksum));
    }
    setup.origin.lies.store(0, Ordering::SeqCst);
    store.evict(&small.id());
    bring(&setup, &store, &small).await;
    proven(&store, &small).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_small_file_that_came_as_one_part_is_proven_before_its_first_byte() {
    let folder = tempfile::tempdir().unwrap();
    let (setup, store) = stored(&folder);
    let source = setup.origin.put_in_parts("a", &[BLOCK - 5], 7, Kind::Crc32);
    setup.origin.lies.store(1, Ordering::SeqCst);
    assert!(bring(&setup, &store, &source).await == pattern(source.size(), 7));
    assert_eq!((setup.origin.request_count(), setup.metrics.origin_checksum_mismatches.get()), (2, 1));
    proven(&store, &source).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_parts_are_asked_for_only_where_that_is_worth_it() {
    let equal = vec![70_001; 70];
    let unequal: Vec<u64> = (0..70).map(|number| 70_001 + number % 2).collect();
    // The last of them is asked for, and then all, where the first one is as long as equal ones are: the bytes are wrong then.
    for (lengths, lies, questions) in [(&equal, 0, 1), (&unequal, 0, 1), (&equal, 1, 71)] {
        let folder = tempfile::tempdir().unwrap();
        let (setup, store) = stored(&folder);
        let source = setup.origin.put_in_parts("a", lengths, 7, Kind::Crc32c);
        setup.origin.tell_parts("a", lengths);
        setup.origin.lies.store(lies, Ordering::SeqCst);
        bring(&setup, &store, &source).await;
        if lies > 0 {
            until("it was dropped", || setup.metrics.origin_checksum_mismatches.get() == 1).await;
        } else {
            until("it was looked at", || setup.origin.part_questions() == questions).await;
            // Who asks for it has all of them asked for.
            setup.transfer.compare(&source).await.unwrap();
            proven(&store, &source).await;
        }
        assert!(setup.origin.part_questions() >= questions, "{lies} {lengths:?}");
    }
}
