//! Names and contents of what was written, as the records of the ledger tell them. Pure: no file, no clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::held::Held;
use super::record::{Kind, Record};
use super::{FIRST_INODE, is_written, join, split};

/// Requests that are remembered, for when the kernel sends them again.
const MOST_REQUESTS: usize = 4096;

/// How the content of a file stands to what its origin holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Changed by a program that has not closed it.
    Open,
    /// Changed, and closed.
    Closed,
    /// The origin holds it.
    Published,
}

/// A file or folder that was written here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: Kind,
    /// `None`: it has lost its name, and is open still.
    pub path: Option<Box<[u8]>>,
    pub content: Content,
    /// What the origin held of it last, under whatever name.
    pub published: Option<Held>,
    /// Its content is not in the staging folder.
    pub settled: bool,
    /// Its content outlasts a loss of power.
    pub kept: bool,
    pub attributes: NodeAttributes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeAttributes {
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    /// `None`: that of its content.
    pub mtime_ns: Option<i64>,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stands {
    /// Whatever the snapshot has there.
    #[default]
    AsListed,
    Nothing,
    Here(u64),
}

/// What is known of a name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    pub stands: Stands,
    /// What the origin holds there. Where it stands for nothing, that is to be deleted.
    pub held: Option<Held>,
    /// What an upload leaves behind that does not end.
    pub upload: Option<String>,
}

/// The names of one folder.
pub type Names = BTreeMap<Box<[u8]>, Name>;

/// All that the records tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    nodes: BTreeMap<u64, Node>,
    folders: HashMap<Box<[u8]>, Names>,
    /// Attributes of files of the snapshot.
    others: HashMap<u64, NodeAttributes>,
    requests: VecDeque<(u64, u64)>,
    next: u64,
    boot: [u8; 16],
}

impl State {
    /// The number of the next file or folder.
    pub fn next_inode(&self) -> u64 {
        FIRST_INODE + self.next
    }

    pub fn node(&self, inode: u64) -> Option<&Node> {
        self.nodes.get(&inode)
    }

    pub fn nodes(&self) -> impl Iterator<Item = (u64, &Node)> {
        self.nodes.iter().map(|(inode, node)| (*inode, node))
    }

    pub fn name(&self, path: &[u8]) -> Option<&Name> {
        let (folder, name) = split(path);
        self.folders.get(folder)?.get(name)
    }

    /// The names of a folder of which something is known.
    pub fn names_in(&self, folder: &[u8]) -> Option<&Names> {
        self.folders.get(folder)
    }

    /// All names with their paths.
    pub fn names(&self) -> impl Iterator<Item = (Vec<u8>, &Name)> {
        self.folders
            .iter()
            .flat_map(|(folder, names)| names.iter().map(move |(name, entry)| (join(folder, name), entry)))
    }

    /// Attributes that a program gave to a file of the snapshot.
    pub fn others(&self, inode: u64) -> Option<NodeAttributes> {
        self.others.get(&inode).copied()
    }

    /// What was made, moved or removed for a request of the kernel: its inode, 0 for a removal.
    pub fn done_for(&self, request: u64) -> Option<u64> {
        self.requests.iter().rev().find(|(done, _)| *done == request).map(|(_, inode)| *inode)
    }

    /// The id under which the machine ran when the last records were written.
    pub fn boot(&self) -> [u8; 16] {
        self.boot
    }

    /// Requests of a connection that is gone say nothing.
    pub fn forget_requests(&mut self) {
        self.requests.clear();
    }

