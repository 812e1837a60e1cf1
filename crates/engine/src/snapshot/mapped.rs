//! A mapped snapshot: what every reader asks. Nothing here allocates per file, waits, or trusts the file's bytes.
//!
//! Checksums are verified when the file is opened. All the same every accessor is total: whatever the bytes say, it
//! answers with an entry or with nothing, within a bounded number of steps. Links between entries are followed only
//! where they agree with the order of the format (parents before children, each child of exactly one directory).

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use serde::{Deserialize, Serialize};

use super::layout::{ENTRIES_MAX, Header, SECTIONS, SectionId, corrupt, u32_at, u64_at};
use super::names::{GROUP, GROUP_BYTES, Name, Names};
use super::permissions::{PERMISSION_BYTES, PERMISSION_OF_NODE_BYTES, permissions_of};
use super::record::{DirectoryContent, RECORD_BYTES, Record};
use super::rules::{PATH_MAX, Rejections};
use super::{Node, NodeIndex, NodeKind};
use crate::config::Exclude;
use crate::error::{Error, Result};
use crate::ids::Version;
use crate::origin::Permissions;

/// The section that is not per file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Meta {
    pub mounts: Vec<String>,
    /// What was not wanted of each origin; empty where all of each was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<Exclude>,
    pub rejections: Rejections,
}

/// A mapped snapshot. Cheap to clone; look-ups allocate nothing and never leave the process.
#[derive(Debug, Clone)]
pub struct Snapshot(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    map: Mmap,
    header: Header,
    sections: [Range<usize>; SECTIONS],
    meta: Meta,
}

