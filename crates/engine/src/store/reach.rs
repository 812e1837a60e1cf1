//! The data on disks that hang, and the answer to a reader that would wait for it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::Store;
use super::folder::Folder;
use crate::error::{Error, ErrorKind, Retry};
use crate::ids::FileId;

impl Store {
    /// The cache folders whose disk hangs.
    pub fn hanging_folders(&self) -> Vec<PathBuf> {
        self.hanging_ones().iter().map(|folder| folder.place.path.clone()).collect()
    }

    /// `Timeout` when something of one of these files lies on a disk that hangs.
    pub fn within_reach(&self, files: impl IntoIterator<Item = FileId>) -> Result<(), Error> {
        let hanging = self.hanging_ones();
        if hanging.is_empty() {
            return Ok(());
        }
        for file in files {
            if let Some(folder) = hanging.iter().find(|folder| folder.contents.block_count(&file).is_some()) {
                return Err(hangs(&folder.place.path));
            }
        }
        Ok(())
    }

    fn hanging_ones(&self) -> Vec<&Arc<Folder>> {
        self.core.open_folders().filter(|folder| folder.place.watch.hangs()).collect()
    }
}

/// Of a disk that was needed.
pub fn hangs(path: &Path) -> Error {
    silent(&format!("the disk of cache folder {} does not answer", path.display())).with_hint(
        "check that disk, and try again when it answers; if it never does, take the folder out of `cache` and start the \
         worker or mount anew",
    )
}

/// Of folders that were to be closed.
pub fn unclosed(paths: &[&Path]) -> Error {
    let places: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    silent(&format!("the disk of cache folder {} does not answer: not closed", places.join(", "))).with_hint(
        "what lies there is checked at the next start: the log up to its last whole record, then each block by its \
         checksum before its first use; a thread that waits in the kernel keeps the process number and that folder until \
         the disk answers",
    )
}

fn silent(message: &str) -> Error {
    Error::new(ErrorKind::Timeout, message).with_retry(Retry::Temporary)
}
