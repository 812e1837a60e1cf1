//! One request in, one answer out: what each operation of the kernel means. Requests that change something: `changes.rs`.

use std::cell::RefCell;
use std::io::IoSlice;
use std::sync::{Arc, Weak};

use super::abi::{Opcode, RESENT, open};
use super::directory::{self, Listing};
use super::disk_reads::{Due, LOOK_EVERY};
use super::open_modes::Opened;
use super::options::Mode;
use super::reads::{self, ReadBuffers};
use super::reply::{self, Pending};
use super::request::{Body, Header, Malformed, Request};
use super::state::SessionState;
use super::unanswered::{Note, Read};
use crate::error::{Error, ErrorKind};
use crate::staging::is_written;
use crate::vfs::{AtHand, DiskRead, Inode, ReadReply};

/// Nothing larger is believed of a request: 16 MiB, far beyond what the kernel asks for.
const MOST_BYTES: u32 = 16 << 20;

/// What one thread keeps between requests.
#[derive(Default)]
pub struct Scratch {
    reads: ReadBuffers,
    listing: Vec<u8>,
    again: bool,
}

impl Scratch {
    /// For requests that the daemon before may have begun.
    pub fn for_again() -> Self {
        Scratch { again: true, ..Scratch::default() }
    }
}

impl SessionState {
    /// Answers the request in `bytes`.
    pub fn handle(self: &Arc<Self>, bytes: &[u8], scratch: &mut Scratch) {
        match Request::parse(bytes) {
            Ok(request) => {
                self.counts.count(request.opcode);
                self.dispatch(&request, scratch);
            }
            Err(Malformed { unique: Some(unique) }) => drop(self.pending(unique)),
            Err(Malformed { unique: None }) => tracing::error!("fuse: the kernel sent no request"),
        }
    }

    fn dispatch(self: &Arc<Self>, request: &Request<'_>, scratch: &mut Scratch) {
        let header = request.header;
        match request.body {
            Body::Forget { lookups } | Body::BatchForget { lookups } => return self.lookups.forget(lookups),
            Body::Interrupt { unique } => return self.in_flight.interrupt(unique),
            _ => {}
        }
        let pending = self.pending(header.unique);
        let pending = match &self.writable {
            Some(writable) => match self.change(writable, pending, request, scratch.again) {
                Some(pending) => pending,
                None => return,
            },
            None => pending,
        };
        match (request.opcode, &request.body) {
            (Some(Opcode::Lookup), Body::Lookup { name }) => self.lookup(pending, header.inode, name),
            (Some(Opcode::GetAttributes), _) => self.attributes(pending, header.inode),
            (Some(Opcode::ReadLink), _) => self.read_link(pending, header.inode),
            (Some(Opcode::Open), Body::Open { flags }) => self.open(pending, header, *flags, scratch.again),
            (Some(Opcode::Release), Body::Release { handle }) => self.release(pending, *handle),
            (Some(Opcode::Read), Body::Read { handle, offset, length, flags }) => {
                let read = Read { header, handle: *handle, offset: *offset, length: *length };
                self.read(pending, read, flags & libc::O_DIRECT == 0, scratch);
            }
            (Some(opcode), Body::ReadDirectory { cookie, length }) => {
                let plus = opcode == Opcode::ReadDirectoryPlus;
                let limit_bytes = (*length).min(MOST_BYTES) as usize;
                let instantiate = plus && self.lookups.have_room();
                let listing = Listing { inode: header.inode, position: *cookie, limit_bytes, plus, instantiate };
                self.list(pending, listing, scratch);
            }
            (Some(Opcode::StatFileSystem), _) => {
                pending.words(reply::statistics(self.filesystem.statistics()));
            }
            (opcode, _) => {
                pending.error(refusal(opcode));
            }
        }
    }

    fn lookup(&self, pending: Pending, parent: Inode, name: &[u8]) {
        match self.filesystem.lookup(parent, name) {
            Ok(attributes) => {
                // Before the answer: its FORGET can come at any time after.
                self.lookups.add(1);
                if !pending.words(self.shown.entry(&attributes)) {
                    self.lookups.forget(1);
                }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                pending.words(self.shown.absent());
            }
            Err(error) => fail(pending, &error),
        }
    }

