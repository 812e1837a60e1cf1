//! The one place that names the locks in use, so that a permutation checker can take their place in tests.

pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
