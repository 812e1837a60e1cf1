//! The data files of a folder: opened within the budget of descriptors, closed when nobody reads them, punched, removed.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::contents::Contents;
use super::place::Place;
use crate::ids::FileId;
use crate::own_files;
use crate::store::disk::{self, Stamp};
use crate::store::part::{Descriptor, OpenFile};

/// A file that is removed and made again between each two steps of the one who opens it is given up.
const OPEN_TRIES: usize = 8;

/// The data files of one folder.
#[derive(Debug)]
pub struct DataFiles {
    place: Arc<Place>,
    contents: Arc<Contents>,
    open_files: Arc<AtomicU64>,
    /// The file system can give back the room of one block.
    pub(super) punches: AtomicBool,
    /// A data file is left that no record speaks of.
    strays: AtomicBool,
}

impl DataFiles {
    pub fn new(place: &Arc<Place>, contents: &Arc<Contents>) -> Self {
        DataFiles {
            place: place.clone(),
            contents: contents.clone(),
            open_files: Arc::default(),
            punches: AtomicBool::new(true),
            strays: AtomicBool::new(false),
        }
    }

    /// The data file of `id`, open and known to the index; `create` makes it if missing. Called without any lock held.
    pub fn open_data(&self, id: &FileId, create: bool) -> io::Result<Arc<OpenFile>> {
        for _ in 0..OPEN_TRIES {
            let descriptor = self.descriptor(id).ok_or_else(|| io::Error::from_raw_os_error(libc::EMFILE))?;
            let file = self.place.watch.during(|| open(&self.place.data_file(id), create))?;
            let opened = Arc::new(OpenFile { file: Arc::new(file), _descriptor: descriptor });
            if let Some(file) = self.attach(id, opened) {
                return Ok(file);
            }
        }
        Err(io::Error::from_raw_os_error(libc::EBUSY))
    }

    /// Makes `opened` the file of its part, unless another thread was faster: then that one's is the answer. `None` where
    /// it was removed since it was opened: the part that is there now has, or is about to have, another one.
    pub fn attach(&self, id: &FileId, opened: Arc<OpenFile>) -> Option<Arc<OpenFile>> {
        let mut shard = self.contents.index.shard(id);
        let Some(part) = shard.find_mut(id).filter(|part| !part.leaving) else { return Some(opened) };
        // A part leaves the index after its file: what has a name now is the file of this one.
        if part.open.is_none() && disk::is_removed(&opened.file) {
            return None;
        }
        part.recent = true;
        if part.open.is_none() {
            // Nobody of ours can have written while it was closed.
            part.saw_foreign(stamp_of(&opened).0);
        }
        Some(shard.attach(id, opened.clone()).unwrap_or(opened))
    }

    /// The open data file of `id`, if any of its blocks is here: as long as the answer lives, nothing of it is evicted.
    pub fn hold(&self, id: &FileId) -> Option<Arc<OpenFile>> {
        if !self.contents.holds_file(id) {
            return None;
        }
        let open = self.contents.index.shard(id).find(id).and_then(|part| part.open.clone());
        open.or_else(|| self.open_data(id, false).ok())
    }

    /// A descriptor for the data file of `id`, for which an idle one is closed if need be; `None` at the limit.
    pub fn descriptor(&self, id: &FileId) -> Option<Descriptor> {
        if self.open_files.load(Ordering::Relaxed) >= self.place.shared.descriptor_share {
            self.close_idle_file(id);
        }
        let permit = match self.place.shared.descriptors.try_acquire(1) {
            Some(permit) => permit,
            None if self.close_idle_file(id) => self.place.shared.descriptors.try_acquire(1)?,
            None => return None,
        };
        Some(Descriptor::new(permit, &self.open_files))
    }

    /// Closes one file that nobody reads, of the shard of `id` if it has one.
    fn close_idle_file(&self, id: &FileId) -> bool {
        self.contents.index.shard(id).close_one() || self.contents.index.shards().any(|shard| shard.lock().close_one())
    }

    /// True as long as the file system can give back the room of one block.
    pub fn punches(&self) -> bool {
        self.punches.load(Ordering::Relaxed)
    }

    /// Makes a hole in a data file. A file system that cannot do so is not asked again.
    pub fn punch(&self, open: &OpenFile, offset: u64, length: u64) -> io::Result<()> {
        let punched = self.place.watch.during(|| disk::punch_hole(&open.file, offset, length));
        if let Err(error) = &punched
            && error.raw_os_error() == Some(libc::EOPNOTSUPP)
            && self.punches.swap(false, Ordering::Relaxed)
        {
            let place = self.place.path.display();
            tracing::info!("cache folder {place}: no holes in files there, whole files are evicted");
        }
        punched
    }

    /// Removes the data file of `id`; where its records stand in the log, that is `noted` there first.
    pub fn unlink(&self, id: &FileId, noted: bool) {
        if noted {
            let _ = self.contents.log.append_drop(*id, None, 0);
        }
        if let Err(error) = self.place.watch.during(|| std::fs::remove_file(self.place.data_file(id)))
            && error.kind() != std::io::ErrorKind::NotFound
        {
            tracing::debug!("cannot remove the data file of {id}: {error}");
            self.note_stray();
        }
    }

    /// A data file that should be gone is still there. It would be filled again, and nobody would remember who has it
    /// mapped: so no holes are made any more, and the next opening looks for it.
    pub fn note_stray(&self) {
        self.punches.store(false, Ordering::Relaxed);
        self.strays.store(true, Ordering::Relaxed);
    }

    /// True when a data file is left that no record speaks of.
    pub fn has_strays(&self) -> bool {
        self.strays.load(Ordering::Relaxed)
    }
}

fn open(path: &Path, create: bool) -> io::Result<File> {
    let attempt = || own_files::options().read(true).write(true).create(create).truncate(false).open(path);
    match attempt() {
        Err(error) if create && error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            attempt()
        }
        Err(error) if !create && matches!(error.raw_os_error(), Some(libc::EROFS | libc::EACCES)) => {
            own_files::options().read(true).open(path)
        }
        result => result,
    }
}

/// The stamp and length of an open data file; `NEVER` and 0 when even that fails.
pub fn stamp_of(open: &OpenFile) -> (Stamp, u64) {
    Stamp::of(&open.file).unwrap_or((Stamp::NEVER, 0))
}
