//! Reads whose bytes lie on a disk. The thread that waits for the disk answers, unless that hangs, or the reader may
//! have been killed: then the read goes the way of those that wait for an origin.

use std::collections::HashMap;
use std::time::Duration;

use super::interrupt::WaitingRead;
use super::reply::Pending;
use super::unanswered::{Note, Read};
use crate::sync::Mutex;
use crate::vfs::Disks;

/// How often reads that wait for a disk are looked at.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A read that is to be answered, by whoever has this.
pub struct Due {
    pub pending: Pending,
    pub read: Read,
    pub note: Note,
    pub waiting: WaitingRead,
}

/// All reads of a session that wait for a disk.
#[derive(Default)]
pub struct DiskReads {
    table: Mutex<Table>,
}

#[derive(Default)]
struct Table {
    next: u64,
    waiting: HashMap<u64, (Disks, Due)>,
    /// Somebody calls `overdue` until none waits.
    watched: bool,
}

impl DiskReads {
    /// Puts a read where whoever is first takes it. Its number, and whether the caller must see to it that `overdue` is
    /// asked from now on.
    pub fn enter(&self, disks: Disks, due: Due) -> (u64, bool) {
        let mut table = self.table.lock();
        let number = table.next;
        table.next += 1;
        table.waiting.insert(number, (disks, due));
        (number, !std::mem::replace(&mut table.watched, true))
    }

    /// The read of this number, unless somebody else has it.
    pub fn take(&self, number: u64) -> Option<Due> {
        self.table.lock().waiting.remove(&number).map(|(_, due)| due)
    }

    /// Those that should not wait for their disk any longer; `None` when none waits: then nobody needs to ask.
    pub fn overdue(&self) -> Option<Vec<Due>> {
        let mut table = self.table.lock();
        if table.waiting.is_empty() {
            table.watched = false;
            return None;
        }
        let overdue = table.waiting.extract_if(|_, (disks, due)| disks.hang() || due.waiting.is_interrupted());
        Some(overdue.map(|(_, (_, due))| due).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::fuse::device::Device;
    use crate::fuse::interrupt::InFlight;
    use crate::fuse::ledger::Ledger;
    use crate::fuse::request::Header;
    use crate::fuse::unanswered::Unanswered;
    use crate::store::DiskWatch;

    struct Bed {
        device: Arc<Device>,
        unanswered: Arc<Unanswered>,
        in_flight: Arc<InFlight>,
        reads: DiskReads,
    }

    impl Bed {
        fn new() -> Self {
            let file = std::fs::File::options().write(true).open("/dev/null").expect("there");
            let ledger = Arc::new(Ledger::create().expect("made"));
            Bed {
                device: Arc::new(Device::new(file.into())),
                unanswered: Unanswered::new(ledger),
                in_flight: Arc::default(),
                reads: DiskReads::default(),
            }
        }

        fn enter(&self, unique: u64, disk: &Arc<DiskWatch>) -> (u64, bool) {
            let read = Read { header: Header { unique, inode: 7, thread: 1 }, handle: 0, offset: 0, length: 4 };
            let due = Due {
                pending: Pending::new(self.device.clone(), unique),
                note: self.unanswered.note(&self.device, &read),
                waiting: self.in_flight.enter(unique, 1),
                read,
            };
            self.reads.enter(Disks::of([disk.clone()]), due)
        }

        fn overdue(&self) -> Option<Vec<u64>> {
            let overdue = self.reads.overdue()?;
            Some(overdue.iter().map(|due| due.read.header.unique).collect())
        }
    }

    fn hanging_disk() -> Arc<DiskWatch> {
        let disk = DiskWatch::new(Path::new("/cache"));
        disk.set_patience(Duration::ZERO);
        std::mem::forget(disk.clone().begin());
        while !disk.hangs() {
            std::thread::sleep(Duration::from_millis(1));
        }
        disk
    }

    #[test]
    fn a_read_is_answered_by_whoever_takes_it_first() {
        let (bed, disk) = (Bed::new(), DiskWatch::new(Path::new("/cache")));
        let ((first, _), (second, _)) = (bed.enter(2, &disk), bed.enter(4, &disk));
        assert_eq!(bed.reads.take(first).map(|due| due.read.header.unique), Some(2));
        assert!(bed.reads.take(first).is_none());
        assert!(bed.reads.take(second).is_some());
    }

    #[test]
    fn reads_of_a_disk_that_hangs_and_of_interrupted_readers_are_given_to_others() {
        let (bed, well) = (Bed::new(), DiskWatch::new(Path::new("/well")));
        let (stuck, _) = bed.enter(2, &hanging_disk());
        let (patient, _) = bed.enter(4, &well);
        bed.enter(6, &well);
        bed.in_flight.interrupt(6);
        let mut overdue = bed.overdue().expect("some wait");
        overdue.sort_unstable();
        assert_eq!(overdue, [2, 6]);
        assert!(bed.reads.take(stuck).is_none());
        assert!(bed.reads.take(patient).is_some());
    }

    #[test]
    fn somebody_looks_for_as_long_as_a_read_waits() {
        let (bed, disk) = (Bed::new(), DiskWatch::new(Path::new("/cache")));
        let (number, is_first) = bed.enter(2, &disk);
        assert!(is_first);
        assert!(!bed.enter(4, &disk).1, "somebody does already");
        assert_eq!(bed.overdue(), Some(Vec::new()));
        bed.reads.take(number);
        assert_eq!(bed.overdue(), Some(Vec::new()), "one waits still");
        bed.reads.take(number + 1);
        assert_eq!(bed.overdue(), None);
        assert!(bed.enter(6, &disk).1, "nobody looks any more");
    }
}
