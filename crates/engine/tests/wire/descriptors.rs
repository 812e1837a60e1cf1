//! A server whose process has no descriptor left: members are let in all the same, and nothing burns a core.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{PeerServer, ServerSecurity};
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeValLike;
use tokio::net::TcpStream;

use crate::support::*;

const STARVED: &str = "HEADRACE_TEST_STARVED_SERVER";
const MOST_FILES: u64 = 64;

/// The server's process, which tells its address, and its processor's time in milliseconds for each line that it gets.
struct Starved {
    child: Child,
    answers: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Starved {
    fn start() -> Starved {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "descriptors::starved_server", "--ignored", "--nocapture"])
            .env(STARVED, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        Starved { child, answers }
    }

    fn answer(&mut self) -> String {
        // The test harness of the child prints, too.
        let mut told = self.answers.by_ref().map(|line| line.unwrap());
        told.find_map(|line| line.split_once("answer: ").map(|(_, answer)| answer.to_owned())).unwrap()
    }

    fn busy_ms(&mut self) -> u64 {
        self.child.stdin.as_mut().unwrap().write_all(b"busy\n").unwrap();
        self.answer().parse().unwrap()
    }
}

impl Drop for Starved {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the server of the other test"]
fn starved_server() {
    if std::env::var(STARVED).is_err() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (security, metrics) = (ServerSecurity::token_only(token()), Metrics::new());
    let starting = PeerServer::start("127.0.0.1:0".parse().unwrap(), security, Arc::new(Depot::new()), &metrics);
    let server = runtime.block_on(starting).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, MOST_FILES, MOST_FILES).unwrap();
    let _taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    println!("answer: {}", server.address());
    for _ in std::io::stdin().lines() {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        println!("answer: {}", usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds());
    }
}

#[tokio::test]
async fn members_come_in_where_the_process_has_no_descriptor_left() {
    let mut server = Starved::start();
    let address = server.answer();
    // It has the one place that there is, until somebody else comes.
    let _stranger = TcpStream::connect(&address).await.unwrap();
    let client = client(one_connection());
    let read = || async { get(&client, &address, &request("a", ByteRange::new(0, 1000))).await };
    assert_eq!(read().await.unwrap(), content(ByteRange::new(0, 1000)));
    let _next = TcpStream::connect(&address).await.unwrap();
    let before = server.busy_ms();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(server.busy_ms() - before < 300, "it asks for the next connection without end");
    assert_eq!(read().await.unwrap(), content(ByteRange::new(0, 1000)), "who is in stays in");
}
