//! What lies on disks that hang, and what to tell whoever would wait for it.

use std::path::{Path, PathBuf};

use super::Store;
use crate::error::{Error, ErrorKind, Retry};
use crate::ids::FileId;

impl Store {
    /// The cache folders whose disk hangs.
    pub fn hanging_folders(&self) -> Vec<PathBuf> {
        let hanging = self.core.open_folders().filter(|folder| folder.watch.hangs());
        hanging.map(|folder| folder.path.clone()).collect()
    }

    /// `Timeout` when something of one of these files lies on a disk that hangs.
    pub fn within_reach(&self, files: &[FileId]) -> Result<(), Error> {
        let mut hanging = self.core.open_folders().filter(|folder| folder.watch.hangs());
        match hanging.find(|folder| files.iter().any(|file| folder.block_count(file).is_some())) {
            Some(folder) => Err(hangs(&folder.path)),
            None => Ok(()),
        }
    }

    /// What is to be said of a disk that hangs, if one does.
    pub fn hanging(&self) -> Option<Error> {
        self.hanging_folders().first().map(|path| hangs(path))
    }
}

fn hangs(path: &Path) -> Error {
    Error::new(ErrorKind::Timeout, format!("the disk of cache folder {} does not answer", path.display()))
        .with_retry(Retry::Temporary)
        .with_hint(
            "check that disk, and try again when it answers; if it never does, remove the folder from `cache` and kill \
             the worker",
        )
}
