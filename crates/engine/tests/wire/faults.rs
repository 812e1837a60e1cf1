//! Broken networks, dead and frozen peers, strangers: always an error of the right kind, never a wrong byte.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use crate::support::*;
use futures::StreamExt;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{ClientOptions, ClientSecurity, PeerClient, ServerLimits, Token};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The handshake's bytes from the server: Challenge (24 + 38) and Welcome (24 + 36).
const HANDSHAKE: usize = 122;

fn range() -> ByteRange {
    ByteRange::new(3, 400_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_flipped_bit_anywhere_is_noticed(at in prop_oneof![0..HANDSHAKE + 300, HANDSHAKE..400_000]) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let fixture = Fixture::new(Depot::new()).await;
            let address = proxy(fixture.server.address(), Fault::Flip(at)).await;
            let error = get(&client(impatient()), &address, &request("a", range())).await.unwrap_err();
            // In the handshake it is as if the other side did not know the token.
            assert!(error.is_temporary() || (at < HANDSHAKE && error.kind() == ErrorKind::PermissionDenied), "{at}: {error:?}");
        });
    }

    #[test]
    fn a_connection_cut_anywhere_is_a_temporary_error(at in 0usize..400_000) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let fixture = Fixture::new(Depot::new()).await;
            let address = proxy(fixture.server.address(), Fault::Cut(at)).await;
            let error = get(&client(one_connection()), &address, &request("a", range())).await.unwrap_err();
            assert!(error.is_temporary() && error.kind() == ErrorKind::Unreachable, "{at}: {error:?}");
        });
    }
}

#[tokio::test]
async fn a_peer_that_freezes_in_an_answer_is_given_up_after_the_silence() {
    let fixture = Fixture::new(Depot::new()).await;
    let address = proxy(fixture.server.address(), Fault::Freeze(200_000)).await;
    let error = get(&client(impatient()), &address, &request("a", range())).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Timeout, true), "{error:?}");
}

#[tokio::test]
async fn a_peer_that_freezes_in_the_handshake_is_given_up_after_the_connect_timeout() {
    let fixture = Fixture::new(Depot::new()).await;
    let address = proxy(fixture.server.address(), Fault::Freeze(30)).await;
    let options = ClientOptions { connect_timeout: Duration::from_millis(300), ..impatient() };
    let error = get(&client(options), &address, &request("a", range())).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Timeout, true), "{error:?}");
}

#[tokio::test]
async fn a_peer_that_works_on_an_answer_for_longer_than_the_silence_is_waited_for() {
    let fixture = Fixture::new(Depot::new()).await;
    // A busy machine is no frozen peer.
    let options = ClientOptions { silence: Duration::from_secs(2), ..impatient() };
    let (client, address) = (client(options), fixture.address());
    let mut slow = client.get(&address, &request("pause", ByteRange::new(0, 1000))).await.unwrap().unwrap();
    slow.next().await.unwrap().unwrap();
    let silence = tokio::time::timeout(Duration::from_secs(5), slow.next()).await;
    assert!(silence.is_err(), "its signs of life count: {silence:?}");
}

#[tokio::test]
async fn a_server_that_ends_in_an_answer_is_a_temporary_error_and_its_successor_is_found() {
    let fixture = Fixture::new(Depot::new()).await;
    let (client, address) = (client(one_connection()), fixture.address());
    let mut stream = client.get(&address, &request("pause", range())).await.unwrap().unwrap();
    fixture.server.close().await;
    let error = loop {
        if let Err(error) = stream.next().await.expect("an error before the end") {
            break error;
        }
    };
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Unreachable, true));
    assert!(stream.next().await.is_none());
    let error = get(&client, &address, &request("a", range())).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::Unreachable, true));
    let next = Fixture::at(Depot::new(), address.parse().unwrap()).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(get(&client, &address, &request("a", range())).await.is_ok());
    assert_eq!(next.metrics.peer.served_requests.get(), 1);
}

