//! Places very many blocks on very many workers and tells how even that is and what a change of the workers moves.
//!
//! `cargo run --release --example ring_simulation -- WORKERS BLOCKS REPLICAS THREADS` prints JSON. Nothing is kept per
//! block, so 100 million blocks take minutes of two cores and no memory.

mod simulation;

use headrace_engine::error::{Error, Result};

fn main() -> Result<()> {
    let words: Vec<u64> = std::env::args().skip(1).map_while(|word| word.parse().ok()).collect();
    let [workers, blocks, replicas, threads] = words[..] else { return Err(usage()) };
    if workers < 2 || blocks < 4 || !(1..=8).contains(&replicas) || !(1..=256).contains(&threads) {
        return Err(usage());
    }
    let plan = simulation::Plan { workers, blocks, replicas: replicas as u32, threads };
    println!("{:#}", serde_json::json!(simulation::run(&plan)?));
    Ok(())
}

fn usage() -> Error {
    Error::config("usage: ring_simulation WORKERS BLOCKS REPLICAS THREADS; at least 2 workers, 4 blocks")
}
