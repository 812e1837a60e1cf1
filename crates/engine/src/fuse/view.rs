//! A view: the kernel's own EROFS shows an image, and our connection serves the blob that the image points into.
//!
//! The connection's mount is in no folder. It lives as long as its processes hold it or a view has a blob open, in whatever
//! mount namespace. When the last view is gone, the last blob is closed, and they let go: nothing else is to be cleared away.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::device::Device;
use super::options::MountOptions;
use crate::error::{Error, ErrorKind, Result};

/// The type that views show in `/proc/mounts`.
pub const VIEW_KIND: &str = "erofs";

/// What the file of an image is called; `/proc/mounts` shows it as the source of the view, also once it has no name.
pub const IMAGE_NAME: &str = "headrace.erofs";

const OTHER_MODE_HINT: &str = "mount with --mode auto";

/// Mounts the connection in no folder: it is there until the descriptor is closed and nothing in it is open.
pub fn mount_apart(device: &Device, options: &MountOptions) -> Result<OwnedFd> {
    let source = options.source.replace(|c: char| c.is_control(), " ");
    let words = [
        (c"source", source.into_bytes()),
        (c"subtype", b"headrace".to_vec()),
        (c"fd", device.number().to_string().into_bytes()),
        (c"rootmode", b"40000".to_vec()),
        (c"user_id", b"0".to_vec()),
        (c"group_id", b"0".to_vec()),
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

/// A view of `image` that is in no folder yet, its content in the file `blob` of the connection that is mounted as `apart`.
pub fn make(image: &Path, apart: &OwnedFd, blob: &str) -> Result<OwnedFd> {
    let words = [
        (c"source", image.as_os_str().as_bytes().to_vec()),
        (c"device", format!("/proc/self/fd/{}/{blob}", apart.as_raw_fd()).into_bytes()),
    ];
    let make = || {
        let context = api::open(c"erofs")?;
        words.iter().try_for_each(|(name, value)| api::set(&context, name, value))?;
        // Else each page of a file would lie in the page cache a second time, as one of the blob.
        api::set_flag(&context, c"directio")?;
        api::set_flag(&context, c"ro")?;
        api::create(&context)?;
        api::mount(&context)
    };
    make().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM) => Error::from_io("mount", image, error).with_hint("a view needs root's right to mount"),
        Some(libc::ENODEV | libc::EINVAL | libc::ENOTBLK | libc::EOPNOTSUPP) => {
            let folder = image.parent().unwrap_or(image).display();
            let message = format!(
                "the kernel cannot show a view of what is in {folder}: that needs EROFS of Linux 6.15, and a state \
                 folder that is on no overlay and no tmpfs"
            );
            Error::new(ErrorKind::Unsupported, message)
                .with_hint("name a folder on a disk with --state-directory, or mount with --mode auto")
                .with_source(error)
        }
        _ => Error::from_io("mount", image, error),
    })
}

/// Puts a view that is in no folder on `path`.
pub fn put_on(view: &OwnedFd, path: &Path) -> Result<()> {
    api::move_to(view, path, 0).map_err(|error| Error::from_io("mount on", path, error))
}

/// Puts it beneath what is on top at `path`, which it appears from when that is taken off.
pub fn put_beneath(view: &OwnedFd, path: &Path) -> Result<()> {
    api::move_to(view, path, api::MOVE_MOUNT_BENEATH).map_err(|error| {
        Error::from_io("mount the new list beneath what is on", path, error).with_hint("unmount, and mount again")
    })
}

/// The number in the table of mounts of what a descriptor is of.
pub fn mount_id(mounted: &OwnedFd) -> Result<u64> {
    let place = format!("/proc/self/fdinfo/{}", mounted.as_raw_fd());
    let words = std::fs::read_to_string(&place).map_err(|error| Error::from_io("read", Path::new(&place), error))?;
    let number = words.lines().find_map(|line| line.strip_prefix("mnt_id:")?.trim().parse().ok());
    number.ok_or_else(|| Error::new(ErrorKind::Unexpected, format!("{place} tells no mount")))
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
    /// Of move_mount(2).
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 4;
    pub const MOVE_MOUNT_BENEATH: libc::c_uint = 0x200;
    const MOUNT_ATTR_RDONLY: libc::c_uint = 1;
    const MOUNT_ATTR_NOSUID: libc::c_uint = 2;
    const MOUNT_ATTR_NODEV: libc::c_uint = 4;

    pub fn open(kind: &CStr) -> io::Result<OwnedFd> {
        // SAFETY: `kind` is a string that ends with a zero, and lives through the call.
        descriptor(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC) })
    }

    pub fn set(context: &OwnedFd, name: &CStr, value: &[u8]) -> io::Result<()> {
        let value = text(value)?;
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

    pub fn move_to(mount: &OwnedFd, path: &Path, flags: libc::c_uint) -> io::Result<()> {
        let path = text(path.as_os_str().as_bytes())?;
        let flags = flags | MOVE_MOUNT_F_EMPTY_PATH;
        let (mount, here) = (mount.as_raw_fd(), libc::AT_FDCWD);
        // SAFETY: an open descriptor, and two strings that end with a zero and live through the call.
        let moved = unsafe { libc::syscall(libc::SYS_move_mount, mount, c"".as_ptr(), here, path.as_ptr(), flags) };
        if moved == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    fn text(bytes: &[u8]) -> io::Result<CString> {
        CString::new(bytes).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
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