#[tokio::test]
async fn a_wrong_token_is_refused_counted_and_explained() {
    let fixture = Fixture::new(Depot::new()).await;
    let stranger = ClientSecurity::token_only(Token::new("some other token of theirs").unwrap());
    let client = PeerClient::new(stranger, one_connection(), &Metrics::new());
    let error = get(&client, &fixture.address(), &request("a", range())).await.unwrap_err();
    assert_eq!((error.kind(), error.is_temporary()), (ErrorKind::PermissionDenied, false));
    assert!(error.hint().unwrap().contains("same cluster"), "{error:?}");
    assert_eq!(fixture.metrics.peer.refused_connections.get(), 1);
    assert_eq!(fixture.metrics.peer.served_requests.get(), 0);
}

/// Connections that say this and no more, one after the other.
async fn idle(fixture: &Fixture, count: usize, said: &[u8]) -> Vec<TcpStream> {
    let mut idle = Vec::new();
    for _ in 0..count {
        let mut stream = TcpStream::connect(fixture.server.address()).await.unwrap();
        stream.write_all(said).await.unwrap();
        idle.push(stream);
    }
    idle
}

/// True once the server has closed it, whatever it said before.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut all = Vec::new();
    let _ = tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut all)).await.unwrap();
    true
}

fn patient(limits: ServerLimits) -> ServerLimits {
    ServerLimits { handshake: Duration::from_secs(3600), ..limits }
}

#[tokio::test]
async fn idle_handshakes_keep_no_client_out() {
    let nothing = Vec::new();
    let half = frame(1, &[versions(1, 2), vec![7; 32]].concat());
    for said in [nothing, half[..20].to_vec(), half] {
        let limits = ServerLimits { handshakes: 8, handshakes_of_address: 8, ..ServerLimits::default() };
        let fixture = Fixture::limited(Depot::new(), patient(limits)).await;
        let mut idle = idle(&fixture, 20, &said).await;
        let client = client(one_connection());
        assert!(get(&client, &fixture.address(), &request("a", range())).await.is_ok());
        for stream in &mut idle[..12] {
            assert!(is_closed(stream).await);
        }
        assert!(get(&client, &fixture.address(), &request("a", range())).await.is_ok());
    }
}

#[tokio::test]
async fn idle_handshakes_give_way_where_all_places_are_taken() {
    let limits = ServerLimits { connections: 3, ..ServerLimits::default() };
    let fixture = Fixture::limited(Depot::new(), patient(limits)).await;
    let mut idle = idle(&fixture, 3, b"").await;
    let clients = [client(one_connection()), client(one_connection()), client(one_connection())];
    for client in &clients {
        assert!(get(client, &fixture.address(), &request("a", range())).await.is_ok());
    }
    for stream in &mut idle {
        assert!(is_closed(stream).await);
    }
    // Clients do not give way.
    let mut late = TcpStream::connect(fixture.server.address()).await.unwrap();
    assert!(is_closed(&mut late).await);
    for client in &clients {
        assert!(get(client, &fixture.address(), &request("a", range())).await.is_ok());
    }
}

#[tokio::test]
async fn a_handshake_has_a_deadline() {
    let limits = ServerLimits { handshake: Duration::from_millis(50), ..ServerLimits::default() };
    let fixture = Fixture::limited(Depot::new(), limits).await;
    assert!(is_closed(&mut idle(&fixture, 1, b"HRPP").await[0]).await);
}

