//! Reading a log's records one after the other, in bounded memory. Judges no record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::record::{Decoded, HEADER_BYTES, Record};

/// How much is read at a time.
pub const READ_BYTES: usize = 1 << 20;

/// Reads one record after the other, from behind the header to the first that is none.
pub struct RecordReader<'a> {
    file: &'a File,
    /// Where the next record starts in the file.
    pub offset: u64,
    buffer: Vec<u8>,
    position: usize,
}

impl<'a> RecordReader<'a> {
    pub fn new(file: &'a File) -> Self {
        RecordReader { file, offset: HEADER_BYTES as u64, buffer: Vec::new(), position: 0 }
    }

    /// The next record with its offset and length.
    pub fn next(&mut self) -> io::Result<Option<(u64, Record, u64)>> {
        loop {
            match Record::decode(&self.buffer[self.position..]) {
                Decoded::Record(record, length) => {
                    let offset = self.offset;
                    self.position += length;
                    self.offset += length as u64;
                    return Ok(Some((offset, record, length as u64)));
                }
                Decoded::Incomplete(_) => {
                    if !self.read_more()? {
                        return Ok(None);
                    }
                }
                Decoded::Damaged => return Ok(None),
            }
        }
    }

    fn read_more(&mut self) -> io::Result<bool> {
        self.buffer.drain(..self.position);
        self.position = 0;
        let kept = self.buffer.len();
        self.buffer.resize(kept + READ_BYTES, 0);
        let count = self.file.read_at(&mut self.buffer[kept..], self.offset + kept as u64)?;
        self.buffer.truncate(kept + count);
        Ok(count > 0)
    }
}
