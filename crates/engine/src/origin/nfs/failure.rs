//! Why a call got no result, as a typed fault; and what that means for the person who asked.

use crate::error::{Error, ErrorKind, Retry};
use crate::origin::fault::Cause;
use crate::origin::nfs::xdr::Garbled;
use crate::origin::pace::RETRY_AFTER;
use crate::origin::place::OriginNames;

/// How long a server that says "later" (NFS3ERR_JUKEBOX) is left alone.
const LATER_S: u64 = 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// No answer, or none that makes sense.
    Wire(Cause),
    /// The server does not offer this program, version or procedure.
    NotOffered,
    /// The server does not take the caller's word for who they are.
    NotBelieved,
    /// The server's RPC layer refuses for another reason.
    Refused,
    /// A status of NFS (RFC 1813, 2.6) other than success.
    Status(u32),
    /// A status of MOUNT (RFC 1813, 5.1.5) other than success.
    Mount(u32),
    /// The export wants another way of telling who asks, such as Kerberos.
    Security,
}

pub(super) mod status {
    pub const PERM: u32 = 1;
    pub const NOENT: u32 = 2;
    pub const IO: u32 = 5;
    pub const NXIO: u32 = 6;
    pub const ACCES: u32 = 13;
    pub const NODEV: u32 = 19;
    pub const NOTDIR: u32 = 20;
    pub const ISDIR: u32 = 21;
    pub const INVAL: u32 = 22;
    pub const NAMETOOLONG: u32 = 63;
    pub const STALE: u32 = 70;
    pub const BADHANDLE: u32 = 10_001;
    pub const BAD_COOKIE: u32 = 10_003;
    pub const NOTSUPP: u32 = 10_004;
    pub const SERVERFAULT: u32 = 10_006;
    pub const JUKEBOX: u32 = 10_008;
}

impl From<Garbled> for Failure {
    fn from(_: Garbled) -> Self {
        Failure::Wire(Cause::Garbled)
    }
}

impl Failure {
    /// The path leads nowhere (any more).
    pub fn is_gone(&self) -> bool {
        matches!(self, Failure::Status(status::NOENT | status::NOTDIR | status::NAMETOOLONG)) || self.is_old_handle()
    }

    /// The server knows who asks, and does not let that user in here.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Failure::Status(status::ACCES | status::PERM))
    }

    /// The handle means nothing to the server: what it stood for was deleted, or the server forgot.
    pub fn is_old_handle(&self) -> bool {
        matches!(self, Failure::Status(status::STALE | status::BADHANDLE))
    }

    /// The server lacks the procedure.
    pub fn is_lacking(&self) -> bool {
        matches!(self, Failure::Status(status::NOTSUPP) | Failure::NotOffered)
    }

    /// So a server may answer that has begun, and has not all its programs and exports yet.
    pub fn is_of_a_beginning(&self) -> bool {
        matches!(self, Failure::NotOffered | Failure::Mount(status::PERM | status::ACCES | status::NOENT))
    }

    /// What was learnt of the server may be out of date: its ports, its handles.
    pub fn unsettles(&self) -> bool {
        self.is_old_handle() || *self == Failure::Wire(Cause::ConnectionRefused)
    }

    /// The error for a person; `who` names the user and the group that asked.
    pub fn explain(&self, place: &OriginNames, who: &str, action: &str) -> Error {
        let endpoint = &place.endpoint;
        match self {
            Failure::Wire(Cause::Garbled) => Error::new(
                ErrorKind::Unreachable,
                format!("cannot {action}: what {endpoint} answers is not NFS version 3"),
            )
            .with_hint("check the ports of NFS and of MOUNT (nfs.port, nfs.mountport)")
            .with_retry(Retry::Temporary),
            Failure::Wire(cause) => place.explain_fault(action, &cause.clone().into()),
            Failure::NotOffered => Error::new(
                ErrorKind::Unsupported,
                format!("cannot {action}: {endpoint} does not offer NFS version 3 over TCP"),
            )
            .with_hint("allow version 3 at the server, or check the ports (nfs.port, nfs.mountport)"),
            Failure::NotBelieved => {
                Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} does not believe {who}"))
                    .with_hint(PRIVILEGED)
            }
            Failure::Refused => {
                Error::new(ErrorKind::Unreachable, format!("cannot {action}: {endpoint} refuses the call"))
                    .with_retry(Retry::Temporary)
            }
            Failure::Security => {
                Error::new(ErrorKind::Unsupported, format!("cannot {action}: {endpoint} wants more than AUTH_SYS"))
                    .with_hint("export with sec=sys, or mount it with Kerberos and give the folder's path")
            }
            Failure::Status(number) => explain_status(*number, endpoint, who, action),
            Failure::Mount(number) => explain_mount(*number, place, action),
        }
    }
}

