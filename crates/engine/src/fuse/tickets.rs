//! One ticket for each open file: its number is what the kernel names the file by, its record what a successor needs.
//!
//! A ticket counts from the one write that makes it live to the one that ends it, and its number is never given again
//! (a record that is used again has another round). So a RELEASE or an OPEN that a killed daemon had begun can be handled
//! once more by its successor: the second time changes nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ledger::{Ledger, TICKETS};
use crate::sync::Mutex;
use crate::vfs::Inode;

/// Words of a record. `STATE`: round, then one bit for "live", then the backing number.
const STATE: usize = 0;
const INODE: usize = 1;
const UNIQUE: usize = 2;
const HANDLE: usize = 3;

const LIVE: u64 = 1 << 31;
const BACKING_MASK: u64 = LIVE - 1;

/// All tickets of a connection.
#[derive(Debug)]
pub struct Tickets {
    ledger: Arc<Ledger>,
    free: Mutex<Vec<u32>>,
}

/// What stands behind a live ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub ticket: u64,
    pub inode: Inode,
    /// The kernel's number of the backing file; `None`: through the page cache.
    pub backing: Option<u32>,
    /// The file system's handle, of the process that made or took over the ticket; 0: none.
    pub handle: u64,
}

impl Tickets {
    /// Those of the ledger, whoever made them.
    pub fn new(ledger: Arc<Ledger>) -> Self {
        let tickets = Tickets { ledger, free: Mutex::default() };
        let ended = (0..tickets.used()).rev().filter(|number| tickets.record(*number as usize).is_none());
        *tickets.free.lock() = ended.collect();
        tickets
    }

    /// A new ticket, never 0; `None` when four million files are open.
    pub fn issue(&self, inode: Inode, unique: u64, backing: Option<u32>, handle: u64) -> Option<u64> {
        let number = self.draw()? as usize;
        let round = (self.ledger.ticket(number, STATE).load(Ordering::Relaxed) >> 32).wrapping_add(1) & 0xffff_ffff;
        let round = round.max(1);
        for (word, value) in [(INODE, inode), (UNIQUE, unique), (HANDLE, handle)] {
            self.ledger.ticket(number, word).store(value, Ordering::Relaxed);
        }
        let state = round << 32 | LIVE | u64::from(backing.unwrap_or(0)) & BACKING_MASK;
        self.ledger.ticket(number, STATE).store(state, Ordering::Release);
        Some(round << 32 | number as u64)
    }

    /// Ends a ticket; `None` when it had ended before.
    pub fn end(&self, ticket: u64) -> Option<Record> {
        let record = self.find(ticket)?;
        let number = (ticket & 0xffff_ffff) as usize;
        self.ledger.ticket(number, STATE).store(ticket >> 32 << 32, Ordering::Release);
        self.free.lock().push(number as u32);
        Some(record)
    }

    /// What stands behind a ticket that is live.
    pub fn find(&self, ticket: u64) -> Option<Record> {
        let number = (ticket & 0xffff_ffff) as usize;
        if number >= TICKETS {
            return None;
        }
        self.record(number).filter(|record| record.ticket == ticket)
    }

    /// The file system's handle behind a ticket; 0 when there is none.
    pub fn handle(&self, ticket: u64) -> u64 {
        self.find(ticket).map_or(0, |record| record.handle)
    }

    /// Gives a ticket another handle: that of this process.
    pub fn set_handle(&self, ticket: u64, handle: u64) {
        self.ledger.ticket((ticket & 0xffff_ffff) as usize, HANDLE).store(handle, Ordering::Relaxed);
    }

    /// The ticket that was issued for request `unique`: looked for among all, so only for one that is sent again.
    pub fn issued_for(&self, unique: u64) -> Option<Record> {
        let same = |number: &u32| self.ledger.ticket(*number as usize, UNIQUE).load(Ordering::Relaxed) == unique;
        (0..self.used()).filter(same).find_map(|number| self.record(number as usize))
    }

