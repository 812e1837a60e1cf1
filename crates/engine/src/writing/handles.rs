//! Open files of a writable tree: who writes which, and who has closed what it wrote.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::Mutex;
use crate::vfs::{WRITING, Writer};

/// Tells these handles from those of the tree below.
const OURS: u64 = 1 << 62;

#[derive(Debug, Default)]
pub struct Handles {
    open: Mutex<HashMap<u64, Handle>>,
    next: AtomicU64,
}

#[derive(Debug, Clone, Copy)]
struct Handle {
    inode: u64,
    writes: bool,
    /// The descriptor table that wrote last.
    owner: Option<u64>,
    /// Closed by who wrote, and not written by since.
    quiet: bool,
}

/// A file that is used while this lives, without being open.
pub struct Pin<'a> {
    handles: &'a Handles,
    handle: u64,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.handles.remove(self.handle);
    }
}

/// What the close of a descriptor means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Closing {
    /// Not by who writes: a child that was forked meanwhile ends, for one.
    OfAnother,
    /// Others write still.
    NotLast,
    Last,
}

/// Handles of one file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Users {
    pub all: usize,
    /// Those that may still be written by: the kernel says late that a closed one is gone.
    pub writing: usize,
}

impl Handles {
    pub fn is_ours(handle: u64) -> bool {
        handle & OURS != 0
    }

    pub fn add(&self, inode: u64, writes: bool) -> u64 {
        let kind = if writes { OURS | WRITING } else { OURS };
        let handle = kind | (self.next.fetch_add(1, Ordering::Relaxed) + 1);
        self.open.lock().insert(handle, Handle { inode, writes, owner: None, quiet: false });
        handle
    }

    pub fn pin(&self, inode: u64) -> Pin<'_> {
        Pin { handles: self, handle: self.add(inode, false) }
    }

    /// Notes that `by` writes. False when it may not.
    pub fn write(&self, by: Writer) -> bool {
        match self.open.lock().get_mut(&by.handle) {
            Some(handle) if handle.writes => {
                (handle.owner, handle.quiet) = (Some(by.owner), false);
                true
            }
            _ => false,
        }
    }

    /// Notes that `by` closes a descriptor; `None` for a handle that only reads.
    pub fn close(&self, by: Writer) -> Option<Closing> {
        let mut open = self.open.lock();
        let handle = open.get_mut(&by.handle).filter(|handle| handle.writes)?;
        if handle.owner.is_some_and(|owner| owner != by.owner) {
            return Some(Closing::OfAnother);
        }
        handle.quiet = true;
        let inode = handle.inode;
        let busy = open.values().any(|other| other.inode == inode && other.writes && !other.quiet);
        Some(if busy { Closing::NotLast } else { Closing::Last })
    }

    /// The file of a handle that ends, and who has it open still.
    pub fn remove(&self, handle: u64) -> Option<(u64, Users)> {
        let mut open = self.open.lock();
        let inode = open.remove(&handle)?.inode;
        Some((inode, users(&open, inode)))
    }

    pub fn users(&self, inode: u64) -> Users {
        users(&self.open.lock(), inode)
    }

    /// Does `work` if nobody has the file open, and lets nobody open it meanwhile.
    pub fn if_unused(&self, inode: u64, work: impl FnOnce()) {
        let open = self.open.lock();
        if users(&open, inode).all == 0 {
            work();
        }
    }
}

fn users(open: &HashMap<u64, Handle>, inode: u64) -> Users {
    let mine = || open.values().filter(|handle| handle.inode == inode);
    Users { all: mine().count(), writing: mine().filter(|handle| handle.writes && !handle.quiet).count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(handle: u64, owner: u64) -> Writer {
        Writer { handle, owner }
    }

    #[test]
    fn the_last_writer_that_closes_is_the_end_of_writing() {
        let handles = Handles::default();
        let (one, two, reader) = (handles.add(5, true), handles.add(5, true), handles.add(5, false));
        assert!(handles.write(by(one, 7)) && !handles.write(by(reader, 7)));
        assert_eq!(handles.close(by(one, 7)), Some(Closing::NotLast));
        assert_eq!(handles.close(by(two, 7)), Some(Closing::Last));
        assert_eq!(handles.close(by(reader, 7)), None);
        assert!(handles.write(by(one, 7)));
        assert_eq!(handles.close(by(two, 7)), Some(Closing::NotLast), "it was written by again");
        assert_eq!(handles.users(5), Users { all: 3, writing: 1 });
    }

    #[test]
    fn a_child_that_ends_does_not_close_what_its_parent_writes() {
        let handles = Handles::default();
        let one = handles.add(5, true);
        assert!(handles.write(by(one, 7)));
        assert_eq!(handles.close(by(one, 8)), Some(Closing::OfAnother));
        assert_eq!(handles.close(by(one, 7)), Some(Closing::Last));
        assert_eq!(handles.remove(one), Some((5, Users::default())));
    }
}
