//! How soon the storage begins to answer when nothing stands in the way.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The least of lately: by this part of the difference it follows answers that come later.
const FOLLOWS: u64 = 256;

/// The time from a request to the beginning of its answer, without what is queued before it on a full link.
#[derive(Debug)]
pub(super) struct AnswerTime(AtomicU64);

impl Default for AnswerTime {
    fn default() -> Self {
        AnswerTime(AtomicU64::new(u64::MAX))
    }
}

impl AnswerTime {
    /// One request was answered after so long.
    pub(super) fn note(&self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |least| {
            Some(if nanoseconds < least { nanoseconds } else { least + (nanoseconds - least) / FOLLOWS })
        });
    }

    /// Nothing while no request was answered.
    pub(super) fn least(&self) -> Duration {
        match self.0.load(Ordering::Relaxed) {
            u64::MAX => Duration::ZERO,
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_shortest_and_follows_a_storage_that_became_slow() {
        let time = AnswerTime::default();
        assert_eq!(time.least(), Duration::ZERO);
        [40, 10, 60, 60].into_iter().for_each(|each| time.note(Duration::from_millis(each)));
        assert!(time.least() < Duration::from_millis(11));
        (0..2000).for_each(|_| time.note(Duration::from_millis(100)));
        assert!(time.least() > Duration::from_millis(90));
    }
}
