//! The pace at which an origin is asked: permits for requests in flight, back-off with jitter, and what to count.
//!
//! Shared by the layers (reads) and by the protocols (pages of a listing); knows nothing of either.

use std::future::Future;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::{OriginConfig, TransferConfig};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::{Metrics, ReasonLabel};
use crate::origin::renewal::Renewal;

/// The name of the fact that carries a server's own wish for a pause, in seconds.
pub(super) const RETRY_AFTER: &str = "retry_after_s";

const BASE_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// A server's wish is heeded up to here.
const LONGEST_WISH: Duration = Duration::from_secs(30);

/// Tries for a throttled request, as a multiple of those for any other.
const THROTTLED_PATIENCE: u32 = 5;

/// The pace of one origin. Clones share the permits and the counters.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    permits: Arc<Semaphore>,
    pub concurrency: usize,
    pub retries: u32,
    /// Longest silence of the origin before a request counts as failed.
    pub silence: Duration,
    pub metrics: Metrics,
    /// Where keys come anew that were refused.
    renewal: Option<Renewal>,
}

impl Pace {
    pub fn new(settings: &TransferConfig, metrics: &Metrics, origin: &OriginConfig) -> Self {
        let concurrency = settings.concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let silence = Duration::try_from_secs_f64(settings.timeout_s).unwrap_or(Duration::from_secs(20));
        let silence = silence.max(Duration::from_millis(10));
        let permits = Arc::new(Semaphore::new(concurrency));
        let renewal = Renewal::of(origin);
        Pace { permits, concurrency, retries: settings.retries, silence, metrics: metrics.clone(), renewal }
    }

    /// Waits until another request may be sent; the permit ends with the request's body.
    pub async fn permit(&self) -> OwnedSemaphorePermit {
        match self.permits.clone().acquire_owned().await {
            Ok(permit) => permit,
            Err(_) => unreachable!("the permits of an origin are never closed"),
        }
    }

    /// Runs `request` under a permit until it succeeds, fails for good, or the retries are used up.
    pub async fn patiently<T, F: Future<Output = Result<T>>>(&self, request: impl Fn() -> F) -> Result<T> {
        let mut failures = 0;
        loop {
            let outcome = {
                let _permit = self.permit().await;
                request().await
            };
            match outcome {
                Ok(value) => return Ok(value),
                Err(error) => self.pause_or_fail(error, &mut failures).await?,
            }
        }
    }

    /// After one more failure: waits and answers `Ok` when another try is worth it, or gives the error for good.
    pub async fn pause_or_fail(&self, error: Error, failures: &mut u32) -> Result<()> {
        if !error.is_temporary() {
            if self.has_newer_keys(&error).await {
                self.metrics.origin_retries.inc();
                return Ok(());
            }
            return Err(self.count_failure(error));
        }
        if *failures >= self.patience(&error) {
            return Err(self.count_failure(error.with_context("tries", *failures + 1).with_retry(Retry::Exhausted)));
        }
        *failures += 1;
        self.metrics.origin_retries.inc();
        tokio::time::sleep(pause(*failures, wish(&error), random_share())).await;
        Ok(())
    }

    async fn has_newer_keys(&self, error: &Error) -> bool {
        match &self.renewal {
            Some(renewal) => renewal.has_newer(error).await,
            None => false,
        }
    }

    /// How many more tries an error is worth. A server that answers "slow down" is alive and asks for time: it gets about
    /// a minute; any other fault is given up within seconds.
    fn patience(&self, error: &Error) -> u32 {
        match error.kind() {
            ErrorKind::Throttled => self.retries.saturating_mul(THROTTLED_PATIENCE),
            _ => self.retries,
        }
    }

    fn count_failure(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::Cancelled {
            self.metrics.origin_errors.get_or_create(&ReasonLabel { reason: error.kind().name() }).inc();
        }
        error
    }
}

/// The pause before try number `failures + 1`: full jitter below an exponential bound, or what the server wished.
fn pause(failures: u32, wish: Option<Duration>, share: f64) -> Duration {
    let bound = BASE_PAUSE.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
    let jittered = bound.mul_f64(share);
    match wish {
        Some(wish) => wish.min(LONGEST_WISH) + jittered.min(BASE_PAUSE),
        None => jittered,
    }
}

/// How long the server wishes to be left alone.
pub(super) fn wish(error: &Error) -> Option<Duration> {
    let (_, text) = error.context().iter().find(|(name, _)| *name == RETRY_AFTER)?;
    text.parse().ok().map(Duration::from_secs)
}

/// A number between 0 and 1. The hasher's keys are random per thread and differ on each call: enough to spread clients.
fn random_share() -> f64 {
    let bits = std::hash::RandomState::new().build_hasher().finish();
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_bound_and_are_jittered_from_zero() {
        assert_eq!(pause(1, None, 1.0), Duration::from_millis(100));
        assert_eq!(pause(3, None, 1.0), Duration::from_millis(400));
        assert_eq!(pause(40, None, 1.0), LONGEST_PAUSE);
        assert_eq!(pause(3, None, 0.0), Duration::ZERO);
    }

    #[test]
    fn the_servers_wish_is_heeded_within_reason() {
        assert!(pause(1, Some(Duration::from_secs(2)), 0.0) >= Duration::from_secs(2));
        assert!(pause(1, Some(Duration::from_secs(86_400)), 1.0) <= LONGEST_WISH + BASE_PAUSE);
    }

    #[test]
    fn random_shares_differ() {
        let shares: Vec<f64> = (0..16).map(|_| random_share()).collect();
        assert!(shares.iter().all(|share| (0.0..1.0).contains(share)));
        assert!(shares.windows(2).any(|pair| pair[0] != pair[1]));
    }
}