    fn attributes(&self, pending: Pending, inode: Inode) {
        match self.filesystem.attributes(inode) {
            Ok(attributes) => {
                pending.words(self.shown.attributes(&attributes));
            }
            Err(error) => fail(pending, &error),
        }
    }

    fn read_link(&self, pending: Pending, inode: Inode) {
        match self.filesystem.read_link(inode) {
            Ok(target) => {
                pending.slices(target.len(), &[IoSlice::new(&target)]);
            }
            Err(error) => fail(pending, &error),
        }
    }

    fn open(&self, pending: Pending, header: Header, flags: i32, again: bool) {
        if flags & libc::O_ACCMODE != libc::O_RDONLY {
            pending.error(libc::EROFS);
        } else if self.negotiated.mode == Mode::Elide {
            // From this one answer on the kernel opens without asking.
            pending.error(libc::ENOSYS);
        } else {
            let again = again || header.unique & RESENT != 0;
            match self.opens.open(&*self.filesystem, header.inode, header.unique & !RESENT, again) {
                Ok(opened) => self.answer_open(pending, header.inode, opened),
                Err(error) => fail(pending, &error),
            }
        }
    }

    /// What of a file is to be in the page cache. Content of a snapshot never changes, so what is cached of it stays right.
    fn cached(&self, inode: Inode) -> u32 {
        match (is_written(inode), self.filesystem.is_written(inode)) {
            (false, _) => open::KEEP_CACHE,
            (true, false) => 0,
            (true, true) => open::DIRECT_IO,
        }
    }

    fn answer_open(&self, pending: Pending, inode: Inode, opened: Opened) {
        let answer = match opened.backing {
            Some(backing) => {
                self.counts.pass_through(backing.size);
                // KEEP_CACHE beside PASSTHROUGH would make the kernel fail the open (FOPEN_PASSTHROUGH_MASK).
                reply::opened(opened.ticket, open::PASSTHROUGH | open::NOFLUSH, backing.id)
            }
            None => reply::opened(opened.ticket, self.cached(inode) | open::NOFLUSH, 0),
        };
        // An answer that is not wanted is an open that did not happen, unless the daemon before has answered already.
        if !pending.words(answer) && !opened.inherited {
            self.opens.close(&*self.filesystem, opened.ticket);
        }
    }

    fn release(&self, pending: Pending, ticket: u64) {
        self.opens.close(&*self.filesystem, ticket);
        pending.error(0);
    }

    /// `keeps`: what is answered stays in the page cache.
    fn read(self: &Arc<Self>, pending: Pending, read: Read, keeps: bool, scratch: &mut Scratch) {
        if read.length > MOST_BYTES {
            pending.error(libc::EINVAL);
            return;
        }
        let (inode, handle, length) = (read.header.inode, self.opens.handle(read.handle), read.length as usize);
        match self.filesystem.at_hand(inode, handle, read.offset, length, true) {
            Ok(AtHand::Here(found)) => {
                reads::answer(pending, found, length, &mut scratch.reads);
                if keeps && self.negotiated.mode != Mode::View {
                    self.neighbourhood.note(&self.filesystem, inode, read.offset, read.length);
                }
            }
            Ok(AtHand::OnDisk(found)) => self.read_from_disk(self.noted(pending, read), found, scratch),
            Ok(AtHand::Missing) => self.read_later(self.noted(pending, read)),
            Err(error) => fail(pending, &error),
        }
    }

    /// The read with a note that outlives this process.
    fn noted(&self, pending: Pending, read: Read) -> Due {
        let note = self.unanswered.note(&self.device, &read);
        self.due(pending, read, note)
    }

    fn due(&self, pending: Pending, read: Read, note: Note) -> Due {
        let waiting = self.in_flight.enter(read.header.unique, read.header.thread);
        Due { pending, read, note, waiting }
    }

