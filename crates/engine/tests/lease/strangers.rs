//! Sockets of other users of the machine: one that is not the worker's has no say, and a worker may be another user.

#![allow(clippy::unwrap_used)]

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use crate::support::*;

/// A user who owns nothing on any machine.
const NOBODY: u32 = 65534;

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        eprintln!("skipped: only root can be several users");
    }
    is_root
}

/// Whether a mount of root takes a block that a worker of another user lends in `folder`.
fn is_taken(folder: &Path) -> bool {
    let mut worker = Worker::start_as(NOBODY, folder);
    let lent = file("lent", 1000);
    assert_eq!(worker.number("put lent 1000 0 1"), 1);
    let blocks = leased(folder, patient());
    let is_taken = has(&*blocks, &lent, 0);
    assert_eq!(worker.number("leases"), u64::from(is_taken));
    is_taken
}

#[test]
fn nothing_is_taken_where_others_may_make_sockets() {
    if !is_root() {
        return;
    }
    let open = tempfile::tempdir().unwrap();
    std::fs::set_permissions(open.path(), Permissions::from_mode(0o1777)).unwrap();
    assert!(!is_taken(open.path()), "a folder in which everybody may make a socket");
    let own = tempfile::tempdir().unwrap();
    chown(own.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    assert!(!is_taken(own.path()), "a folder that everybody could have made");
    let (closed, elsewhere) = (tempfile::tempdir_in("/run").unwrap(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o755)).unwrap();
    chown(elsewhere.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    std::os::unix::fs::symlink(elsewhere.path(), closed.path().join("link")).unwrap();
    assert!(!is_taken(&closed.path().join("link")), "a link that leads to such a folder");
}

#[test]
fn a_mount_of_root_takes_blocks_of_a_worker_who_is_another_user() {
    if !is_root() {
        return;
    }
    let closed = tempfile::tempdir_in("/run").unwrap();
    std::fs::set_permissions(closed.path(), Permissions::from_mode(0o755)).unwrap();
    let own = closed.path().join("worker");
    std::fs::create_dir(&own).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    std::fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    assert!(is_taken(&own));
}
