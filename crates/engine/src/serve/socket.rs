//! Blocking frame I/O on a Unix stream, with descriptors beside frames. Knows nothing of what the frames mean.

use std::fs::File;
use std::io::{ErrorKind as Io, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

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
const SOCKET_NAME: &str = "engine.sock";

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

/// Sends one frame whose payload is `parts` in order, with `descriptor` beside it.
pub fn send(
    stream: &mut UnixStream,
    kind: Kind,
    request: u64,
    payload: &[u8],
    descriptor: Option<RawFd>,
) -> Result<()> {
    let header = encode_header(kind, request, payload);
    let sent = match descriptor {
        None => 0,
        Some(fd) => {
            let descriptors = [fd];
            let control = [ControlMessage::ScmRights(&descriptors)];
            let slices = [IoSlice::new(&header)];
            sendmsg::<()>(stream.as_raw_fd(), &slices, &control, MsgFlags::MSG_NOSIGNAL, None)
                .map_err(|errno| lost(std::io::Error::from(errno)))?
        }
    };
    write_all(stream, &header[sent..], payload)
}

/// Both parts with as few system calls as the kernel allows.
fn write_all(stream: &mut UnixStream, header: &[u8], payload: &[u8]) -> Result<()> {
    let mut done = 0;
    while done < header.len() {
        let slices = [IoSlice::new(&header[done..]), IoSlice::new(payload)];
        match stream.write_vectored(&slices) {
            Ok(0) => return Err(lost(Io::WriteZero.into())),
            Ok(count) if done + count >= header.len() => {
                let start = done + count - header.len();
                return stream.write_all(&payload[start..]).map_err(lost);
            }
            Ok(count) => done += count,
            Err(error) if error.kind() == Io::Interrupted => {}
            Err(error) => return Err(lost(error)),
        }
    }
    stream.write_all(payload).map_err(lost)
}

/// Receives one frame; `Ok(None)` when the other side closed between frames.
pub fn receive(stream: &mut UnixStream) -> Result<Option<Frame>> {
    let Some((bytes, descriptor)) = receive_header(stream)? else {
        return Ok(None);
    };
    let header = decode_header(&bytes)?;
    let mut payload = vec![0; header.length];
    stream.read_exact(&mut payload).map_err(lost)?;
    check_payload(&bytes, &header, &payload)?;
    Ok(Some(Frame { header, payload, descriptor }))
}

/// Receives one frame whose payload goes straight into `buffer` if it is `Data` that fits; other frames come whole.
pub fn receive_into(stream: &mut UnixStream, buffer: &mut [u8]) -> Result<(usize, Option<Frame>)> {
    let (bytes, descriptor) = receive_header(stream)?.ok_or_else(|| lost(Io::UnexpectedEof.into()))?;
    let header = decode_header(&bytes)?;
    if header.kind == Kind::Data && header.length <= buffer.len() {
        stream.read_exact(&mut buffer[..header.length]).map_err(lost)?;
        check_payload(&bytes, &header, &buffer[..header.length])?;
        return Ok((header.length, None));
    }
    let mut payload = vec![0; header.length];
    stream.read_exact(&mut payload).map_err(lost)?;
    check_payload(&bytes, &header, &payload)?;
    Ok((0, Some(Frame { header, payload, descriptor })))
}

fn receive_header(stream: &mut UnixStream) -> Result<Option<([u8; HEADER_BYTES], Option<OwnedFd>)>> {
    let mut bytes = [0; HEADER_BYTES];
    let mut descriptor = None;
    let mut done = 0;
    while done < HEADER_BYTES {
        let mut space = nix::cmsg_space!([RawFd; 1]);
        let mut slices = [IoSliceMut::new(&mut bytes[done..])];
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let received = match recvmsg::<()>(stream.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Ok(message) => message,
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(lost(std::io::Error::from(errno))),
        };
        for control in received.cmsgs().map_err(|errno| lost(std::io::Error::from(errno)))? {
            if let ControlMessageOwned::ScmRights(descriptors) = control {
                // SAFETY: the kernel has just installed these descriptors for us; nobody else owns them.
                descriptor = descriptors.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }).next_back();
            }
        }
        match (received.bytes, done) {
            (0, 0) => return Ok(None),
            (0, _) => return Err(lost(Io::UnexpectedEof.into())),
            (count, _) => done += count,
        }
    }
    Ok(Some((bytes, descriptor)))
}

fn lost(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unreachable, "the process that owns the cache went away").with_source(error)
}
