//! Memory that outlives the daemon: what a successor must know of a connection and the kernel does not tell.
//!
//! A memory file without a name, mapped by the daemon and kept open by its supervisor. When the daemon is killed it holds
//! what the daemon wrote last. Every word in it is written whole, and a record counts from the one word that is written
//! last; so there is no moment at which a kill leaves half of something. Layout: `docs/format/mount-ledger.md`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::abi::PAGE_BYTES;
use crate::error::{Error, ErrorKind, Result};

const MAGIC: u64 = u64::from_le_bytes(*b"HRLEDGER");
const VERSION: u64 = 1;

/// Receives of all threads go there: the last request of each is still to be found after a kill.
pub const BUFFERS: usize = 64;
/// Holds a batch of 2,000 FORGETs; every other request to a read-only tree is smaller.
pub const BUFFER_BYTES: usize = 32 << 10;
/// Reads that wait for an origin at the same time. Beyond that they are served, and only forgotten by a crash on a kernel
/// that cannot send them again.
pub const WAITING: usize = 1 << 16;
pub const WAITING_WORDS: usize = 8;
/// Files open at the same time.
pub const TICKETS: usize = 1 << 22;
pub const TICKET_WORDS: usize = 4;

const WORD: usize = 8;
const HEADER_BYTES: usize = 4096;
const WAITING_AT: usize = HEADER_BYTES + BUFFERS * BUFFER_BYTES;
const TICKETS_AT: usize = WAITING_AT + WAITING * WAITING_WORDS * WORD;
const TOTAL_BYTES: usize = TICKETS_AT + TICKETS * TICKET_WORDS * WORD;

/// Places of the header's words. The first ones are written once.
const FIXED: [u64; 7] =
    [MAGIC, VERSION, BUFFERS as u64, BUFFER_BYTES as u64, WAITING as u64, TICKETS as u64, TOTAL_BYTES as u64];
const CHECKSUM_AT: usize = FIXED.len();
const LOOKUPS_AT: usize = 16;
const ANNOUNCED_AT: usize = 17;
const TICKETS_USED_AT: usize = 18;
const WAITING_USED_AT: usize = 19;
const BUFFERS_USED_AT: usize = 20;
const RESUMED_AT: usize = 21;

/// The mapped memory. Only pages that were written to take room.
#[derive(Debug)]
pub struct Ledger {
    memory: MmapRaw,
    file: File,
    /// Which buffers belong to a thread of this process.
    taken: AtomicU32,
}

/// The memory that one thread receives requests in; nobody else in this process touches it.
#[derive(Debug)]
pub struct RequestBuffer {
    ledger: Arc<Ledger>,
    number: usize,
}

impl RequestBuffer {
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `BUFFER_BYTES` mapped bytes that only this owner reads and writes; `ledger` keeps them mapped.
        unsafe { std::slice::from_raw_parts_mut(self.ledger.buffer(self.number), BUFFER_BYTES) }
    }
}

impl Ledger {
    /// A fresh one.
    pub fn create() -> Result<Ledger> {
        let made = memfd_create(c"headrace-ledger", MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING)
            .map_err(io::Error::from)
            .map(File::from)
            .and_then(|file| {
                file.set_len(TOTAL_BYTES as u64)?;
                // Nobody can take pages away under us, which would end this process with SIGBUS.
                let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
                fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
                Ok(file)
            });
        let ledger = Self::map(made.map_err(unusable)?)?;
        let numbers = FIXED.into_iter().chain([checksum()]);
        numbers.enumerate().for_each(|(place, number)| ledger.word(place).store(number, Ordering::Relaxed));
        Ok(ledger)
    }

