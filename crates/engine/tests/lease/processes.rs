//! Blocks on lease, with the worker in a process of its own: what is read is right, whatever becomes of the worker.

#![allow(clippy::unwrap_used)]

use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::*;
use headrace_engine::budget::Budget;
use headrace_engine::ids::BlockSize;
use headrace_engine::lease::{LeaseOptions, LeasedBlocks};
use headrace_engine::store::{Blocks, Put};

#[test]
fn blocks_and_whole_files_of_the_worker_are_read_from_its_own_files() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let (whole, part) = (file("whole", 300_000), file("part", LARGE));
    worker.tell("put whole 300000 0 5");
    worker.tell(&format!("put part {LARGE} 3 6"));
    let blocks = leased(place.path(), patient());
    assert!((0..5).all(|index| has(&*blocks, &whole, index)));
    let found = blocks.whole_file(&whole.id(), whole.size).unwrap();
    assert!(read_whole(&found.file, whole.size) == content_of(&whole));
    let present = (0..32).filter(|index| has(&*blocks, &part, *index)).collect::<Vec<_>>();
    assert_eq!(present, [3, 4, 5]);
    assert!(blocks.whole_file(&part.id(), part.size).is_none());
    assert!(!has(&*blocks, &file("absent", 10), 0));
    assert!(!blocks.may_contain(&part.id(), 2) && blocks.may_contain(&part.id(), 3));
    assert_eq!((blocks.leased_files(), worker.number("leases")), (2, 2));
    drop(blocks);
    eventually("leases end with the client", || worker.number("leases") == 0);
}

#[test]
fn blocks_that_the_worker_gets_later_are_seen_when_told() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let late = file("late", LARGE);
    let blocks = leased(place.path(), patient());
    assert!(!has(&*blocks, &late, 0));
    worker.tell(&format!("put late {LARGE} 0 2"));
    assert!(!has(&*blocks, &late, 0), "absence is remembered");
    blocks.note_stored(&late.id());
    assert!(has(&*blocks, &late, 0) && has(&*blocks, &late, 1) && !has(&*blocks, &late, 2));
    worker.tell(&format!("put late {LARGE} 2 32"));
    assert!(!has(&*blocks, &late, 2) && blocks.whole_file(&late.id(), LARGE).is_none());
    // As a transfer does with what it fetched through the worker.
    assert!(matches!(blocks.put(&late, 2, &[]), Put::Declined(_)));
    assert!(has(&*blocks, &late, 2));
    assert!(blocks.whole_file(&late.id(), LARGE).is_some());
}

#[test]
fn absence_is_believed_for_a_while_only() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let late = file("late", 100);
    let blocks = leased(place.path(), LeaseOptions { absence: Duration::from_millis(30), ..patient() });
    assert!(!has(&*blocks, &late, 0));
    worker.tell("put late 100 0 1");
    eventually("asked again", || has(&*blocks, &late, 0));
}

#[test]
fn what_is_on_lease_is_not_evicted_and_what_is_given_back_is() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let lent = file("lent", LARGE);
    worker.tell(&format!("put lent {LARGE} 0 32"));
    let blocks = leased(place.path(), LeaseOptions { idle: Duration::from_millis(20), ..patient() });
    let handle = blocks.whole_file(&lent.id(), LARGE).unwrap();
    assert!(worker.number("press 1") > 0);
    assert_eq!(worker.number(&format!("cached lent {LARGE}")), LARGE);
    assert!(read_whole(&handle.file, LARGE) == content_of(&lent));
    drop(handle);
    eventually("idle leases are given back", || worker.number("leases") == 0);
    // It may have gone already: the cache is under pressure. Or not yet: a program that another test is just starting has a
    // copy of the descriptor, and so of its lock, until it runs.
    eventually("what was given back may go", || {
        worker.number(&format!("evict lent {LARGE}"));
        worker.number(&format!("cached lent {LARGE}")) == 0
    });
    assert_eq!(blocks.leased_files(), 0);
}

#[test]
fn bytes_on_lease_survive_the_worker_and_what_its_successors_evict() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let (lent, other) = (file("lent", LARGE), file("other", 1000));
    worker.tell(&format!("put lent {LARGE} 0 32"));
    worker.tell("put other 1000 0 1");
    let blocks = leased(place.path(), patient());
    let handles: Vec<_> = (0..32).map(|index| get(&*blocks, &lent, index).unwrap()).collect();
    for round in 0..3 {
        worker.kill();
        assert!(!has(&*blocks, &other, 0), "nobody to ask");
        assert!((0..32).all(|index| has(&*blocks, &lent, index)), "what is on lease is still here");
        worker = Worker::start(place.path());
        assert!(worker.number(&format!("press {round}")) > 0);
        for (index, handle) in handles.iter().enumerate() {
            let expected = store_files::bytes(&lent, index as u32);
            assert!(store_files::read_handle(handle) == expected, "round {round}: block {index} changed");
        }
        eventually("the new worker is found", || {
            worker.tell("put new 1000 0 1");
            has(&*blocks, &file("new", 1000), 0) || {
                blocks.note_stored(&file("new", 1000).id());
                false
            }
        });
        worker.tell("put other 1000 0 1");
        assert!((0..32).all(|index| has(&*blocks, &lent, index)));
    }
}

#[test]
fn a_frozen_worker_is_given_up_and_found_again() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let (first, second) = (file("first", 1000), file("second", 1000));
    worker.tell("put first 1000 0 1");
    worker.tell("put second 1000 0 1");
    let blocks = leased(place.path(), LeaseOptions { patience: Duration::from_millis(50), ..patient() });
    // A loaded machine may be silent for as long, too.
    eventually("on lease", || has(&*blocks, &first, 0));
    worker.freeze();
    assert!(!has(&*blocks, &second, 0), "no answer is no block");
    assert!(has(&*blocks, &first, 0), "what is on lease needs no answer");
    worker.thaw();
    eventually("asked again", || has(&*blocks, &second, 0));
}

