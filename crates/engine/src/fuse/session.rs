//! The threads that serve one connection: started after a handshake, or resumed on a connection that another daemon
//! served before, whether it handed it over or died.

use std::os::fd::OwnedFd;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::abi::init;
use super::counts::{Counts, Lookups};
use super::device::{Device, Received};
use super::disk_reads::DiskReads;
use super::dispatch::Scratch;
use super::ledger::{Ledger, RequestBuffer};
use super::negotiate::{self, Negotiated};
use super::neighbourhood::Neighbourhood;
use super::notify::{self, NoticeQueue};
use super::open_modes::OpenModes;
use super::options::{Mode, MountOptions};
use super::patience::Places;
use super::reply::{Lifetime, Presentation};
use super::request::{Body, Request};
use super::state::SessionState;
use super::threads::RequestThreads;
use super::unanswered::Unanswered;
use crate::budget::Budgets;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::sync::Mutex;
use crate::vfs::FileSystem;

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
    shared: Arc<SessionState>,
    ledger: Arc<Ledger>,
    stopping: Arc<AtomicBool>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A connection that another daemon served: all that is needed to go on with it.
#[derive(Debug)]
pub struct Inheritance {
    pub connection: OwnedFd,
    pub ledger: OwnedFd,
    pub negotiated: Negotiated,
}

impl Session {
    /// Does the handshake on a freshly mounted connection and starts to serve it.
    pub fn start(device: Device, options: &MountOptions, surroundings: Surroundings) -> Result<Session> {
        let mut negotiated = negotiate::handshake(&device, options)?;
        if negotiated.mode == Mode::Passthrough && !can_pass_through(&device) {
            tracing::info!("fuse: no right to passthrough; files are read through the daemon");
            negotiated.mode = Mode::Classic;
        }
        let ledger = Arc::new(Ledger::create()?);
        let shared = Arc::new(share(Arc::new(device), ledger.clone(), negotiated, options, surroundings));
        Self::serve(shared, ledger, options)
    }

    /// Goes on with a connection where another daemon stopped or died. No open file is closed by this, and no request
    /// that it had read is lost.
    pub fn resume(from: Inheritance, options: &MountOptions, surroundings: Surroundings) -> Result<Session> {
        let (device, ledger) = (Arc::new(Device::new(from.connection)), Arc::new(Ledger::open(from.ledger)?));
        ledger.resumed().fetch_add(1, Ordering::Relaxed);
        let shared = Arc::new(share(device, ledger.clone(), from.negotiated, options, surroundings));
        shared.opens.take_over(&shared.filesystem);
        begin_again(&shared, &ledger)?;
        Self::serve(shared, ledger, options)
    }

    fn serve(shared: Arc<SessionState>, ledger: Arc<Ledger>, options: &MountOptions) -> Result<Session> {
        let mut session = Session { shared, ledger, stopping: Arc::default(), threads: Mutex::default() };
        for number in 0..options.thread_count() {
            session.start_thread(number)?;
        }
        Ok(session)
    }

