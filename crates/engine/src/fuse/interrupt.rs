//! Readers that wait for an origin, and which of them no longer wait.
//!
//! The kernel sends INTERRUPT for any signal, also for a SIGCHLD or SIGPROF with a handler. On a local file system such
//! a signal never ends a read; ended here, a read would fail with EINTR, or a page fault start its fetch anew with every
//! tick of a profiler. So an interrupted read is given up only when its thread is being killed. The kernel sends no
//! second INTERRUPT, so from the first one on we look.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;

use crate::sync::Mutex;

/// An INTERRUPT can overtake its request on another thread; so many are remembered.
const EARLY_LIMIT: usize = 64;

/// How soon a killed reader is let go.
const LOOK_INTERVAL: Duration = Duration::from_millis(25);

/// All reads that wait.
#[derive(Debug, Default)]
pub struct InFlight {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    waiting: HashMap<u64, Arc<Interruption>>,
    early: VecDeque<u64>,
}

/// Whether INTERRUPT has come for a read.
#[derive(Debug, Default)]
struct Interruption {
    came: AtomicBool,
    notify: Notify,
}

/// One read that waits; dropping it ends the waiting.
#[derive(Debug)]
pub struct WaitingRead {
    in_flight: Arc<InFlight>,
    unique: u64,
    thread: u32,
    interrupted: Arc<Interruption>,
}

impl InFlight {
    /// Starts to wait for request `unique` of `thread`.
    pub fn enter(self: &Arc<Self>, unique: u64, thread: u32) -> WaitingRead {
        let interrupted = Arc::<Interruption>::default();
        let mut table = self.table.lock();
        if let Some(place) = table.early.iter().position(|early| *early == unique) {
            table.early.remove(place);
            interrupted.tell();
        }
        table.waiting.insert(unique, interrupted.clone());
        WaitingRead { in_flight: self.clone(), unique, thread, interrupted }
    }

    /// The kernel says that a signal came for the thread that waits for `unique`.
    pub fn interrupt(&self, unique: u64) {
        let mut table = self.table.lock();
        if let Some(interrupted) = table.waiting.get(&unique) {
            interrupted.tell();
            return;
        }
        if table.early.len() == EARLY_LIMIT {
            table.early.pop_front();
        }
        table.early.push_back(unique);
    }
}

impl Interruption {
    fn tell(&self) {
        self.came.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }
}

impl WaitingRead {
    /// Whether its thread has had a signal: it may be being killed.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.came.load(Ordering::Relaxed)
    }

    /// Returns when the thread that waits is being killed; otherwise never.
    pub async fn abandoned(&self) {
        self.interrupted.notify.notified().await;
        while !is_being_killed(self.thread) {
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    }
}

impl Drop for WaitingRead {
    fn drop(&mut self) {
        self.in_flight.table.lock().waiting.remove(&self.unique);
    }
}

/// The kernel's own rule for waits that can be killed: a fatal signal marks SIGKILL pending in each thread, unless
/// another signal is pending there already; then only SIGKILL itself does. A thread that cannot be seen (another pid
/// namespace, hidden processes) counts as alive: it waits for us, so it is not gone.
fn is_being_killed(thread: u32) -> bool {
    thread != 0 && std::fs::read_to_string(format!("/proc/{thread}/status")).is_ok_and(|status| pending_kill(&status))
}

fn pending_kill(status: &str) -> bool {
    let kill = 1u64 << (libc::SIGKILL - 1);
    let pending = |signals: &str| u64::from_str_radix(signals.trim(), 16).is_ok_and(|signals| signals & kill != 0);
    status.lines().find_map(|line| line.strip_prefix("SigPnd:")).is_some_and(pending)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_pending_kill_is_a_kill() {
        assert!(pending_kill("Name:\tx\nSigPnd:\t0000000000000100\nShdPnd:\t0000000000000000\n"));
        assert!(!pending_kill("Name:\tx\nSigPnd:\t0000000000010000\nShdPnd:\t0000000000000000\n"));
        assert!(!is_being_killed(std::process::id()));
        assert!(!is_being_killed(0));
    }

    #[tokio::test]
    async fn an_interrupt_that_comes_early_is_not_lost() {
        let in_flight = Arc::new(InFlight::default());
        in_flight.interrupt(8);
        let waiting = in_flight.enter(8, 0);
        tokio::time::timeout(Duration::from_secs(60), waiting.interrupted.notify.notified()).await.expect("remembered");
        assert!(waiting.is_interrupted());
    }

    #[test]
    fn early_interrupts_are_bounded() {
        let in_flight = InFlight::default();
        (0..1000).for_each(|unique| in_flight.interrupt(unique));
        assert_eq!(in_flight.table.lock().early.len(), EARLY_LIMIT);
    }
}
