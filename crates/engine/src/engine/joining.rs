//! A state directory that several open at once: one takes it, the others read through that one. Opens no cache.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::attached::Attached;
use super::state::StateDirectory;
use crate::error::{Error, ErrorKind, Result};
use crate::serve::{check_interrupt, interruptible_pause};

/// How long an owner is waited for that serves nobody and does not say that it will: it may be about to end.
const SILENT_OWNER: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(20);
/// A wait that is longer than this is told in the log.
const TOLD_AFTER: Duration = Duration::from_secs(5);

/// What became of it.
pub enum Joined {
    /// It is ours.
    Taken(StateDirectory),
    /// Another process, or another part of this one, has it.
    Attached(Arc<Attached>),
}

/// Takes the directory, or attaches to its owner. An owner that is still getting ready, which may mean that it lists
/// a large bucket, is waited for as long as it lives; `Busy` when the owner is one that serves nobody.
pub fn take_or_join(path: &Path) -> Result<Joined> {
    let mut wait = Wait::default();
    loop {
        let busy = match StateDirectory::own(path) {
            Ok(state) => return Ok(Joined::Taken(state)),
            Err(error) if error.kind() == ErrorKind::Busy => error,
            Err(error) => return Err(error),
        };
        match Attached::connect(path, false) {
            Ok(attached) => return Ok(Joined::Attached(Arc::new(attached))),
            Err(error) if error.kind() == ErrorKind::NotFound => wait.go_on(path, busy)?,
            // The owner's own words say more than what became of the connection.
            Err(_) => return Err(busy),
        }
    }
}

/// The wait for an owner.
struct Wait {
    began: Instant,
    opening: Instant,
    is_told: bool,
}

impl Default for Wait {
    fn default() -> Self {
        Wait { began: Instant::now(), opening: Instant::now(), is_told: false }
    }
}

impl Wait {
    /// A pause before the next try; `busy` when there is nothing to wait for.
    fn go_on(&mut self, path: &Path, busy: Error) -> Result<()> {
        check_interrupt()?;
        if StateDirectory::is_being_opened(path) {
            self.opening = Instant::now();
        } else if self.opening.elapsed() > SILENT_OWNER {
            return Err(busy);
        }
        if !self.is_told && self.began.elapsed() > TOLD_AFTER {
            self.is_told = true;
            tracing::info!(owner = busy.message(), "the dataset is being opened by another process: waiting for it");
        }
        interruptible_pause(PAUSE);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_that_serves_nobody_is_not_waited_for_long() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let _owner = StateDirectory::own(folder.path()).expect("nobody has it");
        let error = take_or_join(folder.path()).err().expect("nobody serves it");
        assert_eq!(error.kind(), ErrorKind::Busy);
    }

    #[test]
    fn who_comes_while_it_is_being_opened_takes_it_when_that_has_failed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let owner = StateDirectory::own(folder.path()).expect("nobody has it");
        owner.note_opening(true).expect("writable");
        std::thread::scope(|scope| {
            let other = scope.spawn(|| take_or_join(folder.path()));
            std::thread::sleep(PAUSE * 3);
            assert!(!other.is_finished(), "it waits");
            drop(owner);
            let taken = other.join().expect("no panic").expect("it is free");
            assert!(matches!(taken, Joined::Taken(_)));
        });
    }
}
