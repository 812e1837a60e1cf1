//! The append-only log of a cache folder: replayed at open, appended to, compacted. Knows records and files, no blocks.
//!
//! Every append is one `write` under one lock: a killed process leaves at most one torn record at the end. Nothing is
//! synced but a compacted log: after a power loss the checksums of records and blocks tell what survived.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::blocks::Proof;
use super::layout;
use super::log_reader::{READ_BYTES, RecordReader};
use super::record::{self, Decoded, HEADER_BYTES, Header, MAGIC, MAX_PAYLOAD_BYTES, Record};
use super::watch::DiskWatch;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{BlockSize, FileId, FileKey};
use crate::own_files;
use crate::sync::Mutex;

/// Below this a log is not worth compacting.
const MIN_COMPACT_BYTES: u64 = 1 << 20;

/// The open log of one folder.
#[derive(Debug)]
pub struct Log {
    folder: PathBuf,
    writer: Mutex<Writer>,
}

#[derive(Debug)]
struct Writer {
    /// Called on with the lock held: those who wait for the lock are no calls of their own.
    watch: Arc<DiskWatch>,
    file: File,
    length: u64,
    /// Bytes of records that no longer say anything; an estimate.
    garbage: u64,
    file_records: u64,
    file_record_bytes: u64,
    datasets: Vec<Arc<str>>,
    numbers: HashMap<Arc<str>, u32>,
    block_size: BlockSize,
    /// Where the record of a good end stands that an earlier run left at the end.
    clean_at: Option<u64>,
    /// A torn record may stand at the end: nothing more may be appended before a compaction.
    broken: bool,
}

/// How a replay ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// When the folder was closed in good order, if the last record says that it was.
    pub closed_at: Option<SystemTime>,
    /// The log says which files were given away whole.
    pub notes_lending: bool,
    /// Bytes at the end that were no records, and were cut off.
    pub cut_bytes: u64,
}

impl Log {
    /// Opens the log of `folder` and shows every record with its offset to `visit`, which answers false to a record that
    /// cannot be; from there on, as from the first damaged record on, the log is cut off.
    pub fn open(
        folder: &Path,
        block_size: BlockSize,
        watch: &Arc<DiskWatch>,
        mut visit: impl FnMut(u64, &Record) -> bool,
    ) -> Result<(Self, Replayed)> {
        let path = folder.join(layout::LOG);
        let io = |error| Error::from_io("open the log of the cache folder", &path, error);
        let mut file = own_files::options().read(true).append(true).create(true).open(&path).map_err(io)?;
        let usable = check_header(folder, &mut file, block_size)?;
        let mut writer = Writer::new(file, block_size, watch);
        let mut replayed = Replayed::default();
        if usable {
            replayed = writer.replay(&mut visit).map_err(io)?;
        } else {
            writer.restart().map_err(io)?;
        }
        Ok((Log { folder: folder.to_owned(), writer: Mutex::new(writer) }, replayed))
    }

