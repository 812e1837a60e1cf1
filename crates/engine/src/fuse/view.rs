//! A view: the kernel's own EROFS shows an image, and our connection serves the blob that the image points into.
//!
//! The connection's mount is in no folder. It lives as long as a view has the blob open, in whatever mount namespace: who
//! takes the last view off ends the connection, and nothing else is to be cleared away.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::MsFlags;

use super::device::Device;
use super::options::MountOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::vfs::BLOB_NAME;

/// The type that views show in `/proc/mounts`.
pub const VIEW_KIND: &str = "erofs";

/// What the file of an image is called; `/proc/mounts` shows it as the source of the view, also once it has no name.
pub const IMAGE_NAME: &str = "headrace.erofs";

const OTHER_MODE_HINT: &str = "mount with --mode auto";

/// Mounts the connection in no folder: it is there until the descriptor is closed and nothing in it is open.
pub fn mount_apart(device: &Device, options: &MountOptions) -> Result<OwnedFd> {
    let source = options.source.replace(|c: char| c.is_control(), " ");
    let words = [
        (c"source", source),
        (c"subtype", "headrace".to_owned()),
        (c"fd", device.number().to_string()),
        (c"rootmode", "40000".to_owned()),
        (c"user_id", "0".to_owned()),
        (c"group_id", "0".to_owned()),
    ];
    let mount = || {
        let context = api::open(c"fuse")?;
        words.iter().try_for_each(|(name, value)| api::set(&context, name, value))?;
        // Without it the kernel refuses a connection that knows of mapped owners (`ALLOW_IDMAP`).
        api::set_flag(&context, c"default_permissions")?;
        api::create(&context)?;
        api::mount(&context)
    };
    mount().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => {
            Error::new(ErrorKind::PermissionDenied, "a view needs root's right to mount").with_hint(OTHER_MODE_HINT)
        }
        _ => Error::new(ErrorKind::Unsupported, format!("this kernel cannot mount the content of a view: {error}"))
            .with_hint(OTHER_MODE_HINT),
    })
}

/// `major:minor` of the connection that is mounted as `apart`, by which the kernel's own list of connections has it.
pub fn device_of(apart: &OwnedFd) -> Result<String> {
    let unknown = |error| Error::new(ErrorKind::Unexpected, "cannot tell the connection of a view").with_source(error);
    let root = std::fs::File::from(apart.try_clone().map_err(unknown)?);
    let device = root.metadata().map_err(unknown)?.dev();
    Ok(format!("{}:{}", libc::major(device), libc::minor(device)))
}

/// Shows `image` on the folder `path`, its content in the blob of the connection that is mounted as `apart`.
pub fn show(image: &Path, path: &Path, apart: &OwnedFd) -> Result<()> {
    // `directio`: else each page of a file would lie in the page cache a second time, as one of the blob.
    let words = format!("device=/proc/self/fd/{}/{BLOB_NAME},directio", apart.as_raw_fd());
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_RDONLY;
    nix::mount::mount(Some(image), path, Some(VIEW_KIND), flags, Some(words.as_str())).map_err(|error| match error {
        Errno::EPERM => Error::from_io("mount on", path, error.into()).with_hint("a view needs root's right to mount"),
        Errno::ENODEV | Errno::EINVAL | Errno::ENOTBLK | Errno::EOPNOTSUPP => {
            let folder = image.parent().unwrap_or(image).display();
            let message = format!(
                "the kernel cannot show a view of what is in {folder}: that needs EROFS of Linux 6.15, and a state \
                 folder that is on no overlay and no tmpfs"
            );
            Error::new(ErrorKind::Unsupported, message)
                .with_hint("name a folder on a disk with --state-directory, or mount with --mode auto")
                .with_source(io::Error::from(error))
        }
        error => Error::from_io("mount on", path, error.into()),
    })
}

/// The calls that mount without a folder (fsopen(2), fsconfig(2), fsmount(2)), which the C library does not have before
/// glibc 2.36.
mod api {
    use super::*;

    const FSOPEN_CLOEXEC: libc::c_uint = 1;
    const FSMOUNT_CLOEXEC: libc::c_uint = 1;
    const FSCONFIG_SET_FLAG: libc::c_uint = 0;
    const FSCONFIG_SET_STRING: libc::c_uint = 1;
    const FSCONFIG_CMD_CREATE: libc::c_uint = 6;
    const MOUNT_ATTR_RDONLY: libc::c_uint = 1;
    const MOUNT_ATTR_NOSUID: libc::c_uint = 2;
    const MOUNT_ATTR_NODEV: libc::c_uint = 4;

    pub fn open(kind: &CStr) -> io::Result<OwnedFd> {
        // SAFETY: `kind` is a string that ends with a zero, and lives through the call.
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })
    }

    pub fn set(context: &OwnedFd, name: &CStr, value: &str) -> io::Result<()> {
        let value = std::ffi::CString::new(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
        configure(context, FSCONFIG_SET_STRING, name.as_ptr(), value.as_ptr())
    }

    pub fn set_flag(context: &OwnedFd, name: &CStr) -> io::Result<()> {
        configure(context, FSCONFIG_SET_FLAG, name.as_ptr(), std::ptr::null())
    }

    pub fn create(context: &OwnedFd) -> io::Result<()> {
        configure(context, FSCONFIG_CMD_CREATE, std::ptr::null(), std::ptr::null())
    }

    pub fn mount(context: &OwnedFd) -> io::Result<OwnedFd> {
        let attributes = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
        // SAFETY: three numbers, of which the first is an open descriptor.
        descriptor(unsafe { libc::syscall(libc::SYS_fsmount, context.as_raw_fd(), FSMOUNT_CLOEXEC, attributes) })
    }

    fn configure(
        context: &OwnedFd,
        command: libc::c_uint,
        name: *const libc::c_char,
        value: *const libc::c_char,
    ) -> io::Result<()> {
        // SAFETY: both pointers are null, or to strings that end with a zero and live through the call of our callers.
        let done = unsafe { libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, name, value, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
        match i32::try_from(result) {
            // SAFETY: the kernel has just made it, for nobody but us.
            Ok(number) if number >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(number) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}
