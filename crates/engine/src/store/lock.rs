//! The lock that gives one process a cache folder. Knows nothing of what the folder holds.
//!
//! The kernel's `flock` decides; the pid and start time in the file only serve the message for people.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use crate::error::{Error, ErrorKind, Result};
use crate::own_files;

const NAME: &str = "lock";

/// Held as long as it lives; the kernel gives it back when the process ends, however it ends.
#[derive(Debug)]
pub struct FolderLock {
    file: File,
    owner: u32,
}

impl FolderLock {
    /// Takes the lock of `folder`; `Busy` names the process that holds it.
    pub fn take(folder: &Path) -> Result<Self> {
        let path = folder.join(NAME);
        let mut file = open(&path).map_err(|error| not_writable(folder, error))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(busy(folder, &mut file)),
            Err(TryLockError::Error(error)) => return Err(Error::from_io("lock", &path, error)),
        }
        let owner = format!("pid {} start {}\n", std::process::id(), start_time(std::process::id()).unwrap_or(0));
        file.set_len(0).and_then(|()| file.write_all(owner.as_bytes())).map_err(|error| not_writable(folder, error))?;
        Ok(FolderLock { file, owner: std::process::id() })
    }

    /// True when `take` would succeed now.
    pub fn is_free(folder: &Path) -> bool {
        match own_files::options().read(true).open(folder.join(NAME)) {
            Ok(file) => file.try_lock().is_ok_and(|()| file.unlock().is_ok()),
            Err(_) => true,
        }
    }

    /// Gives the folder free before the value is dropped.
    pub fn release(&self) {
        if let Err(error) = self.file.set_len(0).and_then(|()| self.file.unlock()) {
            tracing::debug!("cannot release a cache folder's lock: {error}");
        }
    }
}

/// Closing is not enough: a program that is just being started has a copy of each descriptor until it runs.
impl Drop for FolderLock {
    fn drop(&mut self) {
        // A copy of this process has the lock in common with it, and does not end it for both.
        if self.owner == std::process::id() {
            let _ = self.file.unlock();
        }
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    own_files::options().read(true).write(true).create(true).truncate(false).open(path)
}

fn busy(folder: &Path, file: &mut File) -> Error {
    let owner = read_owner(file);
    let (who, hint) = match owner {
        Some((pid, start)) if start_time(pid) == Some(start) => {
            (format!("process {pid}"), format!("stop process {pid}, or give this one another --cache folder"))
        }
        Some((pid, _)) => (
            format!("a child of process {pid}, which is gone"),
            "end the children that it left, or use another --cache folder".to_owned(),
        ),
        None => ("another process".to_owned(), "stop that process, or use another --cache folder".to_owned()),
    };
    Error::new(ErrorKind::Busy, format!("cache folder {} is in use by {who}", folder.display())).with_hint(hint)
}

fn read_owner(file: &mut File) -> Option<(u32, u64)> {
    let mut text = String::new();
    file.rewind().ok()?;
    file.take(100).read_to_string(&mut text).ok()?;
    let mut words = text.split_whitespace();
    let (_, pid, _, start) = (words.next()?, words.next()?, words.next()?, words.next()?);
    Some((pid.parse().ok()?, start.parse().ok()?))
}

/// When the process started, in clock ticks since boot; `None` when there is no such process.
fn start_time(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name, in parentheses, may hold spaces: count fields after its end. Start time is field 22.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn not_writable(folder: &Path, error: std::io::Error) -> Error {
    let hint = match error.raw_os_error() {
        Some(libc::ELOOP) => {
            "a link stands in the place of its lock and is not followed: remove it, and find out whose it is"
        }
        _ => "give the folder to this user, or use another --cache folder",
    };
    Error::from_io("write into cache folder", folder, error).with_hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_free_once_its_lock_is_dropped_though_a_child_that_begins_has_a_copy() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = FolderLock::take(folder.path()).expect("free");
        let of_a_child = lock.file.try_clone().expect("copied");
        assert!(!FolderLock::is_free(folder.path()));
        assert_eq!(FolderLock::take(folder.path()).expect_err("taken").kind(), ErrorKind::Busy);
        drop(lock);
        assert!(FolderLock::is_free(folder.path()));
        assert!(FolderLock::take(folder.path()).is_ok());
        drop(of_a_child);
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed_and_what_it_leads_to_stays_as_it_was() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "years of work").expect("written");
        std::os::unix::fs::symlink(&precious, folder.path().join(NAME)).expect("linked");
        let error = FolderLock::take(folder.path()).expect_err("a link");
        assert!(error.hint().is_some_and(|hint| hint.contains("link")), "{error}");
        assert_eq!(std::fs::read_to_string(&precious).expect("there"), "years of work");
    }

    #[test]
    fn a_copy_of_the_process_does_not_give_the_folder_free() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let lock = FolderLock::take(folder.path()).expect("free");
        let file = lock.file.try_clone().expect("copied");
        drop(FolderLock { file, owner: std::process::id() + 1 });
        assert!(!FolderLock::is_free(folder.path()));
    }
}
