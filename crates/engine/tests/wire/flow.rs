//! Many answers share a connection: none holds up another, none grows, and what nobody wants any more ends.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::*;
use futures::StreamExt;
use futures::future::join_all;
use headrace_engine::budget::Budget;
use headrace_engine::error::{ErrorKind, Retry};
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{ClientSecurity, PeerClient, PeerCommand, ServerLimits};

const WINDOW: u64 = 4 << 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_slow_consumers_share_one_connection() {
    let fixture = Fixture::new(Depot::new()).await;
    let metrics = Metrics::new();
    let client = Arc::new(PeerClient::new(ClientSecurity::token_only(token()), one_connection(), &metrics));
    let consumers = (0..1000u64).map(|number| {
        let (client, address) = (client.clone(), fixture.address());
        tokio::spawn(async move {
            let range = ByteRange::new(number * 1013, 300_000 + number);
            let mut stream = client.get(&address, &request("a", range)).await.unwrap().unwrap();
            let mut position = range.start;
            while let Some(piece) = stream.next().await {
                let piece = piece.unwrap();
                let end = position + piece.len() as u64;
                assert!(piece[..] == content(ByteRange { start: position, end }));
                position = end;
                for _ in 0..number % 50 {
                    tokio::task::yield_now().await;
                }
            }
            assert_eq!(position, range.end);
        })
    });
    for outcome in join_all(consumers).await {
        outcome.unwrap();
    }
    assert_eq!((metrics.peer.connections.get(), metrics.peer.requests.get()), (1, 1000));
    assert_eq!(fixture.metrics.peer.served_connections.get(), 1);
    until(|| fixture.metrics.peer.queued_frames.get() == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_who_stops_neither_holds_up_others_nor_piles_up_bytes() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let stalled = client.get(&address, &request("counted", ByteRange::new(0, 1 << 30))).await.unwrap().unwrap();
    for _ in 0..3 {
        assert!(get(&client, &address, &request("a", ByteRange::new(9, 20 << 20))).await.unwrap().len() == 20 << 20);
    }
    // One frame may overdraw the window, and one chunk is in the hands of `send`.
    let most = WINDOW + (1 << 20);
    assert!(fixture.depot.counted.load(Ordering::SeqCst) <= most);
    drop(stalled);
}

#[tokio::test]
async fn an_answer_of_which_the_client_takes_nothing_is_given_up() {
    let limits = ServerLimits { unread: Duration::from_millis(50), ..ServerLimits::default() };
    let fixture = Fixture::limited(Depot::new(), limits).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let stopped = client.get(&address, &request("a", ByteRange::new(0, 1 << 30))).await.unwrap().unwrap();
    until(|| fixture.depot.alive.load(Ordering::SeqCst) == 0).await;
    let told = collect(stopped).await.unwrap_err();
    assert_eq!((told.kind(), told.retry()), (ErrorKind::Timeout, Retry::Temporary));
    assert!(get(&client, &address, &request("a", ByteRange::new(0, 9))).await.is_ok(), "the connection goes on");
    assert_eq!(fixture.metrics.peer.served_connections.get(), 1);
}

/// Clients that are frozen with their sockets full hold all the memory that there is for answers.
#[tokio::test(flavor = "multi_thread")]
async fn frozen_clients_give_way_to_those_who_wait_for_memory() {
    let memory = Budget::memory(1 << 20);
    let (hour, soon) = (Duration::from_secs(3600), Duration::from_millis(500));
    let limits = ServerLimits { memory: memory.clone(), stall: hour, stall_in_want: soon, ..ServerLimits::default() };
    let fixture = Fixture::limited(Depot { chunk: 1 << 20, ..Depot::new() }, limits).await;
    let frozen = proxy(fixture.server.address(), Fault::Freeze(64 << 10)).await;
    let mut clients = Vec::new();
    while memory.free() > 0 {
        // Their sockets hold some megabytes, and the windows of several answers are larger.
        let client = Arc::new(client(one_connection()));
        let wanted = request("a", ByteRange::new(0, 64 << 20));
        for _ in 0..16 {
            clients.push(tokio::spawn({
                let (client, frozen, wanted) = (client.clone(), frozen.clone(), wanted.clone());
                async move { get(&client, &frozen, &wanted).await }
            }));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let range = ByteRange::new(5, 8 << 20);
    let read = get(&client(one_connection()), &fixture.address(), &request("a", range)).await.unwrap();
    assert!(read == content(range));
    clients.iter().for_each(|client| client.abort());
    until(|| memory.used() == 0).await;
}

#[tokio::test]
async fn a_dropped_stream_ends_the_work_for_it() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let alive = fixture.depot.alive.clone();
    for path in ["a", "pause"] {
        let stream = client.get(&address, &request(path, ByteRange::new(0, 3 << 20))).await.unwrap().unwrap();
        let large = client.get(&address, &request("a", ByteRange::new(0, 1 << 30))).await.unwrap().unwrap();
        drop((stream, large));
        until(|| alive.load(Ordering::SeqCst) == 0).await;
    }
    assert!(get(&client, &address, &request("a", ByteRange::new(0, 9))).await.is_ok(), "the connection goes on");
    assert_eq!(fixture.metrics.peer.served_connections.get(), 1);
}

#[tokio::test]
async fn a_call_dropped_before_its_answer_begins_ends_the_work_for_it() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let alive = fixture.depot.alive.clone();
    let wanted = request("never", ByteRange::new(0, 9));
    tokio::select! {
        _ = client.get(&address, &wanted) => unreachable!("it is never answered"),
        () = until(|| alive.load(Ordering::SeqCst) == 1) => {}
    }
    until(|| alive.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_that_goes_away_ends_all_its_work() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let stream = client.get(&address, &request("a", ByteRange::new(0, 1 << 30))).await.unwrap().unwrap();
    drop(client);
    assert_eq!(fixture.metrics.peer.served_connections.get(), 1, "a stream outlives its client");
    drop(stream);
    until(|| fixture.metrics.peer.served_connections.get() == 0).await;
    until(|| fixture.depot.alive.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn more_connections_are_opened_beside_requests_under_way_up_to_the_limit() {
    let fixture = Fixture::new(Depot::new()).await;
    let metrics = Metrics::new();
    let options = headrace_engine::wire::ClientOptions { connections_per_peer: 3, ..one_connection() };
    let client = PeerClient::new(ClientSecurity::token_only(token()), options, &metrics);
    let mut streams = Vec::new();
    for number in 1..=3 {
        let asked = request("pause", ByteRange::new(0, 1000));
        streams.push(client.get(&fixture.address(), &asked).await.unwrap());
        // One more is opened beside a request, not by it: where that came too late, the next request does it.
        while metrics.peer.connections.get() != 3.min(number + 1) {
            client.command(&fixture.address(), &PeerCommand::Status).await.unwrap();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    drop(client.get(&fixture.address(), &request("pause", ByteRange::new(0, 1000))).await.unwrap());
    assert_eq!(metrics.peer.connections.get(), 3);
}
