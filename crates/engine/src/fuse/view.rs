//! A view: the kernel's own EROFS shows an image, and our connection serves the blob that the image points into.
//!
//! The connection's mount is in no folder. It lives as long as its processes hold it or a view has a blob open, in whatever
//! mount namespace. When the last view is gone, the last blob is closed, and they let go: nothing else is to be cleared away.

use std::ffi::{CStr, CString};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
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
    let source = CString::new(source).map_err(|_| Error::config("an origin with a zero in its name"))?;
    let device = CString::new(device.number().to_string()).unwrap_or_default();
    let words = [
        (c"source", source.as_c_str()),
        (c"subtype", c"headrace"),
        (c"fd", &device),
        (c"rootmode", c"40000"),
        (c"user_id", c"0"),
        (c"group_id", c"0"),
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
    api::device_of(apart).map_err(unknown)
}

/// Where a view is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    OnTop,
    /// Beneath what is on top, in whose place it appears when that is taken off.
    Beneath,
}

/// Shows `image` on `path`, its content in the file `blob` of the connection that is mounted as `apart`.
pub fn show(image: &Path, apart: &OwnedFd, blob: &str, path: &Path, place: Place) -> Result<()> {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::config("a path with a zero in it"));
    let steps = Steps {
        image: text(image.as_os_str().as_bytes())?,
        device: text(format!("/proc/self/fd/{HELPERS_APART}/{blob}").as_bytes())?,
        path: text(path.as_os_str().as_bytes())?,
        flags: if place == Place::Beneath { api::MOVE_MOUNT_BENEATH } else { 0 },
    };
    match helper::carry_out(&steps, apart) {
        Ok(()) => Ok(()),
        Err((Step::Put, error)) => {
            let error = Error::from_io("mount on", path, error);
            Err(if place == Place::Beneath { error.with_hint("unmount, and mount again") } else { error })
        }
        Err((Step::Make, error)) => Err(explain(image, error)),
    }
}

fn explain(image: &Path, error: io::Error) -> Error {
    match error.raw_os_error() {
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
    }
}

/// What a helper does, in words of the kernel.
struct Steps {
    image: CString,
    device: CString,
    path: CString,
    /// Of move_mount(2).
    flags: libc::c_uint,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Make,
    Put,
}

/// The number by which a helper has the mount of the connection.
const HELPERS_APART: i32 = 1;

impl Steps {
    /// Makes system calls alone: it runs where other threads may have held any lock.
    fn take(&self) -> std::result::Result<(), (Step, io::Error)> {
        let make = || {
            let context = api::open(c"erofs")?;
            api::set(&context, c"source", &self.image)?;
            api::set(&context, c"device", &self.device)?;
            // Else each page of a file would lie in the page cache a second time, as one of the blob.
            api::set_flag(&context, c"directio")?;
            api::set_flag(&context, c"ro")?;
            api::create(&context)?;
            api::mount(&context)
        };
        let made = make().map_err(|error| (Step::Make, error))?;
        api::move_to(&made, &self.path, self.flags).map_err(|error| (Step::Put, error))
    }
}

/// A process that mounts for us.
///
/// The kernel opens the blob, and so asks this process for it. Who waits for an answer of a process that is killed waits on
/// in the kernel until another one answers: were it a thread of this process, it could not end, and none would come.
mod helper {
    use super::*;

    const WHEN_PUTTING: u8 = 0x80;

    pub fn carry_out(steps: &Steps, apart: &OwnedFd) -> std::result::Result<(), (Step, io::Error)> {
        let begun = || {
            let (answer, end) = io::pipe()?;
            let parent = std::process::id();
            // SAFETY: what a forked process of many threads does before it ends are system calls alone.
            let child = unsafe { libc::fork() };
            match child {
                -1 => Err(io::Error::last_os_error()),
                0 => run(steps, parent, apart.as_raw_fd(), end.as_raw_fd()),
                child => Ok((answer, child)),
            }
        };
        let (mut answer, child) = begun().map_err(|error| (Step::Make, error))?;
        let mut code = [0];
        let told = answer.read_exact(&mut code);
        // SAFETY: a child of ours, waited for nowhere else. Where children are not waited for, it is gone without that.
        while unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) } == -1
            && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
        {}
        told.map_err(|_| (Step::Make, io::Error::other("the process that mounts was killed")))?;
        match code[0] {
            0 => Ok(()),
            code if code & WHEN_PUTTING != 0 => Err((Step::Put, error_of(code & !WHEN_PUTTING))),
            code => Err((Step::Make, error_of(code))),
        }
    }

    fn error_of(code: u8) -> io::Error {
        io::Error::from_raw_os_error(i32::from(code))
    }

    /// Never returns: the child's end.
    fn run(steps: &Steps, parent: u32, apart: i32, answer: i32) -> ! {
        // SAFETY: system calls with numbers, and one byte that lives through its call. The descriptors are this process's
        // own copies. It closes all others, among them that of the connection: as long as a waiting process had it,
        // the kernel would not end the connection when nobody else is left.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid().cast_unsigned() != parent {
                libc::_exit(1);
            }
            // Out of the way first: in a process without standard streams they may have these numbers.
            let (answer, apart) = (libc::fcntl(answer, libc::F_DUPFD, 3), libc::fcntl(apart, libc::F_DUPFD, 3));
            let moved = [libc::dup2(answer, 0), libc::dup2(apart, HELPERS_APART)];
            if moved.contains(&-1) || libc::close_range(2, libc::c_uint::MAX, 0) != 0 {
                libc::_exit(1);
            }
            let code = match steps.take() {
                Ok(()) => 0,
                Err((Step::Make, error)) => code_of(&error),
                Err((Step::Put, error)) => code_of(&error) | WHEN_PUTTING,
            };
            libc::write(0, std::ptr::from_ref(&code).cast(), 1);
            libc::_exit(0)
        }
    }

    /// The kernel's own numbers of errors end before 134; those of mounting are small.
    fn code_of(error: &io::Error) -> u8 {
        error
            .raw_os_error()
            .and_then(|code| u8::try_from(code).ok())
            .filter(|code| *code < 0x80)
            .unwrap_or(libc::EIO as u8)
    }
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

    pub fn set(context: &OwnedFd, name: &CStr, value: &CStr) -> io::Result<()> {
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

    pub fn move_to(mount: &OwnedFd, path: &CStr, flags: libc::c_uint) -> io::Result<()> {
        let flags = flags | MOVE_MOUNT_F_EMPTY_PATH;
        let (mount, here) = (mount.as_raw_fd(), libc::AT_FDCWD);
        // SAFETY: an open descriptor, and two strings that end with a zero and live through the call.
        let moved = unsafe { libc::syscall(libc::SYS_move_mount, mount, c"".as_ptr(), here, path.as_ptr(), flags) };
        if moved == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Of the file system, as the kernel knows it: asks nobody who serves it.
    pub fn device_of(file: &OwnedFd) -> io::Result<String> {
        let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
        // SAFETY: all-zero is a valid `statx`; the descriptor is open, and name and memory live through the call.
        let (done, told) = unsafe {
            let mut told: libc::statx = std::mem::zeroed();
            (libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, 0, &raw mut told), told)
        };
        if done != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(format!("{}:{}", told.stx_dev_major, told.stx_dev_minor))
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
