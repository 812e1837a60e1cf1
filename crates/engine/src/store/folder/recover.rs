//! Opening a folder: what earlier runs left is replayed, and what no record speaks of is removed.

use std::collections::HashSet;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::contents::Contents;
use super::place::{Place, StoreState, charge};
use super::room::Room;
use super::{Folder, MAX_BLOCKS};
use crate::error::{Error, Result};
use crate::ids::FileId;
use crate::own_files;
use crate::store::counters::LevelGauges;
use crate::store::index::Index;
use crate::store::lock::FolderLock;
use crate::store::log::{Log, Replayed};
use crate::store::part::{BlockState, Lending, Part};
use crate::store::record::Record;
use crate::store::watch::DiskWatch;
use crate::store::{disk, layout};

/// Room that a file system may use beyond the blocks, for its own bookkeeping.
const SLACK_BYTES: u64 = 64 << 10;

/// Opens the folder at `path` and takes its lock.
pub fn open(
    path: &Path,
    quota_bytes: u64,
    level: usize,
    shared: Arc<StoreState>,
    gauges: LevelGauges,
) -> Result<Folder> {
    let lock = FolderLock::take(path)?;
    let index = Index::new(shared.block_size);
    let watch = DiskWatch::new(path);
    let visit = |offset, record: &Record| replay(&index, &shared, offset, record);
    let (log, replayed) = Log::open(path, shared.block_size, &watch, visit)?;
    let place = Arc::new(Place { path: path.to_owned(), watch, shared });
    let room = Arc::new(Room::new(&place, quota_bytes, gauges));
    let folder = Folder::new(level, &place, &room, Contents::new(&place, index, log), lock);
    reconcile(&folder, &replayed)?;
    Ok(folder)
}

/// Makes index and data files agree, counts, and says what was found.
fn reconcile(folder: &Folder, replayed: &Replayed) -> Result<()> {
    let untouched = replayed.closed_at.is_some_and(|closed_at| is_untouched_since(folder, closed_at));
    let orphans = if untouched { 0 } else { sweep(folder)? };
    if !replayed.notes_lending || replayed.cut_bytes > 0 {
        take_all_as_lent(folder, replayed)
            .map_err(|error| Error::from_io("write the log of", &folder.place.path, error))?;
    }
    if replayed.closed_at.is_none() && folder.files.punches() {
        trim(folder);
    }
    for shard in folder.contents.index.shards() {
        for part in shard.lock().parts() {
            let bytes = part.present_indices().map(|index| charge(folder.place.length_of(part.size, index))).sum();
            folder.room.take_over(bytes);
            folder
                .room
                .count_blocks(i64::from(part.present), part.content_bytes(folder.place.shared.block_size) as i64);
        }
    }
    while folder.room.used() > folder.room.quota_bytes {
        let Some(victim) = folder.victim(0, true) else { break };
        folder.remover.remove(&victim.id, victim.index, super::Removal::Evict);
    }
    let (place, blocks, used) = (folder.place.path.display(), folder.room.blocks(), folder.room.used());
    let cut = replayed.cut_bytes;
    tracing::info!(
        "cache folder {place}: {blocks} blocks, {used} bytes; {cut} bytes of log and {orphans} files without use removed"
    );
    Ok(())
}

/// The log of an older version, or one that lost its end, does not say which files were given away: any may have been.
fn take_all_as_lent(folder: &Folder, replayed: &Replayed) -> std::io::Result<()> {
    let ids: Vec<FileId> = folder.contents.index.ids().collect();
    for id in &ids {
        folder.contents.note_lent(id);
    }
    if replayed.notes_lending || ids.is_empty() { Ok(()) } else { folder.contents.compact() }
}

/// True when no data file came or went after the log was closed in good order. Then both agree, and the names of
/// perhaps a million files need not be gone through: the times of their directories tell.
fn is_untouched_since(folder: &Folder, closed_at: SystemTime) -> bool {
    let root = folder.place.path.join(layout::DATA);
    let untouched = |path: &Path| {
        let changed_at = std::fs::metadata(path).and_then(|directory| directory.modified());
        changed_at.is_ok_and(|changed_at| changed_at < closed_at)
    };
    let directories = std::fs::read_dir(&root);
    untouched(&root) && directories.is_ok_and(|all| all.flatten().all(|directory| untouched(&directory.path())))
}

