//! Members that answer, but much later than others: asked after the others for a while, then given another chance.
//! Decisions only.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::ring::MemberId;
use crate::sync::Mutex;

const FIRST_WHILE: Duration = Duration::from_secs(15);
const LONGEST_WHILE: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(super) struct Slow(Mutex<HashMap<MemberId, Entry>>);

#[derive(Debug, Clone, Copy)]
struct Entry {
    until: Instant,
    lasting: Duration,
}

impl Slow {
    /// Leaves `member` to the last for a while: twice as long as before if it was found slow again at once. How long.
    pub(super) fn note(&self, member: &MemberId, now: Instant) -> Duration {
        let mut entries = self.0.lock();
        entries.retain(|_, entry| now < entry.until + entry.lasting);
        let lasting = entries.get(member).map_or(FIRST_WHILE, |entry| match now < entry.until {
            true => entry.lasting,
            false => (entry.lasting * 2).min(LONGEST_WHILE),
        });
        entries.insert(member.clone(), Entry { until: now + lasting, lasting });
        lasting
    }

    pub(super) fn contains(&self, member: &MemberId, now: Instant) -> bool {
        self.0.lock().get(member).is_some_and(|entry| now < entry.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_that_stays_slow_is_tried_more_and_more_seldom_and_one_that_was_well_again_starts_anew() {
        let (slow, member, start) = (Slow::default(), MemberId("worker-1".into()), Instant::now());
        let second = Duration::from_secs(1);
        assert!(!slow.contains(&member, start));
        assert_eq!(slow.note(&member, start), FIRST_WHILE);
        assert_eq!(slow.note(&member, start + second), FIRST_WHILE);
        assert!(slow.contains(&member, start + FIRST_WHILE));
        let again = start + FIRST_WHILE + 2 * second;
        assert!(!slow.contains(&member, again));
        assert_eq!(slow.note(&member, again), 2 * FIRST_WHILE);
        let mut now = again;
        for _ in 0..9 {
            now += LONGEST_WHILE;
            now = if slow.contains(&member, now) { now + LONGEST_WHILE } else { now };
        }
        assert_eq!(slow.note(&member, now + 2 * LONGEST_WHILE), FIRST_WHILE);
    }
}
