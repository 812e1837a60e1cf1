//! Waits for an owner that a person wants ended: whoever has them waited for says so. Knows no signals and no language.

use std::sync::OnceLock;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Mutex, MutexGuard};

/// How long a wait that no signal breaks off goes on before it asks.
const ASK_EVERY: Duration = Duration::from_millis(200);

static ASK: OnceLock<fn() -> bool> = OnceLock::new();

/// From now on waits for the owner of a cache ask `is_interrupted`, on the thread that waits, whether they shall end, and
/// end as `Cancelled`. Once it has said yes, it shall say so until the call is over. The first to come is asked.
pub fn ask_while_waiting(is_interrupted: fn() -> bool) {
    let _ = ASK.set(is_interrupted);
}

/// `Cancelled` when the wait shall end.
pub fn check() -> Result<()> {
    match ASK.get() {
        Some(is_interrupted) if is_interrupted() => Err(Error::new(ErrorKind::Cancelled, "the wait was broken off")),
        _ => Ok(()),
    }
}

/// A pause that a signal makes shorter.
pub fn pause(length: Duration) {
    let most = length.as_millis().clamp(1, u16::MAX.into()) as u16;
    let _ = nix::poll::poll(&mut [], most);
}

/// The lock, which somebody else may hold while he waits for an owner. `look` says now and then whether to go on.
pub fn lock<T>(mutex: &Mutex<T>, look: impl Fn() -> Result<()>) -> Result<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock_for(ASK_EVERY) {
            Some(guard) => return Ok(guard),
            None => look()?,
        }
    }
}
