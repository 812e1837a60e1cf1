//! Members that answer, but much later than others: asked after the others for a while, then given another chance.
//!
//! A read that lags says little: its member may wait for a slow origin, and then asking others for the same would only make
//! that slower. So the member is asked how it is, and another one at the same time: slow is who answers that much later.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::ring::MemberId;
use crate::sync::Mutex;

/// An answer that needs no bytes and no disk comes sooner than this, over any link that is good for reading. Only what the
/// kernel has taken for sending goes before it: about 100 ms of a full link.
const PROMPT: Duration = Duration::from_millis(500);
/// With nobody to compare with.
const PROMPT_ALONE: Duration = Duration::from_secs(1);
/// How much later than the other one is slow.
const TIMES_LATER: u32 = 4;

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

/// Whether the answer `late` comes much later than that of `other`, both asked for now. A member that does not answer at
/// all is not slow: the wire finds that out.
pub(super) async fn is_slow(late: impl Future<Output = bool>, other: Option<impl Future<Output = bool>>) -> bool {
    let started = Instant::now();
    tokio::pin!(late);
    let patience = match other {
        None => PROMPT_ALONE,
        Some(other) => tokio::select! {
            biased;
            _ = &mut late => return false,
            _ = other => (started.elapsed() * TIMES_LATER).max(PROMPT),
        },
    };
    tokio::time::timeout_at(started + patience, late).await.is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn after(milliseconds: u64) -> bool {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
        true
    }

    #[tokio::test(start_paused = true)]
    async fn slow_is_who_answers_much_later_than_another() {
        for (late_ms, other_ms, expected) in
            [(1, 1, false), (400, 1, false), (600, 1, true), (5000, 5000, false), (900, 300, false), (1300, 300, true)]
        {
            assert_eq!(is_slow(after(late_ms), Some(after(other_ms))).await, expected, "{late_ms} {other_ms}");
        }
        let nobody = None::<std::future::Ready<bool>>;
        assert!(!is_slow(after(900), nobody.clone()).await && is_slow(after(1100), nobody).await);
    }

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
