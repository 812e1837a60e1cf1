//! A peer server whose content is known, clients for it, and a proxy that does what networks do.
#![allow(dead_code, clippy::unwrap_used)]

use std::fs::File;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use headrace_engine::error::{Error, ErrorKind, Result};
use headrace_engine::ids::{ByteRange, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{
    ByteStream, Chunk, ChunkSink, ClientOptions, ClientSecurity, GetRequest, PeerClient, PeerCommand, PeerServer,
    PeerService, ServerLimits, ServerSecurity, Token,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf};

pub const SIZE: u64 = 1 << 32;

pub fn token() -> Token {
    Token::new("a token that all tests know").unwrap()
}

/// These bytes of every test file, which repeat nowhere. Of a dependency, which is optimised where this is not.
pub fn content(range: ByteRange) -> Vec<u8> {
    let mut bytes = vec![0; range.length() as usize];
    let mut endless = blake3::Hasher::new().finalize_xof();
    endless.set_position(range.start);
    endless.fill(&mut bytes);
    bytes
}

/// `path` chooses what the service does.
pub fn request(path: &str, range: ByteRange) -> GetRequest {
    let key =
        FileKey { dataset: "s3://d".into(), path: path.as_bytes().into(), size: SIZE, version: Version::ModifiedNs(7) };
    GetRequest { key, range, block_size: 4 << 20, cached_only: false, direct: false, purpose: 0, fill: None }
}

/// Counts those of its kind that are alive.
pub struct Alive(Arc<AtomicUsize>);

impl Alive {
    pub fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Alive(count.clone())
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
pub struct Depot {
    /// For paths `file`, `file-crc`.
    pub file: Option<Arc<File>>,
    /// Length of one chunk.
    pub chunk: usize,
    /// Bytes given to the sinks of requests for `counted`.
    pub counted: AtomicU64,
    /// Requests and pins that are alive.
    pub alive: Arc<AtomicUsize>,
}

impl Depot {
    pub fn new() -> Self {
        Depot { chunk: 300_000, ..Default::default() }
    }

    pub fn with_file(length: u64) -> Self {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&content(ByteRange::new(0, length)), 0).unwrap();
        Depot { file: Some(Arc::new(file)), ..Depot::new() }
    }

    async fn send_all(&self, request: &GetRequest, sink: &ChunkSink, make: impl Fn(ByteRange) -> Chunk) -> Result<()> {
        let mut start = request.range.start;
        while start < request.range.end {
            let end = request.range.end.min(start + self.chunk as u64);
            sink.send(make(ByteRange { start, end })).await?;
            if &*request.key.path == b"counted" {
                self.counted.fetch_add(end - start, Ordering::SeqCst);
            }
            start = end;
        }
        Ok(())
    }

    fn file_chunk(&self, range: ByteRange, checked: bool) -> Chunk {
        let crc = checked.then(|| crc32c::crc32c(&content(range)));
        let (file, length) = (self.file.clone().unwrap(), range.length() as u32);
        Chunk::File { file, offset: range.start, length, crc, pin: Box::new(Alive::new(&self.alive)) }
    }
}

#[async_trait]
impl PeerService for Depot {
    async fn get(&self, request: GetRequest, sink: ChunkSink) -> Result<()> {
        let _alive = Alive::new(&self.alive);
        let memory = |range| Chunk::Memory(content(range).into());
        match &*request.key.path {
            b"absent" => sink.absent().await,
            b"stale" => Err(Error::new(ErrorKind::Stale, "a.bin changed").with_hint("take a new snapshot")),
            b"panic" => panic!("a fault of the service, made on purpose"),
            b"never" => std::future::pending().await,
            b"short" => sink.send(memory(ByteRange { end: request.range.end - 1, ..request.range })).await,
            b"long" => sink.send(memory(ByteRange { end: request.range.end + 1, ..request.range })).await,
            b"half" => {
                sink.send(memory(ByteRange { end: request.range.end - 1, ..request.range })).await?;
                Err(Error::new(ErrorKind::Throttled, "the origin asks to slow down"))
            }
            b"pause" => {
                sink.send(memory(ByteRange { end: request.range.end - 1, ..request.range })).await?;
                std::future::pending().await
            }
            b"file" => self.send_all(&request, &sink, |range| self.file_chunk(range, false)).await,
            b"file-crc" => self.send_all(&request, &sink, |range| self.file_chunk(range, true)).await,
            _ => self.send_all(&request, &sink, memory).await,
        }
    }

    async fn command(&self, command: PeerCommand) -> Result<serde_json::Value> {
        match command {
            PeerCommand::Status => Ok(serde_json::json!({"blocks": 3, "long": "x".repeat(9 << 20)})),
            PeerCommand::Pin { pinned, .. } => Ok(pinned.into()),
            other => Err(Error::new(ErrorKind::Unsupported, format!("{other:?}"))),
        }
    }
}

pub struct Fixture {
    pub depot: Arc<Depot>,
    pub server: PeerServer,
    pub metrics: Metrics,
}

impl Fixture {
    pub async fn new(depot: Depot) -> Fixture {
        Self::with(depot, ServerSecurity::token_only(token())).await
    }

    pub async fn with(depot: Depot, security: ServerSecurity) -> Fixture {
        Self::start(depot, security, "127.0.0.1:0".parse().unwrap()).await
    }

    pub async fn at(depot: Depot, listen: SocketAddr) -> Fixture {
        Self::start(depot, ServerSecurity::token_only(token()), listen).await
    }

    pub async fn limited(depot: Depot, limits: ServerLimits) -> Fixture {
        let listen = "127.0.0.1:0".parse().unwrap();
        Self::start_with(depot, ServerSecurity::token_only(token()), listen, limits).await
    }

    async fn start(depot: Depot, security: ServerSecurity, listen: SocketAddr) -> Fixture {
        Self::start_with(depot, security, listen, ServerLimits::default()).await
    }

    async fn start_with(depot: Depot, security: ServerSecurity, listen: SocketAddr, limits: ServerLimits) -> Fixture {
        let (depot, metrics) = (Arc::new(depot), Metrics::new());
        let server = PeerServer::start_with(listen, security, depot.clone(), &metrics, limits).await.unwrap();
        Fixture { depot, server, metrics }
    }

    pub fn address(&self) -> String {
        self.server.address().to_string()
    }
}

pub fn one_connection() -> ClientOptions {
    ClientOptions { connections_per_peer: 1, ..ClientOptions::default() }
}

/// Detects a frozen peer soon.
pub fn impatient() -> ClientOptions {
    ClientOptions { silence: Duration::from_millis(400), ..one_connection() }
}

pub fn client(options: ClientOptions) -> PeerClient {
    PeerClient::new(ClientSecurity::token_only(token()), options, &Metrics::new())
}

pub async fn collect(stream: ByteStream) -> Result<Vec<u8>> {
    stream
        .try_fold(Vec::new(), |mut all, bytes: Bytes| async move {
            all.extend_from_slice(&bytes);
            Ok(all)
        })
        .await
}

/// The whole answer.
pub async fn get(client: &PeerClient, address: &str, request: &GetRequest) -> Result<Vec<u8>> {
    collect(client.get(address, request).await?.expect("not absent")).await
}

/// Waits for what other tasks will do; a test that hangs here is cut off by its harness.
pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a proxy does to the bytes from the server.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Flips a bit of this byte.
    Flip(usize),
    /// Closes both sides before this byte.
    Cut(usize),
    /// Forwards nothing from this byte on, in either direction, and keeps both sides open.
    Freeze(usize),
}

