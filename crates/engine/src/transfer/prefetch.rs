//! Following known orders: each file is fetched just before the client comes to it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;

use super::background::{Background, Found};
use super::context::Context;
use super::control::Purpose;
use super::order::{OrderedFiles, Orders, Prefetch};
use super::source::Source;

/// Follows the orders of all clients.
pub(super) struct Prefetcher {
    pub(super) context: Arc<Context>,
    pub(super) background: Arc<Background>,
    pub(super) orders: Arc<Orders>,
}

impl Prefetcher {
    /// Fetches `files` in their order, ahead of the client that is going to read them. Replaces the order that the same
    /// client gave before.
    pub(super) fn prefetch(self: &Arc<Self>, client: u64, files: Arc<dyn OrderedFiles>) -> Arc<Prefetch> {
        let order = Prefetch::new(files.count());
        self.orders.begin(client, &order);
        let (prefetcher, following) = (self.clone(), order.clone());
        let follow = async move {
            tokio::select! {
                () = prefetcher.context.closing.cancelled() => {}
                () = following.cancelled.cancelled() => {}
                // However it ends: who waits for the order must hear of it.
                _ = AssertUnwindSafe(prefetcher.follow(&following, &*files)).catch_unwind() => {}
            }
            prefetcher.orders.end(client, &following);
        };
        self.context.spawn(follow);
        order
    }

    async fn follow(&self, order: &Prefetch, files: &dyn OrderedFiles) {
        let room = self.room_ahead();
        for position in 0..order.files {
            order.wait_for_room(room).await;
            if let Some(source) = files.get(position) {
                self.prefetch_file(order, position, &source).await;
            }
            order.position.store(position + 1, Ordering::Relaxed);
            self.orders.queue.dec();
            if position % 64 == 0 {
                // A long stretch of files that are here already would otherwise hold this thread.
                tokio::task::yield_now().await;
            }
        }
    }

    async fn prefetch_file(&self, order: &Prefetch, position: usize, source: &Source) {
        if order.window.lock().was_read(&source.id()) {
            return;
        }
        let mut ahead_bytes = 0;
        self.background
            .fetch_missing(source, 0..u32::MAX, Purpose::Prefetch, |found| {
                if let Found::Coming { bytes, .. } = found {
                    ahead_bytes += bytes;
                }
                true
            })
            .await;
        let mut window = order.window.lock();
        // Reached while it was being asked for: it is no longer ahead.
        if ahead_bytes > 0 && !window.was_read(&source.id()) {
            window.add(position, source.id(), ahead_bytes);
        }
    }

    /// How many bytes may be ahead of a client: a quarter of the cache, so that what is fetched does not push out what
    /// was fetched just before, or half of the memory if that is more.
    fn room_ahead(&self) -> u64 {
        let cache = self.context.blocks.as_ref().map_or(0, |blocks| blocks.quota_bytes());
        (cache / 4).max(self.context.memory.limit() / 2)
    }
}
