//! Blocking frame I/O on a Unix stream, with descriptors beside frames. Knows nothing of what the frames mean.

use std::fs::File;
use std::io::{ErrorKind as Io, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

use super::frame::{HEADER_BYTES, Header, Kind, check_payload, decode_header, encode_header};
use crate::error::{Error, ErrorKind, Result};

/// A frame as it arrived.
#[derive(Debug)]
pub struct Frame {
    pub header: Header,
    pub payload: Vec<u8>,
    pub descriptor: Option<OwnedFd>,
}

/// The socket's file name inside a state directory.
pub const SOCKET_NAME: &str = "engine.sock";

/// A path to the socket that fits into `sun_path` (108 bytes) however deep the state directory lies: through the
/// directory's own descriptor when needed. The returned `File` keeps that path valid.
pub fn address(state_directory: &Path) -> Result<(PathBuf, Option<File>)> {
    let direct = state_directory.join(SOCKET_NAME);
    if direct.as_os_str().len() < 100 {
        return Ok((direct, None));
    }
    let directory = File::open(state_directory).map_err(|error| Error::from_io("open", state_directory, error))?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(SOCKET_NAME);
    Ok((short, Some(directory)))
}

/// How often an end that neither takes nor gives anything is thought about.
pub const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long an end waits for the other.
pub trait Patient {
    /// The other end has neither given nor taken a byte for so long, or a signal came; an error ends the wait.
    fn endure(&self, silent: Duration) -> Result<()>;
}

impl<F: Fn(Duration) -> Result<()>> Patient for F {
    fn endure(&self, silent: Duration) -> Result<()> {
        self(silent)
    }
}

/// One end of a connection.
pub struct Line<'a> {
    stream: &'a UnixStream,
    patient: &'a dyn Patient,
    silent: Duration,
}

impl<'a> Line<'a> {
    /// The stream's waits end after `LOOK_EVERY` from now on.
    pub fn new(stream: &'a UnixStream, patient: &'a dyn Patient) -> Result<Self> {
        stream.set_read_timeout(Some(LOOK_EVERY)).map_err(lost)?;
        stream.set_write_timeout(Some(LOOK_EVERY)).map_err(lost)?;
        Ok(Line { stream, patient, silent: Duration::ZERO })
    }

    /// Sends one frame, with `descriptor` beside it.
    pub fn send(&mut self, kind: Kind, request: u64, payload: &[u8], descriptor: Option<RawFd>) -> Result<()> {
        let header = encode_header(kind, request, payload);
        let sent = descriptor.map_or(Ok(0), |descriptor| self.send_with(&header, descriptor))?;
        self.write_all(&header[sent..], payload)
    }

    fn send_with(&mut self, header: &[u8], descriptor: RawFd) -> Result<usize> {
        let (descriptors, slices) = ([descriptor], [IoSlice::new(header)]);
        let control = [ControlMessage::ScmRights(&descriptors)];
        loop {
            match sendmsg::<()>(self.stream.as_raw_fd(), &slices, &control, MsgFlags::MSG_NOSIGNAL, None) {
                Ok(count) => return Ok(count),
                Err(errno) => self.endure(errno.into())?,
            }
        }
    }

    /// Both parts with as few system calls as the kernel allows.
    fn write_all(&mut self, header: &[u8], payload: &[u8]) -> Result<()> {
        let mut done = 0;
        while done < header.len() + payload.len() {
            let slices = [
                IoSlice::new(&header[done.min(header.len())..]),
                IoSlice::new(&payload[done.saturating_sub(header.len())..]),
            ];
            match self.stream.write_vectored(&slices) {
                Ok(0) => return Err(lost(Io::WriteZero.into())),
                Ok(count) => (done, self.silent) = (done + count, Duration::ZERO),
                Err(error) => self.endure(error)?,
            }
        }
        Ok(())
    }

    /// Receives one frame; `Ok(None)` when the other side closed between frames.
    pub fn receive(&mut self) -> Result<Option<Frame>> {
        let Some((bytes, descriptor)) = self.receive_header()? else {
            return Ok(None);
        };
        let header = decode_header(&bytes)?;
        let mut payload = vec![0; header.length];
        self.read_exact(&mut payload)?;
        check_payload(&bytes, &header, &payload)?;
        Ok(Some(Frame { header, payload, descriptor }))
    }

    /// Receives one frame whose payload goes straight into `buffer` if it is `Data` that fits; other frames come whole.
    pub fn receive_into(&mut self, buffer: &mut [u8]) -> Result<(usize, Option<Frame>)> {
        let (bytes, descriptor) = self.receive_header()?.ok_or_else(ended)?;
        let header = decode_header(&bytes)?;
        if header.kind == Kind::Data && header.length <= buffer.len() {
            self.read_exact(&mut buffer[..header.length])?;
            check_payload(&bytes, &header, &buffer[..header.length])?;
            return Ok((header.length, None));
        }
        let mut payload = vec![0; header.length];
        self.read_exact(&mut payload)?;
        check_payload(&bytes, &header, &payload)?;
        Ok((0, Some(Frame { header, payload, descriptor })))
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<()> {
        let mut done = 0;
        while done < buffer.len() {
            match (&mut &*self.stream).read(&mut buffer[done..]) {
                Ok(0) => return Err(ended()),
                Ok(count) => (done, self.silent) = (done + count, Duration::ZERO),
                Err(error) => self.endure(error)?,
            }
        }
        Ok(())
    }

    fn receive_header(&mut self) -> Result<Option<([u8; HEADER_BYTES], Option<OwnedFd>)>> {
        let mut bytes = [0; HEADER_BYTES];
        let mut descriptor = None;
        let mut done = 0;
        while done < HEADER_BYTES {
            let mut space = nix::cmsg_space!([RawFd; 1]);
            let mut slices = [IoSliceMut::new(&mut bytes[done..])];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let received = match recvmsg::<()>(self.stream.as_raw_fd(), &mut slices, Some(&mut space), flags) {
                Ok(message) => message,
                Err(errno) => {
                    self.endure(errno.into())?;
                    continue;
                }
            };
            for control in received.cmsgs().map_err(|errno| lost(std::io::Error::from(errno)))? {
                if let ControlMessageOwned::ScmRights(descriptors) = control {
                    // SAFETY: the kernel has just installed these descriptors for us; nobody else owns them.
                    descriptor = descriptors.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).next_back();
                }
            }
            self.silent = Duration::ZERO;
            match (received.bytes, done) {
                (0, 0) => return Ok(None),
                (0, _) => return Err(ended()),
                (count, _) => done += count,
            }
        }
        Ok(Some((bytes, descriptor)))
    }

    /// What interrupts a wait without ending it; all else is an end.
    fn endure(&mut self, error: std::io::Error) -> Result<()> {
        match error.kind() {
            Io::Interrupted => self.patient.endure(self.silent),
            Io::WouldBlock | Io::TimedOut => {
                self.silent += LOOK_EVERY;
                self.patient.endure(self.silent)
            }
            _ => Err(lost(error)),
        }
    }
}

/// The other side closed the connection.
pub fn ended() -> Error {
    lost(Io::UnexpectedEof.into())
}

fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unreachable, "the other end of a local connection went away").with_source(error)
}
