//! The number of request threads that serve a session, and of those that wait for a disk meanwhile. A disk may hang, and
//! who waits for it then cannot be waited for: neither by the mount's end nor by whoever hands it over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::patience::{PatienceSlot, Places};
use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
pub struct RequestThreads {
    counts: Mutex<Counts>,
    ended: Condvar,
    places: Arc<Places>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Not ended; with those that are away.
    alive: usize,
    away: usize,
}

/// A thread that serves, until dropped.
#[derive(Debug)]
pub struct Serving<'a>(&'a RequestThreads);

/// A thread that waits for a disk, until dropped.
#[derive(Debug)]
pub struct Away<'a> {
    threads: &'a RequestThreads,
    _place: PatienceSlot<'a>,
}

impl RequestThreads {
    /// `places`: for threads that wait for a disk, whatever they do meanwhile.
    pub fn new(places: Arc<Places>) -> Self {
        RequestThreads { counts: Mutex::default(), ended: Condvar::new(), places }
    }

    /// One more thread is about to be started: it ends with `Serving`, or with `cannot_start`.
    pub fn starts(&self) {
        self.counts.lock().alive += 1;
    }

    pub fn cannot_start(&self) {
        drop(self.serving());
    }

    pub fn serving(&self) -> Serving<'_> {
        Serving(self)
    }

    /// The calling thread may wait for a disk; `None` when as many do as may, or nobody else would serve.
    pub fn leave(&self) -> Option<Away<'_>> {
        let place = self.places.take_free()?;
        let mut counts = self.counts.lock();
        if counts.alive < counts.away + 2 {
            return None;
        }
        counts.away += 1;
        Some(Away { threads: self, _place: place })
    }

    /// Waits until no thread serves any more, whether or not some wait for disks; false when `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut counts = self.counts.lock();
        while !counts.none_serves() {
            match deadline {
                None => self.ended.wait(&mut counts),
                Some(deadline) if self.ended.wait_until(&mut counts, deadline).timed_out() => {
                    return counts.none_serves();
                }
                Some(_) => {}
            }
        }
        true
    }

    fn tell(&self, counts: &Counts) {
        if counts.none_serves() {
            self.ended.notify_all();
        }
    }
}

impl Counts {
    fn none_serves(&self) -> bool {
        self.alive <= self.away
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut counts = self.0.counts.lock();
        counts.alive -= 1;
        self.0.tell(&counts);
    }
}

impl Drop for Away<'_> {
    fn drop(&mut self) {
        self.threads.counts.lock().away -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: usize) -> RequestThreads {
        let threads = RequestThreads::new(Arc::new(Places::of(number)));
        (0..number).for_each(|_| threads.starts());
        threads
    }

    #[test]
    fn half_of_the_threads_may_wait_for_disks() {
        for (number, may) in [(1, 0), (2, 1), (3, 1), (8, 4)] {
            let threads = of(number);
            let away: Vec<_> = std::iter::from_fn(|| threads.leave()).collect();
            assert_eq!(away.len(), may, "of {number}");
            drop(away);
            assert_eq!(threads.leave().is_some(), may > 0, "they are back");
        }
    }

    #[test]
    fn a_thread_that_opens_a_file_takes_the_place_of_one_that_reads() {
        let (places, threads) = (Arc::new(Places::of(2)), of(2));
        let threads = RequestThreads { places: places.clone(), ..threads };
        let opening = places.take();
        assert!(opening.is_some() && threads.leave().is_none());
    }

    #[test]
    fn threads_that_wait_for_a_disk_are_not_waited_for() {
        let threads = of(2);
        let away = threads.leave();
        assert!(away.is_some() && !threads.wait(Some(Duration::ZERO)), "one serves");
        threads.cannot_start();
        assert!(threads.wait(None));
        drop(away);
        assert!(!threads.wait(Some(Duration::ZERO)), "it is back, and has not ended");
        drop(threads.serving());
        assert!(threads.wait(None));
    }

    #[test]
    fn whoever_waits_hears_of_the_last_thread() {
        let threads = of(4);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| threads.wait(None));
            let _away = threads.leave();
            (0..3).for_each(|_| drop(threads.serving()));
            assert!(waiting.join().is_ok_and(|all| all));
        });
    }
}
