//! Requests that change something, for a tree that programs may write to. Whatever may wait for an origin waits on the
//! runtime, unless the kernel cannot send a request again that a killed daemon had: then its thread keeps it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use futures::future::BoxFuture;

use super::abi::{Opcode, RESENT, init, open, set};
use super::reply::{self, Pending};
use super::request::{Body, Request, SetAttributes};
use super::state::SessionState;
use crate::vfs::{Changes, Creation, OpenedToWrite, Refused, Rename, Requester, Writable, Writer, Written};

impl SessionState {
    /// Takes care of a request that changes something, or asks for the room to; gives back any other.
    pub(super) fn change(
        self: &Arc<Self>,
        writable: &Arc<dyn Writable>,
        pending: Pending,
        request: &Request<'_>,
        again: bool,
    ) -> Option<Pending> {
        let (inode, (uid, gid)) = (request.header.inode, request.user);
        let unique = request.header.unique & !RESENT;
        let again = again || request.header.unique & RESENT != 0;
        let by = Requester { uid, gid, thread: request.header.thread, request: unique, again };
        let handle = |ticket| self.opens.handle(ticket);
        match (request.opcode, &request.body) {
            (Some(Opcode::Open), Body::Open { flags }) if flags & libc::O_ACCMODE != libc::O_RDONLY => {
                let opening = writable.open_to_write(inode, *flags, by);
                self.later(pending, opening, move |session, opened, pending| {
                    session.opened(pending, opened, by, false)
                });
            }
            // Nothing is asked of the file but to be emptied: the kernel opens it to read.
            (Some(Opcode::Open), Body::Open { flags }) if flags & libc::O_TRUNC != 0 => {
                pending.error(libc::EINVAL);
            }
            (Some(Opcode::Create), Body::Create { flags, mode, name }) => {
                let file = Creation { parent: inode, name: name.to_vec(), mode: *mode, flags: *flags };
                let making = writable.create(file, by);
                self.later(pending, making, move |session, opened, pending| session.opened(pending, opened, by, true));
            }
            (Some(Opcode::MakeDirectory), Body::MakeDirectory { mode, name }) => {
                let folder = Creation { parent: inode, name: name.to_vec(), mode: *mode, flags: 0 };
                self.later(pending, writable.make_folder(folder, by), |session, attributes, pending| {
                    session.lookups.add(1);
                    if !pending.words(session.shown.entry(&attributes)) {
                        session.lookups.forget(1);
                    }
                });
            }
            (Some(Opcode::Unlink), Body::Remove { name }) => {
                self.done_later(pending, writable.unlink(inode, name.to_vec(), by));
            }
            (Some(Opcode::RemoveDirectory), Body::Remove { name }) => {
                self.done_later(pending, writable.remove_folder(inode, name.to_vec(), by));
            }
            (Some(Opcode::Rename | Opcode::RenameWithFlags), Body::Rename { new_parent, flags, name, new_name }) => {
                let (name, new_name) = (name.to_vec(), new_name.to_vec());
                let rename = Rename { parent: inode, name, new_parent: *new_parent, new_name, flags: *flags };
                self.done_later(pending, writable.rename(rename, by));
            }
            (Some(Opcode::SetAttributes), Body::SetAttributes(wanted)) => {
                let changes = changes(wanted, handle(wanted.handle));
                self.later(pending, writable.change(inode, changes), |session, attributes, pending| {
                    pending.words(session.shown.attributes(&attributes));
                });
            }
            (Some(Opcode::Write), Body::Write { handle: ticket, offset, owner, bytes }) => {
                let writer = Writer { handle: handle(*ticket), owner: *owner };
                match writable.write(inode, writer, *offset, bytes) {
                    Ok(()) => pending.words(reply::written(bytes.len())),
                    Err(Refused(errno)) => pending.error(errno),
                };
            }
            (Some(Opcode::Flush), Body::Flush { handle: ticket, owner }) => {
                let writer = Writer { handle: handle(*ticket), owner: *owner };
                self.done_later(pending, writable.flush(inode, writer));
            }
            (Some(Opcode::Sync), _) => self.done_later(pending, writable.sync(inode)),
            // Names are in the origin when the call that changes them returns.
            (Some(Opcode::SyncDirectory), _) => {
                pending.error(0);
            }
            (Some(Opcode::StatFileSystem), _) => {
                match writable.space() {
                    Ok(space) => pending.words(reply::space(space)),
                    Err(Refused(errno)) => pending.error(errno),
                };
            }
            (Some(Opcode::SymbolicLink | Opcode::MakeNode | Opcode::Link), _) => {
                pending.error(libc::EOPNOTSUPP);
            }
            (
                Some(
                    Opcode::SetExtended
                    | Opcode::RemoveExtended
                    | Opcode::Allocate
                    | Opcode::CopyRange
                    | Opcode::CopyRange64
                    | Opcode::TemporaryFile,
                ),
                _,
            ) => {
                pending.error(libc::ENOSYS);
            }
            _ => return Some(pending),
        }
        None
    }

    fn done_later(self: &Arc<Self>, pending: Pending, work: BoxFuture<'static, Written<()>>) {
        self.later(pending, work, |_, (), pending| {
            pending.error(0);
        });
    }

    fn later<T: Send + 'static>(
        self: &Arc<Self>,
        pending: Pending,
        work: BoxFuture<'static, Written<T>>,
        answer: impl FnOnce(&Arc<Self>, T, Pending) + Send + 'static,
    ) {
        let session = self.clone();
        let task = async move {
            match work.await {
                Ok(outcome) => answer(&session, outcome, pending),
                Err(Refused(errno)) => {
                    pending.error(errno);
                }
            }
        };
        if self.negotiated.has(init::HAS_RESEND) {
            self.runtime.spawn(task);
        } else {
            self.runtime.block_on(task);
        }
    }

    fn opened(&self, pending: Pending, file: OpenedToWrite, by: Requester, is_new: bool) {
        let inode = file.attributes.inode;
        let (ticket, inherited) = match self.opens.open_to_write(inode, by.request, by.again, file.handle) {
            Ok(issued) => issued,
            Err(error) => {
                self.filesystem.release(file.handle);
                pending.error(error.errno());
                return;
            }
        };
        if inherited {
            self.filesystem.release(file.handle);
        }
        let answered = if is_new {
            self.lookups.add(1);
            pending.words(self.shown.created(&file.attributes, ticket, open::DIRECT_IO))
        } else {
            pending.words(reply::opened(ticket, open::DIRECT_IO, 0))
        };
        if !answered && !inherited {
            self.lookups.forget(u64::from(is_new));
            self.opens.close(&*self.filesystem, ticket);
        }
    }
}

fn changes(wanted: &SetAttributes, handle: u64) -> Changes {
    let has = |bit| wanted.valid & bit != 0;
    let mtime_ns = if has(set::MTIME_NOW) {
        SystemTime::now().duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_nanos()).ok())
    } else {
        let given = (wanted.mtime_s as i64).saturating_mul(1_000_000_000).saturating_add(wanted.mtime_ns.into());
        has(set::MTIME).then_some(given)
    };
    let owner = if has(set::OWNER) { wanted.owner } else { 0 };
    Changes {
        size: has(set::SIZE).then_some(wanted.size),
        mode: has(set::MODE).then_some(wanted.mode),
        uid: has(set::UID).then_some(wanted.uid),
        gid: has(set::GID).then_some(wanted.gid),
        mtime_ns,
        by: has(set::HANDLE).then_some(Writer { handle, owner }),
    }
}
