//! Anything that the kernel might send: no panic, and exactly one answer to each request that wants one.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use proptest::prelude::*;

use super::abi::IN_HEADER_BYTES;
use super::counts::{Counts, Lookups};
use super::device::Device;
use super::disk_reads::DiskReads;
use super::dispatch::Scratch;
use super::ledger::Ledger;
use super::negotiate::Negotiated;
use super::neighbourhood::Neighbourhood;
use super::open_modes::OpenModes;
use super::options::Mode;
use super::patience::Places;
use super::reply::{Lifetime, Presentation};
use super::state::SessionState;
use super::threads::RequestThreads;
use super::unanswered::Unanswered;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::vfs::{
    AtHand, Attributes, Backing, DirectoryEntry, FileKind, FileSystem, Inode, Opened, ROOT, ReadReply, Statistics,
};

const CONTENT: &[u8] = b"the content of every file";

/// A tree where every even inode is a file, every odd one a directory, and everything above 100 absent.
struct Endless;

fn of(inode: Inode) -> Result<Attributes> {
    if inode > 100 {
        return Err(Error::new(ErrorKind::Stale, "no such inode"));
    }
    let kind = if inode.is_multiple_of(2) { FileKind::File } else { FileKind::Directory };
    let (size, mtime_ns, mode) = (CONTENT.len() as u64, i64::MIN, u32::MAX);
    Ok(Attributes { inode, kind, size, mtime_ns, mode, uid: 0, gid: 0, links: 1 })
}

fn content(inode: Inode) -> Result<ReadReply> {
    // More than asked for: a fault that the session must not pass on.
    of(inode).map(|_| ReadReply::Memory(vec![CONTENT.into(); 3]))
}

impl FileSystem for Endless {
    fn lookup(&self, parent: Inode, name: &[u8]) -> Result<Attributes> {
        of(parent.wrapping_add(name.len() as u64))
    }
    fn attributes(&self, inode: Inode) -> Result<Attributes> {
        of(inode)
    }
    fn read_link(&self, _inode: Inode) -> Result<Vec<u8>> {
        Ok(b"target".to_vec())
    }
    fn open(&self, inode: Inode) -> Result<Opened> {
        of(inode).map(|_| Opened { handle: inode })
    }
    fn release(&self, _handle: u64) {}
    fn backing(&self, _inode: Inode) -> Option<Backing> {
        None
    }
    fn at_hand(&self, inode: Inode, _: u64, offset: u64, _: usize, _: bool) -> Result<AtHand<ReadReply>> {
        if offset.is_multiple_of(2) { content(inode).map(AtHand::Here) } else { Ok(AtHand::Missing) }
    }
    fn read(self: Arc<Self>, inode: Inode, _: u64, _: u64, _: usize) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async move { content(inode) })
    }
    fn read_directory(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let attributes = of(inode)?;
        let mut cookie = cookie;
        while visit(DirectoryEntry { name: b"name", attributes, cookie }) {
            cookie = cookie.wrapping_add(1);
        }
        Ok(())
    }
    fn parent(&self, _inode: Inode) -> Result<Inode> {
        Ok(ROOT)
    }
    fn statistics(&self) -> Statistics {
        Statistics { files: u64::MAX, bytes: u64::MAX }
    }
}

/// A session whose "kernel" is the other end of a socket.
fn session(runtime: tokio::runtime::Handle, mode: Mode) -> (Arc<SessionState>, UnixDatagram) {
    let (ours, kernel) = UnixDatagram::pair().expect("a socket pair");
    kernel.set_read_timeout(Some(Duration::from_secs(5))).expect("set");
    let device = Arc::new(Device::new(OwnedFd::from(ours)));
    let ledger = Arc::new(Ledger::create().expect("made"));
    let lifetime = Lifetime::from_seconds(1.0);
    let places = Arc::new(Places::of(2));
    let shared = SessionState {
        opens: OpenModes::new(device.clone(), ledger.clone(), mode == Mode::Passthrough, places.clone()),
        unanswered: Unanswered::new(ledger.clone()),
        device,
        filesystem: Arc::new(Endless),
        writable: None,
        negotiated: Negotiated { minor: 45, flags: u64::MAX, mode },
        shown: Presentation { entry: lifetime, attributes: lifetime },
        runtime,
        in_flight: Arc::default(),
        disk_reads: DiskReads::default(),
        threads: RequestThreads::new(places),
        neighbourhood: Neighbourhood::new(Metrics::new().fuse_given_bytes),
        counts: Counts::new(&Metrics::new()),
        lookups: Lookups::new(ledger, 1000),
    };
    (Arc::new(shared), kernel)
}

