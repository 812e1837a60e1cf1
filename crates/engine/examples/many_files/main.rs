//! Measures what a dataset of very many files costs that are mounted, told of, pinned and evicted again.
//!
//! `cargo run --release --example many_files -- FILES CACHED [DIRECTORY]` makes a snapshot of FILES names that are in no
//! origin, and a cache of CACHED small files of it, below DIRECTORY (the working directory), and removes both. Prints one
//! row a step: what it was, and its seconds.

mod scene;

use std::path::Path;
use std::time::Instant;

use headrace_engine::cluster::HoldWish;
use headrace_engine::engine::{Lister, Owner, Worker};
use headrace_engine::error::{Error, Result};
use headrace_engine::ids::FileId;
use scene::Scene;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| arguments.get(at).and_then(|text| text.parse().ok()).filter(|number| *number > 0);
    let (Some(files), Some(cached)) = (number(0), number(1)) else {
        return Err(Error::config("usage: many_files FILES CACHED [DIRECTORY]"));
    };
    let place = arguments.get(2).map_or(".", String::as_str);
    let folder =
        std::path::absolute(place).map_err(|error| Error::from_io("find", Path::new(place), error))?.join("many-files");
    let measured = measure(&Scene::new(&folder, files, cached.min(files)));
    if let Err(error) = std::fs::remove_dir_all(&folder) {
        eprintln!("cannot remove {}: {error}", folder.display());
    }
    measured
}

fn measure(scene: &Scene) -> Result<()> {
    timed("list", || scene.freeze())?;
    empty_mount(scene)?;
    cluster(scene)?;
    full_mount(scene)
}

/// A mount that has cached nothing yet.
fn empty_mount(scene: &Scene) -> Result<()> {
    let owner = timed("open again", || Owner::open(scene.mount()))?;
    timed("status, first", || owner.status());
    timed("status, next", || owner.status());
    owner.close()
}

/// A worker that holds nothing yet, and the master's part of a cluster.
fn cluster(scene: &Scene) -> Result<()> {
    let worker = timed("open worker", || Worker::open(scene.worker()))?;
    let lister = timed("open master", || Lister::open(scene.master(&worker.address().to_string())))?;
    timed("heartbeat", || beat(&worker));
    let ids = timed("ids of all", || lister.file_ids(&[b""]))?;
    timed("pin all", || worker.set_pinned(ids.chunks_exact(16).map(id).collect()));
    timed("heartbeat with all pinned", || beat(&worker));
    timed("pin all again", || worker.set_pinned(ids.chunks_exact(16).map(id).collect()));
    drop(ids);
    timed("evict all", || lister.evict(&[b""]))?;
    timed("heartbeat after evict", || beat(&worker));
    let job = timed("begin load of all", || lister.load(&[b""], HoldWish::default()))?;
    timed("progress of load", || job.progress());
    job.cancel();
    lister.close();
    worker.close()
}

/// A mount whose cache is full of small files.
fn full_mount(scene: &Scene) -> Result<()> {
    timed("fill cache", || scene.fill())?;
    let owner = timed("open with cache", || Owner::open(scene.mount()))?;
    let status = timed("status with cache, first", || owner.status());
    if status.cached_files != scene.cached {
        eprintln!("{} of {} files are cached", status.cached_files, scene.cached);
    }
    timed("status with cache, next", || owner.status());
    timed("evict one", || owner.evict(&[scene.first_name()]))?;
    timed("status after a change", || owner.status());
    timed("metrics", || owner.metrics_text());
    timed("close", || owner.close())?;
    drop(owner);
    let worker = timed("open worker with cache", || Worker::open(scene.full_worker()))?;
    timed("heartbeat with cache", || beat(&worker));
    worker.close()?;
    drop(worker);
    let owner = Owner::open(scene.mount())?;
    timed("evict cached", || owner.evict(&[b""]))?;
    owner.close()
}

/// What a worker looks up for each heartbeat.
fn beat(worker: &Worker) -> usize {
    worker.status().to_string().len() + worker.metrics_text().len()
}

fn id(bytes: &[u8]) -> FileId {
    let mut id = [0; 16];
    id.copy_from_slice(bytes);
    FileId(id)
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}\t{:.6}", start.elapsed().as_secs_f64());
    result
}
