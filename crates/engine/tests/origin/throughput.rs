//! A measurement: what one stream costs the reading thread. Run with `--ignored`.
#![allow(clippy::unwrap_used)]

use std::time::Instant;

use crate::servers::fixture::{Protocol, config, pattern, settings};
use crate::servers::{World, s3, wire};
use futures::StreamExt;
use headrace_engine::ids::{ByteRange, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ObjectVersion, open};
use nix::sys::resource::{UsageWho, getrusage};

const SIZE: u64 = 256 << 20;
const ROUNDS: u64 = 16;

fn thread_cpu_s() -> f64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    seconds(usage.user_time()) + seconds(usage.system_time())
}

#[test]
#[ignore = "a measurement; prints a rate"]
fn one_stream() {
    let servers = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let world = World::new();
    world.put("data/large", &pattern(SIZE as usize));
    let server = servers.block_on(wire::serve(world, s3::handle_unsigned));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let origin = open(&config(Protocol::S3, &server.address, "data"), &settings(), &Metrics::new()).unwrap();
        let object =
            ObjectVersion { key: b"large"[..].into(), size: SIZE, version: Version::Etag(b"tag-0"[..].into()) };
        let (started, cpu) = (Instant::now(), thread_cpu_s());
        let mut bytes = 0;
        for _ in 0..ROUNDS {
            let mut body = origin.read(&object, ByteRange::new(0, SIZE)).await.unwrap();
            while let Some(piece) = body.next().await {
                bytes += piece.unwrap().len() as u64;
            }
        }
        let (wall, cpu) = (started.elapsed().as_secs_f64(), thread_cpu_s() - cpu);
        assert_eq!(bytes, SIZE * ROUNDS);
        println!(
            "{:.2} GB/s; {:.2} s of CPU a GB in the reading thread",
            bytes as f64 / wall / 1e9,
            cpu / (bytes as f64 / 1e9)
        );
    });
}