    fn start_thread(&mut self, number: usize) -> Result<()> {
        let cannot = |why: String| Error::new(ErrorKind::Unexpected, format!("cannot start a request thread: {why}"));
        let buffer = self.ledger.take_buffer().ok_or_else(|| cannot("too many".to_owned()))?;
        let (shared, stopping) = (self.shared.clone(), self.stopping.clone());
        self.shared.threads.starts();
        let started = std::thread::Builder::new()
            .name(format!("headrace-fuse-{number}"))
            .spawn(move || serve_requests(&shared, &stopping, buffer));
        match started {
            Ok(thread) => self.threads.lock().push(thread),
            Err(error) => {
                self.shared.threads.cannot_start();
                return Err(cannot(error.to_string()));
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

    /// Pages that nobody asked for are given this way.
    pub(super) fn give_through(&self, queue: NoticeQueue) {
        self.shared.neighbourhood.give_through(queue);
    }

    pub(super) fn device(&self) -> Arc<Device> {
        self.shared.device.clone()
    }

    pub(super) fn ledger(&self) -> Arc<Ledger> {
        self.ledger.clone()
    }

    /// Waits until the mount is gone; false when `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.shared.threads.wait(timeout)
    }

    /// Stops serving without unmounting: requests wait in the kernel until another daemon resumes, and reads that wait
    /// for an origin are left to it.
    pub fn stop(&self) {
        self.end();
        self.shared.device.retire();
    }

    /// Stops serving for good: nobody has anything open.
    pub fn end(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        wake::prepare();
        let threads = std::mem::take(&mut *self.threads.lock());
        while !self.wait(Some(STOP_PAUSE)) {
            // A thread may have been just before its read when the last signal came.
            threads.iter().for_each(|thread| wake::thread(thread.as_pthread_t()));
        }
        // Those that wait for a disk may do so for ever. They find nothing to say and nobody to say it to.
        threads.into_iter().filter(JoinHandle::is_finished).for_each(|thread| drop(thread.join()));
    }
}

/// Takes care of what the daemon before had read and not answered. Before any thread reads: so nothing is done twice.
fn begin_again(shared: &Arc<SessionState>, ledger: &Ledger) -> Result<()> {
    let noted = shared.unanswered.inherit(&shared.device);
    if shared.negotiated.has(init::HAS_RESEND) {
        // The kernel knows best what was not answered, and sends it again.
        drop(noted);
        return match notify::request_resend(&shared.device) {
            Ok(()) => Ok(()),
            // Unmounted meanwhile: the threads will see it.
            Err(error) if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENOTCONN | libc::EPERM)) => Ok(()),
            Err(error) => Err(Error::new(ErrorKind::Unexpected, format!("cannot resume the mount: {error}"))),
        };
    }
    // What was answered already, the kernel does not want again, and says so.
    for request in ledger.last_received() {
        handle_again(shared, &request);
    }
    noted.into_iter().for_each(|(read, note)| shared.read_again(read, note));
    Ok(())
}

/// Handles the request at the start of a buffer, if it is one that waits for an answer.
fn handle_again(shared: &Arc<SessionState>, buffer: &[u8]) {
    let length = buffer.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes)) as usize;
    let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { return };
    let wants_no_answer =
        |body| matches!(body, Body::Forget { .. } | Body::BatchForget { .. } | Body::Interrupt { .. } | Body::Init(_));
    if Request::parse(bytes).is_ok_and(|request| !wants_no_answer(request.body)) {
        serve_one(shared, bytes, &mut Scratch::for_again());
    }
}

fn share(
    device: Arc<Device>,
    ledger: Arc<Ledger>,
    negotiated: Negotiated,
    options: &MountOptions,
    with: Surroundings,
) -> SessionState {
    let passthrough = negotiated.mode == Mode::Passthrough;
    let lookups = Lookups::new(ledger.clone(), with.budgets.inodes.limit());
    let places = Arc::new(Places::of(options.thread_count()));
    SessionState {
        opens: OpenModes::new(device.clone(), ledger.clone(), passthrough, places.clone()),
        unanswered: Unanswered::new(ledger),
        device,
        writable: options.writable.then(|| with.filesystem.clone().writable()).flatten(),
        filesystem: with.filesystem,
        negotiated,
        shown: Presentation {
            entry: Lifetime::from_seconds(options.entry_timeout_s),
            attributes: Lifetime::from_seconds(options.attributes_timeout_s),
        },
        runtime: with.runtime,
        in_flight: Arc::default(),
        disk_reads: DiskReads::default(),
        threads: RequestThreads::new(places),
        neighbourhood: Neighbourhood::new(with.metrics.fuse_given_bytes.clone()),
        counts: Counts::new(&with.metrics),
        lookups,
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

fn serve_requests(shared: &Arc<SessionState>, stopping: &AtomicBool, mut buffer: RequestBuffer) {
    let _serving = shared.threads.serving();
    let buffer = buffer.bytes();
    let mut scratch = Scratch::default();
    let mut failures = 0;
    while !stopping.load(Ordering::SeqCst) && failures < MOST_FAILURES {
        match shared.device.receive(buffer) {
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
}

/// A fault in one request is answered with EIO and must not end the thread: every other reader needs it.
fn serve_one(shared: &Arc<SessionState>, request: &[u8], scratch: &mut Scratch) {
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
