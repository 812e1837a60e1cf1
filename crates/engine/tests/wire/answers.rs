//! What is asked of a peer arrives, byte for byte, or fails with the peer's own error.
#![allow(clippy::unwrap_used)]

use crate::support::*;
use futures::StreamExt;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::{ByteRange, FileId};
use headrace_engine::wire::PeerCommand;
use proptest::prelude::*;

fn small() -> ByteRange {
    ByteRange::new(77, 1000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_range_arrives_exactly(start in 0u64..1 << 31, length in 1u64..2_000_000, chunk in 1usize..700_000) {
        let chunk = chunk.max(length as usize / 200);
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let fixture = Fixture::new(Depot { chunk, ..Depot::new() }).await;
            let range = ByteRange::new(start, length);
            let bytes = get(&client(one_connection()), &fixture.address(), &request("a", range)).await.unwrap();
            assert!(bytes == content(range));
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_larger_than_every_window_arrives() {
    let fixture = Fixture::new(Depot::new()).await;
    let range = ByteRange::new(5, 20 << 20);
    let bytes = get(&client(one_connection()), &fixture.address(), &request("a", range)).await.unwrap();
    assert!(bytes == content(range));
    until(|| fixture.metrics.peer.sent_bytes.get() == range.length()).await;
}

#[tokio::test]
async fn absent_is_no_error_for_who_asked_for_cached_bytes_only() {
    let fixture = Fixture::new(Depot::new()).await;
    let client = client(one_connection());
    let mut wanted = request("absent", small());
    assert!(client.get(&fixture.address(), &wanted).await.err().unwrap().is_temporary());
    wanted.cached_only = true;
    assert!(client.get(&fixture.address(), &wanted).await.unwrap().is_none());
}

#[tokio::test]
async fn errors_of_the_service_arrive_as_they_are() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let error = get(&client, &address, &request("stale", small())).await.unwrap_err();
    assert_eq!(
        (error.kind(), error.message(), error.hint()),
        (ErrorKind::Stale, "a.bin changed", Some("take a new snapshot"))
    );
    assert!(!error.is_temporary());
    assert!(error.to_string().contains(&address), "{error}");
    let error = get(&client, &address, &request("half", small())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled, "after the data that came before it");
    assert!(get(&client, &address, &request("a", small())).await.is_ok(), "the connection goes on");
}

#[tokio::test]
async fn a_service_that_sends_too_little_too_much_or_panics_is_an_error() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    for path in ["short", "long", "panic"] {
        let error = get(&client, &address, &request(path, small())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unexpected, "{path}: {error}");
    }
    assert!(get(&client, &address, &request("a", small())).await.is_ok(), "the connection goes on");
}

#[tokio::test]
async fn commands_are_answered_with_json_of_any_length() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let status = client.command(&address, &PeerCommand::Status).await.unwrap();
    assert_eq!((&status["blocks"], status["long"].as_str().unwrap().len()), (&3.into(), 9 << 20));
    let pin = PeerCommand::Pin { id: FileId([7; 16]), pinned: true };
    assert_eq!(client.command(&address, &pin).await.unwrap(), true);
    let evict = PeerCommand::Evict { key: request("a", small()).key };
    assert_eq!(client.command(&address, &evict).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn a_request_that_contradicts_itself_is_never_sent() {
    let fixture = Fixture::new(Depot::new()).await;
    let error = get(&client(one_connection()), &fixture.address(), &request("a", ByteRange::new(SIZE, 1))).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(fixture.metrics.peer.served_requests.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn file_chunks_of_every_kind_are_byte_identical() {
    for chunk in [1000, 128 << 10, 300_000, 1 << 20, 3 << 20] {
        let length = 5_000_000;
        let fixture = Fixture::new(Depot { chunk, ..Depot::with_file(length) }).await;
        let (client, address) = (client(one_connection()), fixture.address());
        let range = ByteRange { start: 1234, end: length };
        for path in ["file", "file-crc"] {
            assert!(get(&client, &address, &request(path, range)).await.unwrap() == content(range), "{path} {chunk}");
        }
        until(|| fixture.depot.alive.load(std::sync::atomic::Ordering::SeqCst) == 0).await;
    }
}

#[tokio::test]
async fn a_file_that_became_shorter_is_an_error_and_never_short_data() {
    for path in ["file", "file-crc"] {
        let fixture = Fixture::new(Depot::with_file(2 << 20)).await;
        fixture.depot.file.as_ref().unwrap().set_len(1_500_000).unwrap();
        let (client, address) = (client(one_connection()), fixture.address());
        let range = ByteRange::new(0, 2 << 20);
        let mut stream = client.get(&address, &request(path, range)).await.unwrap().unwrap();
        let (mut received, mut failure) = (Vec::new(), None);
        while let Some(piece) = stream.next().await {
            match piece {
                Ok(bytes) => received.extend_from_slice(&bytes),
                Err(error) => failure = Some(error),
            }
        }
        assert!(failure.unwrap().is_temporary());
        assert!(received.len() <= 1_500_000 && received == content(ByteRange::new(0, received.len() as u64)));
    }
}

#[tokio::test]
async fn a_checksum_that_was_given_travels_to_the_reader() {
    let fixture = Fixture::new(Depot::with_file(1 << 20)).await;
    use std::os::unix::fs::FileExt;
    fixture.depot.file.as_ref().unwrap().write_all_at(b"rotten", 500_000).unwrap();
    let (client, address) = (client(one_connection()), fixture.address());
    let error = get(&client, &address, &request("file-crc", ByteRange::new(0, 1 << 20))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Corrupt, true));
    assert!(get(&client, &address, &request("a", small())).await.is_ok(), "only that answer is lost");
}
