//! What a peer may ask for follows from the token that it has: readers read, workers do whatever workers need.
#![allow(clippy::unwrap_used)]

use crate::support::*;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::{ByteRange, FileId};
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{ClientSecurity, PeerClient, PeerCommand, Rights, ServerSecurity, Token};

fn derived(rights: Rights) -> Token {
    Token::new(&token().derived(rights).unwrap()).unwrap()
}

fn client_with(token: Token) -> PeerClient {
    PeerClient::new(ClientSecurity::token_only(token), one_connection(), &Metrics::new())
}

fn commands() -> [PeerCommand; 6] {
    let key = request("a", ByteRange::new(0, 1)).key;
    let (first, count, block_size) = (0, 1, 4 << 20);
    [
        PeerCommand::Status,
        PeerCommand::Verify { key: key.clone(), first, count, block_size },
        PeerCommand::Bring { key: key.clone(), first, count, block_size },
        PeerCommand::Warm { key: key.clone(), first, count, block_size },
        PeerCommand::Evict { key },
        PeerCommand::Pin { id: FileId([7; 16]), pinned: true },
    ]
}

/// Whether the service of the test was asked at all: it knows two commands, and refuses the others in its own words.
async fn is_let_through(client: &PeerClient, address: &str, command: &PeerCommand) -> bool {
    match client.command(address, command).await {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::Unsupported => true,
        Err(error) => {
            assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::PermissionDenied, false), "{error:?}");
            assert!(error.message().contains("a reader's token is not enough for"), "{error:?}");
            assert!(error.hint().unwrap().contains("the whole token"), "{error:?}");
            false
        }
    }
}

#[tokio::test]
async fn a_reader_reads_and_orders_nothing() {
    for server in [token(), derived(Rights::Worker)] {
        let fixture = Fixture::with(Depot::new(), ServerSecurity::token_only(server)).await;
        let (client, address) = (client_with(derived(Rights::Reader)), fixture.address());
        let range = ByteRange::new(77, 1000);
        assert!(get(&client, &address, &request("a", range)).await.unwrap() == content(range));
        let mut allowed = Vec::new();
        for command in &commands() {
            allowed.push(is_let_through(&client, &address, command).await);
        }
        assert_eq!(allowed, [true, true, true, false, false, false]);
        // The connection goes on.
        assert!(get(&client, &address, &request("a", range)).await.is_ok());
        assert_eq!(fixture.metrics.peer.refused_connections.get(), 0);
    }
}

#[tokio::test]
async fn workers_and_who_has_the_whole_token_may_ask_for_everything() {
    for server in [token(), derived(Rights::Worker)] {
        let fixture = Fixture::with(Depot::new(), ServerSecurity::token_only(server)).await;
        for client in [token(), derived(Rights::Worker)] {
            for command in &commands() {
                assert!(is_let_through(&client_with(client.clone()), &fixture.address(), command).await);
            }
        }
    }
}

#[tokio::test]
async fn a_readers_token_of_another_cluster_is_refused() {
    let other = Token::new("some other token of theirs").unwrap().derived(Rights::Reader).unwrap();
    let fixture = Fixture::new(Depot::new()).await;
    let client = client_with(Token::new(&other).unwrap());
    let error = get(&client, &fixture.address(), &request("a", ByteRange::new(0, 9))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert_eq!(fixture.metrics.peer.refused_connections.get(), 1);
}
