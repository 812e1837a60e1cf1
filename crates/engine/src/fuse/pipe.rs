//! Moves bytes from cache files to the device through a pipe, without passing them through this process' memory.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice};

use super::abi::{OUT_HEADER_BYTES, PAGE_BYTES};
use super::device::Device;
use super::reply;
use crate::vfs::FilePart;

/// Below this a copy is about as fast as the three system calls of a splice; see `docs/decisions/0005-mount-modes.md`.
pub const WORTHWHILE_BYTES: usize = 16 << 10;

/// One answer of 1 MiB, its header, and a page more where a read does not start at a page's border.
const CAPACITY_BYTES: i32 = 2 << 20;

/// A pipe that is empty between answers. Its ends are made when first used.
#[derive(Default)]
pub struct Pipe {
    ends: Option<Ends>,
    unusable: bool,
}

struct Ends {
    read: OwnedFd,
    write: OwnedFd,
    slots: usize,
}

impl Pipe {
    /// Writes the whole answer, or false when this pipe cannot hold it and nothing was done. After an error the pipe
    /// must be dropped.
    pub fn send(&mut self, device: &Device, unique: u64, parts: &[FilePart], total: usize) -> io::Result<bool> {
        let Some(ends) = self.ends() else { return Ok(false) };
        let slots = 1 + parts.iter().map(|part| part.length / PAGE_BYTES as usize + 2).sum::<usize>();
        if slots > ends.slots {
            return Ok(false);
        }
        let head = reply::header(unique, 0, total);
        nix::sys::uio::writev(&ends.write, &[IoSlice::new(head.as_bytes())])?;
        let mut left = total;
        for part in parts {
            left -= ends.fill(part, left)?;
        }
        if left != 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        ends.drain(device, OUT_HEADER_BYTES + total)?;
        Ok(true)
    }

    fn ends(&mut self) -> Option<&Ends> {
        if self.ends.is_none() && !self.unusable {
            self.ends = Ends::new().ok();
            self.unusable = self.ends.is_none();
        }
        self.ends.as_ref()
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

    fn fill(&self, part: &FilePart, left: usize) -> io::Result<usize> {
        let wanted = part.length.min(left);
        let mut offset = i64::try_from(part.offset).map_err(|_| io::Error::from(Errno::EOVERFLOW))?;
        let mut done = 0;
        while done < wanted {
            let flags = SpliceFFlags::SPLICE_F_NONBLOCK;
            match splice(part.file.as_fd(), Some(&mut offset), &self.write, None, wanted - done, flags)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                moved => done += moved,
            }
        }
        Ok(wanted)
    }

    /// The device takes an answer whole.
    fn drain(&self, device: &Device, length: usize) -> io::Result<()> {
        device.check_serving()?;
        match splice(&self.read, None, device.as_fd(), None, length, SpliceFFlags::empty()) {
            Ok(sent) if sent == length => Ok(()),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) => Err(error.into()),
        }
    }
}
