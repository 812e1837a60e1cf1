//! The time at which the other side was last heard of, and the effect of its silence.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval};

/// The time of the last byte from the other side.
#[derive(Debug)]
pub struct Heard {
    start: Instant,
    last_ms: AtomicU64,
    pinged: AtomicBool,
}

/// What to do about a silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Fine,
    /// Ask for a sign of life.
    Ping,
    Dead,
}

impl Heard {
    pub fn new() -> Self {
        Heard { start: Instant::now(), last_ms: AtomicU64::new(0), pinged: AtomicBool::new(false) }
    }

    /// A sign of life, or the start of a time in which one is expected.
    pub fn note(&self) {
        self.last_ms.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
        self.pinged.store(false, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        self.start.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }

    /// A ping is due after a third of the allowed silence, once; all of it means that the other side is gone.
    fn judge(&self, silence: Duration, allowed: Duration) -> Verdict {
        if silence >= allowed {
            return Verdict::Dead;
        }
        if silence >= allowed / 3 && !self.pinged.swap(true, Ordering::Relaxed) {
            return Verdict::Ping;
        }
        Verdict::Fine
    }

    /// Returns when the other side was silent for `allowed`. `expected` says whether it owes a sign of life at all.
    pub async fn watch(&self, allowed: Duration, expected: impl Fn() -> bool, ping: impl Fn()) {
        let step = (allowed / 12).max(Duration::from_millis(1));
        let mut ticks = interval(step);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = Instant::now();
        loop {
            ticks.tick().await;
            // After a standstill of this process (a stop signal, a frozen machine) the silence is not the other's.
            if !expected() || before.elapsed() > allowed / 2 {
                self.note();
            }
            before = Instant::now();
            match self.judge(self.silence(), allowed) {
                Verdict::Fine => {}
                Verdict::Ping => ping(),
                Verdict::Dead => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_ping_then_death_unless_something_is_heard() {
        let (heard, second) = (Heard::new(), Duration::from_secs(1));
        let judge = |silence| heard.judge(silence, second * 3);
        assert_eq!(judge(second / 2), Verdict::Fine);
        assert_eq!((judge(second), judge(second)), (Verdict::Ping, Verdict::Fine));
        heard.note();
        assert_eq!((judge(second * 2), judge(second * 3)), (Verdict::Ping, Verdict::Dead));
    }
}