fn request(opcode: u32, inode: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(((IN_HEADER_BYTES + body.len()) as u32).to_ne_bytes());
    bytes.extend(opcode.to_ne_bytes());
    bytes.extend(77u64.to_ne_bytes());
    bytes.extend(inode.to_ne_bytes());
    bytes.extend([0; 16]);
    bytes.extend(body);
    bytes
}

/// The one answer: its length is right, its number ours, its error an errno.
fn check_answer(kernel: &UnixDatagram, asked: &[u8]) {
    let mut answer = vec![0; 1 << 20];
    let length = kernel.recv(&mut answer).unwrap_or_else(|error| panic!("no answer to {asked:?}: {error}"));
    let word = |at: usize| i32::from_ne_bytes(answer[at..at + 4].try_into().expect("four bytes"));
    assert_eq!(word(0) as usize, length);
    assert!((-4095..=0).contains(&word(4)), "{}", word(4));
    assert_eq!(word(8), 77);
    assert!(word(4) == 0 || length == 16);
}

const FORGET: u32 = 2;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;

/// A body of small words, so that limits and offsets are often believable.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![0u64..5, 0u64..100_000, any::<u64>()];
    prop_oneof![
        proptest::collection::vec(word, 0..9)
            .prop_map(|words| words.iter().flat_map(|word| word.to_ne_bytes()).collect()),
        proptest::collection::vec(any::<u8>(), 0..200),
    ]
}

#[test]
fn every_request_gets_exactly_one_answer() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    for mode in [Mode::Classic, Mode::Elide, Mode::Passthrough] {
        let (shared, kernel) = session(runtime.handle().clone(), mode);
        let asked = (0u32..60, 0u64..120, body());
        proptest!(ProptestConfig::with_cases(1500), |((opcode, inode, body) in asked)| {
            let bytes = request(opcode, inode, &body);
            shared.handle(&bytes, &mut Scratch::default());
            let well_formed = super::request::Request::parse(&bytes).is_ok();
            if !(well_formed && [FORGET, INTERRUPT, BATCH_FORGET].contains(&opcode)) {
                check_answer(&kernel, &bytes);
            }
            kernel.set_nonblocking(true).expect("set");
            prop_assert!(kernel.recv(&mut [0; 16]).is_err(), "a second answer to {bytes:?}");
            kernel.set_nonblocking(false).expect("set");
        });
    }
}

proptest! {
    #[test]
    fn no_bytes_make_a_session_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (shared, _kernel) = session(runtime.handle().clone(), Mode::Classic);
        shared.handle(&bytes, &mut Scratch::default());
    }
}

#[test]
fn a_read_is_never_answered_with_more_than_was_asked_for() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let (shared, kernel) = session(runtime.handle().clone(), Mode::Classic);
    for (offset, length) in [(0u64, 10u64), (1, 10), (0, 0), (0, 1000)] {
        let body = [0, offset, length].map(u64::to_ne_bytes).concat();
        shared.handle(&request(15, 2, &body), &mut Scratch::default());
        let mut answer = vec![0; 4096];
        let received = kernel.recv(&mut answer).expect("an answer");
        let expected = CONTENT.repeat(3);
        assert_eq!(&answer[16..received], &expected[..expected.len().min(length as usize)]);
    }
}