/// A TCP proxy in front of `server` that has the fault on every connection. Ends with the runtime.
pub async fn proxy(server: SocketAddr, fault: Fault) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            let (near_read, near_write) = near.into_split();
            let (far_read, far_write) = far.into_split();
            tokio::spawn(async move {
                tokio::select! {
                    () = forward(near_read, far_write, None) => {}
                    () = forward(far_read, near_write, Some(fault)) => {}
                }
            });
        }
    });
    address
}

async fn forward(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, fault: Option<Fault>) {
    let (mut buffer, mut position) = (vec![0; 64 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        let mut bytes = &mut buffer[..count];
        let here = |at: usize| (position..position + count).contains(&at).then(|| at - position);
        match fault {
            Some(Fault::Flip(at)) => here(at).into_iter().for_each(|at| bytes[at] ^= 16),
            Some(Fault::Cut(at) | Fault::Freeze(at)) if position + count > at => {
                bytes = &mut bytes[..at.saturating_sub(position)];
            }
            _ => {}
        }
        if to.write_all(bytes).await.is_err() {
            return;
        }
        position += count;
        match fault {
            Some(Fault::Cut(at)) if position >= at => return,
            Some(Fault::Freeze(at)) if position >= at => std::future::pending().await,
            _ => {}
        }
    }
}