    pub fn apply(&mut self, record: Record) {
        match record {
            Record::Made { inode, kind, mode, uid, gid, path, request } => {
                self.unlink(inode);
                let attributes = NodeAttributes { mode, uid, gid, mtime_ns: None };
                let (path, content) = (Some(path.into()), Content::Open);
                let node = Node { kind, path, content, published: None, settled: false, kept: false, attributes };
                self.note_number(inode);
                self.nodes.insert(inode, node);
                self.link(inode, request);
            }
            Record::Moved { inode, path, request } => {
                self.unlink(inode);
                if let Some(node) = self.nodes.get_mut(&inode) {
                    node.path = Some(path.into());
                    self.link(inode, request);
                }
            }
            Record::Removed { path, request } => {
                let before = std::mem::replace(&mut self.entry(&path).stands, Stands::Nothing);
                self.orphan(before);
                self.note_request(request, 0);
            }
            Record::Uncovered { path } => {
                let (folder, name) = split(&path);
                let removed = self.folders.get_mut(folder).and_then(|names| names.remove(name));
                self.orphan(removed.map_or(Stands::Nothing, |entry| entry.stands));
                self.folders.retain(|_, names| !names.is_empty());
            }
            Record::Holds { path, held } => self.entry(&path).held = held,
            Record::Changed { inode } => self.edit(inode, |node| (node.content, node.kept) = (Content::Open, false)),
            Record::Closed { inode } => self.edit(inode, |node| node.content = Content::Closed),
            Record::Published { inode, held } => self.publish(inode, held),
            Record::Settled { inode } => self.edit(inode, |node| node.settled = true),
            Record::Fetched { inode } => self.edit(inode, |node| node.settled = false),
            Record::Attributes { inode, mode, uid, gid, mtime_ns } => {
                let attributes = NodeAttributes { mode, uid, gid, mtime_ns };
                match self.nodes.get_mut(&inode) {
                    Some(node) => node.attributes = attributes,
                    None if is_written(inode) => {}
                    None => drop(self.others.insert(inode, attributes)),
                }
            }
            Record::Began { path, token } => self.entry(&path).upload = Some(token),
            Record::Ended { path } => self.entry(&path).upload = None,
            Record::Forgotten { inode } => {
                self.unlink(inode);
                self.nodes.remove(&inode);
            }
            Record::Asked { inode, request } => self.note_request(request, inode),
            Record::Numbered { inode } => self.note_number(inode),
            Record::Kept { inode } => self.edit(inode, |node| node.kept = true),
            Record::Booted { id } => self.boot = id,
        }
    }

    /// As few records as tell all of this.
    pub fn records(&self) -> Vec<Record> {
        let mut records: Vec<Record> = self.nodes.iter().flat_map(|(inode, node)| records_of(*inode, node)).collect();
        records.extend(self.others.iter().map(|(inode, of)| of.record(*inode)));
        // In an order that does not depend on the hash.
        let mut names: Vec<_> = self.names().collect();
        names.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        for (path, name) in names {
            if name.stands == Stands::Nothing {
                records.push(Record::Removed { path: path.clone(), request: 0 });
            }
            records.push(Record::Holds { path: path.clone(), held: name.held.clone() });
            if let Some(token) = &name.upload {
                records.push(Record::Began { path, token: token.clone() });
            }
        }
        let asked = self.requests.iter();
        records.extend(asked.map(|(request, inode)| Record::Asked { inode: *inode, request: *request }));
        let last = self.next.checked_sub(1).map(|last| FIRST_INODE + last);
        records.extend(last.map(|inode| Record::Numbered { inode }));
        records.push(Record::Booted { id: self.boot });
        records
    }

    fn entry(&mut self, path: &[u8]) -> &mut Name {
        let (folder, name) = split(path);
        self.folders.entry(folder.into()).or_default().entry(name.into()).or_default()
    }

    fn edit(&mut self, inode: u64, change: impl FnOnce(&mut Node)) {
        if let Some(node) = self.nodes.get_mut(&inode) {
            change(node);
        }
    }

    fn publish(&mut self, inode: u64, held: Held) {
        let Some(node) = self.nodes.get_mut(&inode) else { return };
        (node.content, node.published) = (Content::Published, Some(held.clone()));
        if let Some(path) = node.path.clone() {
            let name = self.entry(&path);
            (name.held, name.upload) = (Some(held), None);
        }
    }

    /// Takes the name away from who has it, leaving nothing under it.
    fn unlink(&mut self, inode: u64) {
        let Some(path) = self.nodes.get_mut(&inode).and_then(|node| node.path.take()) else { return };
        self.entry(&path).stands = Stands::Nothing;
    }

    /// Gives a node the name in its path.
    fn link(&mut self, inode: u64, request: u64) {
        let Some(path) = self.nodes.get(&inode).and_then(|node| node.path.clone()) else { return };
        let before = std::mem::replace(&mut self.entry(&path).stands, Stands::Here(inode));
        if before != Stands::Here(inode) {
            self.orphan(before);
        }
        self.note_request(request, inode);
    }

    fn orphan(&mut self, before: Stands) {
        if let Stands::Here(inode) = before {
            self.edit(inode, |node| node.path = None);
        }
    }

    fn note_number(&mut self, inode: u64) {
        self.next = self.next.max(inode.saturating_sub(FIRST_INODE) + 1);
    }

    fn note_request(&mut self, request: u64, inode: u64) {
        if request == 0 {
            return;
        }
        if self.requests.len() >= MOST_REQUESTS {
            self.requests.pop_front();
        }
        self.requests.push_back((request, inode));
    }
}

/// A name that no file has: it has a slash at its end.
const PLACEHOLDER: &[u8] = b"/";

