//! The folder that staged files lie in: this user's alone, one file for each number.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorKind, Result};
use crate::own_files;

const LEDGER: &str = "ledger";
const SUFFIX: &str = ".staged";

/// An open staging folder.
#[derive(Debug)]
pub struct StagingFolder {
    path: PathBuf,
}

/// What a file system has room for, in bytes and files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub total_bytes: u64,
    pub free_bytes: u64,
    pub files: u64,
    pub free_files: u64,
}

impl StagingFolder {
    /// The folder at `path`, made if it is missing. Refused where it is a link, or others may change it.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error| Error::from_io("make the staging folder", path, error);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed)?;
        let metadata = std::fs::symlink_metadata(path).map_err(failed)?;
        let is_ours = metadata.uid() == nix::unistd::geteuid().as_raw() && metadata.mode() & 0o077 == 0;
        if !metadata.is_dir() || !is_ours {
            let message = format!("the staging folder {} is not this user's alone", path.display());
            return Err(Error::new(ErrorKind::PermissionDenied, message)
                .with_hint("move it away: what programs write would lie where others can change it"));
        }
        Ok(StagingFolder { path: path.to_owned() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn ledger_path(&self) -> PathBuf {
        self.path.join(LEDGER)
    }

    /// Where the content of that file lies.
    pub fn file_path(&self, inode: u64) -> PathBuf {
        self.path.join(format!("{inode:016x}{SUFFIX}"))
    }

    /// Makes an empty file, in the place of one that is there.
    pub fn make(&self, inode: u64) -> Result<File> {
        let path = self.file_path(inode);
        let made = own_files::options().read(true).write(true).create(true).truncate(true).open(&path);
        made.map_err(|error| Error::from_io("make", &path, error))
    }

    pub fn open_file(&self, inode: u64) -> Result<File> {
        let path = self.file_path(inode);
        own_files::options().read(true).write(true).open(&path).map_err(|error| Error::from_io("open", &path, error))
    }

    /// Nothing there is no fault.
    pub fn remove(&self, inode: u64) {
        let path = self.file_path(inode);
        if let Err(error) = std::fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove a staged file");
        }
    }

    /// Removes the files of numbers that are not `kept`.
    pub fn sweep(&self, kept: impl Fn(u64) -> bool) -> Result<()> {
        let failed = |error| Error::from_io("look into", &self.path, error);
        for entry in std::fs::read_dir(&self.path).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            let number = number.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            number.filter(|number| !kept(*number)).into_iter().for_each(|number| self.remove(number));
        }
        Ok(())
    }

    /// What the file system of the folder has room for.
    pub fn room(&self) -> Result<Room> {
        let failed = |error: io::Error| Error::from_io("look at the file system of", &self.path, error);
        let folder = File::open(&self.path).map_err(failed)?;
        let told = nix::sys::statvfs::fstatvfs(folder.as_fd()).map_err(|error| failed(error.into()))?;
        let unit = told.fragment_size();
        Ok(Room {
            total_bytes: told.blocks().saturating_mul(unit),
            free_bytes: told.blocks_available().saturating_mul(unit),
            files: told.files(),
            free_files: told.files_available(),
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_may_change_and_a_link_are_refused() {
        let above = tempfile::tempdir().unwrap();
        let open = above.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(StagingFolder::open(&open).unwrap_err().kind(), ErrorKind::PermissionDenied);
        let (ours, link) = (above.path().join("ours"), above.path().join("link"));
        StagingFolder::open(&ours).unwrap();
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        assert_eq!(StagingFolder::open(&link).unwrap_err().kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn what_nobody_knows_is_swept_and_all_else_stays() {
        let above = tempfile::tempdir().unwrap();
        let folder = StagingFolder::open(&above.path().join("staging")).unwrap();
        [1, 2].iter().for_each(|inode| drop(folder.make(*inode).unwrap()));
        std::fs::write(folder.path().join("ledger"), b"kept").unwrap();
        folder.sweep(|inode| inode == 2).unwrap();
        assert!(!folder.file_path(1).exists() && folder.file_path(2).exists() && folder.ledger_path().exists());
    }
}