    /// The ledger that another process, or another session of this one, has left.
    pub fn open(descriptor: OwnedFd) -> Result<Ledger> {
        let file = File::from(descriptor);
        let length = file.metadata().map_err(unusable)?.len();
        if length != TOTAL_BYTES as u64 {
            return Err(foreign(format!("it has {length} bytes")));
        }
        let seals = fcntl(&file, FcntlArg::F_GET_SEALS).map_err(|error| unusable(error.into()))?;
        if seals & SealFlag::F_SEAL_SHRINK.bits() == 0 {
            return Err(foreign("its size is not sealed".to_owned()));
        }
        let ledger = Self::map(file)?;
        let fixed = (0..FIXED.len()).all(|place| ledger.word(place).load(Ordering::Relaxed) == FIXED[place]);
        if !fixed || ledger.word(CHECKSUM_AT).load(Ordering::Relaxed) != checksum() {
            return Err(foreign("it is of another version, or damaged".to_owned()));
        }
        Ok(ledger)
    }

    fn map(file: File) -> Result<Ledger> {
        let memory = MmapOptions::new().len(TOTAL_BYTES).map_raw(&file).map_err(unusable)?;
        Ok(Ledger { memory, file, taken: AtomicU32::new(0) })
    }

    /// A second descriptor of the memory, for whoever shall keep it.
    pub fn duplicate(&self) -> io::Result<OwnedFd> {
        self.file.as_fd().try_clone_to_owned()
    }

    /// The buffer of the next thread; `None` when all are taken.
    pub fn take_buffer(self: &Arc<Self>) -> Option<RequestBuffer> {
        let number = self.taken.fetch_add(1, Ordering::Relaxed) as usize;
        if number >= BUFFERS {
            return None;
        }
        self.word(BUFFERS_USED_AT).fetch_max(number as u64 + 1, Ordering::Relaxed);
        self.make_present(number);
        Some(RequestBuffer { ledger: self.clone(), number })
    }

    /// Gives every page of a buffer its memory now. A thread that is killed may take one more request on its way out; the
    /// kernel gives it no new memory any more, and fails the request with EIO where it has none to put it in (Linux:
    /// `fuse_dev_do_read`, `__get_user_pages`). Put into the buffer, the request waits for the successor as all others do.
    fn make_present(&self, number: usize) {
        let start = self.buffer(number);
        for offset in (0..BUFFER_BYTES).step_by(PAGE_BYTES as usize) {
            // SAFETY: within the buffer, which the caller has just taken and nobody else touches.
            unsafe { start.add(offset).write_volatile(start.add(offset).read_volatile()) };
        }
        // SAFETY: whole pages of the mapping. Where there is no right to it, the pages are there as long as memory is.
        unsafe { libc::mlock(start.cast(), BUFFER_BYTES) };
    }

    /// Copies of what the buffers hold: the last request of each thread of the daemon before, answered or not. To be
    /// called before any buffer is taken, since their owners write there.
    pub fn last_received(&self) -> Vec<Vec<u8>> {
        if self.taken.load(Ordering::Relaxed) > 0 {
            return Vec::new();
        }
        let used = self.word(BUFFERS_USED_AT).load(Ordering::Relaxed).min(BUFFERS as u64) as usize;
        // SAFETY: mapped bytes that nobody writes: the process that did is gone, and no thread of this one has a buffer.
        let buffer = |number| unsafe { std::slice::from_raw_parts(self.buffer(number), BUFFER_BYTES) };
        (0..used).map(|number| buffer(number).to_vec()).collect()
    }

    fn buffer(&self, number: usize) -> *mut u8 {
        assert!(number < BUFFERS);
        // SAFETY: within the mapping.
        unsafe { self.memory.as_mut_ptr().add(HEADER_BYTES + number * BUFFER_BYTES) }
    }

    /// Word `word` of the record of ticket `number`.
    pub fn ticket(&self, number: usize, word: usize) -> &AtomicU64 {
        assert!(number < TICKETS && word < TICKET_WORDS);
        self.word(TICKETS_AT / WORD + number * TICKET_WORDS + word)
    }

    /// Word `word` of the record of waiting read `number`.
    pub fn waiting(&self, number: usize, word: usize) -> &AtomicU64 {
        assert!(number < WAITING && word < WAITING_WORDS);
        self.word(WAITING_AT / WORD + number * WAITING_WORDS + word)
    }

