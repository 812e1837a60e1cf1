//! ONC RPC (RFC 5531) over TCP: one call at a time on a connection, its reply bounded before it is taken.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use crate::origin::fault::Cause;
use crate::origin::machine_addresses::of_origins;
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::xdr::{Reader, Writer};

/// A program of a server, in the version that is spoken here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Program {
    pub number: u32,
    pub version: u32,
}

/// One procedure with its arguments.
#[derive(Debug)]
pub(super) struct Call {
    pub program: Program,
    pub procedure: u32,
    pub arguments: Bytes,
}

/// The largest reply that is taken: a READ of the largest piece and all that stands around it.
const LARGEST_REPLY: usize = 2 << 20;
/// The parts that one reply may come in.
const MOST_FRAGMENTS: usize = 1024;
const LAST_FRAGMENT: u32 = 1 << 31;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const RPC_VERSION: u32 = 2;
const AUTH_NONE: u32 = 0;
pub(super) const AUTH_SYS: u32 = 1;
/// What a verifier or a credential holds at the most.
const AUTH_BYTES: usize = 400;

/// The ports that only privileged programs may use, from the last one down to where the kernel's own client stops.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Numbers of calls: different on all connections of this process.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// Opens connections to one server.
#[derive(Debug, Clone)]
pub(super) struct Dial {
    /// Name or address, without brackets.
    pub host: String,
    /// The body of the AUTH_SYS credential.
    pub credential: Bytes,
    /// Longest silence of the server within a call.
    pub silence: Duration,
}

/// A connection between two calls. A call that is dropped in the middle drops it, too.
#[derive(Debug)]
pub(super) struct Connection {
    stream: TcpStream,
    credential: Bytes,
    silence: Duration,
}

impl Dial {
    pub async fn open(&self, port: u16) -> Result<Connection, Failure> {
        let limit = CONNECT_TIMEOUT.min(self.silence);
        let connecting = async {
            let addresses =
                tokio::net::lookup_host((self.host.as_str(), port)).await.map_err(|_| Cause::NameUnknown)?;
            let allowed = of_origins(addresses).map_err(|_| Cause::MachineAddress)?;
            connect_to_any(allowed.into_iter()).await.map_err(|error| connect_cause(&error))
        };
        let stream = match timeout(limit, connecting).await {
            Ok(outcome) => outcome.map_err(Failure::Wire)?,
            Err(_) => return Err(Failure::Wire(Cause::ConnectTimeout)),
        };
        // Without it each small call would wait for the acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        Ok(Connection { stream, credential: self.credential.clone(), silence: self.silence })
    }
}

impl Connection {
    /// The result of a call, behind its RPC header.
    pub async fn call(&mut self, call: &Call) -> Result<Reader, Failure> {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let message = message(number, call, &self.credential);
        timely(self.silence, self.stream.write_all(&message)).await?;
        let record = self.record().await?;
        result(number, Reader::new(record))
    }

    /// One whole reply, however many fragments it comes in.
    async fn record(&mut self) -> Result<Bytes, Failure> {
        let mut record = BytesMut::new();
        for _ in 0..MOST_FRAGMENTS {
            let header = timely(self.silence, self.stream.read_u32()).await?;
            let length = (header & !LAST_FRAGMENT) as usize;
            if record.len() + length > LARGEST_REPLY {
                return Err(Failure::Wire(Cause::Garbled));
            }
            self.fragment(&mut record, length).await?;
            if header & LAST_FRAGMENT != 0 {
                return Ok(record.freeze());
            }
        }
        Err(Failure::Wire(Cause::Garbled))
    }

    async fn fragment(&mut self, record: &mut BytesMut, length: usize) -> Result<(), Failure> {
        let end = record.len() + length;
        record.reserve(length);
        while record.len() < end {
            let left = (end - record.len()) as u64;
            let count = timely(self.silence, (&mut self.stream).take(left).read_buf(record)).await?;
            if count == 0 {
                return Err(Failure::Wire(Cause::Disconnected));
            }
        }
        Ok(())
    }
}

