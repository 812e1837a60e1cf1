//! Peers that know the token and then send anything: neither side may panic, hang, hand out a byte that was not
//! verified, or keep work for a connection that is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::error::Result;
use crate::ids::{ByteRange, FileKey, Version};
use crate::metrics::Metrics;
use crate::wire::answer::WireAnswer;
use crate::wire::chunk::Chunk;
use crate::wire::frame::{Header, Kind, LAST, control_frame};
use crate::wire::handshake::{admit, greet};
use crate::wire::link::Link;
use crate::wire::message::{GetRequest, PeerCommand};
use crate::wire::security::ServerSecurity;
use crate::wire::server::PeerServer;
use crate::wire::service::PeerService;
use crate::wire::sink::ChunkSink;
use crate::wire::token::Token;
use crate::wire::transport;
use crate::wire::write::FrameWriter;

const LENGTH: u64 = 500_000;

fn token() -> Token {
    Token::new("a token that all tests know").expect("long enough")
}

fn request() -> Vec<u8> {
    let key = FileKey { dataset: "s3://d".into(), path: (*b"a").into(), size: LENGTH, version: Version::ModifiedNs(7) };
    let range = ByteRange::new(0, LENGTH);
    let request =
        GetRequest { key, range, block_size: 4 << 20, cached_only: false, direct: false, purpose: 0, fill: None };
    [&100_000u32.to_le_bytes()[..], &request.encode(2).expect("valid")].concat()
}

/// Frames of any kind, right in form, with payloads that are right, random or empty.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        3 => Just(request()),
        1 => Just(Vec::new()),
        1 => Just(vec![1]),
        1 => any::<u32>().prop_map(|credit| credit.to_le_bytes().to_vec()),
        2 => prop::collection::vec(any::<u8>(), 0..300),
    ];
    let version = prop_oneof![20 => Just(2u16), 1 => any::<u16>()];
    let frame = (version, 0..Kind::ALL.len(), 0u32..6, payload, any::<bool>());
    let frame = frame.prop_map(|(version, kind, request, payload, last)| {
        let flags = if last && Kind::ALL[kind] == Kind::Data { LAST } else { 0 };
        let header = Header { flags, ..Header::control(version, Kind::ALL[kind], request, &payload) };
        [&header.encode()[..], &payload].concat()
    });
    prop::collection::vec(frame, 1..20).prop_map(|frames| frames.concat())
}

/// Sends zeros, and counts the calls that are not over.
struct Zeros(Arc<AtomicUsize>);

struct Call(Arc<AtomicUsize>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl PeerService for Zeros {
    async fn get(&self, request: GetRequest, sink: ChunkSink) -> Result<()> {
        self.0.fetch_add(1, Ordering::SeqCst);
        let _call = Call(self.0.clone());
        sink.send(Chunk::Memory(vec![0; request.range.length().min(LENGTH) as usize].into())).await
    }

    async fn command(&self, _command: PeerCommand) -> Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_server_survives_whatever_a_client_sends(frames in frames(), cut: prop::sample::Index) {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
            let calls = Arc::new(AtomicUsize::new(0));
            let (security, metrics) = (ServerSecurity::token_only(token()), Metrics::new());
            let listen = "127.0.0.1:0".parse().expect("an address");
            let server = PeerServer::start(listen, security, Arc::new(Zeros(calls.clone())), &metrics).await.expect("up");
            let stream = TcpStream::connect(server.address()).await.expect("connected");
            let mut transport = transport::connect(stream, None, "peer").await.expect("plain");
            greet(&mut transport, &token()).await.expect("admitted");
            // The server may close in the middle.
            let _ = transport.writer.write_all(&frames[..cut.index(frames.len()) + 1]).await;
            drop(transport);
            while metrics.peer.served_connections.get() > 0 || calls.load(Ordering::SeqCst) > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            server.close().await;
            assert_eq!(metrics.peer.queued_frames.get(), 0);
        });
    }

    #[test]
    fn a_client_survives_whatever_a_server_sends(frames in frames(), cut: prop::sample::Index) {
        tokio::runtime::Runtime::new().expect("a runtime").block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("listening");
            let address = listener.local_addr().expect("an address");
            let end = cut.index(frames.len()) + 1;
            let server = tokio::spawn(async move {
                let (stream, _) = listener.accept().await.expect("a client");
                let mut transport = transport::accept(stream, None).await.expect("plain");
                admit(&mut transport, &[&token()], 8).await.expect("admitted");
                // Requests are on their way when the first answer comes.
                let _ = transport.reader.next(1 << 20).await;
                let _ = transport.writer.write_all(&frames[..end]).await;
            });
            let mut transport = transport::connect(TcpStream::connect(address).await.expect("connected"), None, "peer")
                .await
                .expect("plain");
            let agreement = greet(&mut transport, &token()).await.expect("admitted");
            let link = Link::start(transport, agreement, Duration::from_secs(5), Metrics::new().peer);
            for _ in 0..3 {
                let Some(asked) = link.ask(Kind::Get, &request()[4..], Some(LENGTH)).await else { break };
                let received: Vec<Result<Bytes>> = WireAnswer::new(link.clone(), asked, "peer".into(), LENGTH).collect().await;
                assert!(received.last().is_some_and(|last| last.is_err()), "no answer was complete");
            }
            server.await.expect("a server that does not panic");
        });
    }
}

