//! Data files on descriptions of their own that carry a lock: what other processes and the kernel are given.

use std::fs::File;
use std::io;
use std::sync::Arc;

use super::data_files::DataFiles;
use super::place::Place;
use crate::budget::Permit;
use crate::ids::FileId;
use crate::own_files;
use crate::store::blocks::WholeFile;
use crate::store::disk;
use crate::store::part::{Descriptor, OpenFile};

/// A data file on a locked description: the lock lives as long as any copy of the descriptor, in whatever process.
#[derive(Debug)]
pub struct LockedFile {
    pub file: Arc<File>,
    pub descriptor: Descriptor,
    pub lent: Permit,
    /// Keeps the content in place here, so that eviction need not find the lock first.
    pub open: Arc<OpenFile>,
}

impl LockedFile {
    /// The data file that is open as `open`, locked. What is in it must be looked at afterwards. `None` when there is no
    /// descriptor left, as many are given away as may be, or a hole is being made at this moment. `kept`: how many
    /// descriptors of this process it takes for as long as it is given away.
    pub fn take(place: &Place, files: &DataFiles, id: &FileId, open: Arc<OpenFile>, kept: u64) -> Option<Self> {
        let lent = place.shared.lent.try_acquire(kept)?;
        let descriptor = files.descriptor(id)?;
        let lock = || -> io::Result<Option<File>> {
            let file = own_files::options().read(true).open(place.data_file(id))?;
            disk::hold(&file)?;
            Ok(disk::is_same_file(&file, &open.file)?.then_some(file))
        };
        let locked = place.watch.during(lock);
        match locked {
            Ok(file) => Some(LockedFile { file: Arc::new(file?), descriptor, lent, open }),
            Err(error) => {
                tracing::debug!("cannot lock the data file of {id}: {error}");
                None
            }
        }
    }

    pub fn is_of(&self, open: &Arc<OpenFile>) -> bool {
        Arc::ptr_eq(&self.open, open)
    }

    pub fn whole(self, size: u64) -> WholeFile {
        WholeFile::new(self.file.clone(), size, Arc::new(self))
    }
}
