//! Checksums of a file that is in the store as a whole: of all of it, or of the parts that it was uploaded in.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::source::Source;
use crate::checksum::parts::{GRID_BYTES, Pieces};
use crate::checksum::{Checksum, Digest, Kind};
use crate::ids::BlockSize;
use crate::store::Blocks;

/// Bytes of a cached file that are read at once.
const STEP_BYTES: usize = 1 << 20;

/// A file in the store. Whatever is asked of it is `None` where something of it went meanwhile.
#[derive(Clone)]
pub(super) struct FileHere {
    pub source: Source,
    pub blocks: Arc<dyn Blocks>,
    pub block_size: BlockSize,
    pub runtime: Handle,
    pub closing: CancellationToken,
}

impl FileHere {
    /// The checksum of all of it: combined from those of its blocks, or else by reading it.
    pub async fn sum(&self, kind: Kind) -> Option<Checksum> {
        match self.block_pieces(kind) {
            Some(pieces) => Some(pieces.whole()),
            None => self.sums(kind, vec![self.source.size()]).await?.first().copied(),
        }
    }

    /// The checksum of the checksums of parts of these lengths, which make up the file.
    pub async fn sum_of_parts(&self, kind: Kind, lengths: Vec<u64>) -> Option<Checksum> {
        Some(Checksum::of_parts(kind, self.sums(kind, lengths).await?))
    }

    /// The CRCs of its blocks, where these are kept.
    pub fn block_pieces(&self, kind: Kind) -> Option<Pieces> {
        let size = self.source.size();
        let crcs = (kind == Kind::Crc32c).then(|| self.blocks.crc32cs(&self.source.id(), size))??;
        let crcs = crcs.into_iter().map(|crc| Checksum::of_number(kind, u64::from(crc))).collect();
        Pieces::new(kind, u64::from(self.block_size.bytes()), size, crcs)
    }

    /// The CRCs of its pieces of `GRID_BYTES`, by reading it.
    pub async fn grid_pieces(&self, kind: Kind) -> Option<Pieces> {
        let size = self.source.size();
        let lengths = (0..size).step_by(GRID_BYTES as usize).map(|start| GRID_BYTES.min(size - start)).collect();
        Pieces::new(kind, GRID_BYTES, size, self.sums(kind, lengths).await?)
    }

    /// The checksums of its parts of these lengths, by reading it once on a thread that may wait for a disk.
    async fn sums(&self, kind: Kind, lengths: Vec<u64>) -> Option<Vec<Checksum>> {
        let file = self.clone();
        let read = move || {
            let mut cutter = Cutter::new(kind, lengths);
            (0..file.block_size.count(file.source.size())).try_for_each(|index| file.read_block(index, &mut cutter))?;
            cutter.finish()
        };
        self.runtime.spawn_blocking(read).await.ok().flatten()
    }

    fn read_block(&self, index: u32, cutter: &mut Cutter) -> Option<()> {
        (!self.closing.is_cancelled()).then_some(())?;
        let block = self.blocks.get(&self.source.id(), index, self.source.size())?;
        let mut buffer = vec![0; STEP_BYTES.min(block.length as usize)];
        let mut done = 0;
        while done < u64::from(block.length) {
            let step = (u64::from(block.length) - done).min(buffer.len() as u64) as usize;
            block.file.read_exact_at(&mut buffer[..step], block.offset + done).ok()?;
            cutter.add(&buffer[..step]);
            done += step as u64;
        }
        Some(())
    }
}

/// Cuts a content at the ends of its parts.
struct Cutter {
    kind: Kind,
    /// Lengths of parts that are not complete, the first one last.
    lengths: Vec<u64>,
    digest: Digest,
    /// Bytes of the current part so far.
    length: u64,
    sums: Vec<Checksum>,
}

impl Cutter {
    fn new(kind: Kind, mut lengths: Vec<u64>) -> Self {
        lengths.reverse();
        let mut cutter = Cutter { kind, lengths, digest: kind.digest(), length: 0, sums: Vec::new() };
        cutter.end_full_parts();
        cutter
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while let (false, Some(whole)) = (bytes.is_empty(), self.lengths.last()) {
            let (part, rest) = bytes.split_at((whole - self.length).min(bytes.len() as u64) as usize);
            self.digest.update(part);
            self.length += part.len() as u64;
            bytes = rest;
            self.end_full_parts();
        }
    }

    fn end_full_parts(&mut self) {
        while self.lengths.last() == Some(&self.length) {
            self.lengths.pop();
            self.length = 0;
            self.sums.push(std::mem::replace(&mut self.digest, self.kind.digest()).finish());
        }
    }

    /// The checksums, if all parts are complete.
    fn finish(self) -> Option<Vec<Checksum>> {
        self.lengths.is_empty().then_some(self.sums)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_content_is_cut_at_the_ends_of_its_parts_however_it_comes() {
        let content: Vec<u8> = (0..100).collect();
        for step in [1, 7, 100] {
            for lengths in [vec![100], vec![30, 30, 40], vec![0, 99, 1], vec![1; 100]] {
                let mut cutter = Cutter::new(Kind::Crc32, lengths.clone());
                content.chunks(step).for_each(|bytes| cutter.add(bytes));
                let mut rest = &content[..];
                let expected: Vec<Checksum> = lengths
                    .iter()
                    .map(|length| rest.split_off(..*length as usize).map_or(&[][..], |part| part))
                    .map(|part| Checksum::of(Kind::Crc32, part))
                    .collect();
                assert_eq!(cutter.finish(), Some(expected), "{step} {lengths:?}");
            }
        }
    }

    #[test]
    fn a_content_that_is_shorter_than_its_parts_has_no_checksums() {
        let mut cutter = Cutter::new(Kind::Crc32, vec![3, 3]);
        cutter.add(b"abcde");
        assert_eq!(cutter.finish(), None);
        assert_eq!(Cutter::new(Kind::Md5, vec![0]).finish(), Some(vec![Checksum::of(Kind::Md5, b"")]));
    }
}
