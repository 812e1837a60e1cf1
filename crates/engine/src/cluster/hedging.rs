//! When to ask a second replica for what the first is slow to give. Decisions only.
//!
//! A hedge asks for cached bytes only, so it never costs the origin anything. It is sent when an answer takes three times
//! as long as nineteen of twenty did lately, and for one read in twenty at most: more would only add load to members
//! that are slow because they are busy.

use std::time::Duration;

use crate::sync::Mutex;

const SAMPLES: usize = 128;
const SHORTEST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(1);
/// Reads that earn one hedge.
const READS_PER_HEDGE: u32 = 20;
const MOST_SAVED: u32 = 10 * READS_PER_HEDGE;

#[derive(Debug, Default)]
pub(super) struct Hedging(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    first_answers: Vec<Duration>,
    next: usize,
    credit: u32,
}

impl Hedging {
    /// Notes how long the first bytes of an answer took.
    pub(super) fn note(&self, took: Duration) {
        let mut state = self.0.lock();
        state.credit = (state.credit + 1).min(MOST_SAVED);
        if state.first_answers.len() < SAMPLES {
            state.first_answers.push(took);
        } else {
            let place = state.next;
            state.first_answers[place] = took;
            state.next = (place + 1) % SAMPLES;
        }
    }

    /// How long to wait for the first bytes before asking another replica.
    pub(super) fn patience(&self) -> Duration {
        let mut answers = self.0.lock().first_answers.clone();
        if answers.len() < SAMPLES / 8 {
            return LONGEST;
        }
        let place = answers.len() * 19 / 20;
        let (_, slow, _) = answers.select_nth_unstable(place);
        (*slow * 3).clamp(SHORTEST, LONGEST)
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
        let hedging = Hedging::default();
        assert_eq!(hedging.patience(), LONGEST);
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_millis(1)));
        assert_eq!(hedging.patience(), SHORTEST);
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_millis(50)));
        assert_eq!(hedging.patience(), Duration::from_millis(150));
        (0..SAMPLES).for_each(|_| hedging.note(Duration::from_secs(5)));
        assert_eq!(hedging.patience(), LONGEST);
    }

    #[test]
    fn one_read_in_twenty_may_hedge() {
        let hedging = Hedging::default();
        assert!(!hedging.take());
        (0..1000).for_each(|_| hedging.note(Duration::from_millis(1)));
        assert_eq!((0..1000).filter(|_| hedging.take()).count() as u32, MOST_SAVED / READS_PER_HEDGE);
    }
}
