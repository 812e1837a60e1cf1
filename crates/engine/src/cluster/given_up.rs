//! Reads that waited until their deadline. The kernel asks for a page that it could not read ahead once more, at once; that
//! second request belongs to the same read of a program, which has waited already.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::ring::StripeId;
use crate::sync::Mutex;

/// How soon after a failure a request counts as the same read.
const AT_ONCE: Duration = Duration::from_millis(200);

#[derive(Debug, Default)]
pub(super) struct GivenUp(Mutex<HashMap<StripeId, Instant>>);

impl GivenUp {
    pub(super) fn note(&self, stripe: StripeId, now: Instant) {
        let mut failures = self.0.lock();
        failures.retain(|_, failed| now < *failed + AT_ONCE);
        failures.insert(stripe, now);
    }

    /// True for the first request for this stripe that follows a failure at once; the next one waits again.
    pub(super) fn take(&self, stripe: StripeId, now: Instant) -> bool {
        let mut failures = self.0.lock();
        !failures.is_empty() && failures.remove(&stripe).is_some_and(|failed| now < failed + AT_ONCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_that_follows_at_once_is_the_same_read_and_no_other() {
        let (given_up, stripe, now) = (GivenUp::default(), StripeId(7), Instant::now());
        given_up.note(stripe, now);
        assert!(!given_up.take(StripeId(8), now));
        assert!(given_up.take(stripe, now + AT_ONCE / 2) && !given_up.take(stripe, now + AT_ONCE / 2));
        given_up.note(stripe, now);
        assert!(!given_up.take(stripe, now + AT_ONCE));
    }
}