/// A call as it goes out, its length before it.
fn message(number: u32, call: &Call, credential: &[u8]) -> Bytes {
    let body = Writer::default()
        .number(number)
        .number(CALL)
        .number(RPC_VERSION)
        .number(call.program.number)
        .number(call.program.version)
        .number(call.procedure)
        .number(AUTH_SYS)
        .opaque(credential)
        .number(AUTH_NONE)
        .opaque(&[])
        .fixed(&call.arguments)
        .finish();
    Writer::default().number(LAST_FRAGMENT | body.len() as u32).fixed(&body).finish()
}

/// What follows the header of the reply to call `number`, or why there is none.
fn result(number: u32, mut reply: Reader) -> Result<Reader, Failure> {
    if reply.number()? != number || reply.number()? != REPLY {
        return Err(Failure::Wire(Cause::Garbled));
    }
    match reply.number()? {
        0 => {
            reply.number()?;
            reply.opaque(AUTH_BYTES)?;
            match reply.number()? {
                0 => Ok(reply),
                1..=3 => Err(Failure::NotOffered),
                _ => Err(Failure::Refused),
            }
        }
        1 => match reply.number()? {
            1 => Err(Failure::NotBelieved),
            _ => Err(Failure::Refused),
        },
        _ => Err(Failure::Wire(Cause::Garbled)),
    }
}

/// The outcome of one step on a connection, or that nothing happened for too long.
async fn timely<T>(silence: Duration, step: impl Future<Output = io::Result<T>>) -> Result<T, Failure> {
    match timeout(silence, step).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(_)) => Err(Failure::Wire(Cause::Disconnected)),
        Err(_) => Err(Failure::Wire(Cause::Silent)),
    }
}

async fn connect_to_any(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpStream> {
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Connects from a reserved port where that is allowed: many servers answer no other.
async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    for port in RESERVED_PORTS.rev() {
        let socket = socket(address)?;
        socket.set_reuseaddr(true)?;
        match socket.bind(SocketAddr::new(any_address(address), port)) {
            Ok(()) => match socket.connect(address).await {
                Err(error) if is_taken(&error) => {}
                outcome => return outcome,
            },
            Err(error) if is_taken(&error) => {}
            Err(_) => break,
        }
    }
    socket(address)?.connect(address).await
}

fn socket(address: SocketAddr) -> io::Result<TcpSocket> {
    if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }
}

fn any_address(like: SocketAddr) -> IpAddr {
    if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

fn is_taken(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable)
}

fn connect_cause(error: &io::Error) -> Cause {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Cause::ConnectionRefused,
        io::ErrorKind::TimedOut => Cause::ConnectTimeout,
        _ => Cause::CannotConnect,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn reply(words: &[u32]) -> Reader {
        Reader::new(words.iter().fold(Writer::default(), |writer, word| writer.number(*word)).finish())
    }

    #[tokio::test]
    async fn no_server_is_looked_for_where_machines_are_told_their_keys() {
        for host in ["169.254.169.254", "0xa9fea9fe", "fd00:ec2::254"] {
            let dial = Dial { host: host.into(), credential: Bytes::new(), silence: Duration::from_secs(1) };
            assert_eq!(dial.open(2049).await.unwrap_err(), Failure::Wire(Cause::MachineAddress), "{host}");
        }
    }

    #[test]
    fn the_result_stands_behind_the_header_of_the_right_reply() {
        assert_eq!(result(7, reply(&[7, 1, 0, 0, 0, 0, 42])).unwrap().number(), Ok(42));
    }

    #[test]
    fn refusals_are_told_apart() {
        let fault = |words: &[u32]| result(7, reply(words)).unwrap_err();
        assert_eq!(fault(&[8, 1, 0, 0, 0, 0]), Failure::Wire(Cause::Garbled), "another call's reply");
        assert_eq!(fault(&[7, 0, 0, 0, 0, 0]), Failure::Wire(Cause::Garbled), "a call");
        assert_eq!(fault(&[7, 1, 0, 0, 0, 1]), Failure::NotOffered);
        assert_eq!(fault(&[7, 1, 0, 0, 0, 2, 4, 4]), Failure::NotOffered);
        assert_eq!(fault(&[7, 1, 0, 0, 0, 5]), Failure::Refused);
        assert_eq!(fault(&[7, 1, 1, 1, 5]), Failure::NotBelieved);
        assert_eq!(fault(&[7, 1, 1, 0, 2, 2]), Failure::Refused);
        assert_eq!(fault(&[7, 1]), Failure::Wire(Cause::Garbled), "cut off");
    }
}
