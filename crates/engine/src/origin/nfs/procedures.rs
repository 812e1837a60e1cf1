//! The procedures of NFS version 3, MOUNT and the port mapper (RFC 1813, RFC 1833) that a reader needs: how their
//! arguments are written and their results read. No I/O.

use std::sync::Arc;

use bytes::Bytes;

use crate::ids::Stamp;
use crate::origin::Permissions;
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::rpc::{AUTH_SYS, Call, Program};
use crate::origin::nfs::xdr::{Garbled, Reader, Writer};

pub(super) const NFS: Program = Program { number: 100_003, version: 3 };
pub(super) const MOUNT: Program = Program { number: 100_005, version: 3 };
const PORTMAP: Program = Program { number: 100_000, version: 2 };

const TCP: u32 = 6;
const HANDLE_BYTES: usize = 64;
/// No file system has longer names or links; a server may still say so.
const NAME_BYTES: usize = 4096;
const LINK_BYTES: usize = 4096;
const MOST_FLAVORS: usize = 64;

/// What a page of a folder may hold: of names, and of everything.
const NAMES_BYTES: u32 = 64 << 10;
const PAGE_BYTES: u32 = 512 << 10;

/// What a server calls a file by. A copy of its own: a slice would keep the whole reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Handle(Arc<[u8]>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Directory,
    Symlink,
    /// Pipes, sockets and devices hold no data to cache.
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Attributes {
    pub kind: Kind,
    pub permissions: Permissions,
    pub size: u64,
    pub mtime_ns: i64,
    /// Change time, which cannot be set back, and the file's number.
    pub stamp: Stamp,
}

#[derive(Debug)]
pub(super) struct Found {
    pub handle: Handle,
    pub attributes: Option<Attributes>,
}

#[derive(Debug)]
pub(super) struct Piece {
    pub data: Bytes,
    /// Of the file after the read.
    pub attributes: Option<Attributes>,
}

/// One name in a folder. READDIR tells neither attributes nor handle, READDIRPLUS may leave them out.
#[derive(Debug)]
pub(super) struct Entry {
    pub name: Bytes,
    pub cookie: u64,
    pub attributes: Option<Attributes>,
    pub handle: Option<Handle>,
}

/// Where a listing goes on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Position {
    pub cookie: u64,
    pub verifier: [u8; 8],
}

#[derive(Debug)]
pub(super) struct Page {
    pub entries: Vec<Entry>,
    pub verifier: [u8; 8],
    pub is_last: bool,
}

type Outcome<T> = std::result::Result<T, Failure>;

impl Handle {
    fn read(reader: &mut Reader) -> std::result::Result<Self, Garbled> {
        Ok(Handle(Arc::from(&reader.opaque(HANDLE_BYTES)?[..])))
    }
}

impl Attributes {
    fn read(reader: &mut Reader) -> std::result::Result<Self, Garbled> {
        let kind = match reader.number()? {
            1 => Kind::File,
            2 => Kind::Directory,
            5 => Kind::Symlink,
            3 | 4 | 6 | 7 => Kind::Other,
            _ => return Err(Garbled),
        };
        let mode = reader.number()?;
        // Links.
        reader.fixed::<4>()?;
        let (uid, gid) = (reader.number()?, reader.number()?);
        let permissions = Permissions::of(mode, uid, gid);
        let size = reader.long()?;
        // Space used, device, file system.
        reader.fixed::<24>()?;
        let number = reader.long()?;
        // Time of access.
        reader.fixed::<8>()?;
        let (mtime_ns, ctime_ns) = (time(reader)?, time(reader)?);
        Ok(Attributes { kind, permissions, size, mtime_ns, stamp: Stamp { ctime_ns, number } })
    }
}

fn time(reader: &mut Reader) -> std::result::Result<i64, Garbled> {
    let (seconds, nanoseconds) = (reader.number()?, reader.number()?);
    Ok(i64::from(seconds) * 1_000_000_000 + i64::from(nanoseconds))
}

pub(super) fn port_call(program: Program) -> Call {
    let arguments = Writer::default().number(program.number).number(program.version).number(TCP).number(0).finish();
    Call { program: PORTMAP, procedure: 3, arguments }
}

/// The port of the program; `None` when the server does not offer it.
pub(super) fn port(mut reply: Reader) -> Outcome<Option<u16>> {
    let number = reply.number()?;
    Ok(u16::try_from(number).ok().filter(|port| *port != 0))
}

pub(super) fn mount_call(path: &[u8]) -> Call {
    Call { program: MOUNT, procedure: 1, arguments: Writer::default().opaque(path).finish() }
}

