//! Sorts what the collected collected into one tree, breadth first, and settles who keeps a name that two claim.

use std::cmp::Reverse;

use super::collected::{Collected, Leaf};
use super::directories::{Directories, Directory, NameArena, ROOT};
use super::names::{common_prefix, leading_bytes};
use super::record::DirectoryContent;
use super::rules::Rule;

/// A child of a directory: the number of a leaf, or of a directory with the highest bit set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item(u32);

const DIRECTORY_BIT: u32 = 1 << 31;

impl Item {
    pub(super) fn directory(self) -> Option<u32> {
        (self.0 & DIRECTORY_BIT != 0).then_some(self.0 & !DIRECTORY_BIT)
    }

    pub(super) fn leaf(self) -> usize {
        self.0 as usize
    }
}

/// Directories in breadth-first order and the sorted, settled children of each.
#[derive(Debug)]
pub(super) struct Tree {
    pub order: Vec<u32>,
    items: Vec<Item>,
    /// For each directory's number, where its children begin in `items`.
    starts: Vec<u32>,
    /// Entries of the tree, the root included.
    pub nodes: u32,
}

impl Tree {
    /// The children of directory number `directory`, of which it has `count`.
    pub(super) fn children(&self, directory: u32, count: u32) -> &[Item] {
        &self.items[self.starts[directory as usize] as usize..][..count as usize]
    }
}

/// Gives every entry its place. Losers of conflicts are counted as rejected and are not in the tree.
pub(super) fn arrange(collected: &mut Collected) -> Tree {
    let (mut items, starts) = group_by_directory(&collected.directories, &collected.leaves);
    let mut order = vec![ROOT];
    let mut nodes = 1;
    let mut scratch = Vec::new();
    let mut position = 0;
    while let Some(&directory) = order.get(position) {
        position += 1;
        let range = starts[directory as usize] as usize..starts[directory as usize + 1] as usize;
        let children = &mut items[range];
        sort_by_name(children, collected, &mut scratch);
        let count = settle(children, collected);
        number_children(directory, &children[..count], nodes, collected, &mut order);
        nodes += count as u32;
    }
    reject_unreachable(&order, collected);
    let tree = Tree { order, items, starts, nodes };
    date_directories(&tree, collected);
    tree
}

/// A counting sort: each directory's children together.
fn group_by_directory(directories: &Directories, leaves: &[Leaf]) -> (Vec<Item>, Vec<u32>) {
    let mut starts = vec![0u32; directories.all().len() + 1];
    let subdirectories = directories.all().iter().skip(1);
    let parents = || leaves.iter().map(|leaf| leaf.record.parent);
    parents().chain(subdirectories.clone().map(|entry| entry.parent)).for_each(|parent| starts[parent as usize] += 1);
    let mut total = 0;
    for start in &mut starts {
        total += *start;
        *start = total;
    }
    // Filled from behind, so that each start ends where its children begin and the listing's order is kept.
    let mut items = vec![Item(0); total as usize];
    let mut place = |parent: u32, item: Item| {
        let start = &mut starts[parent as usize];
        *start -= 1;
        items[*start as usize] = item;
    };
    for (number, entry) in directories.all().iter().enumerate().skip(1).rev() {
        place(entry.parent, Item(number as u32 | DIRECTORY_BIT));
    }
    for (number, leaf) in leaves.iter().enumerate().rev() {
        place(leaf.record.parent, Item(number as u32));
    }
    (items, starts)
}

fn name_of<'a>(item: Item, directories: &Directories, leaves: &[Leaf], names: &'a NameArena) -> &'a [u8] {
    match item.directory() {
        Some(number) => names.get(directories.get(number).name),
        None => names.get(leaves[item.leaf()].name),
    }
}

/// Sorts by name. Eight bytes behind the common prefix decide nearly every comparison without a look at the arena.
fn sort_by_name(items: &mut [Item], collected: &Collected, scratch: &mut Vec<(u64, Item)>) {
    let name = |item: Item| name_of(item, &collected.directories, &collected.leaves, &collected.names);
    if items.is_sorted_by(|&left, &right| name(left) <= name(right)) {
        return;
    }
    let first = name(items[0]);
    let shared = items.iter().fold(first.len(), |shared, &item| common_prefix(&first[..shared], name(item)));
    scratch.clear();
    scratch.extend(items.iter().map(|&item| (leading_bytes(&name(item)[shared..]), item)));
    scratch.sort_unstable_by(|left, right| left.0.cmp(&right.0).then_with(|| name(left.1).cmp(name(right.1))));
    items.iter_mut().zip(scratch.iter()).for_each(|(item, sorted)| *item = sorted.1);
}

