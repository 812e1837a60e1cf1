//! Users at the other end of a Unix socket, as the kernel tells them: those who may ask here, and those who may be
//! believed that listen there. Knows nothing of what is said.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::socket::{UnixCredentials, getsockopt, sockopt};
use nix::unistd::geteuid;

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;

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

/// Whether nobody but `user` and root can have put what is at `path` there: no level above it is another's, or open to
/// others, and none is a link.
fn is_place_of(user: u32, path: &Path) -> bool {
    let Some(folder) = path.parent() else { return false };
    let is_closed = |level: &Path| {
        level.symlink_metadata().is_ok_and(|facts| {
            // A group with the number of its owner is that owner's alone, as useradd makes it.
            let is_open_to_group = facts.mode() & GROUP_WRITES != 0 && facts.gid() != facts.uid();
            let is_open = facts.mode() & OTHERS_WRITE != 0 || is_open_to_group;
            facts.is_dir() && [0, user].contains(&facts.uid()) && !is_open
        })
    };
    folder.is_absolute() && folder.ancestors().all(is_closed)
}