    /// Waits for the disk and answers from there: on this thread where enough others go on, since each thread that a read
    /// passes through costs it as much as the disk does.
    fn read_from_disk(self: &Arc<Self>, due: Due, found: DiskRead, scratch: &mut Scratch) {
        let unique = due.read.header.unique;
        let (number, is_first) = self.disk_reads.enter(found.disks(), due);
        if is_first {
            self.runtime.spawn(rescue(Arc::downgrade(self)));
        }
        if let Some(_away) = self.threads.leave() {
            return self.load(number, unique, &found, &mut scratch.reads);
        }
        let shared = self.clone();
        self.runtime
            .spawn_blocking(move || BUFFERS.with_borrow_mut(|buffers| shared.load(number, unique, &found, buffers)));
    }

    fn load(self: &Arc<Self>, number: u64, unique: u64, found: &DiskRead, buffers: &mut ReadBuffers) {
        let loaded = reads::load(unique, found, buffers);
        let Some(due) = self.disk_reads.take(number) else { return };
        match loaded {
            Ok(loaded) => {
                drop(due.waiting);
                loaded.answer(due.pending);
            }
            // Once more, where it is known what becomes of such a block.
            Err(_) => self.read_later(due),
        }
    }

    /// Waits for the origin on the runtime, never on a request thread.
    fn read_later(self: &Arc<Self>, due: Due) {
        let Due { pending, read, note, waiting } = due;
        let shared = self.clone();
        self.runtime.spawn(async move {
            let (handle, length) = (shared.opens.handle(read.handle), read.length as usize);
            let outcome = tokio::select! {
                biased;
                outcome = shared.filesystem.clone().read(read.header.inode, handle, read.offset, length) => outcome,
                () = waiting.abandoned() => Err(Error::new(ErrorKind::Cancelled, "the reader was killed")),
            };
            drop(waiting);
            match outcome {
                Ok(found) => answer_from_runtime(pending, found, length).await,
                Err(error) => fail(pending, &error),
            }
            drop(note);
        });
    }

    /// Handles a read that the daemon before had noted.
    pub fn read_again(self: &Arc<Self>, read: Read, note: Note) {
        self.read_later(self.due(self.pending(read.header.unique), read, note));
    }

    fn list(&self, pending: Pending, listing: Listing, scratch: &mut Scratch) {
        match directory::list(&*self.filesystem, &self.shown, listing, &mut scratch.listing) {
            Ok(lookups) => {
                self.lookups.add(lookups);
                if !pending.bytes(&scratch.listing) {
                    self.lookups.forget(lookups);
                }
            }
            Err(error) => fail(pending, &error),
        }
    }
}

thread_local! {
    /// What a thread of the runtime that waits for disks answers with.
    static BUFFERS: RefCell<ReadBuffers> = RefCell::default();
}

/// Gives reads whose disk hangs to others, for as long as any waits for a disk.
async fn rescue(session: Weak<SessionState>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let Some(session) = session.upgrade() else { return };
        let Some(overdue) = session.disk_reads.overdue() else { return };
        overdue.into_iter().for_each(|due| session.read_later(due));
    }
}

/// Memory is handed over at once; a cache file may block on its disk, which the runtime's own threads must not.
async fn answer_from_runtime(pending: Pending, found: ReadReply, length: usize) {
    let waits = matches!(found, ReadReply::Files(_));
    let answer = move || BUFFERS.with_borrow_mut(|buffers| reads::answer(pending, found, length, buffers));
    if waits {
        let _ = tokio::task::spawn_blocking(answer).await;
    } else {
        answer();
    }
}

fn fail(pending: Pending, error: &Error) {
    pending.error(error.errno());
}

/// The errno for everything that is not answered above.
fn refusal(opcode: Option<Opcode>) -> i32 {
    use Opcode::*;
    match opcode {
        Some(
            SetAttributes | SymbolicLink | MakeNode | MakeDirectory | Unlink | RemoveDirectory | Rename | Link | Write
            | SetExtended | RemoveExtended | Create | Allocate | RenameWithFlags | CopyRange | CopyRange64
            | TemporaryFile,
        ) => libc::EROFS,
        Some(DeviceControl) => libc::ENOTTY,
        Some(Destroy) => 0,
        // Most of these the kernel asks once, and then decides itself: OPENDIR without a round trip, FLUSH and FSYNC as
        // done, ACCESS by the mode bits, SEEK_DATA by the size.
        _ => libc::ENOSYS,
    }
}
