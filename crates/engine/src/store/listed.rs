//! The part of a list of files that is here, counted as blocks come and go: telling it takes no look at each file.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::blocks::Proof;
use crate::ids::{FileId, FileKey};
use crate::sync::RwLock;

/// The list that is counted by.
pub trait Catalogue: Send + Sync {
    /// Whether the origin of the file version keeps checksums; `None` when it is not on the list.
    fn has_checksums(&self, key: &FileKey) -> Option<bool>;
}

/// What a file version is to the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Standing {
    #[default]
    Unlisted,
    /// Its origin keeps no checksums.
    Unsummed,
    Uncompared,
    Compared(Proof),
}

impl Standing {
    pub fn listed(has_checksums: bool, proof: Option<Proof>) -> Self {
        match proof {
            _ if !has_checksums => Standing::Unsummed,
            Some(proof) => Standing::Compared(proof),
            None => Standing::Uncompared,
        }
    }

    /// The same file version when that is known of it.
    pub fn compared(self, proof: Option<Proof>) -> Self {
        match self {
            Standing::Unlisted | Standing::Unsummed => self,
            _ => Standing::listed(true, proof),
        }
    }
}

/// What of the list is here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// Files that are here as a whole.
    pub files: u64,
    /// Bytes of those that match their checksums,
    pub proven_bytes: u64,
    /// that have none,
    pub unsummed_bytes: u64,
    /// and that were not compared.
    pub uncompared_bytes: u64,
    /// Bytes of files that are not here as a whole.
    pub partial_bytes: u64,
}

impl Listed {
    pub fn bytes(&self) -> u64 {
        self.proven_bytes + self.unsummed_bytes + self.uncompared_bytes + self.partial_bytes
    }

    fn share(&mut self, standing: Standing) -> Option<&mut u64> {
        match standing {
            Standing::Unlisted => None,
            Standing::Unsummed | Standing::Compared(Proof::NoChecksum) => Some(&mut self.unsummed_bytes),
            Standing::Uncompared => Some(&mut self.uncompared_bytes),
            Standing::Compared(Proof::Proven) => Some(&mut self.proven_bytes),
        }
    }

    fn add(&mut self, other: &Listed) {
        self.files += other.files;
        self.proven_bytes += other.proven_bytes;
        self.unsummed_bytes += other.unsummed_bytes;
        self.uncompared_bytes += other.uncompared_bytes;
    }
}

/// How a part counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    Nothing,
    Whole(Standing, u64),
    Partial,
}

/// The listed parts of one shard.
#[derive(Debug, Default)]
pub struct Tally {
    /// The list that the standings of the parts are by.
    pub list: u64,
    whole: Listed,
    /// Only files of several blocks can be among them.
    partial: HashSet<u32>,
}

impl Tally {
    pub fn new(list: u64) -> Self {
        Tally { list, ..Tally::default() }
    }

    /// Part `number` counts as `after` from now on.
    pub fn replace(&mut self, number: u32, before: Share, after: Share) {
        if before == after {
            return;
        }
        match before {
            Share::Nothing => {}
            Share::Partial => drop(self.partial.remove(&number)),
            Share::Whole(standing, size) => {
                self.whole.files -= 1;
                self.whole.share(standing).into_iter().for_each(|bytes| *bytes -= size);
            }
        }
        match after {
            Share::Nothing => {}
            Share::Partial => drop(self.partial.insert(number)),
            Share::Whole(standing, size) => {
                self.whole.files += 1;
                self.whole.share(standing).into_iter().for_each(|bytes| *bytes += size);
            }
        }
    }

    pub fn partial(&self) -> impl Iterator<Item = u32> {
        self.partial.iter().copied()
    }
}

/// A file version of which a folder has not everything.
#[derive(Debug, Clone, Copy)]
pub struct Fragment {
    pub id: FileId,
    pub size: u64,
    pub bytes: u64,
    pub standing: Standing,
}

/// Adds up shards, and the fragments that several folders have of one file.
#[derive(Debug, Default)]
pub struct Sum {
    listed: Listed,
    fragments: HashMap<FileId, Fragment>,
}

impl Sum {
    pub fn add(&mut self, tally: &Tally, fragments: impl Iterator<Item = Fragment>) {
        self.listed.add(&tally.whole);
        for fragment in fragments {
            self.fragments.entry(fragment.id).and_modify(|known| known.bytes += fragment.bytes).or_insert(fragment);
        }
    }

    /// `is_whole` tells those that some folder has as a whole, too.
    pub fn finish(mut self, is_whole: impl Fn(&FileId) -> bool) -> Listed {
        for fragment in self.fragments.into_values().filter(|fragment| !is_whole(&fragment.id)) {
            if fragment.bytes < fragment.size {
                self.listed.partial_bytes += fragment.bytes;
                continue;
            }
            self.listed.files += 1;
            self.listed.share(fragment.standing).into_iter().for_each(|bytes| *bytes += fragment.size);
        }
        self.listed
    }
}

/// The list that is counted by now; none before somebody asks.
#[derive(Default)]
pub struct CurrentList {
    number: u64,
    catalogue: Option<Arc<dyn Catalogue>>,
}

impl std::fmt::Debug for CurrentList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "list {}", self.number)
    }
}

pub type List = RwLock<CurrentList>;

impl CurrentList {
    pub fn number(&self) -> u64 {
        self.number
    }

    pub fn replace(&mut self, number: u64, catalogue: Option<Arc<dyn Catalogue>>) {
        (self.number, self.catalogue) = (number, catalogue);
    }

    pub fn current(&self) -> Option<(u64, Arc<dyn Catalogue>)> {
        Some((self.number, self.catalogue.clone()?))
    }
}