#[test]
fn leases_stay_within_the_table_and_the_descriptors() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let files: Vec<_> = (0..10).map(|number| file(&format!("f{number}"), 1000)).collect();
    (0..10).for_each(|number| drop(worker.tell(&format!("put f{number} 1000 0 1"))));
    let few = leased(place.path(), LeaseOptions { files: 3, ..patient() });
    assert!(files.iter().all(|file| has(&*few, file, 0)));
    assert_eq!(few.leased_files(), 3);
    eventually("the others are given back", || worker.number("leases") == 3);
    drop(few);
    let budget = Budget::count("descriptors", 2);
    let poor =
        LeasedBlocks::new(at(socket(place.path())), store_files::block_size(), budget.clone(), patient()).unwrap();
    assert!(files.iter().all(|file| has(&*poor, file, 0)));
    assert_eq!(budget.used(), 2);
    let held: Vec<_> = files[..2].iter().map(|file| get(&*poor, file, 0).unwrap()).collect();
    assert!(!has(&*poor, &files[5], 0), "no descriptor is free");
    drop((held, poor));
    assert_eq!(budget.used(), 0);
}

#[test]
fn the_worker_lends_so_many_files_to_one_connection() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let files: Vec<_> = (0..100).map(|number| file(&format!("f{number}"), 1000)).collect();
    (0..100).for_each(|number| drop(worker.tell(&format!("put f{number} 1000 0 1"))));
    let blocks = leased(place.path(), patient());
    let found = files.iter().filter(|file| has(&*blocks, file, 0)).count();
    assert_eq!(found, 100, "the client keeps to what the worker allows");
    assert!(blocks.leased_files() <= 64 && worker.number("leases") <= 64);
}

#[test]
fn blocks_of_other_workers_are_not_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    let whole = file("whole", 300_000);
    worker.tell("put whole 300000 0 5");
    let ours = Arc::new(AtomicBool::new(false));
    let is_ours = ours.clone();
    let is_local = Arc::new(move |_: &_, index: u32| is_ours.load(Ordering::Relaxed) || index < 2);
    let blocks = leased(place.path(), LeaseOptions { is_local, ..patient() });
    assert!(!has(&*blocks, &whole, 3) && blocks.whole_file(&whole.id(), whole.size).is_none());
    assert_eq!(worker.number("leases"), 0);
    assert!(has(&*blocks, &whole, 1), "ours");
    assert!(has(&*blocks, &whole, 3), "what is on lease anyhow is used");
    ours.store(true, Ordering::Relaxed);
    assert!(blocks.whole_file(&whole.id(), whole.size).is_some());
}

#[test]
fn a_mount_that_counts_in_other_blocks_gets_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    worker.tell("put f 1000 0 1");
    let other = BlockSize::new(128 << 10).unwrap();
    let blocks =
        LeasedBlocks::new(at(socket(place.path())), other, Budget::count("descriptors", 9), patient()).unwrap();
    assert!(!has(&*blocks, &file("f", 1000), 0));
    assert_eq!(worker.number("leases"), 0);
}

#[test]
fn socket_in_a_deep_folder_works() {
    let place = tempfile::tempdir().unwrap();
    let deep = place.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let mut worker = Worker::start(&deep);
    worker.tell("put f 1000 0 1");
    assert!(has(&*leased(&deep, patient()), &file("f", 1000), 0));
    let mode = std::fs::metadata(socket(&deep)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn packets_that_make_no_sense_end_their_connection_only() {
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    worker.tell("put f 1000 0 1");
    let blocks = leased(place.path(), patient());
    assert!(has(&*blocks, &file("f", 1000), 0));
    for garbage in [&b"x"[..], b"HRLS", &[0xff; 200], &[b'H'; 60_000]] {
        let answer = say(&socket(place.path()), garbage);
        assert!(answer.is_empty() || answer.starts_with(b"HRLS"), "told, or cut off: {answer:?}");
    }
    worker.tell("put g 1000 0 1");
    assert!(has(&*blocks, &file("g", 1000), 0), "the others go on");
}

/// Sends one packet and takes the answer.
fn say(path: &std::path::Path, packet: &[u8]) -> Vec<u8> {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, UnixAddr, connect, recv, send, socket};
    let socket = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
    connect(socket.as_raw_fd(), &UnixAddr::new(path).unwrap()).unwrap();
    send(socket.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL).unwrap();
    let mut answer = vec![0; 4096];
    let count = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty()).unwrap_or(0);
    answer.truncate(count);
    answer
}

#[test]
fn processes_of_other_users_get_nothing() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can become another user");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut worker = Worker::start(place.path());
    worker.tell("put f 1000 0 1");
    // Even where the socket's mode would let them in.
    for path in [place.path(), &socket(place.path())] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
    }
    let ask = |user: u32| {
        let mut asker = Command::new("/proc/self/exe");
        asker
            .args(["--exact", "processes::stranger", "--ignored"])
            .env("HEADRACE_TEST_STRANGER", place.path())
            .uid(user);
        asker.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).status().unwrap().success()
    };
    assert!(ask(0), "root gets it");
    assert!(!ask(65_534), "another user does not");
}

#[test]
#[ignore = "a part of processes_of_other_users_get_nothing"]
fn stranger() {
    let Ok(place) = std::env::var("HEADRACE_TEST_STRANGER") else { return };
    assert!(has(&*leased(place.as_ref(), patient()), &file("f", 1000), 0));
}
