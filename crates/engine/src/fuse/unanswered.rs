//! Requests that were read from the kernel and not answered yet, in memory that outlives the daemon.
//!
//! Linux 6.9 and later send them again when asked to; for older kernels this is the only trace of them. A request that
//! is answered at once stands in its thread's buffer until the next one; a read that waits for an origin is noted here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::device::Device;
use super::ledger::{Ledger, WAITING};
use super::request::Header;
use crate::sync::Mutex;

const UNIQUE: usize = 0;
const INODE: usize = 1;
const HANDLE: usize = 2;
const OFFSET: usize = 3;
const LENGTH: usize = 4;
const THREAD: usize = 5;

/// One READ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Read {
    pub header: Header,
    pub handle: u64,
    pub offset: u64,
    pub length: u32,
}

/// The reads that wait.
#[derive(Debug)]
pub struct Unanswered {
    ledger: Arc<Ledger>,
    free: Mutex<Vec<u32>>,
}

/// A note that is struck out when dropped, unless the connection was handed over: then the next daemon answers.
#[derive(Debug)]
pub struct Note {
    home: Arc<Unanswered>,
    device: Arc<Device>,
    number: Option<u32>,
}

impl Unanswered {
    pub fn new(ledger: Arc<Ledger>) -> Arc<Self> {
        Arc::new(Unanswered { ledger, free: Mutex::default() })
    }

    /// What the daemon before had noted. A note that is dropped is struck out. Before the first `note`.
    pub fn inherit(self: &Arc<Self>, device: &Arc<Device>) -> Vec<(Read, Note)> {
        let (noted, free) = (0..self.used()).rev().partition(|number| self.read(*number as usize).is_some());
        *self.free.lock() = free;
        let note = |number| Note { home: self.clone(), device: device.clone(), number: Some(number) };
        let noted: Vec<u32> = noted;
        noted.into_iter().filter_map(|number| Some((self.read(number as usize)?, note(number)))).collect()
    }

    /// Notes that `read` waits.
    pub fn note(self: &Arc<Self>, device: &Arc<Device>, read: &Read) -> Note {
        let number = self.draw();
        if let Some(number) = number {
            let header = read.header;
            let fields = [
                (INODE, header.inode),
                (HANDLE, read.handle),
                (OFFSET, read.offset),
                (LENGTH, u64::from(read.length)),
                (THREAD, u64::from(header.thread)),
            ];
            for (word, value) in fields {
                self.ledger.waiting(number as usize, word).store(value, Ordering::Relaxed);
            }
            self.ledger.waiting(number as usize, UNIQUE).store(header.unique, Ordering::Release);
        }
        Note { home: self.clone(), device: device.clone(), number }
    }

    fn read(&self, number: usize) -> Option<Read> {
        let word = |word| self.ledger.waiting(number, word).load(Ordering::Acquire);
        let (unique, inode, thread) = (word(UNIQUE), word(INODE), word(THREAD) as u32);
        (unique != 0).then(|| Read {
            header: Header { unique, inode, thread },
            handle: word(HANDLE),
            offset: word(OFFSET),
            length: word(LENGTH) as u32,
        })
    }

    fn used(&self) -> u32 {
        self.ledger.waiting_used().load(Ordering::Acquire).min(WAITING as u64) as u32
    }

    fn draw(&self) -> Option<u32> {
        let mut free = self.free.lock();
        if let Some(number) = free.pop() {
            return Some(number);
        }
        let used = self.used();
        if used as usize >= WAITING {
            return None;
        }
        self.ledger.waiting_used().store(u64::from(used) + 1, Ordering::Release);
        Some(used)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let Some(number) = self.number.filter(|_| !self.device.is_retired()) else { return };
        self.home.ledger.waiting(number as usize, UNIQUE).store(0, Ordering::Release);
        self.home.free.lock().push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device() -> Arc<Device> {
        let file = std::fs::File::open("/dev/null").expect("there");
        Arc::new(Device::new(file.into()))
    }

    fn read(unique: u64) -> Read {
        Read { header: Header { unique, inode: 7, thread: 1 }, handle: 2, offset: 3, length: 4 }
    }

    #[test]
    fn a_successor_finds_what_was_not_answered() {
        let ledger = Arc::new(Ledger::create().expect("made"));
        let (first, device) = (Unanswered::new(ledger.clone()), device());
        drop(first.note(&device, &read(2)));
        let waiting = [first.note(&device, &read(4)), first.note(&device, &read(6))];
        device.retire();
        drop(waiting);
        let (second, device) = (Unanswered::new(ledger.clone()), self::device());
        let found = second.inherit(&device);
        assert_eq!(found.iter().map(|(read, _)| *read).collect::<Vec<_>>(), [read(6), read(4)]);
        drop(found);
        assert_eq!(Unanswered::new(ledger).inherit(&device).len(), 0, "struck out");
    }
}