/// Keeps one item of each name, at the front; answers how many.
fn settle(items: &mut [Item], collected: &mut Collected) -> usize {
    let mut kept = 0;
    let mut start = 0;
    while start < items.len() {
        let name = |item: Item| name_of(item, &collected.directories, &collected.leaves, &collected.names);
        let same = items[start..].iter().take_while(|&&item| name(item) == name(items[start])).count();
        items[kept] = match items[start..start + same] {
            [single] => single,
            ref claims => contest(claims, collected),
        };
        kept += 1;
        start += same;
    }
    kept
}

/// Who keeps a name that several claim: a mount place; then the first origin; of one origin the folder; of one origin's
/// files the newest. The files among the rest are counted; those below a folder that lost are counted by `arrange`.
fn contest(claims: &[Item], collected: &mut Collected) -> Item {
    let Some(winner) = claims.iter().copied().min_by_key(|item| rank(*item, collected)) else {
        unreachable!("a contest has claims")
    };
    let origin = rank(winner, collected).origin;
    for loser in claims.iter().filter(|claim| **claim != winner && claim.directory().is_none()) {
        let rule = match (collected.leaves[loser.leaf()].record.origin() == origin, winner.directory()) {
            (false, _) => Rule::MountConflict,
            (true, Some(_)) => Rule::FileAndFolder,
            (true, None) => Rule::Duplicate,
        };
        reject(rule, loser.leaf(), collected);
    }
    winner
}

/// A claim to a name; the smallest keeps it. It depends on the claims alone, not on the order of the listing.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    is_no_mount: bool,
    origin: u16,
    is_leaf: bool,
    newest_first: Reverse<(i64, u64, [u8; 16])>,
}

fn rank(item: Item, collected: &Collected) -> Rank {
    match item.directory() {
        Some(number) => {
            let &Directory { mount, origin, .. } = collected.directories.get(number);
            Rank { is_no_mount: !mount, origin, is_leaf: false, newest_first: Reverse(Default::default()) }
        }
        None => {
            let record = &collected.leaves[item.leaf()].record;
            let newest_first = Reverse((record.mtime_ns, record.extent, record.tag));
            Rank { is_no_mount: true, origin: record.origin(), is_leaf: true, newest_first }
        }
    }
}

fn reject(rule: Rule, leaf: usize, collected: &mut Collected) {
    let Leaf { record, name } = collected.leaves[leaf];
    let (directories, names) = (&collected.directories, &collected.names);
    collected.rejected.count(rule, || {
        let mut path = directories.path(record.parent, names);
        path.extend_from_slice(if path.is_empty() { b"" } else { b"/" });
        path.extend_from_slice(names.get(name));
        path
    });
}

/// Counts the files of folders whose name went to a file of an earlier origin: nothing leads to them.
fn reject_unreachable(order: &[u32], collected: &mut Collected) {
    if order.len() == collected.directories.all().len() {
        return;
    }
    let mut reachable = vec![false; collected.directories.all().len()];
    order.iter().for_each(|&number| reachable[number as usize] = true);
    for leaf in 0..collected.leaves.len() {
        if !reachable[collected.leaves[leaf].record.parent as usize] {
            reject(Rule::MountConflict, leaf, collected);
        }
    }
}

/// Tells the subdirectories their indices and where in line they are, and their parent how many they are.
fn number_children(parent: u32, children: &[Item], first: u32, collected: &mut Collected, order: &mut Vec<u32>) {
    let before = order.len();
    for (position, item) in children.iter().enumerate() {
        if let Some(number) = item.directory() {
            collected.directories.get_mut(number).index = first + position as u32;
            order.push(number);
        }
    }
    let name = |item: &Item| name_of(*item, &collected.directories, &collected.leaves, &collected.names);
    let prefix =
        children.first().zip(children.last()).map_or(0, |(first, last)| common_prefix(name(first), name(last)));
    collected.directories.get_mut(parent).content = DirectoryContent {
        first_child: first,
        children: children.len() as u32,
        subdirectories: (order.len() - before) as u32,
        prefix: prefix as u8,
    };
}

/// Gives directories that were not listed the newest time of what is below them, from the leaves of the tree up.
fn date_directories(tree: &Tree, collected: &mut Collected) {
    for &number in tree.order.iter().rev() {
        let count = collected.directories.get(number).content.children;
        let newest = tree.children(number, count).iter().map(|item| match item.directory() {
            Some(child) => collected.directories.get(child).newest_ns,
            None => collected.leaves[item.leaf()].record.mtime_ns,
        });
        let newest = newest.max().unwrap_or(0);
        let entry = collected.directories.get_mut(number);
        entry.newest_ns = entry.mtime_ns.unwrap_or(newest);
    }
}
