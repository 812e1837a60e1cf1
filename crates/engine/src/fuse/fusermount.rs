//! Mounting as an ordinary user through `fusermount3`, the set-user-id helper of the fuse3 package.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, MsgFlags, SockFlag, SockType, UnixAddr, recvmsg, socketpair,
};

use super::device::NO_DEVICE_HINT;
use crate::error::{Error, ErrorKind, Result};

const PROGRAM: &str = "fusermount3";
const CONFIGURATION: &str = "/etc/fuse.conf";

/// Mounts on `mountpoint` and answers the connection's descriptor.
pub fn mount(mountpoint: &Path, options: &str) -> Result<OwnedFd> {
    let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
        .map_err(|error| Error::from_io("mount on", mountpoint, error.into()))?;
    let mut command = Command::new(PROGRAM);
    // The helper sends the descriptor over the socket that this variable numbers; as its standard input it needs no
    // descriptor that survives exec by accident.
    command.env("_FUSE_COMMFD", "0").stdin(Stdio::from(theirs));
    command.args(["-o", options, "--"]).arg(mountpoint);
    let output = command.output().map_err(|error| explain_start(mountpoint, error))?;
    drop(command);
    if !output.status.success() {
        return Err(explain_mount(mountpoint, &output));
    }
    receive_descriptor(&ours).map_err(|error| Error::from_io("get the connection of", mountpoint, error))
}

/// Takes the mount off. Without `lazy` it fails while files are open there.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<()> {
    let mut command = Command::new(PROGRAM);
    command.stdin(Stdio::null()).arg("-u").args(lazy.then_some("-z")).arg("--").arg(mountpoint);
    let output = command.output().map_err(|error| explain_start(mountpoint, error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = words_of(&output);
    let kind = if said.contains("busy") { ErrorKind::Busy } else { ErrorKind::Unexpected };
    Err(Error::new(kind, format!("cannot unmount {}: {said}", mountpoint.display())))
}

/// Whether `allow_other` is open to ordinary users on this machine.
pub fn allows_other() -> bool {
    let text = std::fs::read_to_string(CONFIGURATION).unwrap_or_default();
    text.lines().any(|line| line.trim() == "user_allow_other")
}

/// The refusal when it is not.
pub fn other_refused() -> Error {
    Error::new(ErrorKind::PermissionDenied, "cannot mount for other users: only root may, on this machine")
        .with_hint(format!("mount without allow_other, or let root add the line user_allow_other to {CONFIGURATION}"))
}

/// As one word of an `-o` list: commas and backslashes would end it.
pub fn escape(word: &str) -> String {
    word.replace('\\', "\\\\").replace(',', "\\,")
}

fn receive_descriptor(socket: &OwnedFd) -> io::Result<OwnedFd> {
    let mut byte = [0u8; 1];
    let mut parts = [IoSliceMut::new(&mut byte)];
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
    let message = recvmsg::<UnixAddr>(socket.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control
            && let [descriptor, ..] = descriptors[..]
        {
            // SAFETY: the kernel has just made this descriptor for us; nobody else knows its number.
            return Ok(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    Err(io::Error::other("the helper sent no descriptor"))
}

fn explain_start(mountpoint: &Path, error: io::Error) -> Error {
    if error.kind() == io::ErrorKind::NotFound {
        return Error::new(
            ErrorKind::Unsupported,
            format!("cannot mount on {}: {PROGRAM} is not installed", mountpoint.display()),
        )
        .with_hint("install the package fuse3, or mount as root");
    }
    Error::from_io("run fusermount3 on", mountpoint, error)
}

fn explain_mount(mountpoint: &Path, output: &Output) -> Error {
    let said = words_of(output);
    let what = format!("cannot mount on {}: {said}", mountpoint.display());
    if said.contains("device not found") || said.contains("failed to open /dev/fuse") && said.contains("No such") {
        return Error::new(ErrorKind::Unsupported, what).with_hint(NO_DEVICE_HINT);
    }
    if said.contains("/dev/fuse") && said.contains("Permission denied") {
        return Error::new(ErrorKind::PermissionDenied, what)
            .with_hint("let users open the device, as most systems do: chmod 666 /dev/fuse (as root)");
    }
    if said.contains("user_allow_other") {
        return other_refused();
    }
    if said.contains("mounted") && said.contains("max") {
        return Error::new(ErrorKind::Busy, what).with_hint(format!("raise mount_max in {CONFIGURATION}"));
    }
    Error::new(ErrorKind::PermissionDenied, what)
        .with_hint("the folder must belong to you and be writable, and fusermount3 must be set-user-id root")
}

/// The helper's first line without its own name.
fn words_of(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("fusermount3 failed without a word");
    line.trim().trim_start_matches("fusermount3:").trim().to_owned()
}
