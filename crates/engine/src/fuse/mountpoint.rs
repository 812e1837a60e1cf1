//! Is this folder fit to be mounted on? The answer comes within a second when a dead mount hangs there, and within half a
//! minute however slow the folder is.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use super::mountinfo::{self, MountEntry};
use crate::error::{Error, ErrorKind, Result};

/// A folder answers at once; what does not within this time is a mount whose server hangs, if it is one of a server.
const PROBE_TIMEOUT: Duration = Duration::from_millis(700);
/// A folder of a local disk may be late as well: of a machine that is busy, or a disk that writes much.
const LOCAL_TIMEOUT: Duration = Duration::from_secs(30);
/// File systems with a server that may be gone; those of FUSE have a process.
const SERVED_KINDS: [&str; 9] = ["9p", "afs", "ceph", "cifs", "gfs2", "lustre", "nfs", "nfs4", "smb3"];

/// The absolute path of `mountpoint`, when it can be mounted on.
pub fn check(mountpoint: &Path, allow_nonempty: bool) -> Result<PathBuf> {
    let found = probe(mountpoint)?;
    if let Some(mounted) = mountinfo::topmost_at(&found.path)? {
        refuse_mounted(&mounted)?;
    }
    if !found.directory {
        return Err(Error::new(
            ErrorKind::NotDirectory,
            format!("cannot mount on {}: not a directory", mountpoint.display()),
        )
        .with_hint("name an empty folder"));
    }
    if !found.empty && !allow_nonempty {
        return Err(Error::new(ErrorKind::Busy, format!("cannot mount on {}: not empty", mountpoint.display()))
            .with_hint("name an empty folder, or allow it with --nonempty: the mount hides what is there"));
    }
    Ok(found.path)
}

/// Mounting over another kind of mount (a fresh tmpfs, a bind mount) is ordinary; over our own it is a mistake.
fn refuse_mounted(mounted: &MountEntry) -> Result<()> {
    if !mounted.is_ours() {
        return Ok(());
    }
    let path = mounted.path.display();
    Err(Error::new(ErrorKind::Busy, format!("cannot mount on {path}: {} is mounted there already", mounted.source))
        .with_hint(format!("use it, or unmount it first: headrace unmount {path}")))
}

struct Found {
    path: PathBuf,
    directory: bool,
    empty: bool,
}

/// Looks in a thread of its own, which is left behind if the look hangs.
fn probe(mountpoint: &Path) -> Result<Found> {
    let (sender, receiver) = mpsc::channel();
    let path = mountpoint.to_owned();
    std::thread::Builder::new()
        .name("headrace-probe".into())
        .spawn(move || sender.send(look(&path)))
        .map_err(|error| Error::from_io("start a thread to look at", mountpoint, error))?;
    let in_time = receiver.recv_timeout(PROBE_TIMEOUT);
    match in_time.or_else(|late| if is_served(mountpoint) { Err(late) } else { receiver.recv_timeout(LOCAL_TIMEOUT) }) {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => Err(explain(mountpoint, error)),
        Err(_) => Err(Error::new(
            ErrorKind::Busy,
            format!("cannot mount on {}: a file system that does not answer is mounted there", mountpoint.display()),
        )
        .with_hint(unmount_hint(mountpoint))),
    }
}

/// Whether the folder lies in a file system that somebody serves, as far as that can be told without asking him.
fn is_served(mountpoint: &Path) -> bool {
    let around = std::path::absolute(mountpoint).ok().and_then(|path| mountinfo::around(&path).ok().flatten());
    around.is_some_and(|mount| mount.kind.starts_with("fuse") || SERVED_KINDS.contains(&mount.kind.as_str()))
}

fn look(mountpoint: &Path) -> io::Result<Found> {
    let path = std::fs::canonicalize(mountpoint)?;
    let directory = std::fs::metadata(&path)?.is_dir();
    let empty = directory && std::fs::read_dir(&path)?.next().is_none();
    Ok(Found { path, directory, empty })
}

fn explain(mountpoint: &Path, error: io::Error) -> Error {
    let path = mountpoint.display();
    match error.raw_os_error() {
        Some(libc::ENOTCONN) => {
            Error::new(ErrorKind::Busy, format!("cannot mount on {path}: a mount whose process died is still there"))
                .with_hint(unmount_hint(mountpoint))
        }
        Some(libc::ENOENT) => Error::new(ErrorKind::NotFound, format!("cannot mount on {path}: no such folder"))
            .with_hint(format!("create it first: mkdir -p {path}")),
        _ => Error::from_io("mount on", mountpoint, error),
    }
}

fn unmount_hint(mountpoint: &Path) -> String {
    format!("clear it with: headrace unmount {}", mountpoint.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_folder_says_how_to_create_it() {
        let error = check(Path::new("/nonexistent/folder"), false).expect_err("missing");
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.hint().is_some_and(|hint| hint.contains("mkdir -p /nonexistent/folder")));
    }

    #[test]
    fn a_file_and_a_full_folder_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        std::fs::write(&file, b"x").expect("written");
        assert_eq!(check(&file, false).expect_err("a file").kind(), ErrorKind::NotDirectory);
        assert_eq!(check(folder.path(), false).expect_err("full").kind(), ErrorKind::Busy);
        assert!(check(folder.path(), true).is_ok());
    }

    #[test]
    fn a_link_is_followed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        std::fs::create_dir(&target).expect("created");
        std::os::unix::fs::symlink(&target, &link).expect("linked");
        assert_eq!(check(&link, false).expect("fit"), target.canonicalize().expect("there"));
    }
}
