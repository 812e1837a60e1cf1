//! Collects listed objects, judges their keys, and turns them into a snapshot file.

use std::path::Path;

use super::collected::{Collected, Leaf};
use super::difference::{self, Difference};
use super::directories::ROOT;
use super::layout::ENTRIES_MAX;
use super::mapped::{Meta, Snapshot};
use super::permissions::PermissionId;
use super::record::{ORIGINS_MAX, Record, Told};
use super::rules::{self, PATH_MAX, Rule, Verdict};
use super::{draft, tree};
use crate::config::Exclude;
use crate::error::{Error, ErrorKind, Result};
use crate::origin::{ListedObject, ObjectKind};

/// One origin's place in the tree.
#[derive(Debug)]
struct Mount {
    path: String,
    directory: u32,
    /// Its names may be any bytes but `/` and NUL.
    posix: bool,
}

/// Collects listed objects and writes a snapshot file.
///
/// Costs about 75 bytes of memory a file plus its name, however long the path before the name is.
#[derive(Debug)]
pub struct SnapshotBuilder {
    mounts: Vec<Mount>,
    collected: Collected,
    /// Where the object before went: most listings name the files of a folder one after the other.
    recent: (u16, Vec<u8>, u32),
    entries_max: u64,
    bytes_max: u64,
    strict: bool,
    exclude: Vec<Exclude>,
    fault: Option<Error>,
}

impl SnapshotBuilder {
    /// A builder for a dataset whose origins appear at `mounts` (slash-separated, empty for the root).
    pub fn new(mounts: &[String]) -> Result<Self> {
        if mounts.is_empty() || mounts.len() > ORIGINS_MAX {
            return Err(Error::config(format!("a dataset has 1 to {ORIGINS_MAX} origins, not {}", mounts.len())));
        }
        let mut builder = SnapshotBuilder {
            mounts: Vec::new(),
            collected: Collected::new(),
            recent: (u16::MAX, Vec::new(), ROOT),
            entries_max: ENTRIES_MAX,
            bytes_max: u64::MAX,
            strict: false,
            exclude: Vec::new(),
            fault: None,
        };
        for (number, path) in mounts.iter().enumerate() {
            builder.add_mount(number as u16, path)?;
        }
        Ok(builder)
    }

    fn add_mount(&mut self, number: u16, path: &str) -> Result<()> {
        let path = path.trim_matches('/');
        if !path.is_empty()
            && let Err(rule) = rules::check_path(path.as_bytes(), PATH_MAX - 1, false)
        {
            let shown = rules::escape(path.as_bytes());
            return Err(Error::config(format!("origin {number} cannot be mounted at '{shown}': {}", rule.name()))
                .with_hint("name a relative folder such as 'images/train', or '' for the root"));
        }
        let directory = self.collected.directories.ensure(ROOT, path.as_bytes(), number, &mut self.collected.names);
        let mut on_the_way = directory;
        while on_the_way != ROOT {
            self.collected.directories.get_mut(on_the_way).mount = true;
            on_the_way = self.collected.directories.get(on_the_way).parent;
        }
        self.mounts.push(Mount { path: path.to_owned(), directory, posix: false });
        Ok(())
    }

    /// Says that origin number `origin` is a file system of this machine: its names may hold any bytes but `/` and NUL,
    /// and the sizes that it tells of directories mean nothing.
    pub fn accept_any_bytes(&mut self, origin: u16) {
        if let Some(mount) = self.mounts.get_mut(usize::from(origin)) {
            mount.posix = true;
        }
    }

    /// Refuses to finish above this many entries, where less than the format's own 2^31 are wanted.
    pub fn limit_entries(&mut self, entries_max: u64) {
        self.entries_max = entries_max.min(ENTRIES_MAX);
    }

    /// Notes what was not wanted of each origin.
    pub fn note_exclude(&mut self, exclude: Vec<Exclude>) {
        self.exclude = exclude;
    }

