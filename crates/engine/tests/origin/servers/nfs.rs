//! NFS version 3 and MOUNT on one port, over contents in memory. It exports `/export`, gives fewer bytes than it is asked
//! for, lists few names at once, and answers anything to any call when a test tells it to.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::World;

pub const EXPORT: &str = "/export";
pub const LOOKUP: u32 = 3;
pub const READ: u32 = 6;
pub const READDIRPLUS: u32 = 17;
const MOUNT_PROGRAM: u32 = 100_005;
const NFS_PROGRAM: u32 = 100_003;

const NAMES_PER_PAGE: usize = 7;
const MOST_PER_READ: usize = 150_000;
/// What FSINFO says: more than is ever given.
const PREFERRED_READ: u32 = 200_000;

const NOENT: u32 = 2;
const ACCES: u32 = 13;
const NOTDIR: u32 = 20;
const STALE: u32 = 70;
const NOTSUPP: u32 = 10_004;

/// One call as it came.
pub struct Asked {
    pub program: u32,
    pub procedure: u32,
    arguments: Vec<u8>,
}

/// Gets the whole honest answer (`number`, `reply`, …, without its length) and gives what is sent, its length included.
pub type Tamper = Box<dyn Fn(&Asked, Vec<u8>) -> Vec<u8> + Send + Sync>;

pub struct NfsServer {
    pub address: SocketAddr,
    state: Arc<State>,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct State {
    world: Option<Arc<World>>,
    paths: Mutex<Vec<String>>,
    tamper: Mutex<Option<Tamper>>,
    lacks_readdirplus: AtomicBool,
    tells_little: AtomicBool,
    connections: AtomicUsize,
    /// Each connection ends after so many calls; 0 for never.
    calls_per_connection: AtomicUsize,
}

impl NfsServer {
    pub fn tamper(&self, tamper: impl Fn(&Asked, Vec<u8>) -> Vec<u8> + Send + Sync + 'static) {
        *self.state.tamper.lock() = Some(Box::new(tamper));
    }

    pub fn be_honest(&self) {
        *self.state.tamper.lock() = None;
    }

    pub fn lack_readdirplus(&self) {
        self.state.lacks_readdirplus.store(true, Ordering::SeqCst);
    }

    /// READDIRPLUS, LOOKUP and READ leave out what they may leave out.
    pub fn tell_little(&self) {
        self.state.tells_little.store(true, Ordering::SeqCst);
    }

    pub fn end_connections_after(&self, calls: usize) {
        self.state.calls_per_connection.store(calls, Ordering::SeqCst);
    }

    pub fn connections(&self) -> usize {
        self.state.connections.load(Ordering::SeqCst)
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub async fn serve(world: Arc<World>) -> NfsServer {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = Arc::new(State { world: Some(world), ..State::default() });
    let shared = state.clone();
    let task = tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            shared.connections.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(converse(socket, shared.clone()));
        }
    });
    NfsServer { address, state, task }
}

async fn converse(mut socket: TcpStream, state: Arc<State>) {
    for call in 1.. {
        let Ok(header) = socket.read_u32().await else { return };
        let mut message = vec![0; (header & 0x7fff_ffff) as usize];
        if socket.read_exact(&mut message).await.is_err() {
            return;
        }
        let answer = state.world().during(|| state.answer(message));
        if socket.write_all(&answer).await.is_err() {
            return;
        }
        let most = state.calls_per_connection.load(Ordering::SeqCst);
        if most > 0 && call >= most {
            return;
        }
    }
}

/// A record in one fragment.
pub fn framed(record: &[u8]) -> Vec<u8> {
    [&(0x8000_0000 | record.len() as u32).to_be_bytes()[..], record].concat()
}

impl World {
    fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        let now = self.in_flight.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_in_flight.fetch_max(now, Ordering::SeqCst);
        self.requests.fetch_add(1, Ordering::SeqCst);
        let outcome = work();
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        outcome
    }
}

impl State {
    fn world(&self) -> &World {
        self.world.as_ref().unwrap()
    }

    fn answer(&self, message: Vec<u8>) -> Vec<u8> {
        let mut words = Words(&message);
        let (number, _call, version) = (words.number(), words.number(), words.number());
        assert_eq!(version, 2);
        let (program, _, procedure) = (words.number(), words.number(), words.number());
        let (_flavor, _credential, _none, _verifier) = (words.number(), words.opaque(), words.number(), words.opaque());
        let asked = Asked { program, procedure, arguments: words.0.to_vec() };
        let result = match program {
            MOUNT_PROGRAM => self.mount(&mut words),
            NFS_PROGRAM => self.nfs(procedure, &mut words),
            _ => panic!("unknown program {program}"),
        };
        let record = [&numbers(&[number, 1, 0, 0, 0, 0])[..], &result].concat();
        match &*self.tamper.lock() {
            Some(tamper) => tamper(&asked, record),
            None => framed(&record),
        }
    }

    fn mount(&self, words: &mut Words<'_>) -> Vec<u8> {
        if words.opaque() != EXPORT.as_bytes() {
            return numbers(&[ACCES]);
        }
        [numbers(&[0]), self.handle(""), numbers(&[1, 1])].concat()
    }

