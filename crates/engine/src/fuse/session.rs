//! The threads that serve one connection: started after a handshake, or resumed on a connection that another session
//! served before.

use std::os::fd::OwnedFd;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::abi::init;
use super::counts::{Counts, Lookups};
use super::device::{Device, Received};
use super::dispatch::{Scratch, Shared};
use super::negotiate::{self, Negotiated};
use super::notify;
use super::open_modes::{OpenModes, OpenState};
use super::options::{Mode, MountOptions};
use super::reply::{Lifetime, Presentation};
use crate::budget::Budgets;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::sync::{Condvar, Mutex};
use crate::vfs::FileSystem;

/// Holds a batch of 2,000 FORGETs; every other request to a read-only tree is smaller.
const BUFFER_BYTES: usize = 32 << 10;

/// After so many failures in a row the connection is taken for lost.
const MOST_FAILURES: u32 = 100;
const FAILURE_PAUSE: Duration = Duration::from_millis(20);
const STOP_PAUSE: Duration = Duration::from_millis(5);

/// What a session works with.
pub struct Surroundings {
    pub filesystem: Arc<dyn FileSystem>,
    pub runtime: tokio::runtime::Handle,
    pub metrics: Metrics,
    pub budgets: Budgets,
}

/// A served connection.
pub struct Session {
    shared: Arc<Shared>,
    control: Arc<Control>,
    threads: Vec<JoinHandle<()>>,
}

/// All that another session, in this process or another, needs to go on with a connection.
#[derive(Debug)]
pub struct Handover {
    pub descriptor: OwnedFd,
    pub negotiated: Negotiated,
    pub opens: Vec<OpenState>,
    /// Whether requests may have been read and never answered, because the session before died.
    pub resend: bool,
}

#[derive(Default)]
struct Control {
    stopping: AtomicBool,
    alive: Mutex<usize>,
    ended: Condvar,
}

impl Session {
    /// Does the handshake on a freshly mounted connection and starts to serve it.
    pub fn start(device: Device, options: &MountOptions, surroundings: Surroundings) -> Result<Session> {
        let mut negotiated = negotiate::handshake(&device, options)?;
        if negotiated.mode == Mode::Passthrough && !can_pass_through(&device) {
            tracing::info!("fuse: no right to passthrough; files are read through the daemon");
            negotiated.mode = Mode::Classic;
        }
        Self::serve(Arc::new(device), negotiated, &[], options, surroundings)
    }

    /// Goes on with a connection where another session stopped. No file that is open is closed by this.
    pub fn resume(handover: Handover, options: &MountOptions, surroundings: Surroundings) -> Result<Session> {
        let Handover { descriptor, negotiated, opens, resend } = handover;
        let device = Arc::new(Device::new(descriptor));
        let session = Self::serve(device.clone(), negotiated, &opens, options, surroundings)?;
        if resend && negotiated.has(init::HAS_RESEND) {
            let failed = |error| Error::new(ErrorKind::Unexpected, format!("cannot resume the mount: {error}"));
            notify::request_resend(&device).map_err(failed)?;
        }
        Ok(session)
    }

    fn serve(
        device: Arc<Device>,
        negotiated: Negotiated,
        opens: &[OpenState],
        options: &MountOptions,
        surroundings: Surroundings,
    ) -> Result<Session> {
        let shared = Arc::new(share(device, negotiated, options, surroundings));
        shared.opens.take_over(&*shared.filesystem, opens);
        let mut session = Session { shared, control: Arc::default(), threads: Vec::new() };
        for number in 0..options.thread_count() {
            session.start_thread(number)?;
        }
        Ok(session)
    }

    fn start_thread(&mut self, number: usize) -> Result<()> {
        let (shared, control) = (self.shared.clone(), self.control.clone());
        *self.control.alive.lock() += 1;
        let started = std::thread::Builder::new()
            .name(format!("headrace-fuse-{number}"))
            .spawn(move || serve_requests(&shared, &control));
        match started {
            Ok(thread) => self.threads.push(thread),
            Err(error) => {
                *self.control.alive.lock() -= 1;
                return Err(Error::new(ErrorKind::Unexpected, format!("cannot start a request thread: {error}")));
            }
        }
        Ok(())
    }

