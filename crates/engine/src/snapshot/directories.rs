//! The directories of a tree under construction, each found by parent and name. Knows no files.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use super::names::NAME_MAX;
use super::permissions::PermissionId;
use super::record::DirectoryContent;

/// The number of the root among the directories.
pub(super) const ROOT: u32 = 0;
const VACANT: u32 = u32::MAX;

/// A name in the arena: where it begins (56 bits) and how long it is (8 bits).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct NameRange(u64);

/// All names of files and directories, back to back.
#[derive(Debug, Default)]
pub(super) struct NameArena(Vec<u8>);

impl NameArena {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Keeps `name`, which is at most `NAME_MAX` bytes.
    pub(super) fn push(&mut self, name: &[u8]) -> NameRange {
        debug_assert!(name.len() <= NAME_MAX);
        let range = NameRange((self.0.len() as u64) << 8 | name.len() as u64);
        self.0.extend_from_slice(name);
        range
    }

    pub(super) fn get(&self, range: NameRange) -> &[u8] {
        &self.0[(range.0 >> 8) as usize..][..(range.0 & 0xff) as usize]
    }
}

#[derive(Debug, Clone)]
pub(super) struct Directory {
    pub parent: u32,
    pub name: NameRange,
    /// As listed; `None` for a directory that only follows from its files.
    pub mtime_ns: Option<i64>,
    /// The first of the origins that hold it.
    pub origin: u16,
    /// An origin's mount place or on the way to one: always a directory, whatever the origins say.
    pub mount: bool,
    /// As listed by the first of the origins that do.
    pub permissions: PermissionId,
    // Filled by `tree`:
    pub index: u32,
    pub content: DirectoryContent,
    /// Newest modification below, for directories that were not listed.
    pub newest_ns: i64,
}

#[derive(Debug)]
pub(super) struct Directories {
    all: Vec<Directory>,
    /// Open addressing by (parent, name); at most half full.
    table: Vec<u32>,
    hasher: RandomState,
}

impl Directories {
    /// Only the root.
    pub(super) fn new() -> Self {
        let root = Directory {
            parent: ROOT,
            name: NameRange::default(),
            mtime_ns: None,
            origin: 0,
            mount: true,
            permissions: 0,
            index: 0,
            content: DirectoryContent::default(),
            newest_ns: i64::MIN,
        };
        Directories { all: vec![root], table: vec![VACANT; 64], hasher: RandomState::new() }
    }

    pub(super) fn all(&self) -> &[Directory] {
        &self.all
    }

    pub(super) fn get(&self, number: u32) -> &Directory {
        &self.all[number as usize]
    }

    pub(super) fn get_mut(&mut self, number: u32) -> &mut Directory {
        &mut self.all[number as usize]
    }

    /// The directory at `path` below `start`, with all on the way to it, made where missing. `path` is clean.
    pub(super) fn ensure(&mut self, start: u32, path: &[u8], origin: u16, names: &mut NameArena) -> u32 {
        if path.is_empty() {
            return start;
        }
        path.split(|&byte| byte == b'/').fold(start, |parent, name| self.child(parent, name, origin, names))
    }

    fn child(&mut self, parent: u32, name: &[u8], origin: u16, names: &mut NameArena) -> u32 {
        let slot = self.slot(parent, name, names);
        if self.table[slot] != VACANT {
            let found = self.table[slot];
            let directory = self.get_mut(found);
            directory.origin = directory.origin.min(origin);
            return found;
        }
        let number = self.all.len() as u32;
        self.table[slot] = number;
        let mut directory = self.all[ROOT as usize].clone();
        (directory.parent, directory.name, directory.origin) = (parent, names.push(name), origin);
        (directory.mount, directory.mtime_ns, directory.permissions) = (false, None, 0);
        self.all.push(directory);
        if self.all.len() * 2 > self.table.len() {
            self.grow(names);
        }
        number
    }

    /// Where (`parent`, `name`) is in the table, or would be.
    fn slot(&self, parent: u32, name: &[u8], names: &NameArena) -> usize {
        let mask = self.table.len() - 1;
        let mut slot = self.hasher.hash_one((parent, name)) as usize & mask;
        loop {
            let number = self.table[slot];
            if number == VACANT {
                return slot;
            }
            let directory = self.get(number);
            if directory.parent == parent && names.get(directory.name) == name {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }

    fn grow(&mut self, names: &NameArena) {
        self.table = vec![VACANT; self.table.len() * 2];
        for number in 1..self.all.len() as u32 {
            let directory = self.get(number);
            let slot = self.slot(directory.parent, names.get(directory.name), names);
            self.table[slot] = number;
        }
    }

    /// The path of a directory from the root.
    pub(super) fn path(&self, mut number: u32, names: &NameArena) -> Vec<u8> {
        let mut segments = Vec::new();
        while number != ROOT {
            segments.push(names.get(self.get(number).name));
            number = self.get(number).parent;
        }
        segments.reverse();
        segments.join(&b'/')
    }
}