impl NodeAttributes {
    pub fn record(&self, inode: u64) -> Record {
        let NodeAttributes { mode, uid, gid, mtime_ns } = *self;
        Record::Attributes { inode, mode, uid, gid, mtime_ns }
    }
}

fn records_of(inode: u64, node: &Node) -> Vec<Record> {
    let NodeAttributes { mode, uid, gid, mtime_ns } = node.attributes;
    let path = node.path.as_deref().unwrap_or(PLACEHOLDER).to_vec();
    let mut records = vec![Record::Made { inode, kind: node.kind, mode, uid, gid, path, request: 0 }];
    if node.path.is_none() {
        records.push(Record::Uncovered { path: PLACEHOLDER.to_vec() });
    }
    records.extend(mtime_ns.map(|_| node.attributes.record(inode)));
    records.extend(node.published.clone().map(|held| Record::Published { inode, held }));
    records.extend(match node.content {
        Content::Open => node.published.is_some().then_some(Record::Changed { inode }),
        Content::Closed => Some(Record::Closed { inode }),
        Content::Published => None,
    });
    records.extend(node.kept.then_some(Record::Kept { inode }));
    records.extend(node.settled.then_some(Record::Settled { inode }));
    records
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::record::tests::records;
    use super::*;

    const A: u64 = FIRST_INODE;
    const B: u64 = FIRST_INODE + 1;

    fn made(inode: u64, path: &str, request: u64) -> Record {
        let (kind, mode, path) = (Kind::File, 0o644, path.as_bytes().to_vec());
        Record::Made { inode, kind, mode, uid: 1, gid: 2, path, request }
    }

    fn after(records: impl IntoIterator<Item = Record>) -> State {
        let mut state = State::default();
        records.into_iter().for_each(|record| state.apply(record));
        state
    }

    fn has(state: &State, path: &str) -> Option<Stands> {
        state.name(path.as_bytes()).map(|name| name.stands)
    }

    #[test]
    fn a_rename_over_a_file_takes_the_name_from_it() {
        let moved = Record::Moved { inode: A, path: b"b".to_vec(), request: 9 };
        let state = after([made(A, "d/a", 7), made(B, "b", 8), moved]);
        assert_eq!((has(&state, "d/a"), has(&state, "b")), (Some(Stands::Nothing), Some(Stands::Here(A))));
        assert_eq!(state.node(B).and_then(|node| node.path.clone()), None);
        assert_eq!((state.done_for(7), state.done_for(9), state.done_for(10)), (Some(A), Some(A), None));
    }

    #[test]
    fn a_name_that_was_removed_is_nothing_and_one_that_was_uncovered_is_the_snapshots() {
        let removed = Record::Removed { path: b"a".to_vec(), request: 3 };
        let mut state = after([made(A, "a", 1), removed]);
        assert_eq!((has(&state, "a"), state.done_for(3)), (Some(Stands::Nothing), Some(0)));
        state.apply(Record::Uncovered { path: b"a".to_vec() });
        assert_eq!(has(&state, "a"), None);
    }

    #[test]
    fn what_the_origin_holds_stays_with_the_name_and_what_was_published_with_the_file() {
        let held = Held { size: 3, version: crate::ids::Version::ModifiedNs(1) };
        let moved = Record::Moved { inode: A, path: b"b".to_vec(), request: 0 };
        let state = after([made(A, "a", 1), Record::Published { inode: A, held: held.clone() }, moved]);
        assert_eq!(state.name(b"a").and_then(|name| name.held.clone()), Some(held.clone()));
        assert_eq!(state.name(b"b").and_then(|name| name.held.clone()), None);
        assert_eq!(state.node(A).and_then(|node| node.published.clone()), Some(held));
    }

    proptest! {
        /// A name and its file always know each other.
        #[test]
        fn names_and_files_agree(written in prop::collection::vec(records(), 0..60)) {
            let state = after(written);
            for (inode, node) in state.nodes() {
                if let Some(path) = &node.path {
                    prop_assert_eq!(state.name(path).map(|name| name.stands), Some(Stands::Here(inode)));
                }
                prop_assert!(inode < state.next_inode());
            }
            for (path, name) in state.names() {
                if let Stands::Here(inode) = name.stands {
                    prop_assert_eq!(state.node(inode).and_then(|node| node.path.as_deref()), Some(&path[..]));
                }
            }
        }

        /// What a compaction writes tells the same.
        #[test]
        fn few_records_tell_as_much_as_many(written in prop::collection::vec(records(), 0..60)) {
            let state = after(written);
            prop_assert_eq!(after(state.records()), state);
        }
    }
}
