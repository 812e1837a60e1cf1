//! The time to ask somebody else for data that a member is slow to give. Decisions only.
//!
//! A hedge asks for cached bytes only, so it never costs the origin anything. It is sent when an answer takes three times
//! as long as nineteen of twenty did lately, and for one read in twenty at most: more would only add load to members
//! that are slow because they are busy.
//!
//! A rescue asks a member that may fetch from the origin. It is thought of when a segment takes eight times as long as half
//! of them did lately, three seconds at least, and sent when the member itself is slow (`slow`), not the origin.

use std::time::Duration;

use crate::sync::Mutex;

const SAMPLES: usize = 128;
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// Reads that earn one hedge.
const READS_PER_HEDGE: u32 = 20;
const MOST_SAVED: u32 = 10 * READS_PER_HEDGE;
/// Longer than a connection may be silent: whoever is not there at all is no case for a rescue.
const SHORTEST_LAG: Duration = Duration::from_secs(3);
/// Of workers among themselves, so that who waits for a worker does not blame it for another one.
const SHORTEST_LAG_OF_WORKERS: Duration = Duration::from_millis(1250);
const LAG: f64 = 8.0;
const MEBIBYTE: f64 = (1 << 20) as f64;

#[derive(Debug)]
pub(super) struct Hedging(Mutex<State>);

#[derive(Debug)]
struct State {
    shortest_lag: Duration,
    first_answers: Samples,
    /// Of one MiB.
    segments: Samples,
    credit: u32,
}

/// The last durations of something.
#[derive(Debug, Default)]
struct Samples {
    values: Vec<Duration>,
    next: usize,
}

impl Hedging {
    pub(super) fn new(of_worker: bool) -> Self {
        Hedging(Mutex::new(State {
            shortest_lag: if of_worker { SHORTEST_LAG_OF_WORKERS } else { SHORTEST_LAG },
            first_answers: Samples::default(),
            segments: Samples::default(),
            credit: 0,
        }))
    }
}

impl Samples {
    fn add(&mut self, value: Duration) {
        if self.values.len() < SAMPLES {
            self.values.push(value);
        } else {
            self.values[self.next] = value;
            self.next = (self.next + 1) % SAMPLES;
        }
    }

    /// What this share of the durations did not exceed; `None` as long as there are too few.
    fn quantile(&self, share: f64) -> Option<Duration> {
        let mut values = self.values.clone();
        let place = (values.len() as f64 * share) as usize;
        (values.len() >= SAMPLES / 8).then(|| *values.select_nth_unstable(place).1)
    }
}

impl Hedging {
    /// Notes how long the first bytes of an answer took.
    pub(super) fn note(&self, took: Duration) {
        let mut state = self.0.lock();
        state.credit = (state.credit + 1).min(MOST_SAVED);
        state.first_answers.add(took);
    }

    /// Notes how long a reader had to wait for all bytes of a segment.
    pub(super) fn note_segment(&self, waited: Duration, bytes: u64) {
        self.0.lock().segments.add(waited.div_f64((bytes as f64 / MEBIBYTE).max(1.0)));
    }

    /// How long to wait for the first bytes before asking another replica.
    pub(super) fn patience(&self) -> Duration {
        let slow = self.0.lock().first_answers.quantile(0.95);
        slow.map_or(LONGEST, |slow| (slow * 3).clamp(SHORTEST, LONGEST))
    }

    /// How long to wait for all `bytes` of a segment before asking somebody who may have to fetch them.
    pub(super) fn lag(&self, bytes: u64) -> Duration {
        let state = self.0.lock();
        let usual = state.segments.quantile(0.5).unwrap_or_default();
        usual.mul_f64(LAG * (bytes as f64 / MEBIBYTE).max(1.0)).max(state.shortest_lag)
    }

    /// Takes the right to one hedge, if there is one.
    pub(super) fn take(&self) -> bool {
        let mut state = self.0.lock();
        let allowed = state.credit >= READS_PER_HEDGE;
        if allowed {
            state.credit -= READS_PER_HEDGE;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_the_slow_answers_within_bounds() {
        let hedging = Hedging::new(false);
        assert_eq!(hedging.patience(), LONGEST);
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_millis(1)));
        assert_eq!(hedging.patience(), SHORTEST);
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_millis(50)));
        assert_eq!(hedging.patience(), Duration::from_millis(150));
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_secs(5)));
        assert_eq!(hedging.patience(), LONGEST);
    }

    #[test]
    fn half_of_the_members_being_slow_does_not_make_slowness_usual() {
        let hedging = Hedging::new(false);
        assert_eq!(hedging.lag(16 << 20), SHORTEST_LAG);
        for _ in 0..SAMPLES {
            hedging.note_segment(Duration::from_secs(4), 4 << 20);
            hedging.note_segment(Duration::from_millis(10), 1000);
            hedging.note_segment(Duration::from_millis(10), 1 << 20);
        }
        assert_eq!(hedging.lag(1 << 20), SHORTEST_LAG);
        (0..SAMPLES).for_each(|_| hedging.note_segment(Duration::from_secs(4), 4 << 20));
        assert_eq!((hedging.lag(1), hedging.lag(2 << 20)), (Duration::from_secs(8), Duration::from_secs(16)));
    }

    #[test]
    fn one_read_in_twenty_may_hedge() {
        let hedging = Hedging::new(false);
        assert!(!hedging.take());
        (0..1000).for_each(|_| hedging.note(Duration::from_millis(1)));
        assert_eq!((0..1000).filter(|_| hedging.take()).count() as u32, MOST_SAVED / READS_PER_HEDGE);
    }
}
