//! Leases that cross their answers and their ends, over a real store.

use bytes::Bytes;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use super::super::lanes::{Lanes, LeaseAnswer, Ticket};
use super::super::socket::connect_to;
use super::*;
use crate::budget::{Budget, Budgets};
use crate::config::{EvictionPolicy, FolderConfig, LevelConfig, Medium};
use crate::ids::{FileKey, Version};
use crate::metrics::Metrics;
use crate::store::StoreConfig;

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const SIZE: u64 = 1000;

/// A worker's leases, with one file in its store.
struct Fixture {
    place: tempfile::TempDir,
    server: LeaseServer,
    here: FileId,
}

fn key(name: &str) -> FileKey {
    let version = Version::ModifiedNs(1);
    FileKey { dataset: "d".into(), path: name.as_bytes().into(), size: SIZE, version }
}

impl Fixture {
    fn new() -> Fixture {
        let place = tempfile::tempdir().expect("a folder");
        let folders = vec![FolderConfig { path: place.path().join("cache"), quota_bytes: 1 << 20 }];
        let levels = vec![LevelConfig { medium: Medium::Ssd, folders, high: 0.98, low: 0.95 }];
        let config = StoreConfig { levels, block_size: BlockSize::DEFAULT, policy: EvictionPolicy::Lru };
        let [descriptors, inodes] = ["descriptors", "inodes"].map(|name| Budget::count(name, 100));
        let budgets = Budgets { memory: Budget::memory(64 << 20), descriptors, inodes };
        let store = Store::open(config, budgets, Metrics::new()).expect("a store");
        let file = Arc::new(key("here"));
        assert_eq!(store.put(&file, 0, &[Bytes::from(vec![7; SIZE as usize])]), crate::store::Put::Stored);
        let server = LeaseServer::start(&place.path().join("socket"), store, LeaseLimits::default()).expect("started");
        Fixture { place, server, here: file.id() }
    }

    fn lanes(&self) -> Lanes {
        let path = self.server.path.clone();
        Lanes::new(Arc::new(move || Some(path.clone())), BlockSize::DEFAULT, PATIENCE)
    }

    fn lent(&self, lanes: &Lanes) -> Ticket {
        match lanes.ask(&self.here, SIZE, Some(0)) {
            Some(LeaseAnswer::Lent { ticket, .. }) => ticket,
            other => panic!("not lent: {other:?}"),
        }
    }

    /// Leases after all that was sent through the first lane.
    fn leases(&self, lanes: &Lanes) -> usize {
        let absent = key("absent").id();
        assert!(matches!(lanes.ask(&absent, SIZE, None), Some(LeaseAnswer::Absent)));
        self.server.leases()
    }
}

fn is_sent(socket: &OwnedFd, packet: &[u8]) -> bool {
    send(socket, packet, None, MsgFlags::MSG_DONTWAIT).is_ok()
}

#[test]
fn a_lease_is_counted_before_its_answer_goes_out() {
    let fixture = Fixture::new();
    let pair = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC);
    let (ours, theirs) = pair.expect("two sockets");
    // No answer leaves before the client takes something.
    while is_sent(&ours, &[0; 1000]) {}
    let mut connection = Connection { shared: &fixture.server.shared, socket: &ours, leases: HashMap::new() };
    std::thread::scope(|scope| {
        let lending = scope.spawn(move || connection.lend(1, fixture.here, SIZE, Some(0)).map(|()| connection));
        let counted = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            fixture.server.leases() == 1
        });
        let mut inbox = Inbox::default();
        while receive(&theirs, &mut inbox).is_ok_and(|(_, descriptor)| descriptor.is_none()) {}
        assert!(counted, "the answer was sent first");
        assert!(lending.join().is_ok_and(|lent| lent.is_ok()));
    });
    assert_eq!(fixture.server.leases(), 0, "the connection is dropped");
}

#[test]
fn a_lease_that_is_given_back_late_leaves_the_next_one_of_its_file() {
    let fixture = Fixture::new();
    let lanes = fixture.lanes();
    let (first, second) = (fixture.lent(&lanes), fixture.lent(&lanes));
    assert!(second.replaces(first) && !first.replaces(second));
    lanes.release(first, &fixture.here);
    assert_eq!(fixture.leases(&lanes), 1, "the second lease is still used");
    lanes.release(second, &fixture.here);
    assert_eq!(fixture.leases(&lanes), 0);
}

#[test]
fn a_mount_that_names_no_request_gives_back_what_it_has() {
    let fixture = Fixture::new();
    let socket = connect_to(&fixture.place.path().join("socket"), PATIENCE).expect("connected");
    let mut inbox = Inbox::default();
    let mut ask = |request, message: Message| {
        assert!(is_sent(&socket, &message.encode(request)));
        let (packet, _) = receive(&socket, &mut inbox).expect("an answer");
        Message::decode(packet).expect("a message").0
    };
    let ask_for = |id, wanted| Message::Ask { id, size: SIZE, wanted };
    let hello = Message::Hello { block_size: BlockSize::DEFAULT.bytes() };
    assert!(matches!(ask(1, hello), Message::Welcome { .. }));
    assert!(matches!(ask(2, ask_for(fixture.here, Some(0))), Message::Lent { .. }));
    assert_eq!(fixture.server.leases(), 1);
    assert!(is_sent(&socket, &Message::Release { id: fixture.here }.encode(0)));
    assert_eq!(ask(3, ask_for(key("absent").id(), None)), Message::Absent);
    assert_eq!(fixture.server.leases(), 0);
}