/// A frame of the handshake, written by hand from docs/format/peer-protocol.md.
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = b"HRPP\0\0".to_vec();
    frame.extend_from_slice(&[kind, 0]);
    frame.extend_from_slice(&0u32.to_le_bytes());
    frame.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
    frame.extend_from_slice(&crc32c::crc32c(&frame).to_le_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn versions(min: u16, max: u16) -> Vec<u8> {
    [min.to_le_bytes(), max.to_le_bytes()].concat()
}

async fn read_frame(stream: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut header = [0; 24];
    stream.read_exact(&mut header).await.unwrap();
    let mut payload = vec![0; u32::from_le_bytes(header[12..16].try_into().unwrap()) as usize];
    stream.read_exact(&mut payload).await.unwrap();
    (header[6], payload)
}

#[tokio::test]
async fn a_client_of_another_version_is_told_both_versions() {
    let fixture = Fixture::new(Depot::new()).await;
    let mut stream = TcpStream::connect(fixture.server.address()).await.unwrap();
    let hello = [versions(7, 9), vec![1; 32]].concat();
    stream.write_all(&frame(1, &hello)).await.unwrap();
    let (kind, payload) = read_frame(&mut stream).await;
    let text = String::from_utf8_lossy(&payload);
    assert_eq!(kind, 9);
    assert!(text.contains("Unsupported") && text.contains("7 to 9") && text.contains("1 to 2"), "{text}");
}

#[tokio::test]
async fn a_server_of_another_version_is_reported_with_both_versions() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_frame(&mut stream).await;
        let challenge = [versions(4, 6), vec![4, 0], vec![1; 32]].concat();
        stream.write_all(&frame(2, &challenge)).await.unwrap();
        read_frame(&mut stream).await;
    });
    let error = get(&client(one_connection()), &address, &request("a", range())).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("1 to 2") && error.message().contains("4 to 6"), "{error}");
}

#[tokio::test]
async fn a_proof_cannot_be_used_again() {
    let fixture = Fixture::new(Depot::new()).await;
    let address = fixture.server.address();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tapped = listener.local_addr().unwrap().to_string();
    // Records what a true client says in its handshake.
    let recording = tokio::spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(address).await.unwrap();
        let (_, hello) = read_frame(&mut near).await;
        far.write_all(&frame(1, &hello)).await.unwrap();
        let (_, challenge) = read_frame(&mut far).await;
        near.write_all(&frame(2, &challenge)).await.unwrap();
        (hello, read_frame(&mut near).await.1)
    });
    let _ = get(&client(impatient()), &tapped, &request("a", range())).await;
    let (hello, proof) = recording.await.unwrap();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(&frame(1, &hello)).await.unwrap();
    assert_eq!(read_frame(&mut stream).await.0, 2);
    stream.write_all(&frame(3, &proof)).await.unwrap();
    let (kind, payload) = read_frame(&mut stream).await;
    assert!(kind == 9 && String::from_utf8_lossy(&payload).contains("PermissionDenied"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Garbage, right frames with random payloads, huge lengths, and frames cut short, on one live server.
    #[test]
    fn a_live_server_survives_whatever_strangers_send(
        attacks in prop::collection::vec((0u8..4, any::<u8>(), prop::collection::vec(any::<u8>(), 0..400)), 1..12),
    ) {
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let fixture = Fixture::new(Depot::new()).await;
            for (way, kind, payload) in attacks {
                let bytes = match way {
                    0 => payload,
                    1 => frame(kind % 16, &payload),
                    2 => [frame(1, &[versions(1, 1), vec![7; 32]].concat()), frame(kind % 16, &payload)].concat(),
                    _ => {
                        let mut bytes = frame(kind % 16, &payload);
                        bytes[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
                        let checksum = crc32c::crc32c(&bytes[..20]);
                        bytes[20..24].copy_from_slice(&checksum.to_le_bytes());
                        bytes
                    }
                };
                let mut stream = TcpStream::connect(fixture.server.address()).await.unwrap();
                let _ = stream.write_all(&bytes).await;
            }
            assert!(get(&client(one_connection()), &fixture.address(), &request("a", range())).await.is_ok());
            assert_eq!(fixture.metrics.peer.served_requests.get(), 1);
        });
    }
}
