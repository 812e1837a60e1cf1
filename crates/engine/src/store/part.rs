//! One file version in a folder's index: its blocks, their marks and states, and its open data file.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::Stamp;
use super::eviction::Mark;
use super::listed::Standing;
use crate::budget::Permit;
use crate::ids::{BlockSize, FileId};

/// A descriptor of the budget, counted against the folder's share of it.
#[derive(Debug)]
pub struct Descriptor {
    _permit: Permit,
    open_files: Arc<AtomicU64>,
}

impl Descriptor {
    pub fn new(permit: Permit, open_files: &Arc<AtomicU64>) -> Self {
        open_files.fetch_add(1, Ordering::Relaxed);
        Descriptor { _permit: permit, open_files: open_files.clone() }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        self.open_files.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A data file that is open; as long as anybody but the index holds it, its content stays in place.
#[derive(Debug)]
pub struct OpenFile {
    pub file: Arc<File>,
    pub _descriptor: Descriptor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BlockState {
    #[default]
    Absent,
    /// Being written, or being removed: nobody else may touch its place.
    Moving,
    Present,
}

/// One block: 12 bytes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    pub crc: u32,
    last_use_low: u32,
    last_use_high: u8,
    frequency: u8,
    pub state: BlockState,
    /// Its content is known to be right as long as the file's stamp does not change.
    pub trusted: bool,
}

impl Slot {
    pub fn mark(&self) -> Mark {
        let last_use = u64::from(self.last_use_high) << 32 | u64::from(self.last_use_low);
        Mark { last_use, frequency: self.frequency }
    }

    pub fn set_mark(&mut self, mark: Mark) {
        self.last_use_low = mark.last_use as u32;
        self.last_use_high = (mark.last_use >> 32) as u8;
        self.frequency = mark.frequency;
    }
}

/// The blocks of a file version; most files have just one.
#[derive(Debug)]
enum Slots {
    One(Slot),
    // Boxed, so that the many parts of one block stay small.
    #[allow(clippy::box_collection)]
    Many(Box<Vec<Slot>>),
}

/// Whether a data file was ever given away whole. It may be mapped for good then, which nothing but the kernel knows, so
/// it gets no holes and goes by being unlinked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lending {
    #[default]
    Never,
    /// About to be; the log may not say so yet.
    BeingNoted,
    Noted,
}

/// One file version in one folder.
#[derive(Debug)]
pub struct Part {
    pub id: FileId,
    pub size: u64,
    /// Where its file record stands in the log; `NO_RECORD` before it is written.
    pub record: u64,
    pub stamp: Stamp,
    pub open: Option<Arc<OpenFile>>,
    slots: Slots,
    /// Blocks that are present.
    pub present: u32,
    /// Writers and removers at work; while there are any, a changed stamp is our own doing.
    pub busy: u16,
    /// All of it is being removed.
    pub leaving: bool,
    pub lending: Lending,
    /// Opened or read since the last look for a descriptor to close.
    pub recent: bool,
    /// Pinned by name: pressure does not touch it. Changed by `Shard::set_pinned` alone.
    pub pinned: bool,
    /// Changed by `Shard::set_standing` alone.
    pub standing: Standing,
    /// Another process holds the file: not worth another try before this second of the store's life.
    pub held_until_s: u32,
}

pub const NO_RECORD: u64 = u64::MAX;

impl Part {
    pub fn new(id: FileId, size: u64, block_count: u32) -> Self {
        let slots = if block_count <= 1 { Slots::One(Slot::default()) } else { Slots::Many(Box::default()) };
        Part {
            id,
            size,
            record: NO_RECORD,
            stamp: Stamp::NEVER,
            open: None,
            slots,
            present: 0,
            busy: 0,
            leaving: false,
            lending: Lending::Never,
            recent: false,
            pinned: false,
            standing: Standing::Unlisted,
            held_until_s: 0,
        }
    }

    pub fn slots(&self) -> &[Slot] {
        match &self.slots {
            Slots::One(slot) => std::slice::from_ref(slot),
            Slots::Many(slots) => slots,
        }
    }

    pub fn slots_mut(&mut self) -> &mut [Slot] {
        match &mut self.slots {
            Slots::One(slot) => std::slice::from_mut(slot),
            Slots::Many(slots) => slots,
        }
    }

    pub fn slot(&self, index: u32) -> Slot {
        self.slots().get(index as usize).copied().unwrap_or_default()
    }

    /// The slot of block `index`, made if it is beyond those used so far.
    pub fn slot_mut(&mut self, index: u32) -> &mut Slot {
        let index = index as usize;
        match &mut self.slots {
            Slots::One(slot) => slot,
            Slots::Many(slots) => {
                if slots.len() <= index {
                    slots.resize(index + 1, Slot::default());
                }
                &mut slots[index]
            }
        }
    }

    /// Content bytes that are present: all blocks are of one length but the last one.
    pub fn content_bytes(&self, block_size: BlockSize) -> u64 {
        let full = u64::from(block_size.bytes());
        let last = block_size.count(self.size).saturating_sub(1);
        let lacking = if self.holds(last) { full - block_size.range(last, self.size).length() } else { 0 };
        u64::from(self.present) * full - lacking
    }

    pub fn holds(&self, index: u32) -> bool {
        self.slot(index).state == BlockState::Present
    }

    pub fn present_indices(&self) -> impl Iterator<Item = u32> {
        let states = self.slots().iter().enumerate();
        states.filter(|(_, slot)| slot.state == BlockState::Present).map(|(index, _)| index as u32)
    }

    /// True when somebody holds a handle into the data file.
    pub fn is_pinned(&self) -> bool {
        self.open.as_ref().is_some_and(|open| Arc::strong_count(open) > 1)
    }

    /// True when somebody may have the data file mapped.
    pub fn is_lent(&self) -> bool {
        self.lending != Lending::Never
    }

    /// Takes note of how the file looks now: a change that is not ours makes every block suspect.
    pub fn check_stamp(&mut self, now: Stamp) {
        if self.busy == 0 {
            self.saw_foreign(now);
        }
    }

    /// As `check_stamp`, when no change can be our own.
    pub fn saw_foreign(&mut self, now: Stamp) {
        if self.stamp != now {
            self.slots_mut().iter_mut().for_each(|slot| slot.trusted = false);
            self.stamp = now;
        }
    }

    /// Begins a stay of a writer or remover; what changed before it is not our doing and is noted now.
    pub fn begin_change(&mut self) {
        if let Some(open) = self.open.clone() {
            self.check_stamp(Stamp::of(&open.file).map_or(Stamp::NEVER, |(stamp, _)| stamp));
        }
        self.busy += 1;
    }

    /// The mark of its most recently used block, with the greatest frequency of any.
    pub fn mark(&self) -> Mark {
        self.slots().iter().filter(|slot| slot.state == BlockState::Present).map(Slot::mark).fold(
            Mark { last_use: 0, frequency: 0 },
            |most, mark| Mark {
                last_use: most.last_use.max(mark.last_use),
                frequency: most.frequency.max(mark.frequency),
            },
        )
    }
}