    /// References to inodes that the kernel holds.
    pub fn lookups(&self) -> &AtomicU64 {
        self.word(LOOKUPS_AT)
    }

    /// The identity of the snapshot that the kernel was told of last; 0: none.
    pub fn announced(&self) -> &AtomicU64 {
        self.word(ANNOUNCED_AT)
    }

    /// How often a successor took over.
    pub fn resumed(&self) -> &AtomicU64 {
        self.word(RESUMED_AT)
    }

    /// Tickets from this number on were never used.
    pub fn tickets_used(&self) -> &AtomicU64 {
        self.word(TICKETS_USED_AT)
    }

    /// Records of waiting reads from this number on were never used.
    pub fn waiting_used(&self) -> &AtomicU64 {
        self.word(WAITING_USED_AT)
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        debug_assert!(place < TOTAL_BYTES / WORD);
        // SAFETY: within the mapping and aligned, as the mapping starts at a page; every access to these places, by any
        // process, is atomic.
        unsafe { AtomicU64::from_ptr(self.memory.as_mut_ptr().cast::<u64>().add(place)) }
    }
}

fn checksum() -> u64 {
    let bytes: Vec<u8> = FIXED.iter().flat_map(|number| number.to_le_bytes()).collect();
    u64::from(crc32c::crc32c(&bytes))
}

fn unusable(error: io::Error) -> Error {
    Error::new(ErrorKind::Unexpected, format!("cannot make the memory that outlives the mount's process: {error}"))
        .with_source(error)
}

fn foreign(why: String) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the ledger of the mount cannot be taken over: {why}"))
        .with_hint("end the mount and mount again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_there_for_whoever_opens_it_next() {
        let first = Arc::new(Ledger::create().expect("made"));
        first.ticket(TICKETS - 1, 3).store(7, Ordering::Relaxed);
        first.announced().store(3, Ordering::Relaxed);
        first.take_buffer().expect("free").bytes()[..3].copy_from_slice(b"abc");
        let descriptor = first.duplicate().expect("duplicated");
        let second = Ledger::open(descriptor).expect("opened");
        assert_eq!(second.ticket(TICKETS - 1, 3).load(Ordering::Relaxed), 7);
        assert_eq!(second.announced().load(Ordering::Relaxed), 3);
        assert_eq!(&second.last_received()[0][..3], b"abc");
    }

    #[test]
    fn a_taken_buffer_is_in_memory_and_keeps_its_content() {
        let ledger = Arc::new(Ledger::create().expect("made"));
        // SAFETY: mapped bytes that nobody else uses yet.
        unsafe { ledger.buffer(0).add(BUFFER_BYTES - 1).write(7) };
        let mut buffer = ledger.take_buffer().expect("free");
        let start = buffer.bytes().as_mut_ptr();
        let mut present = [0_u8; BUFFER_BYTES / PAGE_BYTES as usize];
        // SAFETY: as many bytes as there are pages.
        assert_eq!(unsafe { libc::mincore(start.cast(), BUFFER_BYTES, present.as_mut_ptr()) }, 0);
        assert!(present.iter().all(|page| page & 1 == 1), "{present:?}");
        assert_eq!(buffer.bytes()[BUFFER_BYTES - 1], 7);
    }

    #[test]
    fn foreign_memory_is_refused() {
        let made = memfd_create(c"foreign", MFdFlags::MFD_CLOEXEC).expect("made");
        assert_eq!(Ledger::open(made).expect_err("empty").kind(), ErrorKind::Unsupported);
        let damaged = Ledger::create().expect("made");
        damaged.word(1).store(2, Ordering::Relaxed);
        let error = Ledger::open(damaged.duplicate().expect("duplicated")).expect_err("another version");
        assert!(error.message().contains("version"), "{error}");
    }

    #[test]
    fn there_are_as_many_buffers_as_threads_at_most() {
        let ledger = Arc::new(Ledger::create().expect("made"));
        assert!((0..BUFFERS).all(|_| ledger.take_buffer().is_some()));
        assert!(ledger.take_buffer().is_none());
    }
}
