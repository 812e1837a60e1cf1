//! The files of one snapshot, to count by what of them is cached.

use super::generation::Generation;
use crate::ids::FileKey;
use crate::origin::Checksums;
use crate::snapshot::{NodeIndex, NodeKind};
use crate::store;
use crate::transfer::Source;

/// A snapshot and the origins that its files come from.
pub struct Catalogue(Generation);

impl Catalogue {
    pub(super) fn new(generation: &Generation) -> Self {
        // One of its own: who counts by it keeps no snapshot in use.
        Catalogue(generation.succeeded_by(generation.snapshot.clone()))
    }

    /// That of its snapshot.
    pub fn identity(&self) -> u64 {
        self.0.snapshot.identity()
    }

    /// How many files there are.
    pub fn count(&self) -> u64 {
        self.0.snapshot.files()
    }

    /// All files, one by one.
    pub fn files(&self) -> impl Iterator<Item = Source> + '_ {
        let nodes = (0..self.0.snapshot.nodes()).filter_map(|index| self.0.snapshot.node(NodeIndex(index)));
        nodes.filter(|node| node.kind == NodeKind::File).filter_map(|node| self.0.source(&node).ok())
    }

    fn find(&self, key: &FileKey) -> Option<Source> {
        self.0.paths(key).find_map(|path| {
            let node = self.0.snapshot.node(self.0.snapshot.find_path(&path)?)?;
            self.0.source(&node).ok().filter(|source| **source.key() == *key)
        })
    }
}

/// Whether the origin of `source` keeps checksums.
pub fn has_checksums(source: &Source) -> bool {
    source.origin().capability().checksums != Checksums::Never
}

impl store::Catalogue for Catalogue {
    fn has_checksums(&self, key: &FileKey) -> Option<bool> {
        self.find(key).as_ref().map(has_checksums)
    }
}
