//! Values made of files, and made anew once these have changed: certificates and tokens of a member that runs for
//! longer than they live. The files are looked at when a connection begins, so nothing runs in between.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::error::Result;
use crate::sync::Mutex;

/// How long what was in force before is still good beside the new: files come to the machines of a cluster one after
/// the other.
const TRANSITION: Duration = Duration::from_secs(600);

type Make<T> = Box<dyn Fn() -> Result<T> + Send + Sync>;

/// Clones share it.
pub(super) struct Renewed<T>(Arc<Inner<T>>);

struct Inner<T> {
    source: Source<T>,
    state: Mutex<State<T>>,
}

struct Source<T> {
    what: &'static str,
    files: Vec<PathBuf>,
    make: Make<T>,
    is_same: fn(&T, &T) -> bool,
}

struct State<T> {
    now: Arc<T>,
    before: Option<(Arc<T>, Instant)>,
    /// What the files looked like when they were read.
    stamps: Vec<Stamp>,
}

/// What is in force, and what was until a while ago.
pub(super) struct InForce<T> {
    pub now: Arc<T>,
    pub before: Option<Arc<T>>,
}

/// Equal for a file that need not be read again; `None`: it is not there.
type Stamp = Option<[i64; 7]>;
/// Where it has the time of the last change: of content, owner, mode or name.
const CHANGED_S: usize = 5;

impl<T: Send + Sync + 'static> Renewed<T> {
    /// For ever the same.
    pub fn fixed(value: T) -> Self {
        Self::starting_with(value, Vec::new(), Source::of("", Vec::new(), || unreachable!("there are no files")))
    }

    /// What `make` makes of `files`, and makes again when they look changed.
    pub fn of(
        what: &'static str,
        files: Vec<PathBuf>,
        make: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Result<Self> {
        // Before they are read: what changes meanwhile is seen the next time.
        let stamps = stamps(&files);
        Ok(Self::starting_with(make()?, stamps, Source::of(what, files, make)))
    }

    /// `value`, until `file` is read, which happens when it is first wanted.
    pub fn after(
        value: T,
        what: &'static str,
        file: PathBuf,
        make: impl Fn() -> Result<T> + Send + Sync + 'static,
    ) -> Self
    where
        T: PartialEq,
    {
        let source = Source { is_same: T::eq, ..Source::of(what, vec![file], make) };
        Self::starting_with(value, Vec::new(), source)
    }

    fn starting_with(value: T, stamps: Vec<Stamp>, source: Source<T>) -> Self {
        let state = Mutex::new(State { now: Arc::new(value), before: None, stamps });
        Renewed(Arc::new(Inner { source, state }))
    }

    /// What is in force, after a look at the files, for which another thread waits.
    pub async fn in_force(&self) -> InForce<T> {
        if !self.0.source.files.is_empty() {
            let shared = self.clone();
            let _ = tokio::task::spawn_blocking(move || shared.0.look()).await;
        }
        self.0.in_force()
    }
}

impl<T> Source<T> {
    fn of(what: &'static str, files: Vec<PathBuf>, make: impl Fn() -> Result<T> + Send + Sync + 'static) -> Self {
        Source { what, files, make: Box::new(make), is_same: |_, _| false }
    }
}

impl<T> Inner<T> {
    fn in_force(&self) -> InForce<T> {
        let state = self.state.lock();
        let before = state.before.as_ref().filter(|(_, until)| Instant::now() < *until);
        InForce { now: state.now.clone(), before: before.map(|(value, _)| value.clone()) }
    }

    fn look(&self) {
        let found = stamps(&self.source.files);
        if std::mem::replace(&mut self.state.lock().stamps, found.clone()) == found {
            return;
        }
        // Outside the lock, which those who only want what is in force wait for.
        let made = (self.source.make)();
        let mut state = self.state.lock();
        if state.stamps != found {
            // They changed once more meanwhile, and whoever saw that has read them, or will.
            return;
        }
        match made {
            Ok(value) if (self.source.is_same)(&value, &state.now) => {}
            Ok(value) => {
                let before = std::mem::replace(&mut state.now, Arc::new(value));
                let left = transition_left(&found, SystemTime::now());
                state.before = left.map(|left| (before, Instant::now() + left));
                tracing::info!("{} was read again, and is in force", self.source.what);
            }
            Err(error) => tracing::warn!("{} of before stays in force: {error}", self.source.what),
        }
    }
}

impl<T> Clone for Renewed<T> {
    fn clone(&self) -> Self {
        Renewed(self.0.clone())
    }
}

impl<T> std::fmt::Debug for Renewed<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewed").field("files", &self.0.source.files).finish_non_exhaustive()
    }
}

/// What is left of the transition that began when the newest of the files came to be; `None` when it is over. Files may
/// be looked at long after they changed.
fn transition_left(stamps: &[Stamp], now: SystemTime) -> Option<Duration> {
    let now_s = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64);
    let changed_s = stamps.iter().flatten().map(|stamp| stamp[CHANGED_S]).max()?;
    let passed = Duration::from_secs(u64::try_from(now_s - changed_s).unwrap_or(0));
    TRANSITION.checked_sub(passed).filter(|left| !left.is_zero())
}

fn stamps(files: &[PathBuf]) -> Vec<Stamp> {
    files.iter().map(|path| stamp(path)).collect()
}

fn stamp(path: &Path) -> Stamp {
    let found = std::fs::metadata(path).ok()?;
    let (device, inode, size) = (found.dev() as i64, found.ino() as i64, found.size() as i64);
    Some([device, inode, size, found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec()])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_file(changed_s: i64) -> Stamp {
        Some([1, 2, 3, 0, 0, changed_s, 0])
    }

    #[test]
    fn the_transition_begins_when_the_newest_file_changed_and_not_when_somebody_looks() {
        let now = UNIX_EPOCH + Duration::from_secs(10_000);
        for (stamps, left_s) in [
            (vec![of_file(10_000)], Some(600)),
            (vec![of_file(1_000), of_file(9_900)], Some(500)),
            (vec![of_file(9_401)], Some(1)),
            (vec![of_file(9_400)], None),
            (vec![of_file(1_000)], None),
            (vec![of_file(10_500)], Some(600)),
            (vec![None], None),
        ] {
            assert_eq!(transition_left(&stamps, now), left_s.map(Duration::from_secs), "{stamps:?}");
        }
    }
}
