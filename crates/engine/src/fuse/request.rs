//! Requests of the kernel, taken apart with every bound checked. Pure: bytes in, a value out; no bytes make it panic.

use super::abi::{IN_HEADER_BYTES, Opcode};
use crate::vfs::Inode;

/// The part that every request has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub unique: u64,
    pub inode: Inode,
    /// The thread that waits for the answer; 0 when it lives outside our pid namespace.
    pub thread: u32,
}

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request<'a> {
    pub header: Header,
    /// User and group of who asks.
    pub user: (u32, u32),
    /// `None`: a number that this protocol version does not have.
    pub opcode: Option<Opcode>,
    pub body: Body<'a>,
}

/// What is asked, for the operations that a tree answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Body<'a> {
    Init(InitRequest),
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    /// The sum over all inodes of the batch.
    BatchForget {
        lookups: u64,
    },
    Open {
        flags: i32,
    },
    Release {
        handle: u64,
    },
    /// `flags`: of the open file.
    Read {
        handle: u64,
        offset: u64,
        length: u32,
        flags: i32,
    },
    ReadDirectory {
        cookie: u64,
        length: u32,
    },
    Interrupt {
        unique: u64,
    },
    Create {
        flags: i32,
        mode: u32,
        name: &'a [u8],
    },
    MakeDirectory {
        mode: u32,
        name: &'a [u8],
    },
    /// Of a file or a folder.
    Remove {
        name: &'a [u8],
    },
    Rename {
        new_parent: Inode,
        flags: u32,
        name: &'a [u8],
        new_name: &'a [u8],
    },
    SetAttributes(SetAttributes),
    Write {
        handle: u64,
        offset: u64,
        owner: u64,
        bytes: &'a [u8],
    },
    Flush {
        handle: u64,
        owner: u64,
    },
    /// No fields that anybody needs, or an operation that is refused as a whole.
    Other,
}

/// Attributes to be changed: those whose bit of `abi::set` is in `valid`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetAttributes {
    pub valid: u32,
    pub handle: u64,
    pub size: u64,
    pub owner: u64,
    pub mtime_s: u64,
    pub mtime_ns: u32,
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
}

/// The kernel's side of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitRequest {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    /// Both halves.
    pub flags: u64,
}

/// Why bytes are no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed {
    /// To answer EIO to, when the header could be read.
    pub unique: Option<u64>,
}

/// Reads fields one after the other, in the byte order of this machine as the kernel writes them (`crate::fields` is for
/// what is little-endian everywhere); past the end there is nothing.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The bytes up to the closing NUL.
    fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let name = self.take(end)?;
        self.take(1)?;
        Some(name)
    }
}

impl<'a> Request<'a> {
    /// The request in `bytes`, exactly as one `read` of the device returned them.
    pub fn parse(bytes: &'a [u8]) -> Result<Request<'a>, Malformed> {
        let mut fields = Fields { rest: bytes };
        let (length, number, header, user) = parse_header(&mut fields).ok_or(Malformed { unique: None })?;
        let malformed = Malformed { unique: Some(header.unique) };
        if length as usize != bytes.len() {
            return Err(malformed);
        }
        let opcode = Opcode::from_number(number);
        let body = parse_body(opcode, &mut fields).ok_or(malformed)?;
        Ok(Request { header, user, opcode, body })
    }
}

fn parse_header(fields: &mut Fields<'_>) -> Option<(u32, u32, Header, (u32, u32))> {
    let mut header = Fields { rest: fields.take(IN_HEADER_BYTES)? };
    let (length, number) = (header.u32()?, header.u32()?);
    let (unique, inode) = (header.u64()?, header.u64()?);
    let (uid, gid, thread) = (header.u32()?, header.u32()?, header.u32()?);
    Some((length, number, Header { unique, inode, thread }, (uid, gid)))
}

fn parse_body<'a>(opcode: Option<Opcode>, fields: &mut Fields<'a>) -> Option<Body<'a>> {
    Some(match opcode {
        Some(Opcode::Init) => Body::Init(parse_init(fields)?),
        Some(Opcode::Lookup) => Body::Lookup { name: fields.name()? },
        Some(Opcode::Forget) => Body::Forget { lookups: fields.u64()? },
        Some(Opcode::BatchForget) => Body::BatchForget { lookups: parse_batch_forget(fields)? },
        Some(Opcode::Open | Opcode::OpenDirectory) => Body::Open { flags: fields.u32()? as i32 },
        Some(Opcode::Release | Opcode::ReleaseDirectory) => Body::Release { handle: fields.u64()? },
        Some(Opcode::Read) => {
            let (handle, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
            let (_read_flags, _lock_owner) = (fields.u32(), fields.u64());
            Body::Read { handle, offset, length, flags: fields.u32().unwrap_or(0) as i32 }
        }
        Some(Opcode::ReadDirectory | Opcode::ReadDirectoryPlus) => {
            let _handle = fields.u64()?;
            Body::ReadDirectory { cookie: fields.u64()?, length: fields.u32()? }
        }
        Some(Opcode::Interrupt) => Body::Interrupt { unique: fields.u64()? },
        Some(opcode) => parse_change(opcode, fields)?,
        None => Body::Other,
    })
}

