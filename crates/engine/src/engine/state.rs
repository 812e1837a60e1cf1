//! The state directory of one dataset: who owns it, and its snapshots. Decides nothing about their content.
//!
//! Files: `owner.lock` (flock, holds the owner's pid, and `opening` beside it while he gets ready to serve others),
//! `snapshot-<version>.hrs`, `engine.sock`.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};

use crate::error::{Error, ErrorKind, Result};
use crate::own_files;
use crate::snapshot::Snapshot;

const LOCK: &str = "owner.lock";
const OPENING: &str = "opening";
const MOST_TRIES: usize = 100;
/// Snapshots kept beside the current one, for readers that still hold files of them across a restart of nobody.
const KEPT_SNAPSHOTS: usize = 2;

/// An owned state directory; dropping it gives the ownership back.
#[derive(Debug)]
pub struct StateDirectory {
    path: PathBuf,
    lock: Flock<File>,
}

impl StateDirectory {
    /// Creates the directory if missing and takes it; `Busy` names the process that has it.
    pub fn own(path: &Path) -> Result<Self> {
        // Whoever removes the directory of an owner that is gone may do so between two of our steps.
        for _ in 1..MOST_TRIES {
            match Self::lock(path) {
                Ok(owned) if owned.is_in_place() => return Ok(owned),
                Err(error) if error.kind() == ErrorKind::Busy => return Err(error),
                _ => {}
            }
        }
        Self::lock(path)
    }

    fn is_in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        let same = |a: std::fs::Metadata, b: std::fs::Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
        match (self.lock.metadata(), std::fs::metadata(self.path.join(LOCK))) {
            (Ok(ours), Ok(there)) => same(ours, there),
            (_, Err(error)) => error.kind() != std::io::ErrorKind::NotFound,
            _ => true,
        }
    }

    fn lock(path: &Path) -> Result<Self> {
        std::fs::create_dir_all(path).map_err(|error| {
            Error::from_io("create", path, error).with_hint("choose a cache folder that this user may write to")
        })?;
        let lock_path = path.join(LOCK);
        let file = own_files::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&lock_path)
            .map_err(|error| Error::from_io("open", &lock_path, error))?;
        let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((file, _)) => return Err(held_by(path, file)),
        };
        let written = lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id()));
        written.map_err(|error| Error::from_io("write", &lock_path, error))?;
        Ok(StateDirectory { path: path.to_owned(), lock })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Says to others whether this owner is getting ready to serve them, and is worth waiting for.
    pub fn note_opening(&self, opening: bool) -> Result<()> {
        let word = if opening { format!(" {OPENING}") } else { String::new() };
        let mut lock: &File = &self.lock;
        let written = lock.rewind().and_then(|()| lock.set_len(0));
        let written = written.and_then(|()| lock.write_all(format!("{}{word}\n", std::process::id()).as_bytes()));
        written.map_err(|error| Error::from_io("write", &self.path.join(LOCK), error))
    }

    /// True while a process that lives gets ready to serve this directory to others.
    pub fn is_being_opened(path: &Path) -> bool {
        let text = std::fs::read_to_string(path.join(LOCK)).unwrap_or_default();
        let mut words = text.split_whitespace();
        let pid = words.next().and_then(|word| word.parse::<u32>().ok());
        words.next() == Some(OPENING) && pid.is_some_and(|pid| Path::new(&format!("/proc/{pid}")).exists())
    }

    /// Gives the ownership back now: a thread that a disk keeps in the kernel keeps the descriptors of its process, too.
    pub fn release(&self) {
        if let Err(error) = File::unlock(&self.lock) {
            tracing::debug!("cannot give {} back: {error}", self.path.display());
        }
    }

    /// Where the snapshot of that version lies.
    pub fn snapshot_path(&self, version: u64) -> PathBuf {
        self.path.join(format!("snapshot-{version}.hrs"))
    }

    /// The newest snapshot that opens. A damaged one is passed over with a warning: a listing replaces it.
    pub fn latest_snapshot(&self) -> Option<Snapshot> {
        let mut versions = self.versions();
        versions.sort_unstable_by(|a, b| b.cmp(a));
        versions.into_iter().find_map(|version| match Snapshot::open(&self.snapshot_path(version)) {
            Ok(snapshot) => Some(snapshot),
            Err(error) => {
                tracing::warn!(%error, version, "passing over a damaged snapshot");
                None
            }
        })
    }

    /// The version after every snapshot file that is here, readable or not.
    pub fn next_version(&self) -> u64 {
        self.versions().into_iter().max().map_or(1, |version| version + 1)
    }

    /// The snapshots before `current` that are still here, newest first.
    pub fn older_snapshots(&self, current: u64) -> Vec<Snapshot> {
        self.older(current)
            .into_iter()
            .filter_map(|version| Snapshot::open(&self.snapshot_path(version)).ok())
            .collect()
    }

    fn older(&self, current: u64) -> Vec<u64> {
        let mut older: Vec<u64> = self.versions().into_iter().filter(|version| *version < current).collect();
        older.sort_unstable_by(|a, b| b.cmp(a));
        older
    }

    /// Removes snapshots that neither the current generation nor its predecessors need. Those `in_use` stay: should this
    /// process die, its successor must find what programs have open.
    pub fn prune(&self, current: u64, in_use: &[u64]) {
        for version in self.older(current).into_iter().skip(KEPT_SNAPSHOTS).filter(|version| !in_use.contains(version))
        {
            let path = self.snapshot_path(version);
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove an old snapshot");
            }
        }
    }

    fn versions(&self) -> Vec<u64> {
        let Ok(entries) = std::fs::read_dir(&self.path) else { return Vec::new() };
        let names = entries.flatten().map(|entry| entry.file_name());
        names.filter_map(|name| name.to_str()?.strip_prefix("snapshot-")?.strip_suffix(".hrs")?.parse().ok()).collect()
    }
}