    /// Refuses to finish once what is collected takes more memory than this.
    pub fn limit_memory(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Nothing that is added from here on makes a difference: `finish` tells what is wrong.
    pub fn is_given_up(&self) -> bool {
        self.fault.is_some()
    }

    /// Refuses to finish when anything was left out but what nobody wants.
    pub fn refuse_rejections(&mut self) {
        self.strict = true;
    }

    /// Adds one object of origin number `origin`. A key that cannot be a file is counted, see `Rule`; what makes the
    /// whole snapshot impossible is told by `finish`.
    pub fn add(&mut self, origin: u16, object: ListedObject) {
        if self.fault.is_some() || self.is_full() {
            return;
        }
        let Some(mount) = self.mounts.get(usize::from(origin)) else {
            let message = format!("origin {origin} was listed, but only {} are mounted", self.mounts.len());
            self.fault.get_or_insert(Error::new(ErrorKind::Unexpected, message));
            return;
        };
        let room = PATH_MAX - mount.path.len() - usize::from(!mount.path.is_empty());
        match rules::judge(&object, room, mount.posix) {
            Ok(Verdict::Entry(path)) => self.add_leaf(origin, path, &object),
            Ok(Verdict::Directory(path, rule)) => self.add_directory(origin, path, rule, &object),
            Ok(Verdict::Root) => {
                let root = mount.directory;
                self.note_permissions(root, origin, &object);
            }
            Err(rule) => self.collected.rejected.count(rule, || object.key.to_vec()),
        }
    }

    fn is_full(&mut self) -> bool {
        let entries = (self.collected.leaves.len() + self.collected.directories.all().len()) as u64;
        if entries >= self.entries_max {
            let message = format!("the dataset has more than {} files and folders", self.entries_max);
            self.fault =
                Some(Error::new(ErrorKind::Unsupported, message).with_hint("split it: give each part its own dataset"));
        }
        let bytes = self.collected.memory_bytes();
        if bytes > self.bytes_max {
            let message = format!(
                "the list of the dataset's files takes more than {} MiB, with {entries} names so far",
                self.bytes_max >> 20
            );
            self.fault = Some(Error::new(ErrorKind::Unsupported, message).with_hint(
                "split it: give each part its own dataset, or give the list more memory (setting list_memory)",
            ));
        }
        self.fault.is_some()
    }

    fn add_leaf(&mut self, origin: u16, path: &[u8], object: &ListedObject) {
        let (folder, name) = match path.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&path[..slash], &path[slash + 1..]),
            None => (&[][..], path),
        };
        let directory = self.directory(origin, folder);
        let mut record = match &object.kind {
            ObjectKind::Symlink(target) => Record::symlink(origin, object.mtime_ns, target, &mut self.collected.text),
            _ => Record::file(origin, object.size, object.mtime_ns, told(object), &mut self.collected.text),
        };
        record.parent = directory;
        let name = self.collected.names.push(name);
        let permissions = self.permission_id(object);
        self.collected.permissions.set_leaf(self.collected.leaves.len(), permissions);
        self.collected.leaves.push(Leaf { record, name });
    }

    fn permission_id(&mut self, object: &ListedObject) -> PermissionId {
        let Some(permissions) = object.permissions else { return 0 };
        self.collected.permissions.add(permissions).unwrap_or_else(|| {
            let message = "the files belong to more than 65,535 different owners, groups and modes";
            self.fault = Some(Error::new(ErrorKind::Unsupported, message).with_hint("give each part its own dataset"));
            0
        })
    }

    /// Where several origins have the directory, the first of them decides.
    fn note_permissions(&mut self, directory: u32, origin: u16, object: &ListedObject) {
        let id = self.permission_id(object);
        let directory = self.collected.directories.get_mut(directory);
        if id != 0 && (directory.permissions == 0 || directory.origin == origin) {
            directory.permissions = id;
        }
    }

    fn add_directory(&mut self, origin: u16, path: &[u8], rule: Option<Rule>, object: &ListedObject) {
        let number = self.directory(origin, path);
        let directory = self.collected.directories.get_mut(number);
        directory.mtime_ns =
            directory.mtime_ns.max(Some(object.mtime_ns).filter(|time| *time != ListedObject::UNTOLD_TIME));
        self.note_permissions(number, origin, object);
        if let Some(rule) = rule {
            self.collected.rejected.count(rule, || object.key.to_vec());
        }
    }

    /// The number of the directory `path` of an origin.
    fn directory(&mut self, origin: u16, path: &[u8]) -> u32 {
        if self.recent.0 == origin && self.recent.1 == path {
            return self.recent.2;
        }
        let start = self.mounts[usize::from(origin)].directory;
        let number = self.collected.directories.ensure(start, path, origin, &mut self.collected.names);
        self.recent.1.clear();
        self.recent.1.extend_from_slice(path);
        (self.recent.0, self.recent.2) = (origin, number);
        number
    }

    /// Writes the snapshot to `path` (atomically: temporary file, sync, rename) as the successor of `previous`.
    ///
    /// What did not change keeps its inode. Fails when the dataset is too large, the folder cannot be written, or
    /// another process is building the same snapshot; `path` is then as it was.
    pub fn finish(mut self, path: &Path, previous: Option<&Snapshot>) -> Result<(Snapshot, Difference)> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mounts = self.mounts.drain(..).map(|mount| mount.path).collect();
        let meta = Meta { mounts, exclude: self.exclude, ..Meta::default() };
        let tree = tree::arrange(&mut self.collected);
        if self.strict {
            self.collected.rejected.refuse()?;
        }
        let mut draft = draft::Draft::create(path)?;
        draft.write_tree(self.collected, &tree, meta, previous.map_or(1, |previous| previous.version() + 1))?;
        drop(tree);
        let snapshot = draft.map()?;
        let difference = match previous {
            None => Difference { added: snapshot.leaves(), ..Difference::default() },
            Some(previous) => {
                let (inodes, next_inode, difference) = difference::carry_inodes(previous, &snapshot)?;
                draft.write_inodes(&inodes, next_inode)?;
                difference
            }
        };
        drop(snapshot);
        Ok((draft.publish()?, difference))
    }
}

fn told(object: &ListedObject) -> Told<'_> {
    match (&object.etag, object.stamp) {
        (Some(etag), _) => Told::Etag(etag),
        (None, Some(stamp)) => Told::Stamp(stamp),
        (None, None) => Told::Time,
    }
}