    fn nfs(&self, procedure: u32, words: &mut Words<'_>) -> Vec<u8> {
        let Some(path) = self.path(&words.opaque()) else { return numbers(&[STALE, 0]) };
        let there = self.attributes(&path);
        match (procedure, there) {
            (_, None) => numbers(&[STALE, 0]),
            (1, Some(attributes)) => [numbers(&[0]), attributes].concat(),
            (LOOKUP, _) => self.look_up(&path, &words.opaque()),
            (READ, Some(attributes)) => self.read(&path, attributes, words.long(), words.number()),
            (READDIRPLUS, _) if self.lacks_readdirplus.load(Ordering::SeqCst) => numbers(&[NOTSUPP, 0]),
            (16 | READDIRPLUS, _) => self.list(&path, words.long(), procedure == READDIRPLUS),
            (19, _) => numbers(&[0, 0, PREFERRED_READ, PREFERRED_READ, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0]),
            (other, _) => panic!("unknown procedure {other}"),
        }
    }

    fn look_up(&self, folder: &str, name: &[u8]) -> Vec<u8> {
        if self.world().get(folder).is_some() {
            return numbers(&[NOTDIR, 0]);
        }
        let path = below(folder, &String::from_utf8_lossy(name));
        match self.attributes(&path) {
            Some(attributes) => [numbers(&[0]), self.handle(&path), self.optional(attributes), numbers(&[0])].concat(),
            None => numbers(&[NOENT, 0]),
        }
    }

    fn read(&self, path: &str, attributes: Vec<u8>, offset: u64, count: u32) -> Vec<u8> {
        let Some(stored) = self.world().get(path) else { return numbers(&[21, 0]) };
        let start = (offset as usize).min(stored.body.len());
        let end = (start + (count as usize).min(MOST_PER_READ)).min(stored.body.len());
        let is_end = u32::from(end == stored.body.len());
        let head = numbers(&[(end - start) as u32, is_end]);
        [numbers(&[0]), self.optional(attributes), head, opaque(&stored.body[start..end])].concat()
    }

    fn list(&self, folder: &str, cookie: u64, full: bool) -> Vec<u8> {
        let names = self.names(folder);
        let page: Vec<_> = names.iter().enumerate().skip(cookie as usize).take(NAMES_PER_PAGE).collect();
        let is_last = page.last().is_none_or(|(index, _)| index + 1 == names.len());
        let mut answer = [numbers(&[0, 0]), b"verifier".to_vec()].concat();
        for (index, name) in page {
            let path = below(folder, name);
            answer.extend(numbers(&[1, 0, index as u32]));
            answer.extend(opaque(name.as_bytes()));
            answer.extend((index as u64 + 1).to_be_bytes());
            if full {
                answer.extend(self.optional(self.attributes(&path).unwrap_or_default()));
                answer.extend(self.optional(self.handle(&path)));
            }
        }
        answer.extend(numbers(&[0, u32::from(is_last)]));
        answer
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let objects = self.world().objects.lock();
        let below = objects.keys().filter_map(|key| key.strip_prefix(&prefix));
        let names: BTreeSet<String> = below.map(|rest| rest.split('/').next().unwrap().to_owned()).collect();
        [".".to_owned(), "..".to_owned()].into_iter().chain(names).collect()
    }

    /// A thing that may be left out.
    fn optional(&self, bytes: Vec<u8>) -> Vec<u8> {
        if self.tells_little.load(Ordering::SeqCst) || bytes.is_empty() {
            return numbers(&[0]);
        }
        [numbers(&[1]), bytes].concat()
    }

    fn attributes(&self, path: &str) -> Option<Vec<u8>> {
        let world = self.world();
        if let Some(stored) = world.get(path) {
            return Some(attributes_of(1, stored.body.len() as u64, stored.mtime_s as u32, stored.number()));
        }
        let prefix = format!("{path}/");
        let is_folder = path.is_empty() || world.objects.lock().keys().any(|key| key.starts_with(&prefix));
        is_folder.then(|| attributes(2, 4096, 1))
    }

    fn handle(&self, path: &str) -> Vec<u8> {
        let mut paths = self.paths.lock();
        let known = paths.iter().position(|known| known == path);
        let index = known.unwrap_or_else(|| {
            paths.push(path.to_owned());
            paths.len() - 1
        });
        opaque(&(index as u64).to_be_bytes())
    }

    fn path(&self, handle: &[u8]) -> Option<String> {
        let index = u64::from_be_bytes(handle.try_into().ok()?);
        self.paths.lock().get(index as usize).cloned()
    }
}

fn below(folder: &str, name: &str) -> String {
    match name {
        "." | ".." => folder.to_owned(),
        _ if folder.is_empty() => name.to_owned(),
        _ => format!("{folder}/{name}"),
    }
}

pub fn attributes(kind: u32, size: u64, mtime_s: u32) -> Vec<u8> {
    attributes_of(kind, size, mtime_s, 0)
}

fn attributes_of(kind: u32, size: u64, mtime_s: u32, number: u64) -> Vec<u8> {
    let (size, number) = (size.to_be_bytes().to_vec(), number.to_be_bytes().to_vec());
    let times = numbers(&[mtime_s, 5, mtime_s, 6]);
    [numbers(&[kind, 0o644, 1, 0, 0]), size, vec![0; 24], number, vec![0; 8], times].concat()
}

pub fn numbers(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_be_bytes()).collect()
}

pub fn opaque(bytes: &[u8]) -> Vec<u8> {
    let padding = vec![0; bytes.len().wrapping_neg() & 3];
    [&(bytes.len() as u32).to_be_bytes()[..], bytes, &padding].concat()
}

struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn number(&mut self) -> u32 {
        let (head, rest) = self.0.split_at(4);
        self.0 = rest;
        u32::from_be_bytes(head.try_into().unwrap())
    }

    fn long(&mut self) -> u64 {
        u64::from(self.number()) << 32 | u64::from(self.number())
    }

    fn opaque(&mut self) -> Vec<u8> {
        let length = self.number() as usize;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = &rest[length.wrapping_neg() & 3..];
        bytes.to_vec()
    }
}