    /// All that are live.
    pub fn live(&self) -> impl Iterator<Item = Record> {
        (0..self.used()).filter_map(|number| self.record(number as usize))
    }

    fn record(&self, number: usize) -> Option<Record> {
        let word = |word| self.ledger.ticket(number, word).load(Ordering::Relaxed);
        let state = self.ledger.ticket(number, STATE).load(Ordering::Acquire);
        let backing = (state & BACKING_MASK) as u32;
        (state & LIVE != 0).then(|| Record {
            ticket: state >> 32 << 32 | number as u64,
            inode: word(INODE),
            backing: (backing != 0).then_some(backing),
            handle: word(HANDLE),
        })
    }

    fn used(&self) -> u32 {
        self.ledger.tickets_used().load(Ordering::Acquire).min(TICKETS as u64) as u32
    }

    /// One that ended, or the first that was never used.
    fn draw(&self) -> Option<u32> {
        let mut free = self.free.lock();
        if let Some(number) = free.pop() {
            return Some(number);
        }
        let used = self.used();
        if used as usize >= TICKETS {
            return None;
        }
        self.ledger.tickets_used().store(u64::from(used) + 1, Ordering::Release);
        Some(used)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn tickets() -> Tickets {
        Tickets::new(Arc::new(Ledger::create().expect("made")))
    }

    #[test]
    fn a_ticket_ends_once_and_its_number_does_not_come_back() {
        let tickets = tickets();
        let first = tickets.issue(5, 100, Some(3), 0).expect("room");
        let record = tickets.find(first).expect("live");
        assert_eq!((record.inode, record.backing), (5, Some(3)));
        assert!(tickets.end(first).is_some());
        let second = tickets.issue(6, 102, None, 9).expect("room");
        assert_ne!(first, second);
        assert_eq!(tickets.end(first), None, "the second in the same place must not be hit");
        assert_eq!((tickets.handle(second), tickets.handle(first), tickets.handle(0)), (9, 0, 0));
    }

    #[test]
    fn the_ticket_of_a_request_is_found_while_it_lives() {
        let tickets = tickets();
        let ticket = tickets.issue(5, 100, None, 1).expect("room");
        assert_eq!(tickets.issued_for(100).expect("live").ticket, ticket);
        tickets.end(ticket);
        assert_eq!(tickets.issued_for(100), None);
    }

    #[test]
    fn numbers_that_no_ticket_has_are_nobody() {
        let tickets = tickets();
        assert!([0, 1, u64::MAX, 1 << 32].into_iter().all(|number| tickets.end(number).is_none()));
    }

    proptest! {
        /// Whatever was opened and closed, a successor sees exactly what is open, and its tickets differ from all before.
        #[test]
        fn a_successor_knows_what_is_open(steps in prop::collection::vec((any::<bool>(), 0..64usize), 1..200)) {
            let ledger = Arc::new(Ledger::create().expect("made"));
            let mut tickets = Tickets::new(ledger.clone());
            let (mut open, mut unique) = (BTreeMap::new(), 0);
            let mut ever = std::collections::BTreeSet::new();
            for (opens, choice) in steps {
                if choice == 63 {
                    tickets = Tickets::new(ledger.clone());
                } else if opens || open.is_empty() {
                    unique += 2;
                    let backing = (choice % 2 == 0).then_some(choice as u32 + 1);
                    let ticket = tickets.issue(choice as u64, unique, backing, 0).expect("room");
                    prop_assert!(ever.insert(ticket));
                    open.insert(ticket, (choice as u64, backing));
                } else {
                    let ticket = *open.keys().nth(choice % open.len()).expect("not empty");
                    open.remove(&ticket);
                    prop_assert!(tickets.end(ticket).is_some());
                }
                let live: BTreeMap<_, _> = tickets.live().map(|record| (record.ticket, (record.inode, record.backing))).collect();
                prop_assert_eq!(&live, &open);
            }
        }
    }
}
