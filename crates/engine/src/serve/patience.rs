//! The time that an attached process waits, and for whom. Knows no socket.

use std::time::{Duration, Instant};

use crate::error::{Error, ErrorKind};

/// How long a client waits for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Silence of the owner after which it is asked whether it is there at all: a cold read may take long.
    pub silence: Duration,
    /// How long it may take to say so.
    pub answer: Duration,
    /// How long the successor of an owner that died is waited for. A supervisor starts it within a second, and pauses for
    /// up to three when several in a row have failed; then it opens the cache.
    pub successor: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Patience {
            silence: Duration::from_secs(5),
            answer: Duration::from_secs(25),
            successor: Duration::from_secs(60),
        }
    }
}

/// Why an attempt came to nothing.
pub enum Failed {
    /// The owner went away, or is about to: its successor may answer.
    Lost(Error),
    /// Nobody will answer otherwise.
    Final(Error),
}

pub type Attempt<T> = Result<T, Failed>;

impl Failed {
    /// What the owner says itself. One that is closing leaves the request to the next.
    pub fn told(error: Error) -> Self {
        if error.kind() == ErrorKind::Cancelled { Failed::Lost(error) } else { Failed::Final(error) }
    }
}

impl From<Error> for Failed {
    /// What happened to the connection: `Unreachable` is its end.
    fn from(error: Error) -> Self {
        if error.kind() == ErrorKind::Unreachable { Failed::Lost(error) } else { Failed::Final(error) }
    }
}

/// The time for which nobody answers a request.
#[derive(Debug, Default)]
pub struct Absence {
    began: Option<Instant>,
    pause: Duration,
}

impl Absence {
    const FIRST_PAUSE: Duration = Duration::from_millis(10);
    const LONGEST_PAUSE: Duration = Duration::from_millis(500);

    /// The pause before the next try; `None` when the absence has lasted for `limit`.
    pub fn next_pause(&mut self, limit: Duration) -> Option<Duration> {
        let began = *self.began.get_or_insert_with(Instant::now);
        self.pause = (self.pause * 2).clamp(Self::FIRST_PAUSE, Self::LONGEST_PAUSE);
        let left = limit.checked_sub(began.elapsed()).filter(|left| !left.is_zero());
        left.map(|left| self.pause.min(left))
    }

    /// True until the first pause.
    pub fn is_new(&self) -> bool {
        self.began.is_none()
    }
}
