//! The tree against a plain map: whatever the origin holds and however it changes, names, attributes and bytes agree.
#![allow(clippy::unwrap_used)]

#[path = "transfer/support.rs"]
mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use headrace_engine::error::ErrorKind;
use headrace_engine::snapshot::{Snapshot, SnapshotBuilder, difference_inodes};
use headrace_engine::transfer::Transfer;
use headrace_engine::vfs::{FileKind, FileSystem, Inode, Ownership, ROOT, ReadReply, Tree};
use proptest::prelude::*;
use support::*;

/// What the origin holds: path to (content, etag).
type Model = BTreeMap<String, (Vec<u8>, String)>;

struct World {
    origin: Arc<MemoryOrigin>,
    transfer: Arc<Transfer>,
    tree: Arc<Tree>,
    folder: tempfile::TempDir,
    versions: u32,
}

fn freeze(origin: &MemoryOrigin, path: &Path, previous: Option<&Snapshot>) -> Snapshot {
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    origin.listing().into_iter().for_each(|object| builder.add(0, object));
    builder.finish(path, previous).unwrap().0
}

impl World {
    fn new(model: &Model) -> Self {
        let setup = setup();
        let folder = tempfile::tempdir().unwrap();
        load(&setup.origin, model);
        let snapshot = freeze(&setup.origin, &folder.path().join("0"), None);
        let tree = Tree::new(snapshot, vec![setup.origin.clone()], setup.transfer.clone(), Ownership::new(0, 0));
        World { origin: setup.origin, transfer: setup.transfer, tree, folder, versions: 1 }
    }

    fn refresh(&mut self, model: &Model) -> BTreeSet<(Inode, String)> {
        load(&self.origin, model);
        let path = self.folder.path().join(self.versions.to_string());
        self.versions += 1;
        let snapshot = freeze(&self.origin, &path, Some(&self.tree.snapshot()));
        let before = self.tree.refresh(snapshot.clone());
        let mut changes = BTreeSet::new();
        difference_inodes(&before, &snapshot, &mut |change| {
            changes.insert((change.parent_inode, String::from_utf8(change.name.into()).unwrap()));
        });
        changes
    }

    async fn read(&self, inode: Inode, handle: u64, offset: u64, length: usize) -> Result<Vec<u8>, ErrorKind> {
        let kind = |error: headrace_engine::error::Error| error.kind();
        let reply = match self.tree.at_hand(inode, handle, offset, length, false).map_err(kind)?.here() {
            Some(reply) => reply,
            None => self.tree.clone().read(inode, handle, offset, length).await.map_err(kind)?,
        };
        let bytes = bytes_of(reply);
        let mut copy = vec![0; length];
        if handle == 0
            && let Some(count) = self.tree.copy_cached(inode, offset, &mut copy).map_err(kind)?
        {
            assert!(copy[..count] == bytes, "{count} bytes of inode {inode} from {offset} are others when copied");
        }
        Ok(bytes)
    }

    fn inode(&self, path: &str) -> Option<Inode> {
        let names = path.split('/').filter(|name| !name.is_empty());
        names.into_iter().try_fold(ROOT, |parent, name| Some(self.tree.lookup(parent, name.as_bytes()).ok()?.inode))
    }
}

fn load(origin: &Arc<MemoryOrigin>, model: &Model) {
    for object in origin.listing() {
        origin.remove(std::str::from_utf8(&object.key).unwrap());
    }
    model.iter().for_each(|(path, (content, etag))| origin.put_content(path, content.clone(), etag));
}

fn bytes_of(reply: ReadReply) -> Vec<u8> {
    use std::os::unix::fs::FileExt;
    match reply {
        ReadReply::Memory(pieces) => pieces.concat(),
        ReadReply::Files(parts) => {
            let load = |part: &headrace_engine::vfs::FilePart| {
                let mut buffer = vec![0; part.length];
                part.file.read_exact_at(&mut buffer, part.offset).unwrap();
                buffer
            };
            parts.iter().flat_map(load).collect()
        }
    }
}

/// Names of the children of `directory` in the model; with a slash at the end for directories.
fn children(model: &Model, directory: &str) -> Vec<String> {
    let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    let below = model.keys().filter_map(|path| path.strip_prefix(&prefix));
    let name = |rest: &str| match rest.split_once('/') {
        Some((name, _)) => format!("{name}/"),
        None => rest.to_owned(),
    };
    let names: BTreeSet<String> = below.map(name).collect();
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_by(|a, b| a.trim_end_matches('/').cmp(b.trim_end_matches('/')));
    names
}

fn directories(model: &Model) -> BTreeSet<String> {
    let mut found = BTreeSet::from([String::new()]);
    for path in model.keys() {
        found.extend(path.match_indices('/').map(|(end, _)| path[..end].to_owned()));
    }
    found
}

