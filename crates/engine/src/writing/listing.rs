//! Listings of folders: names of the snapshot that still stand for what it has, then those that were written.

use super::core::WritableTree;
use crate::error::Result;
use crate::staging::{Stands, is_written};
use crate::vfs::{DirectoryEntry, FileKind, FileSystem, Inode};

/// Cookies of written names begin here: no folder of a snapshot has as many entries.
const WRITTEN: u64 = 1 << 40;

impl WritableTree {
    /// A cookie of a written name is the number of its inode: names that come and go meanwhile move no other.
    pub(super) fn list(
        &self,
        inode: Inode,
        cookie: u64,
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<()> {
        let path = self.path_of(inode)?;
        let known: Vec<(Box<[u8]>, Stands)> = self.staged.look(|state| {
            let names = state.names_in(&path).into_iter().flatten();
            names
                .map(|(name, entry)| (name.clone(), entry.stands))
                .filter(|(_, stands)| *stands != Stands::AsListed)
                .collect()
        });
        if cookie < WRITTEN && !self.list_snapshot(inode, &path, cookie, &known, visit)? {
            return Ok(());
        }
        let mut written: Vec<(u64, &[u8])> = Vec::new();
        for (name, stands) in &known {
            if let Stands::Here(inode) = stands {
                written.push((*inode, name));
            }
        }
        written.sort_unstable();
        for (number, name) in written {
            let cookie_of = WRITTEN + (number - crate::staging::FIRST_INODE) + 1;
            if cookie_of <= cookie {
                continue;
            }
            // One that went meanwhile.
            let Ok(attributes) = self.attributes_of(number) else { continue };
            if !visit(DirectoryEntry { name, attributes, cookie: cookie_of }) {
                break;
            }
        }
        Ok(())
    }

    /// False when `visit` has had enough.
    fn list_snapshot(
        &self,
        inode: Inode,
        path: &[u8],
        cookie: u64,
        known: &[(Box<[u8]>, Stands)],
        visit: &mut dyn FnMut(DirectoryEntry<'_>) -> bool,
    ) -> Result<bool> {
        let listed = if is_written(inode) {
            match self.tree.find(path) {
                Ok(listed) if listed.kind == FileKind::Directory => listed.inode,
                _ => return Ok(true),
            }
        } else {
            inode
        };
        let mut goes_on = true;
        self.tree.read_directory(listed, cookie, &mut |entry| {
            if known.binary_search_by(|(name, _)| (**name).cmp(entry.name)).is_ok() {
                return true;
            }
            goes_on = visit(DirectoryEntry { attributes: self.as_changed(entry.attributes), ..entry });
            goes_on
        })?;
        Ok(goes_on)
    }

    /// Whether nothing is in the folder.
    pub(super) fn is_empty_folder(&self, inode: Inode) -> Result<bool> {
        let mut empty = true;
        self.list(inode, 0, &mut |_| {
            empty = false;
            false
        })?;
        Ok(empty)
    }
}