/// A frame that says it is longer than it is ends with the connection, and an answer never with less than was asked for.
#[tokio::test]
async fn an_answer_that_ends_early_is_an_error_at_the_client() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listening");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a client");
        let mut transport = transport::accept(stream, None).await.expect("plain");
        admit(&mut transport, &[&token()], 8).await.expect("admitted");
        let _ = transport.reader.next(1 << 20).await;
        let header = Header { flags: LAST, ..Header::control(1, Kind::Data, 1, b"too little") };
        let _ = transport.writer.write(&header.encode(), b"too little").await;
        let _ = transport.reader.next(1 << 20).await;
    });
    let stream = TcpStream::connect(address).await.expect("connected");
    let mut transport = transport::connect(stream, None, "peer").await.expect("plain");
    let agreement = greet(&mut transport, &token()).await.expect("admitted");
    let link = Link::start(transport, agreement, Duration::from_secs(5), Metrics::new().peer);
    let asked = link.ask(Kind::Get, &request()[4..], Some(LENGTH)).await.expect("open");
    let received: Vec<Result<Bytes>> = WireAnswer::new(link, asked, "peer".into(), LENGTH).collect().await;
    assert!(matches!(&received[..], [Err(error)] if error.is_temporary()));
}

/// Small answers leave in one piece: a client that reads once gets header and payload.
#[tokio::test]
async fn header_and_payload_leave_together() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("listening");
    let mut near = TcpStream::connect(listener.local_addr().expect("an address")).await.expect("connected");
    let (far, _) = listener.accept().await.expect("a client");
    crate::wire::socket::tune(&far).expect("tuned");
    let (_read, write) = far.into_split();
    let mut writer = FrameWriter::Plain(write);
    let file = tempfile::tempfile().expect("a file");
    std::os::unix::fs::FileExt::write_all_at(&file, &[7; 1000], 0).expect("written");
    let header = Header::control(1, Kind::Data, 1, &[7; 1000]).encode();
    let mut buffer = vec![0; 4096];
    for from_file in [false, true] {
        match from_file {
            false => writer.write(&header, &[7; 1000]).await.expect("sent"),
            true => assert!(writer.write_file(&header, &file, 0, 1000).await.expect("sent")),
        }
        assert_eq!(near.read(&mut buffer).await.expect("received"), 1024);
        assert!(buffer[..24] == header && buffer[24..1024] == [7; 1000]);
    }
    near.write_all(&control_frame(1, Kind::Ping, 0, &[])).await.expect("still open");
}