    /// What kernel and daemon agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.shared.negotiated
    }

    /// Whether opens are passed through still: the kernel may refuse it later on.
    pub fn allows_passthrough(&self) -> bool {
        self.shared.opens.allows_passthrough()
    }

    /// References to inodes that the kernel holds.
    pub fn lookups(&self) -> u64 {
        self.shared.lookups.held()
    }

    pub(super) fn device(&self) -> Arc<Device> {
        self.shared.device.clone()
    }

    /// Waits until the mount is gone; false when `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        let mut alive = self.control.alive.lock();
        while *alive > 0 {
            match deadline {
                None => self.control.ended.wait(&mut alive),
                Some(deadline) if self.control.ended.wait_until(&mut alive, deadline).timed_out() => {
                    return *alive == 0;
                }
                Some(_) => {}
            }
        }
        true
    }

    /// Stops serving without unmounting: requests wait in the kernel until another session resumes. Reads that wait for
    /// an origin are still answered by this process, so it must live on until they are done, or set `resend`.
    pub fn stop(self) -> Result<Handover> {
        self.control.stopping.store(true, Ordering::SeqCst);
        wake::prepare();
        while !self.wait(Some(STOP_PAUSE)) {
            // A thread may have been just before its read when the last signal came.
            self.threads.iter().for_each(|thread| wake::thread(thread.as_pthread_t()));
        }
        self.threads.into_iter().for_each(|thread| drop(thread.join()));
        let cannot = |error| Error::new(ErrorKind::Unexpected, format!("cannot hand the mount over: {error}"));
        let descriptor = self.shared.device.duplicate().map_err(cannot)?;
        let opens = self.shared.opens.hand_over();
        Ok(Handover { descriptor, negotiated: self.shared.negotiated, opens, resend: false })
    }
}

fn share(device: Arc<Device>, negotiated: Negotiated, options: &MountOptions, with: Surroundings) -> Shared {
    let passthrough = negotiated.mode == Mode::Passthrough;
    Shared {
        opens: OpenModes::new(device.clone(), with.budgets.descriptors.clone(), passthrough),
        device,
        filesystem: with.filesystem,
        negotiated,
        shown: Presentation {
            entry: Lifetime::from_seconds(options.entry_timeout_s),
            attributes: Lifetime::from_seconds(options.attributes_timeout_s),
            user: nix::unistd::getuid().as_raw(),
            group: nix::unistd::getgid().as_raw(),
        },
        runtime: with.runtime,
        in_flight: Arc::default(),
        counts: Counts::new(&with.metrics),
        lookups: Lookups::new(with.budgets.inodes.limit()),
    }
}

/// Registers an empty file in memory: the kernel checks rights and abilities there, not in the handshake.
fn can_pass_through(device: &Device) -> bool {
    let Ok(memory) = nix::sys::memfd::memfd_create(c"headrace-probe", nix::sys::memfd::MFdFlags::MFD_CLOEXEC) else {
        return false;
    };
    let registered = device.open_backing(&std::fs::File::from(memory));
    registered.is_ok_and(|id| device.close_backing(id).is_ok())
}

fn serve_requests(shared: &Arc<Shared>, control: &Control) {
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut scratch = Scratch::default();
    let mut failures = 0;
    while !control.stopping.load(Ordering::SeqCst) && failures < MOST_FAILURES {
        match shared.device.receive(&mut buffer) {
            Ok(Received::Request(length)) => {
                failures = 0;
                serve_one(shared, &buffer[..length], &mut scratch);
            }
            Ok(Received::Nothing) => {}
            Ok(Received::Ended) => break,
            Err(error) => {
                failures += 1;
                tracing::error!("fuse: cannot read the next request: {error}");
                std::thread::sleep(FAILURE_PAUSE);
            }
        }
    }
    *control.alive.lock() -= 1;
    control.ended.notify_all();
}

/// A fault in one request is answered with EIO and must not end the thread: every other reader needs it.
fn serve_one(shared: &Arc<Shared>, request: &[u8], scratch: &mut Scratch) {
    if catch_unwind(AssertUnwindSafe(|| shared.handle(request, scratch))).is_err() {
        tracing::error!("fuse: a request failed by a fault of Headrace");
        *scratch = Scratch::default();
    }
}

/// Ends a thread's blocking read by a signal that does nothing else. Only used to hand a connection over.
mod wake {
    use std::sync::Once;

    extern "C" fn nothing(_signal: libc::c_int) {}

    fn signal() -> libc::c_int {
        libc::SIGRTMIN() + 7
    }

    /// Installs the handler. Without SA_RESTART, so that `read` returns EINTR.
    pub fn prepare() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            // SAFETY: all-zero is a valid `sigaction`; the handler only returns, which is safe in any context.
            unsafe {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as usize;
                libc::sigaction(signal(), &action, std::ptr::null_mut());
            }
        });
    }

    pub fn thread(thread: libc::pthread_t) {
        // SAFETY: the thread has not been joined yet, so its id is valid; the signal has a handler (see `prepare`).
        unsafe { libc::pthread_kill(thread, signal()) };
    }
}
