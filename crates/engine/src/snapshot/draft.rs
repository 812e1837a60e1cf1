//! Writes a snapshot file where nobody sees it, and publishes it by one rename.
//!
//! A process killed at any moment leaves the old snapshot in place, and a `.building` file that the next build takes.

use std::fs::{File, TryLockError};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::NodeKind;
use super::collected::Collected;
use super::directories::ROOT;
use super::layout::{ENTRIES_MAX, HEADER_BYTES, Header, Section, SectionId};
use super::mapped::{Meta, Snapshot};
use super::names::NameWriter;
use super::record::Record;
use super::tree::Tree;
use crate::error::{Error, ErrorKind, Result};
use crate::own_files;

const BUFFER_BYTES: usize = 1 << 20;

/// A snapshot under construction. Dropped without `publish`, it removes what it wrote.
#[derive(Debug)]
pub(super) struct Draft {
    target: PathBuf,
    temporary: PathBuf,
    file: File,
    header: Header,
    published: bool,
}

impl Draft {
    /// Takes the temporary file beside `target`; `Busy` when another process has it.
    pub(super) fn create(target: &Path) -> Result<Draft> {
        let Some(name) = target.file_name() else {
            return Err(Error::config(format!("a snapshot cannot be written to '{}'", target.display())));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(".building");
        let temporary = target.with_file_name(hidden);
        let file = lock_exclusively(&temporary)?;
        let draft = Draft { target: target.to_owned(), temporary, file, header: Header::default(), published: false };
        draft.file.set_len(0).map_err(|error| draft.failed("empty", error))?;
        Ok(draft)
    }

    fn failed(&self, action: &str, error: std::io::Error) -> Error {
        Error::from_io(action, &self.temporary, error)
    }

    /// Writes everything but inodes: for now every inode is its index + 1.
    pub(super) fn write_tree(
        &mut self,
        collected: Collected,
        tree: &Tree,
        meta: Meta,
        snapshot_version: u64,
    ) -> Result<()> {
        if u64::from(tree.nodes) > ENTRIES_MAX {
            return Err(Error::new(ErrorKind::Unsupported, "a snapshot holds at most 2^31 entries"));
        }
        self.header.nodes = tree.nodes;
        self.header.snapshot_version = snapshot_version;
        self.header.next_inode = u64::from(tree.nodes) + 1;
        self.try_write_tree(collected, tree, meta).map_err(|error| self.failed("write", error))
    }

    fn try_write_tree(&mut self, mut collected: Collected, tree: &Tree, mut meta: Meta) -> std::io::Result<()> {
        let mut out = SectionWriter::new(&self.file, &mut self.header, HEADER_BYTES as u64)?;
        let mut names = NameWriter::default();
        write_nodes(&mut out, &collected, tree, &mut names)?;
        meta.rejections = std::mem::take(&mut collected.rejected).into_rejections();
        out.write_section(SectionId::NameGroups, &names.groups)?;
        out.write_section(SectionId::Names, &names.names)?;
        out.write_section(SectionId::Text, &collected.text)?;
        out.write_section(SectionId::Meta, &serde_json::to_vec(&meta)?)?;
        out.write_section(SectionId::Permissions, &collected.permissions.encode())?;
        write_permissions(&mut out, &collected, tree)?;
        out.write_section(SectionId::Inodes, &[])?;
        out.write_section(SectionId::InodeOrder, &[])?;
        out.finish()?;
        self.write_header()
    }

    /// Writes all of a snapshot but its inodes, which are to be written then.
    pub(super) fn write_copy(&mut self, snapshot: &Snapshot) -> Result<()> {
        self.header = snapshot.header().clone();
        (&self.file).write_all(snapshot.before_inodes()).map_err(|error| self.failed("write", error))
    }

    /// Replaces the inodes by these, one for each entry in index order.
    pub(super) fn write_inodes(&mut self, inodes: &[u64], next_inode: u64) -> Result<()> {
        self.header.next_inode = next_inode;
        let as_they_are = inodes.iter().enumerate().all(|(index, inode)| *inode == index as u64 + 1);
        let inodes = if as_they_are { &[] } else { inodes };
        self.try_write_inodes(inodes).map_err(|error| self.failed("write", error))
    }

    fn try_write_inodes(&mut self, inodes: &[u64]) -> std::io::Result<()> {
        let position = self.header.section(SectionId::Inodes).offset;
        let mut out = SectionWriter::new(&self.file, &mut self.header, position)?;
        out.begin()?;
        inodes.iter().try_for_each(|inode| out.write(&inode.to_le_bytes()))?;
        out.end(SectionId::Inodes);
        out.begin()?;
        order_of(inodes).iter().try_for_each(|index| out.write(&index.to_le_bytes()))?;
        out.end(SectionId::InodeOrder);
        out.finish()?;
        self.write_header()
    }

    fn write_header(&mut self) -> std::io::Result<()> {
        (&self.file).seek(SeekFrom::Start(0))?;
        (&self.file).write_all(&self.header.encode())
    }

    /// Maps what was written so far.
    pub(super) fn map(&self) -> Result<Snapshot> {
        Snapshot::map_own(&self.file, &self.temporary)
    }

    /// Makes the file the snapshot: durable first, then visible, then durably visible.
    pub(super) fn publish(mut self) -> Result<Snapshot> {
        self.file.sync_all().map_err(|error| self.failed("sync", error))?;
        let snapshot = self.map()?;
        std::fs::rename(&self.temporary, &self.target)
            .map_err(|error| Error::from_io("rename a snapshot to", &self.target, error))?;
        self.published = true;
        let folder = match self.target.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let synced = File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| Error::from_io("sync the folder", folder, error))?;
        Ok(snapshot)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.published {
            // Still locked: nobody else can have taken it meanwhile.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

fn lock_exclusively(path: &Path) -> Result<File> {
    let options = own_files::options().read(true).write(true).create(true).truncate(false).clone();
    let file = options.open(path).map_err(|error| Error::from_io("create", path, error))?;
    let busy = || {
        Error::new(ErrorKind::Busy, format!("another process is building {}", path.display()))
            .with_hint("wait for it to end")
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(busy()),
        Err(TryLockError::Error(error)) => return Err(Error::from_io("lock", path, error)),
    }
    // Whoever had it before may have published it while we waited for the lock: then it is a snapshot by now.
    let ours = file.metadata().map_err(|error| Error::from_io("stat", path, error))?;
    match std::fs::symlink_metadata(path) {
        Ok(there) if (there.dev(), there.ino()) == (ours.dev(), ours.ino()) => Ok(file),
        _ => Err(busy()),
    }
}

/// Records and names of all entries, breadth first.
fn write_nodes(
    out: &mut SectionWriter<'_>,
    collected: &Collected,
    tree: &Tree,
    names: &mut NameWriter,
) -> std::io::Result<()> {
    out.begin()?;
    write_directory(out, collected, 0, 0)?;
    names.push(b"");
    for &number in &tree.order {
        let directory = collected.directories.get(number);
        names.start_directory(directory.content.prefix);
        for item in tree.children(number, directory.content.children) {
            let name = match item.directory() {
                Some(child) => {
                    write_directory(out, collected, child, directory.index)?;
                    collected.directories.get(child).name
                }
                None => {
                    let leaf = collected.leaves[item.leaf()];
                    out.write_record(leaf.record.below(directory.index))?;
                    leaf.name
                }
            };
            names.push(collected.names.get(name));
        }
    }
    out.end(SectionId::Nodes);
    Ok(())
}

/// What each entry has of the table, in the order of `write_nodes`.
fn write_permissions(out: &mut SectionWriter<'_>, collected: &Collected, tree: &Tree) -> std::io::Result<()> {
    out.begin()?;
    if !collected.permissions.is_empty() {
        let of_directory = |number: u32| collected.directories.get(number).permissions;
        out.write(&of_directory(ROOT).to_le_bytes())?;
        for &number in &tree.order {
            for item in tree.children(number, collected.directories.get(number).content.children) {
                let id = item.directory().map_or_else(|| collected.permissions.of_leaf(item.leaf()), of_directory);
                out.write(&id.to_le_bytes())?;
            }
        }
    }
    out.end(SectionId::PermissionOfNode);
    Ok(())
}

fn write_directory(
    out: &mut SectionWriter<'_>,
    collected: &Collected,
    number: u32,
    parent: u32,
) -> std::io::Result<()> {
    let entry = collected.directories.get(number);
    let record = Record::directory(entry.origin, entry.newest_ns, entry.content);
    out.write_record(record.below(parent))
}

/// The indices in ascending order of their inodes.
fn order_of(inodes: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..inodes.len() as u32).collect();
    order.sort_unstable_by_key(|&index| inodes[index as usize]);
    order
}

/// Writes sections one behind the other, counting and adding up as it goes.
struct SectionWriter<'a> {
    out: BufWriter<&'a File>,
    header: &'a mut Header,
    position: u64,
    current: Section,
}

impl<'a> SectionWriter<'a> {
    fn new(mut file: &'a File, header: &'a mut Header, position: u64) -> std::io::Result<Self> {
        file.seek(SeekFrom::Start(position))?;
        let out = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(SectionWriter { out, header, position, current: Section::default() })
    }

