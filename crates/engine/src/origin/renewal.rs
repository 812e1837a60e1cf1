//! Keys that are renewed while they are in use: they come from outside, under a name, and origins take them up.
//!
//! The engine reads no files of keys: whoever configured it does, and watches them. A descriptor tells that keys were
//! refused, and the request that met the refusal waits for the answer. A name is of one process.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use nix::sys::eventfd::{EfdFlags, EventFd};
use tokio::sync::watch;

use crate::config::OriginConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

/// Longest wait of a refused request for other keys: a program that makes them may take its time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Files are read again no more often than this, however many requests are refused.
const BETWEEN_DEMANDS: Duration = Duration::from_millis(100);

/// Kept until they are forgotten: an origin may be opened after its keys were renewed.
static SOURCES: LazyLock<Mutex<HashMap<String, Arc<Source>>>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Source {
    state: Mutex<State>,
    answers: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    /// The newest configuration that came; `None`: the one of the start.
    config: Option<OriginConfig>,
    generation: u64,
    wanted: bool,
    /// A demand was taken, and is not answered yet.
    is_asked: bool,
    declined: Option<Instant>,
    /// Rings when keys are wanted, in the process that made it.
    bell: Option<(u32, Arc<EventFd>)>,
}

impl State {
    fn take_demand(&mut self) -> bool {
        let wanted = std::mem::take(&mut self.wanted);
        self.is_asked |= wanted;
        wanted
    }
}

/// A descriptor that becomes readable when keys of these names are wanted; from then on their refused requests wait for an
/// answer. A forked child has to watch by itself.
pub fn watch_demands(names: &[String]) -> Result<OwnedFd> {
    let failed = |error: std::io::Error| Error::new(ErrorKind::Unexpected, format!("cannot wait for keys: {error}"));
    let bell = EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC);
    let bell = Arc::new(bell.map_err(|errno| failed(errno.into()))?);
    for name in names {
        source(name).state.lock().bell = Some((std::process::id(), bell.clone()));
    }
    bell.as_fd().try_clone_to_owned().map_err(failed)
}

/// Those of these names whose keys are wanted; each is to be answered by `renew` or `decline`.
pub fn demands(names: &[String]) -> Vec<String> {
    names.iter().filter(|name| source(name).state.lock().take_demand()).cloned().collect()
}

/// From now on the origins of this name go by `config`, which differs from theirs in its keys alone.
pub fn renew(name: &str, config: OriginConfig) {
    answer(name, |state| {
        state.config = Some(config);
        state.generation += 1;
        state.declined = None;
    });
}

/// There are no other keys.
pub fn decline(name: &str) {
    answer(name, |state| state.declined = Some(Instant::now()));
}

/// Nobody renews the keys of this name any more.
pub fn forget(name: &str) {
    let Some(source) = SOURCES.lock().remove(name) else { return };
    {
        let mut state = source.state.lock();
        (state.bell, state.wanted, state.is_asked) = (None, false, false);
    }
    source.answers.send_modify(|count| *count += 1);
}

fn source(name: &str) -> Arc<Source> {
    SOURCES.lock().entry(name.to_owned()).or_default().clone()
}

fn answer(name: &str, change: impl FnOnce(&mut State)) {
    let source = source(name);
    {
        let mut state = source.state.lock();
        state.is_asked = false;
        change(&mut state);
    }
    source.answers.send_modify(|count| *count += 1);
}

/// Where one origin's keys come anew. Clones, and origins of the same name, share it.
#[derive(Clone)]
pub(super) struct Renewal(Arc<Source>);

impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").finish_non_exhaustive()
    }
}

impl Renewal {
    /// The renewal of `config`, if its keys are renewed.
    pub fn of(config: &OriginConfig) -> Option<Self> {
        config.renewal().map(|name| Renewal(source(name)))
    }

    /// How often the keys were renewed.
    pub fn generation(&self) -> u64 {
        self.0.state.lock().generation
    }

    /// The configuration that came last, with its number; `None` before any came.
    pub fn newest(&self) -> Option<(u64, OriginConfig)> {
        let state = self.0.state.lock();
        state.config.clone().map(|config| (state.generation, config))
    }

    /// Whether there are newer keys than those of `error`, if it is a refusal of keys; waits for the answer.
    pub async fn has_newer(&self, error: &Error) -> bool {
        let source = std::error::Error::source(error);
        let Some(Refused(used)) = source.and_then(|source| source.downcast_ref::<Refused>()) else { return false };
        tokio::time::sleep(self.time_until_asked_again()).await;
        let mut answers = self.0.answers.subscribe();
        if !self.demand(*used) {
            return self.generation() > *used;
        }
        // An answer to an earlier demand says nothing yet.
        let answered = async { while self.is_wanting(*used) && answers.changed().await.is_ok() {} };
        tokio::time::timeout(PATIENCE, answered).await.is_ok() && self.generation() > *used
    }

    fn time_until_asked_again(&self) -> Duration {
        let declined = self.0.state.lock().declined;
        declined.map_or(Duration::ZERO, |at| BETWEEN_DEMANDS.saturating_sub(at.elapsed()))
    }

    fn is_wanting(&self, used: u64) -> bool {
        let state = self.0.state.lock();
        state.generation <= used && (state.wanted || state.is_asked)
    }

    /// Asks for keys newer than `used`; false when they are there, or nobody would answer.
    fn demand(&self, used: u64) -> bool {
        let mut state = self.0.state.lock();
        if state.generation > used {
            return false;
        }
        let bell = state.bell.clone().filter(|(pid, _)| *pid == std::process::id());
        let Some((_, bell)) = bell else { return false };
        state.wanted = true;
        bell.write(1).is_ok()
    }
}

/// Keys of this generation were refused.
#[derive(Debug)]
struct Refused(u64);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the keys were refused")
    }
}

impl std::error::Error for Refused {}

/// The error, with the generation of the keys that it refuses, if it may be about keys.
pub(super) fn refused_with(generation: u64, error: Error) -> Error {
    let has = |name: &str| error.context().iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
    // A HEAD has no body that could tell the code of an expired token.
    let untold = has("status") == Some("400") && has("code").is_none();
    if error.kind() == ErrorKind::PermissionDenied || untold { error.with_source(Refused(generation)) } else { error }
}