/// Reads a directory in pages of `page` names.
fn listing(tree: &Tree, inode: Inode, page: usize) -> Vec<String> {
    let (mut names, mut cookie) = (Vec::new(), 0);
    loop {
        let before = names.len();
        tree.read_directory(inode, cookie, &mut |entry| {
            if names.len() - before == page {
                return false;
            }
            let slash = if entry.attributes.kind == FileKind::Directory { "/" } else { "" };
            assert_eq!(tree.lookup(inode, entry.name).unwrap(), entry.attributes);
            assert!(tree.parent(entry.attributes.inode).unwrap() == inode);
            names.push(format!("{}{slash}", String::from_utf8_lossy(entry.name)));
            cookie = entry.cookie;
            true
        })
        .unwrap();
        if names.len() == before {
            return names;
        }
    }
}

fn check_names(world: &World, model: &Model, page: usize) {
    for directory in directories(model) {
        let inode = world.inode(&directory).unwrap();
        assert_eq!(listing(&world.tree, inode, page), children(model, &directory), "in {directory:?}");
        let subdirectories = children(model, &directory).iter().filter(|name| name.ends_with('/')).count() as u32;
        assert_eq!(world.tree.attributes(inode).unwrap().links, 2 + subdirectories);
        assert_eq!(world.tree.lookup(inode, b"no such name").unwrap_err().kind(), ErrorKind::NotFound);
    }
    let bytes: usize = model.values().map(|(content, _)| content.len()).sum();
    assert_eq!(world.tree.statistics().files, model.len() as u64);
    assert_eq!(world.tree.statistics().bytes, bytes as u64);
}

async fn check_bytes(world: &World, model: &Model, offset: u64, length: usize) {
    for (path, (content, _)) in model {
        let inode = world.inode(path).unwrap();
        assert_eq!(world.tree.attributes(inode).unwrap().size, content.len() as u64);
        let start = content.len().min(offset as usize);
        let end = content.len().min(start + length);
        assert!(world.read(inode, 0, offset, length).await.unwrap() == content[start..end], "{path}");
        assert!(world.read(inode, 0, 0, content.len() + 1).await.unwrap() == *content, "{path}");
    }
}

fn any_path() -> impl Strategy<Value = String> {
    // Names that end up both as files and as directories are the snapshot's business; here files end in a digit.
    prop::collection::vec("[a-c]", 0..3)
        .prop_flat_map(|directories| ("[a-e]{1,2}[0-9]", Just(directories)))
        .prop_map(|(name, directories)| directories.into_iter().chain([name]).collect::<Vec<_>>().join("/"))
}

fn any_model() -> impl Strategy<Value = Model> {
    let content = (0..700_000_usize, 0..4_u64);
    prop::collection::btree_map(any_path(), content, 0..12).prop_map(|files| {
        let file = |(path, (size, seed)): (String, (usize, u64))| {
            let size = if seed == 0 { size } else { size % 5000 };
            (path, (pattern(size as u64, seed).to_vec(), format!("{size}-{seed}")))
        };
        files.into_iter().map(file).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_tree_agrees_with_a_map_across_refreshes(
        models in prop::collection::vec(any_model(), 1..4),
        page in 1..7_usize,
        offset in 0..800_000_u64,
        length in 1..400_000_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut world = World::new(&models[0]);
            check_names(&world, &models[0], page);
            check_bytes(&world, &models[0], offset, length).await;
            for pair in models.windows(2) {
                let before: BTreeMap<String, Inode> =
                    pair[0].keys().map(|path| (path.clone(), world.inode(path).unwrap())).collect();
                let parents: BTreeMap<String, Inode> =
                    directories(&pair[0]).into_iter().map(|path| (path.clone(), world.inode(&path).unwrap())).collect();
                let told = world.refresh(&pair[1]);
                check_names(&world, &pair[1], page);
                check_bytes(&world, &pair[1], offset, length).await;
                for (path, inode) in before {
                    let same = pair[0][&path].1 == pair[1].get(&path).map_or("", |file| &file.1);
                    assert_eq!(world.inode(&path) == Some(inode), same, "{path}: the inode is the version");
                    let (parent, name) = path.rsplit_once('/').unwrap_or(("", &path));
                    assert!(same || told.contains(&(parents[parent], name.to_owned())), "{path} must be forgotten");
                }
            }
            world.transfer.close().await;
        });
    }
}

fn model(files: &[(&str, u64, u64)]) -> Model {
    let file = |(path, size, seed): &(&str, u64, u64)| {
        ((*path).to_owned(), (pattern(*size, *seed).to_vec(), format!("{size}-{seed}")))
    };
    files.iter().map(file).collect()
}

