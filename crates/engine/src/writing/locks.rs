//! One lock for each path that is being changed in the origin.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::sync::Mutex;

type Lock = AsyncMutex<()>;

/// The locks that somebody has, or waits for.
#[derive(Debug, Default)]
pub struct PathLocks {
    locks: Mutex<HashMap<Box<[u8]>, Weak<Lock>>>,
}

/// Held until dropped.
#[derive(Debug)]
pub struct PathGuard {
    _guards: Vec<OwnedMutexGuard<()>>,
}

impl PathLocks {
    pub async fn lock(&self, path: &[u8]) -> PathGuard {
        PathGuard { _guards: vec![self.find(path).lock_owned().await] }
    }

    /// Both, in an order that all keep to: nobody waits for another in a circle.
    pub async fn lock_both(&self, one: &[u8], other: &[u8]) -> PathGuard {
        let (first, second) = if one <= other { (one, other) } else { (other, one) };
        let mut guard = self.lock(first).await;
        if first != second {
            guard._guards.extend(self.lock(second).await._guards);
        }
        guard
    }

    fn find(&self, path: &[u8]) -> Arc<Lock> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(path).and_then(Weak::upgrade) {
            return lock;
        }
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(Lock::default());
        locks.insert(path.into(), Arc::downgrade(&lock));
        lock
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_path_is_had_by_one_at_a_time_and_another_path_by_another() {
        let locks = PathLocks::default();
        let first = locks.lock(b"a").await;
        let _other = locks.lock(b"b").await;
        let mut second = Box::pin(locks.lock(b"a"));
        assert!(futures::poll!(&mut second).is_pending());
        drop(first);
        assert!(futures::poll!(&mut second).is_ready());
    }

    #[tokio::test]
    async fn two_paths_are_locked_together_and_the_same_twice_as_one() {
        let locks = PathLocks::default();
        drop(locks.lock_both(b"a", b"a").await);
        let both = locks.lock_both(b"b", b"a").await;
        let mut waiting = Box::pin(locks.lock(b"a"));
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(both);
        assert!(futures::poll!(&mut waiting).is_ready());
    }
}
