//! Files of the cache that the owner has lent to an attached process.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};

/// Leased files kept open; the oldest is given back first.
const MAX_LEASED: usize = 256;

/// Leases live on a connection of their own: the owner takes them back when it closes.
#[derive(Debug, Default)]
pub struct Leases {
    pub stream: Option<UnixStream>,
    pub files: HashMap<u64, (u64, Arc<LeasedFile>)>,
    clock: u64,
    pub generation: u64,
}

/// A file that the owner lends, if it is whole there.
pub type Lent = Option<Arc<LeasedFile>>;

/// A file of the cache, opened by the owner, whole and verified; reads of it are plain system calls.
#[derive(Debug)]
pub struct LeasedFile {
    pub(super) file: File,
}

impl LeasedFile {
    /// Fills `buffer` from `offset`; fewer bytes only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Error::new(ErrorKind::Unexpected, "cannot read a cache file").with_source(error));
                }
            }
        }
        Ok(done)
    }
}

impl Leases {
    /// Forgets the files that an owner before lent. Whoever reads one now keeps it: its bytes stay right.
    pub fn renew(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Leases { generation, ..Leases::default() };
        }
    }

    pub fn find(&mut self, inode: u64) -> Option<Arc<LeasedFile>> {
        self.clock += 1;
        let (used, file) = self.files.get_mut(&inode)?;
        *used = self.clock;
        Some(file.clone())
    }

    pub fn add(&mut self, inode: u64, file: Arc<LeasedFile>) {
        self.files.insert(inode, (self.clock, file));
    }

    /// Takes out those that are too many and that nobody reads.
    pub fn shrink(&mut self) -> Vec<u64> {
        let mut gone = Vec::new();
        while self.files.len() > MAX_LEASED {
            // A file that another thread is reading right now keeps its lease: giving it back would let it be evicted.
            let unused = self.files.iter().filter(|(_, (_, file))| Arc::strong_count(file) == 1);
            let oldest = unused.min_by_key(|(_, (used, _))| *used).map(|(inode, _)| *inode);
            let Some(inode) = oldest else { break };
            self.files.remove(&inode);
            gone.push(inode);
        }
        gone
    }
}
