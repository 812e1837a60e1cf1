//! Users at the other end of a Unix socket, as the kernel tells them: those who may ask here, and those who may be
//! believed that listen there. Knows nothing of what is said.

use std::fs::Metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::socket::{UnixCredentials, getsockopt, sockopt};
use nix::unistd::geteuid;

/// The process at the other end, if it may ask here: of our own user, or of root.
pub fn friend(socket: &impl AsFd) -> io::Result<Option<UnixCredentials>> {
    let peer = getsockopt(socket, sockopt::PeerCredentials)?;
    Ok(is_friend(peer.uid()).then_some(peer))
}

/// An error unless the user who listens at `path`, where `socket` leads, may be believed: root, our own, and for root who
/// else has a folder of his own there. Anybody may make a socket in a place such as /tmp before its user comes.
pub fn check_listener(socket: &impl AsFd, path: &Path) -> io::Result<()> {
    let user = getsockopt(socket, sockopt::PeerCredentials)?.uid();
    if is_friend(user) || (geteuid().is_root() && is_place_of(user, path)) {
        return Ok(());
    }
    let message = format!("user {user} listens there, who is neither root nor ours, nor the owner of a closed folder");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

fn is_friend(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Whether nobody but `user` and root can have put what is at `path` there: no level above it is another's, none is a link,
/// and none is open to others, but for a sticky one such as /tmp, where what is next must be root's own.
fn is_place_of(user: u32, path: &Path) -> bool {
    let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) else { return false };
    let levels: io::Result<Vec<Metadata>> = folder.ancestors().map(Path::symlink_metadata).collect();
    let mut is_roots_below = false;
    levels.is_ok_and(|levels| {
        levels.iter().all(|level| {
            let is_kept = !is_open(level) || (level.mode() & libc::S_ISVTX != 0 && is_roots_below);
            is_roots_below = level.uid() == 0;
            level.is_dir() && [0, user].contains(&level.uid()) && is_kept
        })
    })
}

/// Whether somebody else may write to it. A group with the number of the owner is that owner's alone, as useradd makes it.
fn is_open(level: &Metadata) -> bool {
    let is_open_to_group = level.mode() & libc::S_IWGRP != 0 && level.gid() != level.uid();
    level.mode() & libc::S_IWOTH != 0 || is_open_to_group
}
