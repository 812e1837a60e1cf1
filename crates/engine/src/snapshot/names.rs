//! Front-coded names in groups: how they are written, read in order, and searched. Knows nothing of records.
//!
//! Each name is `[shared][length][length bytes]`: it shares its first `shared` bytes with the name before it. The first
//! name of a group and the first child of a directory share nothing, so a search can begin at either.

use super::layout::u64_at;

/// Names in one group. Reading one name costs at most this many steps; a group costs 8 bytes.
pub(super) const GROUP: u32 = 16;

/// The longest name that a file system of Linux holds.
pub const NAME_MAX: usize = 255;

/// One name, held by value so that reading it takes no memory from the heap.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; NAME_MAX],
    length: u8,
}

impl Name {
    const EMPTY: Name = Name { bytes: [0; NAME_MAX], length: 0 };

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Keeps `shared` bytes and appends `suffix`; false when that is no name.
    fn replace(&mut self, shared: u8, suffix: &[u8]) -> bool {
        let end = usize::from(shared) + suffix.len();
        if shared > self.length || end > NAME_MAX {
            return false;
        }
        self.bytes[usize::from(shared)..end].copy_from_slice(suffix);
        self.length = end as u8;
        true
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// Writes names in index order.
#[derive(Debug, Default)]
pub(super) struct NameWriter {
    pub groups: Vec<u8>,
    pub names: Vec<u8>,
    previous: Vec<u8>,
    count: u32,
}

impl NameWriter {
    /// Appends the next name (at most `NAME_MAX` bytes); `restart` for the first child of a directory.
    pub(super) fn push(&mut self, name: &[u8], restart: bool) {
        let group_start = self.count.is_multiple_of(GROUP);
        if group_start {
            self.groups.extend_from_slice(&(self.names.len() as u64).to_le_bytes());
        }
        let shared = if group_start || restart { 0 } else { common_prefix(&self.previous, name) };
        self.names.push(shared as u8);
        self.names.push((name.len() - shared) as u8);
        self.names.extend_from_slice(&name[shared..]);
        self.previous.clear();
        self.previous.extend_from_slice(name);
        self.count += 1;
    }
}

pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

/// The two name sections of a mapped file. Every method is total: nonsense gives `None`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub groups: &'a [u8],
    pub names: &'a [u8],
}

impl<'a> Names<'a> {
    /// The name at `index`.
    pub(super) fn get(&self, index: u32) -> Option<Name> {
        self.cursor_at(index)?.next().copied()
    }

    /// Reads names from `index` on.
    pub(super) fn cursor_at(&self, index: u32) -> Option<NameCursor<'a>> {
        let entries = self.entries(index / GROUP * GROUP)?;
        let mut cursor = NameCursor { entries, name: Name::EMPTY };
        for _ in 0..index % GROUP {
            cursor.next()?;
        }
        Some(cursor)
    }

    /// The index of the name `target` among `first..end`, which is sorted.
    pub(super) fn search(&self, first: u32, end: u32, target: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (first.div_ceil(GROUP), end.div_ceil(GROUP));
        let first_group = low;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.restart_name(middle)? <= target { low = middle + 1 } else { high = middle }
        }
        // The group before `low` is the last whose first name is not behind the target.
        let start = if low == first_group { first } else { (low - 1) * GROUP };
        self.scan(start, end.min((start / GROUP + 1) * GROUP), target)
    }

    /// Looks through one group's `start..end` without putting names together: how much of the target the name before
    /// had in common decides most of the comparisons.
    fn scan(&self, start: u32, end: u32, target: &[u8]) -> Option<u32> {
        let mut entries = self.entries(start)?;
        let mut matched = 0;
        for index in start..end {
            let (shared, suffix) = entries.next()?;
            let shared = usize::from(shared);
            if shared > matched {
                continue;
            }
            if shared < matched {
                return None;
            }
            let wanted = target.get(matched..)?;
            match suffix.cmp(wanted) {
                std::cmp::Ordering::Equal => return Some(index),
                std::cmp::Ordering::Less => matched += common_prefix(suffix, wanted),
                std::cmp::Ordering::Greater => return None,
            }
        }
        None
    }

    /// The first name of a group, whole.
    fn restart_name(&self, group: u32) -> Option<&'a [u8]> {
        let (shared, suffix) = self.entries(group * GROUP)?.next()?;
        (shared == 0).then_some(suffix)
    }

    fn entries(&self, index: u32) -> Option<Entries<'a>> {
        let group = (index / GROUP) as usize * 8;
        let offset = usize::try_from(u64_at(self.groups.get(group..group + 8)?, 0)).ok()?;
        let mut entries = Entries { rest: self.names.get(offset..)? };
        for _ in 0..index % GROUP {
            entries.next()?;
        }
        Some(entries)
    }
}

/// The coded names one after the other. Groups lie back to back, so it runs through all of them.
#[derive(Debug, Clone, Copy)]
struct Entries<'a> {
    rest: &'a [u8],
}

impl<'a> Entries<'a> {
    #[inline]
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [shared, length, rest @ ..] = self.rest else { return None };
        let (suffix, rest) = rest.split_at_checked(usize::from(*length))?;
        self.rest = rest;
        Some((*shared, suffix))
    }
}

/// Whole names in index order.
#[derive(Debug, Clone)]
pub(super) struct NameCursor<'a> {
    entries: Entries<'a>,
    name: Name,
}

impl NameCursor<'_> {
    pub(super) fn next(&mut self) -> Option<&Name> {
        let (shared, suffix) = self.entries.next()?;
        self.name.replace(shared, suffix).then_some(&self.name)
    }
}
