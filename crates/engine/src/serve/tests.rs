//! The client against owners that come, go and stand still, each a real server on the socket.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use tokio::runtime::Runtime;

use super::frame::Kind;
use super::message::encode_items;
use super::place::OwnerSocket;
use super::socket::{Line, address};
use super::*;
use crate::budget::Budget;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;
use crate::vfs::{AtHand, Attributes, Backing, DirectoryEntry, FileSystem, Inode, Opened, ReadReply, Statistics};

/// Long enough for a busy machine, short enough to wait for in a test.
fn patience() -> Patience {
    Patience { silence: Duration::from_secs(1), answer: Duration::from_secs(1), successor: Duration::from_secs(30) }
}

/// Every file consists of one byte, the owner's instance.
struct Files {
    instance: u64,
    lent: Option<PathBuf>,
}

fn absent<T>() -> Result<T> {
    Err(Error::new(ErrorKind::NotFound, "no such file or directory"))
}

impl FileSystem for Files {
    fn lookup(&self, _: Inode, _: &[u8]) -> Result<Attributes> {
        absent()
    }

    fn attributes(&self, _: Inode) -> Result<Attributes> {
        absent()
    }

    fn read_link(&self, _: Inode) -> Result<Vec<u8>> {
        absent()
    }

    fn open(&self, _: Inode) -> Result<Opened> {
        absent()
    }

    fn release(&self, _: u64) {}

    fn backing(&self, _: Inode) -> Option<Backing> {
        let file = std::fs::File::open(self.lent.as_ref()?).ok()?;
        Some(Backing { file: Arc::new(file), size: 0, pin: Box::new(()) })
    }

    fn at_hand(&self, _: Inode, _: u64, _: u64, length: usize, _: bool) -> Result<AtHand<ReadReply>> {
        Ok(AtHand::Here(ReadReply::Memory(vec![vec![self.instance as u8; length].into()])))
    }

    fn read(self: Arc<Self>, _: Inode, _: u64, _: u64, _: usize) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async { absent() })
    }

    fn read_directory(&self, _: Inode, _: u64, _: &mut dyn FnMut(DirectoryEntry<'_>) -> bool) -> Result<()> {
        absent()
    }

    fn parent(&self, _: Inode) -> Result<Inode> {
        absent()
    }

    fn statistics(&self) -> Statistics {
        Statistics { files: 0, bytes: 0 }
    }
}

impl Control for Files {
    fn welcome(&self) -> Result<Welcome> {
        let (name, pid, snapshot) = ("test".into(), std::process::id(), PathBuf::from("snapshot"));
        Ok(Welcome { name, pid, snapshot, instance: self.instance, counts: true })
    }

    fn control(&self, request: serde_json::Value) -> Result<serde_json::Value> {
        Ok(request)
    }

    fn prefetch(&self, _: u64, _: Vec<u64>) -> Result<()> {
        Ok(())
    }
}

struct Owners {
    place: tempfile::TempDir,
    runtime: Runtime,
    limits: ServeLimits,
    counters: ServeCounters,
}

impl Owners {
    fn new() -> Self {
        let (place, runtime) = (tempfile::tempdir().expect("a folder"), Runtime::new().expect("a runtime"));
        Owners { place, runtime, limits: ServeLimits::default(), counters: ServeCounters::default() }
    }

    fn path(&self) -> &Path {
        self.place.path()
    }

    /// One whose end looks like a death.
    fn start(&self, instance: u64) -> Server {
        let lent = self.path().join(format!("lent-{instance}"));
        std::fs::write(&lent, [instance as u8; 10]).expect("a file");
        let (files, handle) = (Arc::new(Files { instance, lent: Some(lent) }), self.runtime.handle().clone());
        let mut server =
            Server::start(self.path(), files.clone(), files, handle, self.limits.clone(), self.counters.clone())
                .expect("a server");
        server.expect_successor();
        server
    }

    fn client(&self) -> Client {
        Client::connect(self.path(), patience(), false).expect("an owner").0
    }
}

fn read(client: &Client, generation: u64) -> Result<Option<u8>> {
    let mut byte = [0];
    let item = ReadItem { inode: 1, offset: 0, length: 1 };
    Ok(client.read_many(generation, &[item], &mut [&mut byte])?.map(|_| byte[0]))
}

fn lent(client: &Client, generation: u64) -> Result<Option<u8>> {
    let mut byte = [0];
    let Some(file) = client.lease(generation, 1)? else { return Ok(None) };
    file.expect("whole").read_at(&mut byte, 0)?;
    Ok(Some(byte[0]))
}

