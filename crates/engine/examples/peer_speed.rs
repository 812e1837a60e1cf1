//! What the peer protocol costs: one stream of a file through PeerServer and PeerClient over loopback, beside a plain
//! loop of sendfile and read that moves the same bytes.
//!
//!     cargo run --release -p headrace-engine --example peer_speed [MIB] [CHUNK_KIB] [FOLDER] [ROUNDS]
//!
//! FOLDER should be in memory (the default is). Both ways run in turn, ROUNDS times; the best of each is printed, with
//! the CPU time of both sides together.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use futures::StreamExt;
use headrace_engine::error::Result;
use headrace_engine::ids::{ByteRange, FileKey, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{
    Chunk, ChunkSink, ClientOptions, ClientSecurity, GetRequest, PeerClient, PeerCommand, PeerServer, PeerService,
    ServerSecurity, Token,
};
use nix::sys::resource::{UsageWho, getrusage};

/// A file whose chunks have known checksums, as a worker keeps them.
struct Shelf {
    file: Arc<File>,
    chunk: u64,
    checksums: Vec<u32>,
}

#[async_trait]
impl PeerService for Shelf {
    async fn get(&self, request: GetRequest, sink: ChunkSink) -> Result<()> {
        for (index, crc) in self.checksums.iter().enumerate() {
            let offset = index as u64 * self.chunk;
            let length = self.chunk.min(request.key.size - offset) as u32;
            let file = self.file.clone();
            sink.send(Chunk::File { file, offset, length, crc: Some(*crc), pin: Box::new(()) }).await?;
        }
        Ok(())
    }

    async fn command(&self, _command: PeerCommand) -> Result<serde_json::Value> {
        Ok(serde_json::Value::Null)
    }
}

fn shelf(folder: &PathBuf, size: u64, chunk: u64) -> Shelf {
    let file = tempfile::tempfile_in(folder).unwrap();
    let mut state = 1u64;
    let mut piece = vec![0; chunk as usize];
    let checksums = (0..size.div_ceil(chunk))
        .map(|index| {
            piece.truncate(chunk.min(size - index * chunk) as usize);
            for word in piece.chunks_mut(8) {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
            }
            file.write_all_at(&piece, index * chunk).unwrap();
            crc32c::crc32c(&piece)
        })
        .collect();
    Shelf { file: Arc::new(file), chunk, checksums }
}

/// Seconds and CPU seconds of one way.
type Cost = (f64, f64);

fn cpu_seconds() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
    [usage.user_time(), usage.system_time()].iter().map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6).sum()
}

fn measure(work: impl FnOnce()) -> Cost {
    let (start, cpu) = (Instant::now(), cpu_seconds());
    work();
    (start.elapsed().as_secs_f64(), cpu_seconds() - cpu)
}

/// One thread sends the file with sendfile, another reads it into one buffer.
fn plain(file: &Arc<File>, size: u64) -> Cost {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (sender, _) = listener.accept().unwrap();
    let file = file.clone();
    measure(|| {
        let sending = std::thread::spawn(move || {
            let mut offset = 0;
            while (offset as u64) < size {
                nix::sys::sendfile::sendfile64(sender.as_fd(), file.as_fd(), Some(&mut offset), 1 << 20).unwrap();
            }
        });
        let (mut buffer, mut received) = (vec![0; 256 << 10], 0);
        while received < size {
            received += receiver.read(&mut buffer).unwrap() as u64;
        }
        sending.join().unwrap();
    })
}

async fn stream(client: &PeerClient, address: &str, size: u64) {
    let key = FileKey { dataset: "speed".into(), path: (*b"file").into(), size, version: Version::ModifiedNs(0) };
    let range = ByteRange::new(0, size);
    let request =
        GetRequest { key, range, block_size: 4 << 20, cached_only: true, direct: false, purpose: 0, fill: None };
    let mut stream = client.get(address, &request).await.unwrap().unwrap();
    let mut received = 0;
    while let Some(bytes) = stream.next().await {
        received += bytes.unwrap().len() as u64;
    }
    assert_eq!(received, size);
}

fn print(name: &str, size: u64, costs: &[Cost]) -> f64 {
    let best = costs.iter().copied().min_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
    let gigabytes = size as f64 / 1e9;
    println!("{name:28} {:6.2} GB/s   {:5.3} CPU s/GB", gigabytes / best.0, best.1 / gigabytes);
    best.0
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, otherwise: u64| words.get(index).map_or(otherwise, |word| word.parse().unwrap());
    let (size, chunk, rounds) = (number(0, 1024) << 20, number(1, 256) << 10, number(3, 5));
    let folder = PathBuf::from(words.get(2).map_or("/dev/shm", String::as_str));
    let shelf = Arc::new(shelf(&folder, size, chunk));
    let file = shelf.file.clone();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let token = Token::new("a token for measuring").unwrap();
    let (metrics, security) = (Metrics::new(), ServerSecurity::token_only(token.clone()));
    let listen = "127.0.0.1:0".parse().unwrap();
    let server = runtime.block_on(PeerServer::start(listen, security, shelf, &metrics)).unwrap();
    let client = PeerClient::new(ClientSecurity::token_only(token), ClientOptions::default(), &metrics);
    let address = server.address().to_string();
    runtime.block_on(stream(&client, &address, size));
    let (mut plain_costs, mut peer_costs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        plain_costs.push(plain(&file, size));
        peer_costs.push(measure(|| runtime.block_on(stream(&client, &address, size))));
    }
    println!("{} MiB in chunks of {} KiB, best of {rounds}", size >> 20, chunk >> 10);
    let plain = print("sendfile and read", size, &plain_costs);
    let peer = print("peer protocol, one stream", size, &peer_costs);
    println!("{:28} {:6.2}", "peer / plain", plain / peer);
    runtime.block_on(server.close());
}