    fn begin(&mut self) -> std::io::Result<()> {
        let start = self.position.next_multiple_of(8);
        self.out.write_all(&[0; 8][..(start - self.position) as usize])?;
        self.position = start;
        self.current = Section { offset: start, length: 0, crc32c: 0 };
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.current.crc32c = crc32c::crc32c_append(self.current.crc32c, bytes);
        self.current.length += bytes.len() as u64;
        self.position += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn write_record(&mut self, record: Record) -> std::io::Result<()> {
        let count = match record.kind() {
            Some(NodeKind::Directory) => &mut self.header.directories,
            Some(NodeKind::Symlink) => &mut self.header.symlinks,
            _ => {
                self.header.total_bytes = self.header.total_bytes.saturating_add(record.extent);
                self.header.has_stamps |= record.is_stamped();
                &mut self.header.files
            }
        };
        *count += 1;
        self.write(&record.encode())
    }

    fn end(&mut self, id: SectionId) {
        self.header.sections[id as usize] = self.current;
    }

    fn write_section(&mut self, id: SectionId, bytes: &[u8]) -> std::io::Result<()> {
        self.begin()?;
        self.write(bytes)?;
        self.end(id);
        Ok(())
    }

    fn finish(mut self) -> std::io::Result<()> {
        self.out.flush()?;
        self.header.file_bytes = self.position;
        Ok(())
    }
}