#[test]
fn the_next_owner_is_waited_for_and_never_asked_for_inodes_of_the_one_before() {
    let owners = Owners::new();
    let mut running = Some(owners.start(1));
    let client = owners.client();
    assert_eq!(read(&client, 1).expect("read"), Some(1));
    assert_eq!(lent(&client, 1).expect("lent"), Some(1));
    for instance in 2..4 {
        running.take();
        std::thread::scope(|scope| {
            // Begun while there is no owner.
            let reads = [0; 4].map(|_| scope.spawn(|| read(&client, instance - 1)));
            let lease = scope.spawn(|| lent(&client, instance));
            running = Some(owners.start(instance));
            for read in reads {
                assert_eq!(read.join().expect("no panic").expect("an answer"), None, "inodes of another owner");
            }
            lease.join().expect("no panic").expect("an answer");
        });
        assert_eq!(client.generation(), instance);
        assert_eq!(read(&client, instance).expect("read"), Some(instance as u8));
        assert_eq!(lent(&client, instance).expect("lent"), Some(instance as u8), "lent anew");
    }
}

#[test]
fn a_file_of_which_the_owner_dropped_something_as_wrong_is_asked_for_again() {
    let owners = Owners::new();
    let _running = owners.start(1);
    let client = owners.client();
    assert_eq!(lent(&client, 1).expect("lent"), Some(1));
    let (path, next) = (owners.path().join("lent-1"), owners.path().join("next"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1600)).expect("marked");
    std::fs::write(&next, [7; 10]).expect("a file");
    std::fs::rename(&next, &path).expect("replaced, as after an unlink");
    for _ in 0..2 {
        assert_eq!(lent(&client, 1).expect("lent"), Some(7));
    }
}

#[test]
fn the_owner_is_told_what_is_read_from_files_on_lease_at_the_end_also() {
    let owners = Owners::new();
    let _running = owners.start(1);
    let client = owners.client();
    let told = || owners.counters.direct_bytes.get();
    let read = |bytes: usize| {
        let file = client.lease(1, 1).expect("an answer").expect("the same owner").expect("whole");
        assert_eq!(client.read_leased(&file, &mut vec![0; bytes], 0).expect("read"), bytes.min(10));
    };
    read(4);
    read(100);
    assert_eq!(told(), 0, "so few are not worth a message");
    drop(client);
    let deadline = Instant::now() + Duration::from_secs(60);
    while told() < 14 {
        assert!(Instant::now() < deadline, "they are never told");
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(told(), 14);
}

#[test]
fn who_attaches_between_two_owners_is_let_in_by_the_next_if_it_waits() {
    let owners = Owners::new();
    drop(owners.start(1));
    let refused = Client::connect(owners.path(), patience(), false).expect_err("nobody is there");
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    std::thread::scope(|scope| {
        let attached = scope.spawn(|| Client::connect(owners.path(), patience(), true).map(|(_, welcome)| welcome));
        let _running = owners.start(2);
        assert_eq!(attached.join().expect("no panic").expect("an owner").instance, 2);
    });
}

#[test]
fn an_owner_that_stays_away_is_given_up_with_words() {
    let owners = Owners::new();
    let running = owners.start(1);
    let short = Patience { successor: Duration::from_millis(300), ..patience() };
    let client = Client::connect(owners.path(), short, false).expect("an owner").0;
    drop(running);
    let error = read(&client, 1).expect_err("no successor");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("went away") && error.hint().is_some(), "{error}");
}

#[test]
fn an_owner_that_stands_still_is_told_of_with_a_way_out() {
    let owners = Owners::new();
    let running = owners.start(1);
    let client = owners.client();
    drop(running);
    // The kernel lets clients in; nobody takes notice of them.
    std::fs::remove_file(owners.path().join("engine.sock")).expect("left there");
    let _still = UnixListener::bind(owners.path().join("engine.sock")).expect("a listener");
    let error = read(&client, 1).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::Timeout);
    assert!(error.message().contains("stands still"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("kill -CONT")), "{error}");
}

#[test]
fn who_attaches_to_an_owner_that_stands_still_is_told_its_process() {
    let owners = Owners::new();
    let _still = UnixListener::bind(owners.path().join("engine.sock")).expect("a listener");
    let error = Client::connect(owners.path(), patience(), false).expect_err("nobody answers");
    let pid = std::process::id();
    assert!(error.message().starts_with(&format!("the process {pid} that owns")), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains(&format!("`kill -KILL {pid}`"))), "{error:?}");
}

#[test]
fn nobody_is_told_to_kill_a_process_whose_number_is_not_known() {
    let error = OwnerSocket::new(Path::new("/cache"), patience()).standing_still();
    assert!(error.message().starts_with("the process that owns the cache at /cache stands still"), "{error}");
    assert!(error.hint().is_some_and(|hint| !hint.contains("kill")), "{error:?}");
}

#[test]
fn who_waits_for_a_thread_that_waits_for_an_owner_that_stands_still_hears_of_it_too() {
    let owners = Owners::new();
    let running = owners.start(1);
    let client = Arc::new(owners.client());
    drop(running);
    std::fs::remove_file(owners.path().join("engine.sock")).expect("left there");
    let _still = UnixListener::bind(owners.path().join("engine.sock")).expect("a listener");
    let mutex = Arc::new(Mutex::new(()));
    let _held = mutex.lock();
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn({
        let (client, mutex) = (client.clone(), mutex.clone());
        move || sender.send(client.lock(&mutex).map(drop))
    });
    let outcome = heard.recv_timeout(Duration::from_secs(60)).expect("it waits for the lock without end");
    assert_eq!(outcome.expect_err("nobody answers").kind(), ErrorKind::Timeout);
}

