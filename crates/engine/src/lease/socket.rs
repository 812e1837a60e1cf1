//! Packets on a Unix socket, whole or not at all, with a descriptor beside them. Knows nothing of what they mean.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{
    AddressFamily, Backlog, ControlMessage, ControlMessageOwned, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr,
    accept4, bind, connect, listen, recvmsg, sendmsg, setsockopt, shutdown, socket, sockopt,
};
use nix::sys::time::TimeVal;

use super::message::MAX_MESSAGE_BYTES;
use crate::local_peers::{check_listener, friend};

/// `sun_path` has room for 107 bytes.
const MAX_ADDRESS_BYTES: usize = 100;

/// Where packets arrive, one at a time.
#[derive(Debug)]
pub struct Inbox(Box<[u8]>);

impl Default for Inbox {
    fn default() -> Self {
        Inbox(vec![0; MAX_MESSAGE_BYTES + 1].into())
    }
}

/// A socket that listens at `path`, for this user alone. What lies there is replaced: whoever calls this owns the place.
pub fn listen_at(path: &Path) -> io::Result<OwnedFd> {
    let (short, _directory) = address(path)?;
    let socket = packet_socket()?;
    match std::fs::remove_file(&short) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    bind(socket.as_raw_fd(), &UnixAddr::new(&short)?)?;
    // Nobody can connect before `listen`.
    std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600))?;
    listen(&socket, Backlog::new(64)?)?;
    Ok(socket)
}

/// A connection to whoever listens at `path`, unless another user made himself at home there. Sending and receiving fail
/// after `patience`.
pub fn connect_to(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let (short, _directory) = address(path)?;
    let socket = packet_socket()?;
    let patience = TimeVal::new(patience.as_secs() as i64, i64::from(patience.subsec_micros()));
    // Connecting waits as sending does, while the listener's queue is full.
    setsockopt(&socket, sockopt::SendTimeout, &patience)?;
    setsockopt(&socket, sockopt::ReceiveTimeout, &patience)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(&short)?)?;
    check_listener(&socket, path)?;
    Ok(socket)
}

/// Sends one packet, with `descriptor` beside it.
pub fn send(socket: &OwnedFd, bytes: &[u8], descriptor: Option<RawFd>, flags: MsgFlags) -> io::Result<()> {
    let descriptors: Vec<RawFd> = descriptor.into_iter().collect();
    let control = [ControlMessage::ScmRights(&descriptors)];
    let control = if descriptors.is_empty() { &control[..0] } else { &control[..] };
    let slices = [io::IoSlice::new(bytes)];
    loop {
        match sendmsg::<()>(socket.as_raw_fd(), &slices, control, MsgFlags::MSG_NOSIGNAL | flags, None) {
            Err(nix::errno::Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
            Ok(_) => return Ok(()),
        }
    }
}

/// Waits for one packet; none of its bytes means the connection's end. One that was too long, or whose descriptor found
/// no place in this process, is an error.
pub fn receive<'a>(socket: &OwnedFd, inbox: &'a mut Inbox) -> io::Result<(&'a [u8], Option<OwnedFd>)> {
    let mut space = nix::cmsg_space!([RawFd; 1]);
    let (count, descriptor, cut) = loop {
        let mut slices = [io::IoSliceMut::new(&mut inbox.0)];
        let received =
            match recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC) {
                Err(nix::errno::Errno::EINTR) => continue,
                other => other?,
            };
        let mut descriptor = None;
        for control in received.cmsgs()? {
            if let ControlMessageOwned::ScmRights(descriptors) = control {
                // SAFETY: the kernel has just installed these descriptors for us; nobody else owns them.
                descriptor = descriptors.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).next_back();
            }
        }
        break (received.bytes, descriptor, received.flags.intersects(MsgFlags::MSG_TRUNC | MsgFlags::MSG_CTRUNC));
    };
    if cut || count > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a packet was cut"));
    }
    Ok((&inbox.0[..count], descriptor))
}

/// Waits for a connection; whether it may speak, by its user: our own, or root.
pub fn accept_from(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let raw = accept4(listener.as_raw_fd(), SockFlag::SOCK_CLOEXEC)?;
    // SAFETY: the kernel has just installed this descriptor for us; nobody else owns it.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    Ok(friend(&socket)?.map(|_| socket))
}

/// Ends a socket for both sides, and for whoever waits on it.
pub fn end(socket: &OwnedFd) {
    // One that has ended already is just as well.
    let _ = shutdown(socket.as_raw_fd(), Shutdown::Both);
}

fn packet_socket() -> io::Result<OwnedFd> {
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None)?)
}

/// A path to the socket that fits into its address however deep its folder lies: through the folder's own descriptor
/// when needed. The returned `File` keeps that path valid.
pub fn address(path: &Path) -> io::Result<(PathBuf, Option<File>)> {
    if path.as_os_str().len() < MAX_ADDRESS_BYTES {
        return Ok((path.to_owned(), None));
    }
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a place for a socket"));
    };
    let folder = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((short, Some(folder)))
}