/// The handle of the mounted folder.
pub(super) fn mounted(mut reply: Reader) -> Outcome<Handle> {
    let status = reply.number()?;
    if status != 0 {
        return Err(Failure::Mount(status));
    }
    let handle = Handle::read(&mut reply)?;
    let count = reply.number()? as usize;
    if count > MOST_FLAVORS {
        return Err(Garbled.into());
    }
    let flavors = (0..count).map(|_| reply.number()).collect::<std::result::Result<Vec<_>, _>>()?;
    // Some servers name none when they take any.
    if flavors.is_empty() || flavors.contains(&AUTH_SYS) { Ok(handle) } else { Err(Failure::Security) }
}

pub(super) fn attributes_call(handle: &Handle) -> Call {
    nfs(1, Writer::default().opaque(&handle.0))
}

pub(super) fn attributes(reply: Reader) -> Outcome<Attributes> {
    Ok(Attributes::read(&mut succeeded(reply)?)?)
}

pub(super) fn lookup_call(folder: &Handle, name: &[u8]) -> Call {
    nfs(3, Writer::default().opaque(&folder.0).opaque(name))
}

pub(super) fn found(reply: Reader) -> Outcome<Found> {
    let mut reply = succeeded(reply)?;
    Ok(Found { handle: Handle::read(&mut reply)?, attributes: reply.optional(Attributes::read)? })
}

pub(super) fn link_call(handle: &Handle) -> Call {
    nfs(5, Writer::default().opaque(&handle.0))
}

/// The text of a symbolic link.
pub(super) fn link(reply: Reader) -> Outcome<Bytes> {
    let mut reply = succeeded(reply)?;
    reply.optional(Attributes::read)?;
    Ok(reply.opaque(LINK_BYTES)?)
}

pub(super) fn read_call(handle: &Handle, offset: u64, count: u32) -> Call {
    nfs(6, Writer::default().opaque(&handle.0).long(offset).number(count))
}

/// What was read, `count` bytes at the most.
pub(super) fn piece(reply: Reader, count: u32) -> Outcome<Piece> {
    let mut reply = succeeded(reply)?;
    let attributes = reply.optional(Attributes::read)?;
    let (told, _is_end) = (reply.number()?, reply.truth()?);
    let data = reply.opaque(count as usize)?;
    if data.len() != told as usize { Err(Garbled.into()) } else { Ok(Piece { data, attributes }) }
}

/// A page of names with their attributes and handles, from `at`.
pub(super) fn full_page_call(folder: &Handle, at: Position) -> Call {
    nfs(17, start(folder, at).number(NAMES_BYTES).number(PAGE_BYTES))
}

pub(super) fn full_page(reply: Reader) -> Outcome<Page> {
    page(reply, |reply| {
        let (name, cookie) = name(reply)?;
        let attributes = reply.optional(Attributes::read)?;
        Ok(Entry { name, cookie, attributes, handle: reply.optional(Handle::read)? })
    })
}

/// A page of names alone, from `at`.
pub(super) fn name_page_call(folder: &Handle, at: Position) -> Call {
    nfs(16, start(folder, at).number(NAMES_BYTES))
}

pub(super) fn name_page(reply: Reader) -> Outcome<Page> {
    page(reply, |reply| {
        let (name, cookie) = name(reply)?;
        Ok(Entry { name, cookie, attributes: None, handle: None })
    })
}

pub(super) fn limits_call(root: &Handle) -> Call {
    nfs(19, Writer::default().opaque(&root.0))
}

/// The bytes of a READ: what the server takes at the most, and what it likes best.
pub(super) fn read_limits(reply: Reader) -> Outcome<(u32, u32)> {
    let mut reply = succeeded(reply)?;
    reply.optional(Attributes::read)?;
    Ok((reply.number()?, reply.number()?))
}

fn nfs(procedure: u32, arguments: Writer) -> Call {
    Call { program: NFS, procedure, arguments: arguments.finish() }
}

fn start(folder: &Handle, at: Position) -> Writer {
    Writer::default().opaque(&folder.0).long(at.cookie).fixed(&at.verifier)
}

/// What follows the status of a result.
fn succeeded(mut reply: Reader) -> Outcome<Reader> {
    match reply.number()? {
        0 => Ok(reply),
        status => Err(Failure::Status(status)),
    }
}

fn name(reply: &mut Reader) -> std::result::Result<(Bytes, u64), Garbled> {
    // The file's number.
    reply.long()?;
    Ok((reply.opaque(NAME_BYTES)?, reply.long()?))
}