fn parse_change<'a>(opcode: Opcode, fields: &mut Fields<'a>) -> Option<Body<'a>> {
    Some(match opcode {
        Opcode::Create => {
            let (flags, mode) = (fields.u32()? as i32, fields.u32()?);
            let (_umask, _open_flags) = (fields.u32()?, fields.u32()?);
            Body::Create { flags, mode, name: fields.name()? }
        }
        Opcode::MakeDirectory => {
            let (mode, _umask) = (fields.u32()?, fields.u32()?);
            Body::MakeDirectory { mode, name: fields.name()? }
        }
        Opcode::Unlink | Opcode::RemoveDirectory => Body::Remove { name: fields.name()? },
        Opcode::Rename | Opcode::RenameWithFlags => {
            let new_parent = fields.u64()?;
            let with_flags = opcode == Opcode::RenameWithFlags;
            let (flags, _padding) = if with_flags { (fields.u32()?, fields.u32()?) } else { (0, 0) };
            Body::Rename { new_parent, flags, name: fields.name()?, new_name: fields.name()? }
        }
        Opcode::SetAttributes => Body::SetAttributes(parse_attributes(fields)?),
        Opcode::Write => {
            let (handle, offset, length) = (fields.u64()?, fields.u64()?, fields.u32()?);
            let (_write_flags, owner) = (fields.u32()?, fields.u64()?);
            let (_flags, _padding) = (fields.u32()?, fields.u32()?);
            Body::Write { handle, offset, owner, bytes: fields.take(length as usize)? }
        }
        Opcode::Flush => {
            let handle = fields.u64()?;
            let (_unused, _padding) = (fields.u32()?, fields.u32()?);
            Body::Flush { handle, owner: fields.u64()? }
        }
        _ => Body::Other,
    })
}

fn parse_attributes(fields: &mut Fields<'_>) -> Option<SetAttributes> {
    let (valid, _padding) = (fields.u32()?, fields.u32()?);
    let (handle, size, owner) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (_atime, mtime_s, _ctime) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (_atime_ns, mtime_ns, _ctime_ns) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let (mode, _unused) = (fields.u32()?, fields.u32()?);
    let (uid, gid) = (fields.u32()?, fields.u32()?);
    Some(SetAttributes { valid, handle, size, owner, mtime_s, mtime_ns, mode, uid, gid })
}

fn parse_init(fields: &mut Fields<'_>) -> Option<InitRequest> {
    let (major, minor) = (fields.u32()?, fields.u32()?);
    let (max_readahead, low) = (fields.u32().unwrap_or(0), fields.u32().unwrap_or(0));
    let extended = u64::from(low) & super::abi::init::INIT_EXT != 0;
    let high = if extended { fields.u32().unwrap_or(0) } else { 0 };
    Some(InitRequest { major, minor, max_readahead, flags: u64::from(low) | u64::from(high) << 32 })
}

/// A count that promises more than there is makes the request malformed; nothing is allocated for it.
fn parse_batch_forget(fields: &mut Fields<'_>) -> Option<u64> {
    let (count, _padding) = (fields.u32()?, fields.u32()?);
    let mut lookups = 0u64;
    for _ in 0..count {
        let (_inode, of_this) = (fields.u64()?, fields.u64()?);
        lookups = lookups.saturating_add(of_this);
    }
    Some(lookups)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A request as the kernel would write it.
    pub(crate) fn request(opcode: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(((IN_HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        bytes.extend(opcode.to_ne_bytes());
        bytes.extend(7u64.to_ne_bytes());
        bytes.extend(9u64.to_ne_bytes());
        bytes.extend([0; 8]);
        bytes.extend(42u32.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    #[test]
    fn a_read_is_taken_apart() {
        let body = [3u64.to_ne_bytes(), 4096u64.to_ne_bytes(), 131_072u64.to_ne_bytes()].concat();
        let bytes = request(15, &body);
        let parsed = Request::parse(&bytes).expect("well formed");
        assert_eq!(parsed.header, Header { unique: 7, inode: 9, thread: 42 });
        assert_eq!(parsed.body, Body::Read { handle: 3, offset: 4096, length: 131_072, flags: 0 });
    }

    #[test]
    fn a_name_without_its_end_is_malformed() {
        let bytes = request(1, b"endless");
        assert_eq!(Request::parse(&bytes), Err(Malformed { unique: Some(7) }));
    }

    #[test]
    fn a_batch_that_promises_more_than_it_holds_is_malformed() {
        let body = [u32::MAX.to_ne_bytes(), 0u32.to_ne_bytes()].concat();
        assert!(Request::parse(&request(42, &body)).is_err());
    }

    #[test]
    fn an_unknown_operation_is_kept_for_an_answer() {
        let bytes = request(4711, b"");
        assert_eq!(Request::parse(&bytes).expect("well formed").opcode, None);
    }

    #[test]
    fn both_halves_of_the_flags_are_read() {
        let low = super::super::abi::init::INIT_EXT as u32;
        let body = [7u32, 45, 0, low, 1 << 5].map(u32::to_ne_bytes).concat();
        let bytes = request(26, &body);
        let Body::Init(init) = Request::parse(&bytes).expect("well formed").body else { panic!("not an INIT") };
        assert_eq!(init.flags, u64::from(low) | super::super::abi::init::PASSTHROUGH);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Request::parse(&bytes);
        }

        #[test]
        fn no_body_makes_it_panic(opcode in 0u32..60, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Request::parse(&request(opcode, &body));
        }

        #[test]
        fn a_cut_request_is_never_taken_for_a_whole_one(opcode in 0u32..60, body in proptest::collection::vec(any::<u8>(), 1..100), cut in 1usize..100) {
            let bytes = request(opcode, &body);
            let cut = cut.min(bytes.len());
            prop_assert!(Request::parse(&bytes[..bytes.len() - cut]).is_err());
        }
    }
}