    /// Notes a file version; `placed` hears where its key can be read again, before a compaction may move it.
    pub fn append_file(&self, id: FileId, key: &FileKey, placed: impl FnOnce(u64)) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let mut bytes = Vec::with_capacity(256);
        let number = writer.number_of(&key.dataset, &mut bytes);
        let before = bytes.len() as u64;
        Record::file(id, number, key).encode(&mut bytes);
        writer.file_records += 1;
        writer.file_record_bytes += bytes.len() as u64 - before;
        let start = writer.append(&bytes)?;
        writer.learn(&key.dataset, number);
        placed(start + before);
        Ok(())
    }

    /// Notes a block whose bytes are in place.
    pub fn append_block(&self, id: FileId, index: u32, length: u32, crc: u32) -> io::Result<()> {
        self.append_record(&Record::Block { id, index, length, crc })
    }

    /// Notes that a block, or the whole file version, is about to go.
    pub fn append_drop(&self, id: FileId, index: Option<u32>, blocks: u32) -> io::Result<()> {
        self.append_record(&Record::Drop { id, index })?;
        let mut writer = self.writer.lock();
        let file_record = if index.is_none() { writer.mean_file_record() } else { 0 };
        writer.garbage += u64::from(blocks + 1) * record::BLOCK_RECORD_BYTES + file_record;
        Ok(())
    }

    /// Notes that a data file is about to be given away whole.
    pub fn append_lent(&self, id: FileId) -> io::Result<()> {
        self.append_record(&Record::Lent { id })
    }

    /// Notes how the file version compares with its checksum at the origin.
    pub fn append_compared(&self, id: FileId, proof: Proof) -> io::Result<()> {
        self.append_record(&Record::Compared { id, proof })
    }

    fn append_record(&self, record: &Record) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(64);
        record.encode(&mut bytes);
        self.writer.lock().append(&bytes).map(drop)
    }

    /// To be called before a data file is made or written to.
    pub fn begin_change(&self) -> io::Result<()> {
        let mut writer = self.writer.lock();
        if writer.clean_at.is_none() {
            return Ok(());
        }
        let watch = writer.watch.clone();
        let _operation = watch.begin();
        writer.cut_clean()
    }

    /// Marks the log as complete.
    ///
    /// It is not forced to the disk: on ext4 that would first write out every block of the run (40 s for 2 GB on a slow
    /// disk, measured), and a log that a power loss tears is cut at its last whole record all the same.
    pub fn close(&self) -> io::Result<()> {
        self.append_record(&Record::Clean)
    }

    /// The key of `id`, whose file record stands at `offset`; `None` when another record stands there.
    pub fn read_key(&self, id: &FileId, offset: u64) -> Option<FileKey> {
        let writer = self.writer.lock();
        let mut bytes = vec![0; 512];
        loop {
            let count = writer.watch.during(|| writer.file.read_at(&mut bytes, offset)).ok()?;
            match Record::decode(&bytes[..count]) {
                Decoded::Record(record, _) => return writer.key_of(id, record),
                Decoded::Incomplete(needed) if count == bytes.len() => bytes.resize(needed.max(bytes.len() + 1), 0),
                _ => return None,
            }
        }
    }

    /// True when more than half of the log says nothing any more, or it can only be written anew.
    pub fn wants_compaction(&self) -> bool {
        let writer = self.writer.lock();
        writer.broken || (writer.length > MIN_COMPACT_BYTES && writer.garbage > writer.length / 2)
    }

    /// Writes the log anew with those records that `keep` answers true to, and puts it in the old one's place. `moved`
    /// then hears the new offset of each file record, before anybody can read or append again.
    pub fn compact(&self, mut keep: impl FnMut(&Record) -> bool, mut moved: impl FnMut(FileId, u64)) -> io::Result<()> {
        let mut writer = self.writer.lock();
        let watch = writer.watch.clone();
        let _operation = watch.begin_slow();
        let (old, new) = (self.folder.join(layout::LOG), self.folder.join(layout::NEW_LOG));
        let mut fresh = Writer::new(create(&new)?, writer.block_size, &watch);
        let result = writer.copy_to(&mut fresh, &mut keep).and_then(|offsets| {
            fresh.file.sync_all()?;
            std::fs::rename(&new, &old)?;
            File::open(&self.folder)?.sync_all()?;
            Ok(offsets)
        });
        match result {
            Ok(offsets) => {
                offsets.into_iter().for_each(|(id, offset)| moved(id, offset));
                *writer = fresh;
                Ok(())
            }
            Err(error) => std::fs::remove_file(&new).and(Err(error)),
        }
    }
}

impl Writer {
    fn new(file: File, block_size: BlockSize, watch: &Arc<DiskWatch>) -> Self {
        Writer {
            watch: watch.clone(),
            file,
            length: 0,
            garbage: 0,
            file_records: 0,
            file_record_bytes: 0,
            datasets: Vec::new(),
            numbers: HashMap::new(),
            block_size,
            clean_at: None,
            broken: false,
        }
    }