#[test]
fn who_waits_for_a_thread_that_waits_in_vain_for_the_next_owner_gives_up_with_it() {
    let owners = Owners::new();
    let running = owners.start(1);
    let short = Patience { successor: Duration::from_millis(50), ..patience() };
    let client = Arc::new(Client::connect(owners.path(), short, false).expect("an owner").0);
    drop(running);
    let mutex = Arc::new(Mutex::new(()));
    let _held = mutex.lock();
    let waiting = std::thread::spawn({
        let (client, mutex) = (client.clone(), mutex.clone());
        move || client.lock(&mutex).map(drop)
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    // Each time after the last: one of them is after the other thread has begun to wait.
    while !waiting.is_finished() {
        assert!(Instant::now() < deadline, "it waits for the lock without end");
        assert_eq!(read(&client, 1).expect_err("no successor").kind(), ErrorKind::Timeout);
    }
    let error = waiting.join().expect("no panic").expect_err("no successor");
    assert!(error.message().contains("went away"), "{error}");
}

#[test]
fn an_owner_that_ended_in_order_is_not_waited_for() {
    let owners = Owners::new();
    let running = owners.start(1);
    let client = owners.client();
    drop(running);
    std::fs::remove_file(owners.path().join("engine.sock")).expect("left there");
    let error = read(&client, 1).expect_err("it has ended");
    assert!(error.message().contains("has ended"), "{error}");
}

/// A program that asks for many files and reads none of them.
fn deaf(place: &Path) -> UnixStream {
    let (path, _folder) = address(place).expect("an address");
    let stream = UnixStream::connect(path).expect("an owner");
    let items = [ReadItem { inode: 1, offset: 0, length: 1 << 20 }; 64];
    let mut line = Line::new(&stream, &|_| Ok(())).expect("a line");
    line.send(Kind::Read, 1, &encode_items(&items), None).expect("taken");
    stream
}

#[test]
fn programs_that_do_not_read_hold_no_more_than_the_memory_for_them_and_are_cut_off() {
    let memory = Budget::memory(4 << 20);
    let limits = ServeLimits { memory: memory.clone(), stall_in_want: Duration::from_secs(1), ..Default::default() };
    let owners = Owners { limits, ..Owners::new() };
    let _running = owners.start(1);
    let deaf = [0; 8].map(|_| deaf(owners.path()));
    let client = owners.client();
    for _ in 0..3 {
        let mut bytes = vec![0; 1 << 20];
        let item = ReadItem { inode: 1, offset: 0, length: 1 << 20 };
        let counts = client.read_many(1, &[item], &mut [&mut bytes]).expect("others go on");
        assert_eq!(counts, Some(vec![1 << 20]));
        assert!(bytes.iter().all(|byte| *byte == 1));
        assert!(memory.used() <= memory.limit());
    }
    assert!(owners.counters.stalled.get() > 0);
    drop(deaf);
}

#[test]
fn a_program_that_does_not_read_is_cut_off_though_nobody_wants_its_memory() {
    let limits = ServeLimits { stall: Duration::from_secs(1), ..Default::default() };
    let owners = Owners { limits, ..Owners::new() };
    let _running = owners.start(1);
    let mut deaf = deaf(owners.path());
    deaf.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    let deadline = Instant::now() + Duration::from_secs(60);
    while owners.counters.stalled.get() == 0 {
        assert!(Instant::now() < deadline, "it is never cut off");
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut begun = Vec::new();
    deaf.read_to_end(&mut begun).expect("the end of the connection");
    assert!(begun.len() < 64 << 20);
}

const STRANGER: &str = "HEADRACE_TEST_STRANGER";
const NOBODY: u32 = 65534;

#[test]
#[ignore = "the stranger of the next test"]
fn stranger() {
    let Ok(folder) = std::env::var(STRANGER) else { return };
    nix::unistd::setuid(NOBODY.into()).expect("root may be anybody");
    let listener = UnixListener::bind(Path::new(&folder).join("engine.sock")).expect("a place for a socket");
    println!("answer: ready");
    let mut heard = Vec::new();
    listener.accept().expect("a client").0.read_to_end(&mut heard).expect("its end");
    println!("answer: {}", heard.len());
}

#[test]
fn nothing_is_said_to_another_user_who_listens_where_an_owner_would() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be several users");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::chown(folder.path(), Some(NOBODY), None).expect("a folder of theirs");
    let mut listening = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "serve::tests::stranger", "--ignored", "--nocapture"])
        .env(STRANGER, folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut told = BufReader::new(listening.stdout.take().expect("its words")).lines().map_while(std::io::Result::ok);
    let mut answer = || told.find_map(|line| line.split_once("answer: ").map(|(_, answer)| answer.to_owned()));
    assert_eq!(answer().as_deref(), Some("ready"));
    let error = Client::connect(folder.path(), patience(), false).expect_err("another user listens");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("user 65534 listens there"), "{error}");
    assert_eq!(answer().as_deref(), Some("0"), "not a byte was sent");
    listening.wait().expect("its end");
}
