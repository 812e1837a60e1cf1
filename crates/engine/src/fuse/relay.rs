//! The way for invalidations through the supervisor.
//!
//! The kernel may hold the sender of an invalidation, beyond the reach of any signal, until a look-up is answered. A daemon
//! that is killed then would never end, its successor never start, and the look-up never be answered. So the supervisor
//! sends for the daemon: it waits for nobody's answer. Layout: `docs/format/mount-ledger.md`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, Shutdown, recv, send, shutdown};

/// Messages of this many bytes at most in one packet: a supervisor, also one of before, takes 64 KiB.
pub const PACKET_BYTES: usize = 62 << 10;
const ANSWER_BYTES: usize = 12;

/// What became of a packet of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    pub taken: u32,
    /// The kernel does not have such messages.
    pub unsupported: u32,
    /// It refused them for a reason that nobody expects.
    pub refused: u32,
}

/// Our end of a pair of packet sockets.
#[derive(Debug)]
pub struct Relay {
    socket: OwnedFd,
}

impl Relay {
    pub fn new(socket: OwnedFd) -> Self {
        Relay { socket }
    }

    /// Has a packet of whole messages sent, and waits until that has happened.
    pub fn pass(&self, packet: &[u8]) -> io::Result<Outcome> {
        again(|| send(self.socket.as_raw_fd(), packet, MsgFlags::MSG_NOSIGNAL))?;
        let mut answer = [0; ANSWER_BYTES];
        if again(|| recv(self.socket.as_raw_fd(), &mut answer, MsgFlags::empty()))? != ANSWER_BYTES {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let word = |at: usize| u32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
        Ok(Outcome { taken: word(0), unsupported: word(4), refused: word(8) })
    }

    /// Ends a `pass` that waits in another thread, and every later one.
    pub fn abandon(&self) {
        let _ = shutdown(self.socket.as_raw_fd(), Shutdown::Both);
    }
}

fn again<T>(mut call: impl FnMut() -> nix::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::EINTR) => {}
            result => return result.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    fn pair() -> (Relay, OwnedFd) {
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags).expect("a pair");
        (Relay::new(ours), theirs)
    }

    #[test]
    fn the_outcome_comes_back() {
        let (relay, other) = pair();
        let supervisor = std::thread::spawn(move || {
            let mut packet = [0; 100];
            let length = recv(other.as_raw_fd(), &mut packet, MsgFlags::empty()).expect("a packet");
            let answer = [length as u32, 2, 3].map(u32::to_le_bytes).concat();
            send(other.as_raw_fd(), &answer, MsgFlags::empty()).expect("sent");
        });
        assert_eq!(relay.pass(b"12345").expect("passed"), Outcome { taken: 5, unsupported: 2, refused: 3 });
        supervisor.join().expect("no fault");
    }

    #[test]
    fn a_supervisor_that_is_gone_or_not_needed_any_more_is_an_error() {
        let (relay, other) = pair();
        let relay = Arc::new(relay);
        let waiting = {
            let relay = relay.clone();
            std::thread::spawn(move || relay.pass(b"1"))
        };
        std::thread::sleep(std::time::Duration::from_millis(50));
        relay.abandon();
        waiting.join().expect("no fault").expect_err("abandoned");
        drop(other);
        relay.pass(b"2").expect_err("gone");
    }
}
