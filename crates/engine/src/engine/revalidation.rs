//! Lists the origins behind readers who already have the last list, once, after a start.

use std::sync::{Arc, Weak};

use crate::error::{Error, ErrorKind, Result};

/// Has `owner` list by `refresh`, which gives the version of the new list; the owner may close at any time.
///
/// # Errors
/// `Unexpected` where the process may have no more threads.
pub(super) fn start<Owner: Send + Sync + 'static>(
    owner: &Arc<Owner>,
    refresh: impl FnOnce(&Owner) -> Result<u64> + Send + 'static,
) -> Result<()> {
    let owner = Arc::downgrade(owner);
    let thread = std::thread::Builder::new().name("headrace-list".to_owned());
    let started = thread.spawn(move || revalidate(&owner, refresh));
    started
        .map(drop)
        .map_err(|error| Error::new(ErrorKind::Unexpected, "cannot start to list the origin").with_source(error))
}

fn revalidate<Owner>(owner: &Weak<Owner>, refresh: impl FnOnce(&Owner) -> Result<u64>) {
    let Some(owner) = owner.upgrade() else { return };
    match refresh(&owner) {
        Ok(version) => tracing::info!(version, "the origin was listed behind its readers"),
        // The status tells of it, until a refresh succeeds.
        Err(error) => tracing::warn!(%error, "the origin could not be listed: going on with the last snapshot"),
    }
}
