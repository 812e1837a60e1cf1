//! The request threads that may wait for a disk: half of them, so that a disk that hangs never takes the rest, which
//! answer what needs none.

use std::time::Duration;

use crate::sync::{Condvar, Mutex};

/// Longer than this nobody waits for a place: a disk that works gives them back sooner.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Places for request threads that may wait.
#[derive(Debug)]
pub struct Places {
    state: Mutex<State>,
    freed: Condvar,
    longest_wait: Duration,
}

#[derive(Debug)]
struct State {
    free: usize,
    /// Somebody waited in vain, and no place was given back since.
    stuck: bool,
}

/// A place that is taken, until it is dropped.
#[derive(Debug)]
pub struct PatienceSlot<'a>(&'a Places);

impl Places {
    /// For a session with `threads`.
    pub fn of(threads: usize) -> Self {
        Self::waiting(threads, LONGEST_WAIT)
    }

    fn waiting(threads: usize, longest_wait: Duration) -> Self {
        let state = Mutex::new(State { free: (threads / 2).max(1), stuck: false });
        Places { state, freed: Condvar::new(), longest_wait }
    }

    /// A place, waited for but a moment; `None` when those who have them wait for long.
    pub fn take(&self) -> Option<PatienceSlot<'_>> {
        let mut state = self.state.lock();
        if !state.stuck {
            self.freed.wait_while_for(&mut state, |state| state.free == 0 && !state.stuck, self.longest_wait);
            state.stuck = state.free == 0;
        }
        state.free = state.free.checked_sub(1)?;
        Some(PatienceSlot(self))
    }

    /// A place that is free now.
    pub fn take_free(&self) -> Option<PatienceSlot<'_>> {
        let mut state = self.state.lock();
        state.free = state.free.checked_sub(1)?;
        Some(PatienceSlot(self))
    }
}

impl Drop for PatienceSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.free += 1;
        state.stuck = false;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_threads_may_wait_and_a_place_that_is_given_back_is_free() {
        let places = Places::waiting(5, Duration::from_millis(1));
        let (first, second) = (places.take(), places.take());
        assert!(first.is_some() && second.is_some() && places.take().is_none() && places.take().is_none());
        drop(first);
        let third = places.take_free();
        assert!(third.is_some() && places.take_free().is_none());
        drop(third);
        assert!(places.take().is_some() && Places::of(1).take().is_some());
    }

    #[test]
    fn a_place_that_comes_free_soon_is_waited_for() {
        let places = Places::waiting(2, Duration::from_secs(600));
        let held = places.take();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| places.take().is_some());
            drop(held);
            assert!(waiting.join().expect("joined"));
        });
    }
}
