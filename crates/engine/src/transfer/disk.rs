//! Work that may wait for a disk, on behalf of tasks that must not: on threads of its own, not many for one disk, and
//! left to them when the disk hangs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::runtime::Handle;
use tokio::task::JoinError;

use super::faults::closing_error;
use super::reply::StoredPart;
use crate::error::{Error, ErrorKind, Result, Retry};
use crate::store::{Blocks, DiskWatch};

/// How often work that takes long is looked at: does a disk hang?
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What `work` returns, each of whose calls on the disk `watch` is told of; `None` when the disk hangs.
pub(super) async fn on_disk<T: Send + 'static>(
    runtime: &Handle,
    watch: &Arc<DiskWatch>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let threads = watch.threads.clone();
    let working = async {
        let permit = threads.acquire_owned().await.ok()?;
        let work = move || {
            let _permit = permit;
            work()
        };
        runtime.spawn_blocking(work).await.ok()
    };
    tokio::select! {
        biased;
        done = working => done,
        () = watch.until_it_hangs() => None,
    }
}

/// What `work` returns, which may wait for any disk that there is; `None` when one of them hangs. Its thread is left to
/// the disk then: nobody else must wait for it.
pub(super) async fn on_any_disk<T: Send + 'static>(
    runtime: &Handle,
    blocks: &dyn Blocks,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<std::result::Result<T, JoinError>> {
    unless_in_vain(blocks, runtime.spawn_blocking(work)).await
}

/// What `working` resolves to, which may wait for any disk that there is; `None` when one of them hangs.
async fn unless_in_vain<T>(blocks: &dyn Blocks, working: impl Future<Output = T>) -> Option<T> {
    let began = Instant::now();
    tokio::pin!(working);
    loop {
        tokio::select! {
            biased;
            done = &mut working => return Some(done),
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        if blocks.waits_in_vain(began) {
            return None;
        }
    }
}

/// What `work` returns, on a thread of its own; for somebody who waits: `Timeout`, in words, when a disk hangs meanwhile.
pub(crate) async fn on_disks<T: Send + 'static>(
    runtime: &Handle,
    blocks: &dyn Blocks,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    unless_disks_hang(blocks, runtime.spawn_blocking(work)).await?.map_err(|_| closing_error())
}

/// The same for what leaves the waiting to threads already.
pub(crate) async fn unless_disks_hang<T>(blocks: &dyn Blocks, working: impl Future<Output = T>) -> Result<T> {
    unless_in_vain(blocks, working).await.ok_or_else(|| hanging(blocks))
}

/// What is to be said of the disk that hung.
pub(super) fn hanging(blocks: &dyn Blocks) -> Error {
    // It may answer again by now.
    let silent = || Error::new(ErrorKind::Timeout, "a cache disk did not answer for a while").with_hint("try again");
    blocks.hanging().unwrap_or_else(silent)
}

/// The bytes of a part: at once if they are in memory, else from the disk. `Timeout` when that hangs.
pub(super) async fn load(runtime: &Handle, part: StoredPart) -> Result<Bytes> {
    if let Some(bytes) = part.load_at_once() {
        return bytes;
    }
    let Some(watch) = part.block.watch.clone() else {
        let loading = runtime.spawn_blocking(move || part.load());
        return loading.await.unwrap_or_else(|_| Err(closing_error()));
    };
    let hangs = || Error::new(ErrorKind::Timeout, "a cache disk does not answer").with_retry(Retry::Temporary);
    on_disk(runtime, &watch, move || part.load()).await.unwrap_or_else(|| Err(hangs()))
}