impl Snapshot {
    /// Maps and checks a snapshot file: magic, version, lengths and checksums. A damaged file is `Corrupt`.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| Error::from_io("open the snapshot", path, error))?;
        let snapshot = Self::map_own(&file, path)?;
        snapshot.check_sums().map_err(|error| unusable(path, error))?;
        Ok(snapshot)
    }

    /// The same without reading it all: for a file that this process has just written.
    pub(super) fn map_own(file: &File, path: &Path) -> Result<Self> {
        // SAFETY: snapshot files are written under another name, renamed into place and never changed afterwards; only
        // one who ignores that by truncating one can make a read fault. Changed bytes are harmless: accessors are total.
        let map = unsafe { Mmap::map(file) }.map_err(|error| Error::from_io("map the snapshot", path, error))?;
        Self::from_map(map).map_err(|error| unusable(path, error))
    }

    fn from_map(map: Mmap) -> Result<Self> {
        let header = Header::decode(&map)?;
        let sections =
            header.sections.map(|section| section.offset as usize..(section.offset + section.length) as usize);
        check_lengths(&header)?;
        let meta = serde_json::from_slice(&map[sections[SectionId::Meta as usize].clone()])
            .map_err(|_| corrupt("its list of mounts cannot be read"))?;
        Ok(Snapshot(Arc::new(Mapped { map, header, sections, meta })))
    }

    fn check_sums(&self) -> Result<()> {
        for (section, range) in self.0.header.sections.iter().zip(&self.0.sections) {
            if crc32c::crc32c(&self.0.map[range.clone()]) != section.crc32c {
                return Err(corrupt("a section does not match its checksum"));
            }
        }
        Ok(())
    }

    fn section(&self, id: SectionId) -> &[u8] {
        &self.0.map[self.0.sections[id as usize].clone()]
    }

    /// A number of this content alone, also where a lister that lost its snapshots counts from 1 again. Never 0.
    pub fn identity(&self) -> u64 {
        self.0.header.identity()
    }

    pub(super) fn header(&self) -> &Header {
        &self.0.header
    }

    /// The file up to the inodes, which stand at its end.
    pub(super) fn before_inodes(&self) -> &[u8] {
        &self.0.map[..self.0.sections[SectionId::Inodes as usize].start]
    }

    /// Counts up by one with each refresh; the first is 1.
    pub fn version(&self) -> u64 {
        self.0.header.snapshot_version
    }

    /// Regular files.
    pub fn files(&self) -> u64 {
        self.0.header.files
    }

    /// Directories, the root included.
    pub fn directories(&self) -> u64 {
        self.0.header.directories
    }

    pub fn symlinks(&self) -> u64 {
        self.0.header.symlinks
    }

    /// Files and links together.
    pub(super) fn leaves(&self) -> u64 {
        self.files() + self.symlinks()
    }

    /// Bytes of all files together.
    pub fn total_bytes(&self) -> u64 {
        self.0.header.total_bytes
    }

    /// Length of the mapped file in bytes.
    pub fn mapped_bytes(&self) -> u64 {
        self.0.header.file_bytes
    }

    /// Entries of every kind. Valid indices are those below.
    pub fn nodes(&self) -> u32 {
        self.0.header.nodes
    }

    /// Inodes from here on were never used, neither here nor in an earlier snapshot of this line.
    pub fn next_inode(&self) -> u64 {
        self.0.header.next_inode
    }

    /// Where each origin's tree appears.
    pub fn mounts(&self) -> &[String] {
        &self.0.meta.mounts
    }

    /// What was not wanted of each origin; empty where all of each was.
    pub fn exclude(&self) -> &[Exclude] {
        &self.0.meta.exclude
    }

    /// Names that were left out, and why.
    pub fn rejections(&self) -> Rejections {
        self.0.meta.rejections.clone()
    }

    pub(super) fn record(&self, index: NodeIndex) -> Option<Record> {
        let start = (index.0 as usize).checked_mul(RECORD_BYTES)?;
        self.section(SectionId::Nodes).get(start..)?.first_chunk().map(Record::decode)
    }

    pub(super) fn text(&self) -> &[u8] {
        self.section(SectionId::Text)
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names { groups: self.section(SectionId::NameGroups), names: self.section(SectionId::Names) }
    }

    /// The children of a directory as indices, if that is what the record says and where children can be.
    pub(super) fn child_range(&self, directory: NodeIndex, record: &Record) -> Option<Range<u32>> {
        let DirectoryContent { first_child: first, children, .. } = record.content();
        let end = first.checked_add(children)?;
        let fits = record.kind()? == NodeKind::Directory && first > directory.0 && end <= self.nodes();
        fits.then_some(first..end)
    }

    pub fn node(&self, index: NodeIndex) -> Option<Node> {
        let record = self.record(index)?;
        let kind = record.kind()?;
        let is_directory = kind == NodeKind::Directory;
        let content = if is_directory { record.content() } else { DirectoryContent::default() };
        Some(Node {
            index,
            parent: NodeIndex(record.parent),
            inode: self.inode(index)?,
            kind,
            size: if is_directory { 0 } else { record.extent },
            mtime_ns: record.mtime_ns,
            permissions: self.permissions(index),
            origin: record.origin(),
            subdirectories: content.subdirectories,
            children: content.children,
        })
    }

    /// Whose an entry is and who may read it, where the origin knows that.
    pub(super) fn permissions(&self, index: NodeIndex) -> Option<Permissions> {
        permissions_of(self.section(SectionId::Permissions), self.section(SectionId::PermissionOfNode), index.0)
    }

    /// The inode of an entry.
    pub fn inode(&self, index: NodeIndex) -> Option<u64> {
        if index.0 >= self.nodes() {
            return None;
        }
        match self.section(SectionId::Inodes) {
            [] => Some(u64::from(index.0) + 1),
            inodes => Some(u64_at(inodes, index.0 as usize * 8)),
        }
    }

    /// The entry with this inode, if this snapshot has it.
    pub fn find_inode(&self, inode: u64) -> Option<NodeIndex> {
        let order = self.section(SectionId::InodeOrder);
        if order.is_empty() {
            let index = u32::try_from(inode.checked_sub(1)?).ok()?;
            return (index < self.nodes()).then_some(NodeIndex(index));
        }
        // Inodes count up from 1, so an inode's rank is at most its number, and at least that less all that are gone.
        let most = inode.checked_sub(1)?;
        let gone = self.next_inode().saturating_sub(1).saturating_sub(u64::from(self.nodes()));
        let mut low = usize::try_from(most.saturating_sub(gone)).ok()?;
        let mut high = usize::try_from(inode).ok()?.min(self.nodes() as usize);
        while low < high {
            let middle = low + (high - low) / 2;
            let index = NodeIndex(u32_at(order, middle * 4));
            match self.inode(index)?.cmp(&inode) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(index),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The child of `directory` with exactly this name.
    pub fn lookup(&self, directory: NodeIndex, name: &[u8]) -> Option<NodeIndex> {
        let record = self.record(directory)?;
        let range = self.child_range(directory, &record)?;
        self.names().search(range.start, range.end, record.content().prefix, name).map(NodeIndex)
    }

    /// The entry at a path from the root; the root itself for an empty one. No other form than `a/b/c` is known.
    pub fn find_path(&self, path: &[u8]) -> Option<NodeIndex> {
        if path.is_empty() {
            return Some(NodeIndex::ROOT);
        }
        path.split(|&byte| byte == b'/').try_fold(NodeIndex::ROOT, |directory, name| self.lookup(directory, name))
    }

    /// The name of an entry; empty for the root.
    pub fn name(&self, index: NodeIndex) -> Option<Name> {
        if index.0 >= self.nodes() { None } else { self.names().get(index.0) }
    }

    /// The path from the root, without a leading slash.
    pub fn path(&self, index: NodeIndex) -> Vec<u8> {
        let mut segments = Vec::new();
        let mut at = index;
        let mut length = 0;
        while at != NodeIndex::ROOT && length <= PATH_MAX {
            let Some((name, parent)) = self.name(at).zip(self.record(at).map(|record| record.parent)) else { break };
            length += name.as_bytes().len() + 1;
            segments.push(name);
            // Parents stand before their children; anything else is nonsense and would not end.
            if parent >= at.0 {
                break;
            }
            at = NodeIndex(parent);
        }
        let segments: Vec<&[u8]> = segments.iter().rev().map(Name::as_bytes).collect();
        segments.join(&b'/')
    }

    /// The key of a file below its origin (its path without the origin's mount path).
    pub fn origin_key(&self, index: NodeIndex) -> Vec<u8> {
        let mut path = self.path(index);
        let origin = self.record(index).map_or(0, |record| record.origin());
        let mount = self.0.meta.mounts.get(usize::from(origin)).map_or("", String::as_str).as_bytes();
        let below = path.strip_prefix(mount).map_or(0, |rest| path.len() - rest.len());
        path.drain(..below + usize::from(below > 0 && path.get(below) == Some(&b'/')));
        path
    }

    /// The version of a file.
    pub fn file_version(&self, index: NodeIndex) -> Option<Version> {
        let record = self.record(index)?;
        if record.kind()? == NodeKind::File { record.version(self.text()) } else { None }
    }

    /// The text of a link, as the origin has it.
    pub fn symlink_target(&self, index: NodeIndex) -> Option<Vec<u8>> {
        let record = self.record(index)?;
        if record.kind()? == NodeKind::Symlink { record.target(self.text()).map(<[u8]>::to_vec) } else { None }
    }
}

fn unusable(path: &Path, error: Error) -> Error {
    let told = Error::new(error.kind(), format!("cannot use the snapshot {}: {}", path.display(), error.message()));
    match error.hint() {
        Some(hint) => told.with_hint(hint),
        None => told,
    }
}

/// Sections of fixed-size entries are as long as the number of entries says.
fn check_lengths(header: &Header) -> Result<()> {
    let nodes = u64::from(header.nodes);
    let length = |id| header.section(id).length;
    let inodes = (length(SectionId::Inodes), length(SectionId::InodeOrder));
    let permissions = (length(SectionId::Permissions), length(SectionId::PermissionOfNode));
    let consistent = (1..=ENTRIES_MAX).contains(&nodes)
        && length(SectionId::Nodes) == nodes * RECORD_BYTES as u64
        && length(SectionId::NameGroups) == nodes.div_ceil(u64::from(GROUP)) * GROUP_BYTES as u64
        && permissions.0 % PERMISSION_BYTES as u64 == 0
        && permissions.1 == if permissions.0 == 0 { 0 } else { nodes * PERMISSION_OF_NODE_BYTES as u64 }
        && (inodes == (0, 0) || inodes == (nodes * 8, nodes * 4));
    if consistent { Ok(()) } else { Err(corrupt("its sections have impossible lengths")) }
}