fn page(reply: Reader, mut entry: impl FnMut(&mut Reader) -> std::result::Result<Entry, Garbled>) -> Outcome<Page> {
    let mut reply = succeeded(reply)?;
    reply.optional(Attributes::read)?;
    let verifier = reply.fixed()?;
    let mut entries = Vec::new();
    while reply.truth()? {
        entries.push(entry(&mut reply)?);
    }
    Ok(Page { entries, verifier, is_last: reply.truth()? })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::origin::nfs::failure::status;

    fn attributes_of(kind: u32, size: u64, mtime: (u32, u32)) -> Writer {
        let owned = Writer::default().number(kind).number(0o4750).number(1).number(1000).number(100);
        let start = owned.long(size).fixed(&[0; 24]).long(77).fixed(&[0; 8]);
        start.number(mtime.0).number(mtime.1).number(8).number(9)
    }

    fn reply(parts: impl IntoIterator<Item = Writer>) -> Reader {
        let whole: Vec<u8> = parts.into_iter().flat_map(|part| part.finish().to_vec()).collect();
        Reader::new(whole.into())
    }

    fn numbers(values: &[u32]) -> Writer {
        values.iter().fold(Writer::default(), |writer, value| writer.number(*value))
    }

    #[test]
    fn attributes_have_permissions_size_times_and_kind() {
        let told = attributes(reply([numbers(&[0]), attributes_of(5, 1 << 40, (3, 7))])).unwrap();
        let permissions = Permissions { mode: 0o750, uid: 1000, gid: 100 };
        let stamp = Stamp { ctime_ns: 8_000_000_009, number: 77 };
        let mtime_ns = 3_000_000_007;
        assert_eq!(told, Attributes { kind: Kind::Symlink, permissions, size: 1 << 40, mtime_ns, stamp });
        let odd = attributes(reply([numbers(&[0]), attributes_of(99, 0, (0, 0))]));
        assert_eq!(odd, Err(Garbled.into()));
    }

    #[test]
    fn a_piece_is_never_longer_than_asked_for_and_says_its_length() {
        let answer = |told: u32, data: &[u8]| {
            reply([numbers(&[0, 1]), attributes_of(1, 9, (0, 0)), numbers(&[told, 1]), Writer::default().opaque(data)])
        };
        assert_eq!(piece(answer(3, b"abc"), 3).unwrap().data, &b"abc"[..]);
        assert!(piece(answer(3, b"abc"), 2).is_err());
        assert!(piece(answer(2, b"abc"), 3).is_err());
    }

    #[test]
    fn a_page_ends_where_the_server_says() {
        let entry = || numbers(&[1, 0, 7]).opaque(b"name").long(5);
        let answer = reply([numbers(&[0, 0]).fixed(b"verifier"), entry(), entry(), numbers(&[0, 1])]);
        let page = name_page(answer).unwrap();
        assert_eq!((page.entries.len(), page.is_last, &page.verifier), (2, true, b"verifier"));
        assert_eq!((&page.entries[1].name[..], page.entries[1].cookie), (&b"name"[..], 5));
        // A server that never says that there are no more.
        assert!(name_page(reply([numbers(&[0, 0]).fixed(b"verifier"), entry()])).is_err());
    }

    proptest::proptest! {
        /// Whatever a server sends is read or refused, and nothing is allocated that was not sent.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(0u8..3, 0..700)) {
            let reader = || Reader::new(bytes.clone().into());
            let _ = (attributes(reader()), found(reader()), link(reader()), piece(reader(), 64), mounted(reader()));
            let _ = (full_page(reader()), name_page(reader()), read_limits(reader()), port(reader()));
        }
    }

    #[test]
    fn refusals_keep_their_number() {
        assert_eq!(found(reply([numbers(&[70, 0])])).unwrap_err(), Failure::Status(status::STALE));
        assert_eq!(mounted(reply([numbers(&[13])])), Err(Failure::Mount(status::ACCES)));
    }

    #[test]
    fn an_export_that_wants_kerberos_is_told_apart() {
        let answer = |flavors: &[u32]| {
            let count = flavors.len() as u32;
            reply([numbers(&[0]).opaque(b"handle"), numbers(&[count]), numbers(flavors)])
        };
        assert!(mounted(answer(&[6, 1])).is_ok());
        assert!(mounted(answer(&[])).is_ok());
        assert_eq!(mounted(answer(&[390_003])), Err(Failure::Security));
        assert_eq!(mounted(reply([numbers(&[0]).opaque(b"h"), numbers(&[u32::MAX])])), Err(Garbled.into()));
        assert_eq!(mounted(reply([numbers(&[0]).opaque(&[0; 65]), numbers(&[0])])), Err(Garbled.into()));
    }
}