const PRIVILEGED: &str =
    "some servers take only ports below 1024, which root alone has: run as root, or export with `insecure`";

fn explain_status(number: u32, endpoint: &str, who: &str, action: &str) -> Error {
    let error = match number {
        status::PERM | status::ACCES => {
            Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} denies access to {who}"))
                .with_hint(
                    "set nfs.uid and nfs.gid to those who may read; servers often give root fewer rights than others",
                )
        }
        status::NOENT => {
            Error::new(ErrorKind::NotFound, format!("cannot {action}: not there")).with_hint("check the path")
        }
        status::NOTDIR => Error::new(ErrorKind::NotDirectory, format!("cannot {action}: it is not a folder"))
            .with_hint("give the path of a folder, without symbolic links below the export"),
        status::ISDIR => Error::new(ErrorKind::IsDirectory, format!("cannot {action}: it is a folder")),
        status::STALE | status::BADHANDLE => {
            Error::new(ErrorKind::Stale, format!("cannot {action}: {endpoint} does not know it any more"))
        }
        status::IO | status::NXIO | status::NODEV | status::SERVERFAULT => {
            Error::new(ErrorKind::Unreachable, format!("cannot {action}: {endpoint} reports a fault of its own"))
                .with_retry(Retry::Temporary)
        }
        status::JUKEBOX => {
            Error::new(ErrorKind::Throttled, format!("cannot {action}: {endpoint} asks to come back later"))
                .with_context(RETRY_AFTER, LATER_S)
                .with_retry(Retry::Temporary)
        }
        status::BAD_COOKIE => Error::new(ErrorKind::Stale, format!("cannot {action}: it changed while it was listed"))
            .with_hint("try again"),
        status::NOTSUPP => Error::new(ErrorKind::Unsupported, format!("cannot {action}: {endpoint} does not offer it")),
        _ => Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} refuses the request")),
    };
    error.with_context("nfs_status", number)
}

fn explain_mount(number: u32, place: &OriginNames, action: &str) -> Error {
    let endpoint = &place.endpoint;
    let error = match number {
        status::PERM | status::ACCES => Error::new(
            ErrorKind::PermissionDenied,
            format!("cannot {action}: {endpoint} does not export {} to this machine", place.name),
        )
        .with_hint(format!("check the exports of the server (`showmount -e`); {PRIVILEGED}")),
        status::NOENT | status::INVAL | status::NAMETOOLONG => {
            Error::new(ErrorKind::NotFound, format!("cannot {action}: {} is neither an export nor in one", place.name))
                .with_hint("check the path, and the exports of the server (`showmount -e`)")
        }
        status::NOTDIR => {
            Error::new(ErrorKind::NotDirectory, format!("cannot {action}: {} is not a folder", place.name))
                .with_hint("give the folder that holds the file")
        }
        status::IO | status::SERVERFAULT => {
            Error::new(ErrorKind::Unreachable, format!("cannot {action}: {endpoint} reports a fault of its own"))
                .with_retry(Retry::Temporary)
        }
        _ => Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} refuses the mount")),
    };
    error.with_context("mount_status", number)
}