fn held_by(path: &Path, mut lock: File) -> Error {
    let mut holder = String::new();
    let _ = lock.rewind().and_then(|()| lock.read_to_string(&mut holder));
    let holder = match holder.split_whitespace().next() {
        None => "another process".to_owned(),
        Some(pid) => format!("process {pid}"),
    };
    Error::new(ErrorKind::Busy, format!("{} is in use by {holder}", path.display()))
        .with_hint("use that mount, unmount it first, or choose another cache folder")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::time::Duration;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(60);

    #[test]
    fn a_second_owner_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let first = StateDirectory::own(folder.path()).expect("nobody has it");
        let error = StateDirectory::own(folder.path()).expect_err("it is taken");
        assert_eq!(error.kind(), ErrorKind::Busy);
        assert!(error.message().contains(&std::process::id().to_string()), "{error}");
        drop(first);
        StateDirectory::own(folder.path()).expect("it was given back");
    }

    #[test]
    fn who_gets_ready_says_so_until_he_is() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let owner = StateDirectory::own(folder.path()).expect("nobody has it");
        assert!(!StateDirectory::is_being_opened(folder.path()), "he may be one who serves nobody");
        owner.note_opening(true).expect("writable");
        assert!(StateDirectory::is_being_opened(folder.path()));
        let error = StateDirectory::own(folder.path()).expect_err("it is taken");
        assert!(error.message().ends_with(&format!("in use by process {}", std::process::id())), "{error}");
        owner.note_opening(false).expect("writable");
        assert!(!StateDirectory::is_being_opened(folder.path()));
    }

    #[test]
    fn a_link_in_the_place_of_the_lock_is_not_followed_and_what_it_leads_to_stays_as_it_was() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let precious = place.path().join("precious");
        std::fs::write(&precious, "years of work").expect("written");
        std::os::unix::fs::symlink(&precious, place.path().join(LOCK)).expect("linked");
        StateDirectory::own(place.path()).expect_err("a link");
        assert_eq!(std::fs::read_to_string(&precious).expect("there"), "years of work");
    }

    #[test]
    fn an_owner_has_no_directory_that_is_removed_under_it() {
        let place = tempfile::tempdir().expect("a temporary folder");
        let path = place.path().join("state");
        let (stop, removed, there) = (AtomicBool::new(false), AtomicU32::new(0), path.clone());
        let begun = std::time::Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The time ends it when an owner has failed.
                while !stop.load(Ordering::Relaxed) && begun.elapsed() < LONGEST {
                    let Ok(file) = File::open(there.join(LOCK)) else { continue };
                    let Ok(_lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
                    let going = there.with_extension("going");
                    if std::fs::rename(&there, &going).is_ok() {
                        removed.fetch_add(1, Ordering::Relaxed);
                        std::fs::remove_dir_all(&going).expect("it is ours");
                    }
                }
            });
            let mut owned = 0;
            // On a busy machine thousands are owned before the other thread has begun.
            while owned < 2000 || removed.load(Ordering::Relaxed) == 0 {
                assert!(begun.elapsed() < LONGEST, "nothing was removed while {owned} were owned");
                match StateDirectory::own(&path) {
                    Ok(state) => {
                        owned += 1;
                        assert!(state.is_in_place());
                    }
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn snapshots_in_use_are_not_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = StateDirectory::own(folder.path()).expect("nobody has it");
        (1..=6).for_each(|version| std::fs::write(state.snapshot_path(version), b"x").expect("writable"));
        state.prune(6, &[2]);
        let mut left = state.versions();
        left.sort_unstable();
        assert_eq!(left, [2, 4, 5, 6]);
    }

    #[test]
    fn a_damaged_snapshot_is_passed_over_and_its_version_not_used_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let state = StateDirectory::own(folder.path()).expect("nobody has it");
        std::fs::write(state.snapshot_path(7), b"not a snapshot").expect("writable");
        assert!(state.latest_snapshot().is_none());
        assert_eq!(state.next_version(), 8);
    }
}
