//! Moves bytes from cache files to the device through a pipe, without passing them through this process' memory.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};

use super::abi::{OUT_HEADER_BYTES, PAGE_BYTES};
use super::device::Device;
use super::reply;

/// Below this a copy is about as fast as the three system calls of a splice; see `docs/decisions/0005-mount-modes.md`.
pub const WORTHWHILE_BYTES: usize = 16 << 10;

/// One answer of 1 MiB, its header, and a page more where a read does not start at a page's border.
const CAPACITY_BYTES: i32 = 2 << 20;

/// What an answer takes besides its pages: one for its header, and up to two for each stretch that is not of whole pages.
/// Enough for a read that lies in three blocks.
pub const SLOTS_BESIDE_PAGES: usize = 8;

/// How many pages the pipes of this process hold; none where it may have no more pipes.
pub fn slots() -> usize {
    Ends::new().map_or(0, |ends| ends.slots)
}

/// A pipe that is empty between answers. Its ends are made when first used.
#[derive(Default)]
pub struct Pipe {
    ends: Option<Ends>,
    unusable: bool,
}

/// An answer on its way through a pipe. Whatever of it is there when this is dropped goes with the pipe's ends.
pub struct Filling<'a> {
    pipe: &'a mut Pipe,
    left: usize,
    total: usize,
}

struct Ends {
    read: OwnedFd,
    write: OwnedFd,
    slots: usize,
}

impl Pipe {
    /// Begins an answer of `total` bytes, which come in stretches of these `lengths`; `None` when this pipe cannot hold it.
    pub fn begin(
        &mut self,
        unique: u64,
        lengths: impl Iterator<Item = usize>,
        total: usize,
    ) -> io::Result<Option<Filling<'_>>> {
        let Some(ends) = self.ends() else { return Ok(None) };
        let slots = 1 + lengths.map(|length| length / PAGE_BYTES as usize + 2).sum::<usize>();
        if slots > ends.slots {
            return Ok(None);
        }
        let head = reply::header(unique, 0, total);
        nix::sys::uio::writev(&ends.write, &[IoSlice::new(head.as_bytes())])?;
        Ok(Some(Filling { pipe: self, left: total, total }))
    }

    fn ends(&mut self) -> Option<&Ends> {
        if self.ends.is_none() && !self.unusable {
            self.ends = Ends::new().ok();
            self.unusable = self.ends.is_none();
        }
        self.ends.as_ref()
    }
}

impl Filling<'_> {
    /// Takes `length` bytes of `file` from `offset`, or as many as are still wanted. Waits for the disk if it must.
    pub fn take(&mut self, file: &File, offset: u64, length: usize) -> io::Result<()> {
        let mut offset = i64::try_from(offset).map_err(|_| io::Error::from(Errno::EOVERFLOW))?;
        let wanted = length.min(self.left);
        self.left -= wanted;
        let Some(ends) = &self.pipe.ends else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let mut done = 0;
        while done < wanted {
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK;
            match splice(file, Some(&mut offset), &ends.write, None, wanted - done, flags)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                moved => done += moved,
            }
        }
        Ok(())
    }

    /// Hands the answer over; an error unless all of it was taken.
    pub fn send(mut self, device: &Device) -> io::Result<()> {
        if self.left != 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        device.check_serving()?;
        let ends = self.pipe.ends.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let length = OUT_HEADER_BYTES + self.total;
        // The device takes an answer whole.
        if splice(&ends.read, None, device.as_fd(), None, length, SpliceFFlags::empty())? != length {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.total = 0;
        self.pipe.ends = Some(ends);
        Ok(())
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        if self.total > 0 {
            self.pipe.ends = None;
        }
    }
}

impl Ends {
    /// An ordinary user may get a smaller pipe than wanted, or none of more than a page.
    fn new() -> io::Result<Ends> {
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC | OFlag::O_NONBLOCK)?;
        let grown = fcntl(&write, FcntlArg::F_SETPIPE_SZ(CAPACITY_BYTES))
            .or_else(|_| fcntl(&write, FcntlArg::F_SETPIPE_SZ(CAPACITY_BYTES / 2)));
        let bytes = grown.or_else(|_| fcntl(&write, FcntlArg::F_GETPIPE_SZ))?;
        Ok(Ends { read, write, slots: bytes as usize / PAGE_BYTES as usize })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek};

    use super::*;
    use crate::fuse::negotiate::pages_of_a_request;
    use crate::fuse::reply::header;

    /// A cache file, and a device that keeps what it is sent.
    fn bed(content: &[u8]) -> (File, Device, File) {
        let file = tempfile::tempfile().expect("made");
        nix::sys::uio::pwrite(&file, content, 0).expect("written");
        let device = tempfile::tempfile().expect("made");
        (file, Device::new(device.try_clone().expect("again").into()), device)
    }

    fn sent(mut device: File) -> Vec<u8> {
        let mut bytes = Vec::new();
        device.rewind().expect("rewound");
        device.read_to_end(&mut bytes).expect("read");
        bytes
    }

    fn begin(pipe: &mut Pipe, unique: u64, total: usize) -> Filling<'_> {
        pipe.begin(unique, [total].into_iter(), total).expect("begun").expect("room for so little")
    }

    #[test]
    fn an_answer_that_is_not_wanted_any_more_leaves_nothing_in_the_way_of_the_next() {
        let (file, device, told) = bed(b"first, second");
        let mut pipe = Pipe::default();
        let mut unwanted = begin(&mut pipe, 2, 5);
        unwanted.take(&file, 0, 5).expect("taken");
        drop(unwanted);
        for (unique, offset) in [(4, 7), (6, 0)] {
            let mut filling = begin(&mut pipe, unique, 5);
            filling.take(&file, offset, 3).expect("taken");
            filling.take(&file, offset + 3, 64).expect("no more than is wanted");
            filling.send(&device).expect("sent");
        }
        let wanted = [header(4, 0, 5).as_bytes(), b"secon", header(6, 0, 5).as_bytes(), b"first"].concat();
        assert_eq!(sent(told), wanted);
    }

    #[test]
    fn the_answer_to_the_largest_request_passes_also_when_it_lies_in_three_blocks() {
        let total = pages_of_a_request(slots()) * PAGE_BYTES as usize;
        let lengths = [total - 100, 99, 1];
        let passes = Pipe::default().begin(2, lengths.into_iter(), total).expect("begun").is_some();
        assert!(passes || slots() < 200, "pipes of {} pages", slots());
    }

    #[test]
    fn nothing_is_sent_of_a_file_that_ends_before_its_promised_length() {
        let (file, device, told) = bed(b"short");
        let mut pipe = Pipe::default();
        let mut filling = begin(&mut pipe, 2, 8);
        assert!(filling.take(&file, 0, 8).is_err());
        drop(filling);
        let mut filling = begin(&mut pipe, 4, 8);
        filling.take(&file, 0, 5).expect("taken");
        assert!(filling.send(&device).is_err());
        assert!(sent(told).is_empty());
    }
}
