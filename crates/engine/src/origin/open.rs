//! From a configuration to a usable origin: the right protocol inside the layers.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::config::{OriginConfig, TransferConfig};
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::Metrics;
use crate::origin::pace::{Pace, wish};
use crate::origin::place::OriginNames;
use crate::origin::{ListedObject, Origin, http, layers, local, nfs, oss, s3, webhdfs};
use crate::secret::Secret;

/// A check that has no answer by then has failed.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that answers, and asks for time, gets more of it.
const THROTTLED_CHECK_TIMEOUT: Duration = Duration::from_secs(15);

/// The origin that `config` describes, with retries, limits and metrics around it. Sends nothing yet: a wrong word is
/// `Config` here, a wrong place shows in `Origin::check`. Use it within a tokio runtime.
pub fn open(config: &OriginConfig, settings: &TransferConfig, metrics: &Metrics) -> Result<Arc<dyn Origin>> {
    let pace = Pace::new(settings, metrics, config);
    let origin: Arc<dyn Origin> = match config {
        OriginConfig::Local { .. } => Arc::new(local::build(config, pace.clone())?),
        OriginConfig::S3 { .. } => Arc::new(s3::build(config, pace.clone())?),
        OriginConfig::Oss { .. } => Arc::new(oss::build(config, pace.clone())?),
        OriginConfig::Webhdfs { .. } => Arc::new(webhdfs::build(config, pace.clone())?),
        OriginConfig::Http { .. } => Arc::new(http::build(config, pace.clone())?),
        OriginConfig::Nfs { .. } => Arc::new(nfs::build(config, pace.clone())?),
        OriginConfig::Cluster { name } => {
            let message = format!("{name} is to be read from workers, but no cluster is configured");
            return Err(Error::config(message));
        }
    };
    Ok(layers::wrap(origin, &pace))
}

/// Key and secret, when both are given; half a pair is a mistake.
pub(super) fn both_keys<'a>(
    key: &'a Option<Secret>,
    secret: &'a Option<Secret>,
) -> Result<Option<(&'a Secret, &'a Secret)>> {
    match (key, secret) {
        (Some(key), Some(secret)) => Ok(Some((key, secret))),
        (None, None) => Ok(None),
        (Some(_), None) => {
            Err(Error::config("an access key is given, but no secret key").with_hint("give both, or neither"))
        }
        (None, Some(_)) => {
            Err(Error::config("a secret key is given, but no access key").with_hint("give both, or neither"))
        }
    }
}

/// What OpenDAL refuses when a service is built. Its text may repeat options, so it is not passed on.
pub(super) fn build_error(place: &OriginNames, _error: &opendal::Error) -> Error {
    Error::config(format!("the options of {} do not fit together", place.name))
        .with_hint("check bucket, endpoint and region")
}

/// The outcome of a check, or that there was none in time.
pub(super) async fn deadline<T>(place: &OriginNames, check: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(CHECK_TIMEOUT, check).await {
        Ok(outcome) => outcome,
        Err(_) => Err(silent(place)),
    }
}

/// The outcome of a check, which is tried again while that can help, for some seconds; else what was answered last, and
/// how long it was waited for.
pub(super) async fn promptly<T, F: Future<Output = Result<T>>>(
    place: &OriginNames,
    pace: &Pace,
    check: impl Fn() -> F,
) -> Result<T> {
    let began = Instant::now();
    let (mut failures, mut last) = (0, None);
    loop {
        let left = time_for(last.as_ref()).saturating_sub(began.elapsed());
        let tried = timeout(left, async {
            let _permit = pace.permit().await;
            check().await
        });
        let error = match tried.await {
            Ok(Ok(outcome)) => return Ok(outcome),
            Ok(Err(error)) => error,
            Err(_) => return Err(last.map_or_else(|| silent(place), |error| given_up(error, began))),
        };
        let left = time_for(Some(&error)).saturating_sub(began.elapsed());
        if wish(&error).is_some_and(|wish| wish > left) {
            return Err(given_up(error, began));
        }
        match timeout(left, pace.pause_or_fail(error.clone(), &mut failures)).await {
            Ok(outcome) => outcome.map_err(|error| if failures > 0 { given_up(error, began) } else { error })?,
            Err(_) => return Err(given_up(error, began)),
        }
        last = Some(error);
    }
}

fn time_for(last: Option<&Error>) -> Duration {
    match last.map(Error::kind) {
        Some(ErrorKind::Throttled) => THROTTLED_CHECK_TIMEOUT,
        _ => CHECK_TIMEOUT,
    }
}

fn given_up(last: Error, began: Instant) -> Error {
    let retry = if last.is_temporary() { Retry::Exhausted } else { last.retry() };
    last.with_context("waited_s", format!("{:.1}", began.elapsed().as_secs_f64())).with_retry(retry)
}

fn silent(place: &OriginNames) -> Error {
    Error::new(
        ErrorKind::Unreachable,
        format!("{} gave no usable answer within {} s", place.endpoint, CHECK_TIMEOUT.as_secs()),
    )
    .with_hint("check the endpoint, and that no firewall stands between")
}

/// Hands a batch to whoever wanted the listing.
pub(super) async fn deliver(sink: &mpsc::Sender<Vec<ListedObject>>, batch: Vec<ListedObject>) -> Result<()> {
    if batch.is_empty() {
        return Ok(());
    }
    sink.send(batch).await.map_err(|_| Error::new(ErrorKind::Cancelled, "the listing was cancelled"))
}