#[tokio::test]
async fn an_open_file_stays_at_its_version_and_is_stale_where_that_is_gone() {
    let block = 256 * KIB;
    let mut world = World::new(&model(&[("a", 2 * block, 1), ("b", 10, 1)]));
    let old = world.inode("a").unwrap();
    let handle = world.tree.open(old).unwrap().handle;
    assert_eq!(world.read(old, handle, block, 10).await.unwrap().len(), 10);
    until("the block is here", || {
        world.tree.at_hand(old, handle, block, block as usize, false).unwrap().here().is_some()
    })
    .await;
    world.refresh(&model(&[("a", 2 * block, 2), ("b", 10, 1)]));
    let new = world.inode("a").unwrap();
    assert_ne!(old, new);
    // What is here is served at the old version; what is not cannot be had any more. Never a mix.
    assert!(world.read(old, handle, block, 10).await.unwrap() == pattern(2 * block, 1)[block as usize..][..10]);
    assert_eq!(world.read(old, handle, 0, 10).await, Err(ErrorKind::Stale));
    assert!(world.read(new, 0, block, 10).await.unwrap() == pattern(2 * block, 2)[block as usize..][..10]);
    world.tree.release(handle);
    assert_eq!(world.tree.open_handles(), 0);
}

#[tokio::test]
async fn inodes_of_long_gone_snapshots_are_stale_unless_they_live_on() {
    let mut world = World::new(&model(&[("a", 10, 0), ("same", 10, 0)]));
    let (old, same) = (world.inode("a").unwrap(), world.inode("same").unwrap());
    let handle = world.tree.open(old).unwrap().handle;
    for version in 1..8 {
        world.refresh(&model(&[("a", 10, version), ("same", 10, 0)]));
    }
    assert_eq!(world.tree.attributes(old).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(world.tree.attributes(same).unwrap().inode, same);
    // An open file needs no snapshot to be kept: its own answer is the origin's.
    assert_eq!(world.read(old, handle, 0, 10).await, Err(ErrorKind::Stale));
}

#[tokio::test]
async fn directories_and_files_are_told_apart() {
    let world = World::new(&model(&[("d/a", 10, 0)]));
    let (directory, file) = (world.inode("d").unwrap(), world.inode("d/a").unwrap());
    assert_eq!(world.read(directory, 0, 0, 10).await, Err(ErrorKind::IsDirectory));
    assert_eq!(world.tree.open(directory).err().unwrap().kind(), ErrorKind::IsDirectory);
    assert_eq!(world.tree.lookup(file, b"x").unwrap_err().kind(), ErrorKind::NotDirectory);
    assert_eq!(world.tree.read_directory(file, 0, &mut |_| true).unwrap_err().kind(), ErrorKind::NotDirectory);
    assert_eq!(world.tree.read_link(file).unwrap_err().kind(), ErrorKind::Config);
    assert_eq!(world.tree.attributes(99_999).unwrap_err().kind(), ErrorKind::Stale);
    assert_eq!(world.tree.parent(ROOT).unwrap(), ROOT);
    assert!(world.tree.read_directory(ROOT, u64::MAX, &mut |_| unreachable!()).is_ok());
}

#[tokio::test]
async fn a_selection_is_files_in_the_given_order_with_folders_unfolded() {
    let world = World::new(&model(&[("a/1", 1, 0), ("a/2", 2, 0), ("b/x/3", 4, 0), ("c4", 8, 0)]));
    let keys = |paths: &[&str]| -> Vec<String> {
        let selection = world.tree.select(paths).unwrap();
        selection.sources().map(|source| source.path()).collect()
    };
    assert_eq!(keys(&["c4", "b", "a/2"]), ["c4", "b/x/3", "a/2"]);
    assert_eq!(keys(&[""]).len(), 4);
    assert_eq!(headrace_engine::transfer::OrderedFiles::total_bytes(&world.tree.select(&[""]).unwrap()), 15);
    let error = world.tree.select(&["a/1", "nope"]).err().unwrap();
    assert!(error.kind() == ErrorKind::NotFound && error.message().contains("nope"));
}

#[tokio::test]
async fn small_files_read_in_name_order_are_fetched_before_they_are_asked_for() {
    let names: Vec<String> = (0..200).map(|n| format!("d/{n:04}")).collect();
    let files: Vec<(&str, u64, u64)> = names.iter().map(|name| (name.as_str(), 1000, 1)).collect();
    let world = World::new(&model(&files));
    let mut cached = 0;
    for name in &names {
        let inode = world.inode(name).unwrap();
        cached += u32::from(world.tree.at_hand(inode, 0, 0, 1000, false).unwrap().here().is_some());
        assert_eq!(world.read(inode, 0, 0, 1000).await.unwrap().len(), 1000);
        settle().await;
    }
    assert!(cached > 150, "{cached} of 200 were there before they were read");
    assert_eq!(world.origin.bytes_sent(), 200_000);
}

#[tokio::test]
async fn small_files_read_in_a_shuffled_order_are_not_fetched_ahead() {
    let names: Vec<String> = (0..200).map(|n| format!("d/{n:04}")).collect();
    let files: Vec<(&str, u64, u64)> = names.iter().map(|name| (name.as_str(), 1000, 1)).collect();
    let world = World::new(&model(&files));
    for n in 0..60 {
        let inode = world.inode(&names[n * 77 % 200]).unwrap();
        world.read(inode, 0, 0, 1000).await.unwrap();
        settle().await;
    }
    assert_eq!(world.origin.request_count(), 60);
}
