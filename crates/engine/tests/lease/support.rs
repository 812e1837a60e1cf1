//! A worker in a process of its own that does as it is told, and files whose content both sides know.

#![allow(dead_code, clippy::unwrap_used)]

#[path = "../store/support.rs"]
pub mod store_files;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use headrace_engine::budget::Budget;
use headrace_engine::config::EvictionPolicy;
use headrace_engine::ids::{FileKey, Version};
use headrace_engine::lease::{LeaseLimits, LeaseOptions, LeaseServer, LeasedBlocks};
use headrace_engine::store::{BlockHandle, Blocks, Put, Store};
use nix::sys::signal::{Signal, kill};
use store_files::{block_size, content, open_counted, read_handle};

const FOLDER: &str = "HEADRACE_TEST_WORKER_FOLDER";
const USER: &str = "HEADRACE_TEST_WORKER_USER";
pub const QUOTA: u64 = 4 << 20;
/// Large enough beside the quota that blocks of it are evicted one by one.
pub const LARGE: u64 = 2 << 20;
pub const DATASET: &str = "memory://test";

pub fn file(name: &str, size: u64) -> Arc<FileKey> {
    let version = Version::Etag((*b"e1").into());
    Arc::new(FileKey { dataset: DATASET.into(), path: name.as_bytes().into(), size, version })
}

pub fn content_of(file: &FileKey) -> Vec<u8> {
    (0..block_size().count(file.size)).flat_map(|index| store_files::bytes(file, index)).collect()
}

/// The worker's process, told what to do line by line; killed on drop.
pub struct Worker {
    pub child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    /// Starts this test program again, as a worker over `folder/cache` that listens at `folder/worker.sock`.
    pub fn start(folder: &Path) -> Worker {
        Worker::start_as(0, folder)
    }

    /// The same as another user; 0: as the one that runs the tests.
    pub fn start_as(user: u32, folder: &Path) -> Worker {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "worker_process", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(USER, user.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let mut worker = Worker { child, orders, answers };
        assert_eq!(worker.answer(), "ready");
        worker
    }

    pub fn tell(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").unwrap();
        self.answer()
    }

    pub fn number(&mut self, order: &str) -> u64 {
        self.tell(order).parse().unwrap()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the worker ended");
            // The test harness of the child prints, too.
            if let Some((_, answer)) = line.trim_end().split_once("answer: ") {
                return answer.to_owned();
            }
        }
    }

    /// Stops it; all of its threads stand still when this returns.
    pub fn freeze(&self) {
        use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
        kill(self.pid(), Signal::SIGSTOP).unwrap();
        let status = waitpid(self.pid(), Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert!(matches!(status, WaitStatus::Stopped(..)), "{status:?}");
    }

    pub fn thaw(&self) {
        kill(self.pid(), Signal::SIGCONT).unwrap();
    }

    fn pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.child.id() as i32)
    }

    /// Ends it at once, as a crash would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn socket(folder: &Path) -> PathBuf {
    folder.join("worker.sock")
}

/// The place of a worker that never moves.
pub fn at(socket: PathBuf) -> Arc<dyn Fn() -> Option<PathBuf> + Send + Sync> {
    Arc::new(move || Some(socket.clone()))
}

/// What the process does that `Worker::start` starts.
pub fn work() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let folder = PathBuf::from(folder);
    let user: u32 = std::env::var(USER).unwrap().parse().unwrap();
    if user != 0 {
        nix::unistd::setgid(user.into()).unwrap();
        nix::unistd::setuid(user.into()).unwrap();
    }
    let (store, _) = open_counted(&folder.join("cache"), QUOTA, EvictionPolicy::Lru);
    let limits = LeaseLimits { leases_per_connection: 64, ..LeaseLimits::default() };
    let server = LeaseServer::start(&socket(&folder), store.clone(), limits).unwrap();
    println!("answer: ready");
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        println!("answer: {}", obey(&store, &server, &words));
    }
}

fn obey(store: &Store, server: &LeaseServer, words: &[&str]) -> u64 {
    let number = |place: usize| words[place].parse::<u64>().unwrap();
    match words[0] {
        "put" => {
            let file = file(words[1], number(2));
            (number(3)..number(4)).filter(|index| put(store, &file, *index as u32)).count() as u64
        }
        "evict" => store.evict(&file(words[1], number(2)).id()),
        // What the origin says is wrong.
        "discard" => {
            store.discard(&file(words[1], number(2)).id());
            0
        }
        "verify" => store.verify(&file(words[1], number(2)).id()).1,
        "cached" => store.cached_bytes(&file(words[1], number(2)).id()),
        "press" => press(store, words[1]),
        "leases" => server.leases() as u64,
        _ => panic!("not an order: {words:?}"),
    }
}

/// Offers several times what the store holds; how many blocks it took.
fn press(store: &Store, round: &str) -> u64 {
    let files = (0..24).map(|number| file(&format!("pressure {round} {number}"), 512 << 10));
    files.map(|file| (0..8).filter(|index| put(store, &file, *index)).count() as u64).sum()
}

fn put(store: &Store, file: &Arc<FileKey>, index: u32) -> bool {
    store.put(file, index, &content(file, index)) == Put::Stored
}

/// Nothing is forgotten by the clock.
pub fn patient() -> LeaseOptions {
    let hour = std::time::Duration::from_secs(3600);
    let patience = std::time::Duration::from_secs(30);
    LeaseOptions { absence: hour, idle: hour, patience, ..LeaseOptions::default() }
}

pub fn leased(folder: &Path, options: LeaseOptions) -> Arc<LeasedBlocks> {
    LeasedBlocks::new(at(socket(folder)), block_size(), Budget::count("descriptors", 100), options).unwrap()
}

pub fn get(blocks: &dyn Blocks, file: &FileKey, index: u32) -> Option<BlockHandle> {
    blocks.get(&file.id(), index, file.size)
}

/// True when the block is there; then its bytes must be right.
pub fn has(blocks: &dyn Blocks, file: &FileKey, index: u32) -> bool {
    let Some(handle) = get(blocks, file, index) else { return false };
    assert!(read_handle(&handle) == store_files::bytes(file, index), "wrong bytes in block {index}");
    true
}

pub fn read_whole(file: &std::fs::File, size: u64) -> Vec<u8> {
    let mut content = vec![0; size as usize];
    file.read_exact_at(&mut content, 0).unwrap();
    content
}

/// Waits for `condition`, at most ten seconds.
pub fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(100);
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "in vain: {what}");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}
