//! Files chosen by path, in an order: for warm-ups, known orders, verification and eviction. Four bytes a file.

use std::sync::Arc;

use super::generation::Generation;
use crate::error::{Error, ErrorKind, Result};
use crate::origin::Origin;
use crate::snapshot::{NodeIndex, NodeKind, Snapshot};
use crate::transfer::{OrderedFiles, Source};

/// Files of one snapshot in a chosen order; made into sources one by one.
pub struct Selection {
    generation: Arc<Generation>,
    files: Vec<NodeIndex>,
    files_with_content: u64,
    bytes: u64,
}

impl Selection {
    /// The files at `paths` of a snapshot that no tree is made of; its origin number n is `origins[n]`.
    pub fn of(snapshot: Snapshot, origins: Vec<Arc<dyn Origin>>, paths: &[impl AsRef<[u8]>]) -> Result<Self> {
        Self::new(Arc::new(Generation::new(snapshot, origins.into())), paths)
    }

    /// The files at `paths` in their order; a directory stands for all files below it, in name order. `NotFound` names
    /// the first path that is not there. Links are left out: what they lead to is chosen under its own name.
    pub(super) fn new(generation: Arc<Generation>, paths: &[impl AsRef<[u8]>]) -> Result<Self> {
        let mut files = Vec::new();
        for path in paths {
            let path = path.as_ref();
            let index = generation.snapshot.find_path(path).ok_or_else(|| {
                let path = String::from_utf8_lossy(path);
                Error::new(ErrorKind::NotFound, format!("{path} is not in the dataset's snapshot"))
                    .with_hint("if it is new at the origin, take a new snapshot: headrace refresh")
            })?;
            generation.add_files(index, &mut files);
        }
        let (mut files_with_content, mut bytes) = (0, 0);
        for node in files.iter().filter_map(|index| generation.snapshot.node(*index)) {
            files_with_content += u64::from(node.size > 0);
            bytes += node.size;
        }
        Ok(Selection { generation, files, files_with_content, bytes })
    }

    /// How many of them are not empty.
    pub fn files_with_content(&self) -> u64 {
        self.files_with_content
    }

    /// All files in order.
    pub fn sources(&self) -> impl Iterator<Item = Source> + '_ {
        (0..self.files.len()).filter_map(|position| self.get(position))
    }
}

impl Generation {
    fn add_files(&self, index: NodeIndex, files: &mut Vec<NodeIndex>) {
        let kind = |index| self.snapshot.node(index).map(|node| node.kind);
        match kind(index) {
            Some(NodeKind::File) => files.push(index),
            Some(NodeKind::Directory) => self.snapshot.walk(index, &mut |below, _| {
                if kind(below) == Some(NodeKind::File) {
                    files.push(below);
                }
                true
            }),
            Some(NodeKind::Symlink) | None => {}
        }
    }
}

impl OrderedFiles for Selection {
    fn count(&self) -> usize {
        self.files.len()
    }

    fn get(&self, position: usize) -> Option<Source> {
        let node = self.generation.snapshot.node(*self.files.get(position)?)?;
        self.generation.source(&node).ok()
    }

    fn total_bytes(&self) -> u64 {
        self.bytes
    }
}