    /// Empties the log down to a new header.
    fn restart(&mut self) -> io::Result<()> {
        self.file.set_len(0)?;
        self.length = 0;
        let header = Header { version: record::VERSION, block_size: self.block_size.bytes() };
        let mut bytes = header.encode().to_vec();
        Record::NotesLending.encode(&mut bytes);
        self.append(&bytes).map(drop)
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<u64> {
        if self.broken {
            return Err(io::Error::other("the log's end is damaged"));
        }
        let watch = self.watch.clone();
        let _operation = watch.begin();
        self.cut_clean()?;
        let start = self.length;
        if let Err(error) = self.file.write_all(bytes) {
            // A part may have been written: what follows it could not be replayed.
            self.broken = self.file.set_len(start).is_err();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(start)
    }

    /// Takes back that the folder was closed in good order. Cut off, not followed by more: a log that loses its end to a
    /// power loss may not come to look so again.
    fn cut_clean(&mut self) -> io::Result<()> {
        if let Some(offset) = self.clean_at {
            self.file.set_len(offset)?;
            (self.length, self.clean_at) = (offset, None);
        }
        Ok(())
    }

    /// The number of a dataset; a new one is put into `bytes` as a record, and counts once `learn` is told.
    fn number_of(&self, name: &Arc<str>, bytes: &mut Vec<u8>) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = self.datasets.len() as u32;
        Record::Dataset { number, name: name.clone() }.encode(bytes);
        number
    }

    fn learn(&mut self, name: &Arc<str>, number: u32) {
        if number as usize == self.datasets.len() {
            self.datasets.push(name.clone());
            self.numbers.insert(name.clone(), number);
        }
    }

    fn mean_file_record(&self) -> u64 {
        self.file_record_bytes.checked_div(self.file_records).unwrap_or(0)
    }

    fn key_of(&self, id: &FileId, record: Record) -> Option<FileKey> {
        match record {
            Record::File { id: found, dataset, size, path, version } if found == *id => {
                let dataset = self.datasets.get(dataset as usize)?.clone();
                Some(FileKey { dataset, path, size, version })
            }
            _ => None,
        }
    }

    fn replay(&mut self, visit: &mut impl FnMut(u64, &Record) -> bool) -> io::Result<Replayed> {
        let mut reader = RecordReader::new(&self.file);
        let (mut clean, mut notes_lending) = (None, false);
        // The note of the end was the last write.
        let written_at = self.file.metadata()?.modified()?;
        let mut datasets = Vec::new();
        let mut counted = (0, 0, 0);
        while let Some((offset, record, length)) = reader.next()? {
            let possible = match &record {
                Record::Dataset { number, name } => {
                    let next = *number as usize == datasets.len();
                    datasets.push(name.clone());
                    next
                }
                Record::File { dataset, .. } => (*dataset as usize) < datasets.len() && visit(offset, &record),
                _ => visit(offset, &record),
            };
            if !possible {
                reader.offset = offset;
                break;
            }
            clean = (record == Record::Clean).then_some(offset);
            notes_lending |= record == Record::NotesLending && offset == HEADER_BYTES as u64;
            match record {
                Record::File { .. } => counted = (counted.0 + 1, counted.1 + length, counted.2),
                Record::Drop { .. } => counted.2 += 2 * record::BLOCK_RECORD_BYTES,
                Record::Clean => counted.2 += length,
                _ => {}
            }
        }
        let good = reader.offset;
        (self.file_records, self.file_record_bytes, self.garbage) = counted;
        datasets.into_iter().enumerate().for_each(|(number, name)| self.learn(&name, number as u32));
        let cut_bytes = self.file.metadata()?.len().saturating_sub(good);
        if cut_bytes > 0 {
            self.file.set_len(good)?;
        }
        self.length = good;
        self.clean_at = clean.filter(|_| cut_bytes == 0);
        Ok(Replayed { closed_at: self.clean_at.map(|_| written_at), notes_lending, cut_bytes })
    }

    /// Copies header, dataset names and the records to keep; the new offsets of the file records.
    fn copy_to(
        &mut self,
        fresh: &mut Writer,
        keep: &mut impl FnMut(&Record) -> bool,
    ) -> io::Result<Vec<(FileId, u64)>> {
        let mut offsets = Vec::new();
        let mut bytes = Vec::with_capacity(READ_BYTES + MAX_PAYLOAD_BYTES);
        fresh.restart()?;
        let mut reader = RecordReader::new(&self.file);
        while let Some((offset, record, length)) = reader.next()? {
            if offset >= self.length {
                break;
            }
            match &record {
                Record::Dataset { number, name } => fresh.learn(name, *number),
                Record::Clean | Record::Drop { .. } | Record::NotesLending => continue,
                _ if !keep(&record) => continue,
                Record::File { id, .. } => {
                    offsets.push((*id, fresh.length + bytes.len() as u64));
                    fresh.file_records += 1;
                    fresh.file_record_bytes += length;
                }
                Record::Block { .. } | Record::Lent { .. } | Record::Compared { .. } => {}
            }
            record.encode(&mut bytes);
            if bytes.len() >= READ_BYTES {
                fresh.append(&bytes)?;
                bytes.clear();
            }
        }
        fresh.append(&bytes)?;
        Ok(offsets)
    }
}

fn create(path: &Path) -> io::Result<File> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    own_files::options().read(true).append(true).create_new(true).open(path)
}

/// True when the log's content is for us to replay; false when it must be started anew.
fn check_header(folder: &Path, file: &mut File, block_size: BlockSize) -> Result<bool> {
    let mut bytes = Vec::new();
    file.take(HEADER_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::from_io("read the log of the cache folder", folder, error))?;
    let place = folder.display();
    match Header::decode(&bytes) {
        Some(header) if header.version > record::VERSION => Err(Error::new(
            ErrorKind::Unsupported,
            format!("cache folder {place} was written by a newer Headrace (format {})", header.version),
        )
        .with_hint("use that version, or give this one another --cache folder")),
        Some(header) if header.block_size == block_size.bytes() => Ok(true),
        Some(header) => {
            let (old, new) = (header.block_size, block_size.bytes());
            tracing::warn!(
                "cache folder {place}: its blocks of {old} bytes are discarded, the block size is {new} now"
            );
            Ok(false)
        }
        None if bytes.is_empty() => Ok(false),
        None if bytes.starts_with(&MAGIC[..bytes.len().min(8)]) || folder.join(layout::DATA).is_dir() => {
            tracing::warn!("cache folder {place}: the log's header is damaged, the content is discarded");
            Ok(false)
        }
        None => Err(Error::config(format!("{place} holds an {} that is not Headrace's", layout::LOG))
            .with_hint("choose an empty folder for --cache")),
    }
}