/// Removes data files without records, and parts without data file or blocks; the number of files removed.
fn sweep(folder: &Folder) -> Result<u64> {
    let root = folder.place.path.join(layout::DATA);
    make_directory(&root)?;
    let (mut seen, mut removed) = (HashSet::new(), 0);
    let listing = |path: &Path| std::fs::read_dir(path).map_err(|error| Error::from_io("list", path, error));
    for directory in listing(&root)?.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        for entry in listing(&directory.path())?.flatten() {
            let Some(id) = layout::parse_data_file(&entry.file_name()) else { continue };
            if folder.contents.index.shard(&id).find(&id).is_some_and(|part| part.present > 0) {
                seen.insert(id);
            } else if std::fs::remove_file(entry.path()).is_ok() {
                removed += 1;
            } else {
                folder.files.note_stray();
            }
        }
    }
    let lost: Vec<FileId> = folder.contents.index.ids().filter(|id| !seen.contains(id)).collect();
    for id in lost {
        if folder.contents.index.shard(&id).remove(&id).is_some_and(|part| part.present > 0) {
            folder
                .contents
                .log
                .append_drop(id, None, 0)
                .map_err(|error| Error::from_io("write the log of", &folder.place.path, error))?;
        }
    }
    Ok(removed)
}

/// Gives back the room of blocks that were written but not noted, or noted as gone but not punched out.
fn trim(folder: &Folder) {
    for id in folder.contents.index.ids() {
        let Some((size, mut absent, kept)) = absent_blocks(folder, &id) else { continue };
        let path = folder.place.data_file(&id);
        let Ok(file) = own_files::options().write(true).open(&path) else { continue };
        let taken = file.metadata().map_or(0, |data| data.blocks() * 512);
        // A process that got the file from an earlier run may hold blocks that are forgotten here.
        if taken > kept + SLACK_BYTES && !disk::is_held(&file) {
            let punch = |index| {
                disk::punch_hole(&file, folder.place.offset_of(index), charge(folder.place.length_of(size, index)))
                    .is_ok()
            };
            absent.retain(|index| !punch(*index));
        }
    }
}

/// Size, absent blocks and charged bytes of a file of several blocks.
fn absent_blocks(folder: &Folder, id: &FileId) -> Option<(u64, Vec<u32>, u64)> {
    let shard = folder.contents.index.shard(id);
    let count = folder.place.shared.block_size.count(shard.find(id)?.size);
    let part = shard.find(id).filter(|part| count > 1 && part.present < count && !part.is_lent())?;
    let kept = part.present_indices().map(|index| charge(folder.place.length_of(part.size, index))).sum();
    Some((part.size, (0..count).filter(|index| !part.holds(*index)).collect(), kept))
}

/// Brings one record into the index; false when it cannot be true.
fn replay(index: &Index, shared: &StoreState, offset: u64, record: &Record) -> bool {
    let (block_size, proofs) = (shared.block_size, &shared.proofs);
    if let Record::File { id, .. } | Record::Block { id, .. } | Record::Drop { id, .. } = record {
        proofs.forget(id);
    }
    match record {
        Record::File { id, size, .. } => {
            if *size == 0 || size.div_ceil(u64::from(block_size.bytes())) > MAX_BLOCKS {
                return false;
            }
            let mut shard = index.shard(id);
            let part = shard.find_or_insert(id, || Part::new(*id, *size, block_size.count(*size)));
            part.record = offset;
            part.size == *size
        }
        Record::Block { id, index: number, length, crc } => {
            let mut shard = index.shard(id);
            let Some(part) = shard.find_mut(id) else { return false };
            let fits = *number < block_size.count(part.size)
                && block_size.range(*number, part.size).length() == u64::from(*length);
            if fits {
                part.slot_mut(*number).crc = *crc;
                shard.set_state(id, *number, BlockState::Present);
            }
            fits
        }
        Record::Drop { id, index: None } => {
            index.shard(id).remove(id);
            true
        }
        Record::Drop { id, index: Some(number) } => {
            let mut shard = index.shard(id);
            if shard.find(id).is_some_and(|part| part.holds(*number)) {
                shard.set_state(id, *number, BlockState::Absent);
            }
            true
        }
        Record::Lent { id } => {
            index.shard(id).find_mut(id).into_iter().for_each(|part| part.lending = Lending::Noted);
            true
        }
        Record::Compared { id, proof } => {
            proofs.note(*id, *proof);
            true
        }
        Record::Dataset { .. } | Record::Clean | Record::NotesLending => true,
    }
}

/// Makes a folder, for this user alone, unless it is there; the answer is its canonical path.
pub fn make_directory(path: &Path) -> Result<PathBuf> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| {
        Error::from_io("make cache folder", path, error).with_hint("check the path and the rights of its parent folder")
    })?;
    std::fs::canonicalize(path).map_err(|error| Error::from_io("use cache folder", path, error))
}
