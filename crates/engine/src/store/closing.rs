//! The end of a store: every folder is closed by a thread of its own, and one whose disk hangs is left to that.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use super::folder::Folder;
use super::levels::Core;
use super::reach;
use crate::error::{Error, Result};

/// How often what takes long is looked at: does a disk hang?
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// One folder that is being closed, and how that ends.
type Closing<'a> = (&'a Arc<Folder>, Receiver<Result<()>>);

impl Core {
    /// Closes every folder, whatever becomes of the others; the first failure is told, after those whose disk hangs.
    pub fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let began = Instant::now();
        let closing: Vec<Closing<'_>> = self.levels.iter().flat_map(|level| &level.folders).map(begin).collect();
        let ended: Vec<_> = closing.iter().map(|(folder, coming)| (folder, end(folder, coming, began))).collect();
        let left = ended.iter().filter(|(_, ended)| ended.is_none());
        let left: Vec<_> = left.map(|(folder, _)| folder.place.path.as_path()).collect();
        if !left.is_empty() {
            return Err(reach::unclosed(&left));
        }
        ended.into_iter().filter_map(|(_, ended)| ended).collect()
    }
}

fn begin(folder: &Arc<Folder>) -> Closing<'_> {
    let (told, coming) = sync_channel(1);
    let closed = folder.clone();
    let close = move || {
        let failed = |error| Error::from_io("write the log of cache folder", &closed.place.path, error);
        let outcome = closed.close().map_err(failed);
        // First: who is told may drop the store, and then nothing of it is open.
        drop(closed);
        let _ = told.send(outcome);
    };
    let thread = std::thread::Builder::new().name("headrace-close".to_owned());
    if let Err(error) = thread.spawn(close) {
        tracing::warn!(
            "cache folder {}: not closed, since no thread could be started: {error}",
            folder.place.path.display()
        );
    }
    (folder, coming)
}

/// `None` when the folder is left as it is.
fn end(folder: &Folder, coming: &Receiver<Result<()>>, began: Instant) -> Option<Result<()>> {
    wait_unless(coming, || folder.place.watch.ends_in_vain(began))
}

/// What another thread sends; `None` when it is `in_vain`, or that thread has ended without a word.
pub fn wait_unless<T>(coming: &Receiver<T>, in_vain: impl Fn() -> bool) -> Option<T> {
    loop {
        match coming.recv_timeout(LOOK_EVERY) {
            Ok(value) => return Some(value),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if in_vain() => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}
