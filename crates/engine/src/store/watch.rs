//! The watch for a disk that hangs: a call on it has not returned for long. A thread that may wait for the disk says so
//! here first, call by call, and one that comes later looks elsewhere until that one has returned. A disk that is slow
//! answers call by call, and so does not hang.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::sync::Mutex;

/// A disk that is only busy answers sooner, but for rare stalls, and what is read elsewhere then is not wrong.
const PATIENCE: Duration = Duration::from_secs(5);
/// What writes out all of a file takes so many times as long.
const SLOW: u64 = 12;
/// At the end of a process a disk that hangs already gets this part of it: what need not wait for the disk ends by then.
const LAST_CHANCE: u32 = 5;
/// Threads that wait for one disk on behalf of readers: enough for its queue, and few of those that there are.
const WAITING_THREADS: usize = 32;
/// Nothing is under way.
const NOTHING: u64 = u64::MAX;

/// The calls on one disk that are under way.
#[derive(Debug)]
pub struct DiskWatch {
    place: PathBuf,
    underway: Mutex<Underway>,
    /// When the first of them is late.
    late_at_ms: AtomicU64,
    patience_ms: AtomicU64,
    told: AtomicBool,
    made: Instant,
    /// The right to one thread that waits for this disk.
    pub(crate) threads: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Underway {
    next: u64,
    /// When each is late.
    late_at_ms: HashMap<u64, u64>,
}

/// One call, until it is dropped.
#[derive(Debug)]
pub struct Operation<'a> {
    watch: &'a DiskWatch,
    number: u64,
}

impl DiskWatch {
    /// For the disk that `place` is on.
    pub fn new(place: &Path) -> Arc<Self> {
        Arc::new(DiskWatch {
            place: place.to_owned(),
            underway: Mutex::default(),
            late_at_ms: AtomicU64::new(NOTHING),
            patience_ms: AtomicU64::new(PATIENCE.as_millis() as u64),
            told: AtomicBool::new(false),
            made: Instant::now(),
            threads: Arc::new(Semaphore::new(WAITING_THREADS)),
        })
    }

    /// How long a call that begins from now on may take before the disk counts as hanging.
    pub fn set_patience(&self, patience: Duration) {
        self.patience_ms.store(patience.as_millis() as u64, Ordering::Relaxed);
    }

    pub fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Ordering::Relaxed))
    }

    /// Notes that a call begins which may wait for the disk: one call, so that a disk that works ends it soon.
    pub fn begin(&self) -> Operation<'_> {
        self.begin_within(1)
    }

    /// The same for what writes out a whole file.
    pub fn begin_slow(&self) -> Operation<'_> {
        self.begin_within(SLOW)
    }

    /// Does what may wait for the disk.
    pub fn during<T>(&self, call: impl FnOnce() -> T) -> T {
        let _operation = self.begin();
        call()
    }

    fn begin_within(&self, times: u64) -> Operation<'_> {
        let patience_ms = self.patience_ms.load(Ordering::Relaxed);
        let mut underway = self.underway.lock();
        let number = underway.next;
        underway.next += 1;
        underway.late_at_ms.insert(number, self.now_ms() + times * patience_ms);
        self.note(&underway);
        Operation { watch: self, number }
    }

    /// True while a call has been under way for longer than a disk that works takes. Costs nothing while there is none.
    pub fn hangs(&self) -> bool {
        let late_at_ms = self.late_at_ms.load(Ordering::Relaxed);
        let hangs = late_at_ms != NOTHING && self.now_ms() > late_at_ms;
        if hangs && !self.told.swap(true, Ordering::Relaxed) {
            let (place, seconds) = (self.place.display(), self.patience().as_secs_f64());
            tracing::warn!(
                "cache folder {place}: its disk has not answered for {seconds} s; it is left alone until it does"
            );
        }
        hangs
    }

    /// True when the disk hangs, and did not yet at that moment.
    pub fn has_hung_since(&self, moment: Instant) -> bool {
        let moment_ms = moment.saturating_duration_since(self.made).as_millis() as u64;
        self.hangs() && self.late_at_ms.load(Ordering::Relaxed) >= moment_ms
    }

    /// True when the end of a process, which has waited since then for what is under way on the disk, goes on without it.
    pub fn ends_in_vain(&self, since: Instant) -> bool {
        self.hangs() && since.elapsed() > self.patience() / LAST_CHANCE
    }

    /// Waits until the disk hangs.
    pub async fn until_it_hangs(&self) {
        while !self.hangs() {
            tokio::time::sleep(self.patience() / 8).await;
        }
    }

    fn note(&self, underway: &Underway) {
        let late_at_ms = underway.late_at_ms.values().min().copied().unwrap_or(NOTHING);
        self.late_at_ms.store(late_at_ms, Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        self.made.elapsed().as_millis() as u64
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        let mut underway = self.watch.underway.lock();
        underway.late_at_ms.remove(&self.number);
        self.watch.note(&underway);
        drop(underway);
        if self.watch.told.load(Ordering::Relaxed)
            && !self.watch.hangs()
            && self.watch.told.swap(false, Ordering::Relaxed)
        {
            tracing::info!("cache folder {}: its disk answers again", self.watch.place.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until_late(watch: &DiskWatch) {
        let now = watch.now_ms();
        while watch.now_ms() <= now {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_disk_hangs_as_long_as_one_of_its_calls_is_late() {
        let watch = DiskWatch::new(Path::new("/cache"));
        watch.set_patience(Duration::ZERO);
        assert!(!watch.hangs());
        let (first, second) = (watch.begin(), watch.begin());
        until_late(&watch);
        assert!(watch.hangs());
        drop(first);
        assert!(watch.hangs());
        drop(second);
        assert!(!watch.hangs());
    }

    #[test]
    fn calls_that_return_one_after_the_other_are_no_disk_that_hangs() {
        let watch = DiskWatch::new(Path::new("/cache"));
        watch.set_patience(Duration::from_secs(3600));
        let slow = watch.begin_slow();
        watch.set_patience(Duration::ZERO);
        for _ in 0..3 {
            watch.during(|| ());
            until_late(&watch);
            assert!(!watch.hangs());
        }
        drop(slow);
        assert_eq!(watch.late_at_ms.load(Ordering::Relaxed), NOTHING);
    }
}
