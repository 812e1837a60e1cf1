//! The reads of an attached process from files on lease: only that process sees it, so it tells the owner.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::socket::{MsgFlags, Shutdown, send, shutdown};

use super::frame::{Kind, encode_header};
use crate::error::{Error, ErrorKind, Result};

/// What a process that is killed has read without telling of it is less than this, and what is under way.
const TOLD_FROM_BYTES: u64 = 1 << 20;
/// More than any process reads before it tells of it.
const MOST_BYTES: u64 = 1 << 50;

/// Bytes that the owner has not been told of yet.
#[derive(Debug, Default)]
pub struct DirectReads(AtomicU64);

impl DirectReads {
    /// True when there is so much that the owner should be told.
    pub fn add(&self, bytes: usize) -> bool {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 >= TOLD_FROM_BYTES
    }

    /// Tells the owner, if it takes that at once: no reader waits for an owner that stands still.
    pub fn tell(&self, stream: &UnixStream) {
        let bytes = self.0.swap(0, Ordering::Relaxed);
        if bytes == 0 {
            return;
        }
        let payload = bytes.to_le_bytes();
        let frame = [&encode_header(Kind::Count, 0, &payload)[..], &payload].concat();
        match send(stream.as_raw_fd(), &frame, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL) {
            Ok(sent) if sent == frame.len() => {}
            Ok(_) => {
                // Nobody could tell where the next frame begins.
                let _ = shutdown(stream.as_raw_fd(), Shutdown::Both);
            }
            Err(_) => {
                self.0.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }
}

/// The bytes that a `Count` tells of.
pub fn decode_count(payload: &[u8]) -> Result<u64> {
    let told = payload.try_into().ok().map(u64::from_le_bytes);
    told.filter(|bytes| *bytes <= MOST_BYTES)
        .ok_or_else(|| Error::new(ErrorKind::Corrupt, "a message on the local socket tells no number of bytes"))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[test]
    fn what_the_owner_does_not_take_is_told_later_and_once() {
        let (here, there) = UnixStream::pair().expect("a pair");
        let reads = DirectReads::default();
        assert!(!reads.add(5));
        // Full, as when the owner stands still.
        while send(here.as_raw_fd(), &[0; 4096], MsgFlags::MSG_DONTWAIT).is_ok() {}
        while send(here.as_raw_fd(), &[0], MsgFlags::MSG_DONTWAIT).is_ok() {}
        reads.tell(&here);
        assert!(reads.add(TOLD_FROM_BYTES as usize));
        let (here, mut there_again) = UnixStream::pair().expect("a pair");
        reads.tell(&here);
        reads.tell(&here);
        drop((here, there));
        let mut told = Vec::new();
        there_again.read_to_end(&mut told).expect("read");
        assert_eq!(told.len(), 32, "one frame");
        assert_eq!(decode_count(&told[24..]).expect("a count"), TOLD_FROM_BYTES + 5);
    }

    #[test]
    fn only_counts_are_believed() {
        for payload in [&[][..], &[1, 2, 3], &[0; 9], &u64::MAX.to_le_bytes()] {
            assert_eq!(decode_count(payload).expect_err("no count").kind(), ErrorKind::Corrupt);
        }
    }
}
