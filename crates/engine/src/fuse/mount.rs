//! Attaches a connection to a folder and detaches it, with root's system calls or through `fusermount3`.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::PosixFadviseAdvice;
use nix::mount::{MntFlags, MsFlags};

use super::device::{Device, NO_DEVICE_HINT};
use super::fusermount;
use super::mountinfo::{self, MOUNT_KIND, MountEntry};
use super::mountpoint;
use super::options::MountOptions;
use super::view::{self, Place};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::Mutex;

const DEVICE: &str = "/dev/fuse";

/// A mounted connection.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    /// Of a view the one of its newest list.
    entry: Mutex<MountEntry>,
    by_helper: bool,
    /// Of a view, whose `entry` is of another file system: the device of what is mounted in no folder.
    apart: Option<String>,
}

/// Mounts on `mountpoint`. The kernel's INIT request waits in the device afterwards.
pub fn mount(mountpoint: &Path, options: &MountOptions) -> Result<(Device, Mounted)> {
    let path = mountpoint::check(mountpoint, options.allow_nonempty)?;
    let is_root = nix::unistd::geteuid().is_root();
    let direct = if is_root { mount_directly(&path, options)? } else { None };
    let (device, by_helper) = match direct {
        Some(device) => (device, false),
        None => (mount_by_helper(&path, options, is_root)?, true),
    };
    let entry = entry_at(&path)?;
    Ok((device, Mounted::again(path, entry, by_helper, None)))
}

/// A connection for a view on `mountpoint`: mounted in no folder, for as long as the descriptor is open or something in
/// it is. With the path to show the view on.
pub fn mount_apart(mountpoint: &Path, options: &MountOptions) -> Result<(Device, OwnedFd, PathBuf)> {
    let path = mountpoint::check(mountpoint, options.allow_nonempty)?;
    let device = Device::new(open_device()?);
    let apart = view::mount_apart(&device, options)?;
    Ok((device, apart, path))
}

/// Shows `image` on `path`, its content in the file `blob` of what is mounted as `apart` and already served.
pub fn show(image: &Path, blob: &str, path: PathBuf, apart: &OwnedFd) -> Result<Mounted> {
    view::show(image, apart, blob, &path, Place::OnTop)?;
    let entry = entry_at(&path)?;
    Ok(Mounted::again(path, entry, false, Some(view::device_of(apart)?)))
}

fn entry_at(path: &Path) -> Result<MountEntry> {
    mountinfo::topmost_at(path)?.filter(MountEntry::is_ours).ok_or_else(|| {
        let message = format!("the mount on {} went away at once", path.display());
        Error::new(ErrorKind::Unexpected, message)
    })
}

/// `None` when this root may not mount (a container without CAP_SYS_ADMIN): the helper may still be able to.
fn mount_directly(path: &Path, options: &MountOptions) -> Result<Option<Device>> {
    let device = Device::new(open_device()?);
    let mut data = format!("fd={},rootmode=40000,user_id=0,group_id=0,default_permissions", device.number());
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let closed = if options.writable { MsFlags::empty() } else { MsFlags::MS_RDONLY };
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | closed;
    match nix::mount::mount(Some(options.source.as_str()), path, Some(MOUNT_KIND), flags, Some(data.as_str())) {
        Ok(()) => Ok(Some(device)),
        Err(Errno::EPERM) => Ok(None),
        Err(error) => Err(Error::from_io("mount on", path, error.into())),
    }
}

fn mount_by_helper(path: &Path, options: &MountOptions, is_root: bool) -> Result<Device> {
    if options.allow_other && !is_root && !fusermount::allows_other() {
        return Err(fusermount::other_refused());
    }
    let source = fusermount::escape(&options.source);
    let access = if options.writable { "rw" } else { "ro" };
    let mut words = format!("fsname={source},subtype=headrace,{access},nosuid,nodev,default_permissions");
    if options.allow_other {
        words.push_str(",allow_other");
    }
    Ok(Device::new(fusermount::mount(path, &words)?))
}

fn open_device() -> Result<OwnedFd> {
    let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(DEVICE);
    opened.map(OwnedFd::from).map_err(explain_device)
}

fn explain_device(error: io::Error) -> Error {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            Error::new(ErrorKind::Unsupported, format!("cannot mount: this machine has no {DEVICE}"))
                .with_hint(NO_DEVICE_HINT)
        }
        Some(libc::EPERM | libc::EACCES) => {
            Error::new(ErrorKind::PermissionDenied, format!("cannot mount: no right to open {DEVICE}"))
                .with_hint("run as root, or let the container use the device /dev/fuse")
        }
        _ => Error::from_io("open", Path::new(DEVICE), error),
    }
}

impl Mounted {
    /// A mount that another process made.
    pub fn again(path: PathBuf, entry: MountEntry, by_helper: bool, apart: Option<String>) -> Self {
        Mounted { path, entry: Mutex::new(entry), by_helper, apart }
    }

    /// Shows another image instead of the one before, which stays for those who have files of it open or stand in it. At
    /// each moment one of the two is there. The same once more, when the process died on the way, ends what was begun.
    pub fn show_next(&self, image: &Path, blob: &str, apart: &OwnedFd) -> Result<()> {
        if !mountinfo::topmost_at(&self.path)?.is_some_and(|top| self.is_of_this_view(&top)) {
            let message =
                format!("cannot show the new list on {}: something else is on top there", self.path.display());
            return Err(Error::new(ErrorKind::Busy, message).with_hint("unmount that, and refresh again"));
        }
        view::show(image, apart, blob, &self.path, Place::Beneath)?;
        self.find_again()
    }

    /// Finds the mount of a view: the newest list, which is lowest. Takes those off that lie above it still, also where a
    /// process died that was about to.
    pub fn find_again(&self) -> Result<()> {
        while let Some(top) = mountinfo::topmost_at(&self.path)?.filter(|top| self.is_of_this_view(top)) {
            let lists = mountinfo::all_at(&self.path)?;
            if !lists.iter().any(|other| self.is_of_this_view(other) && other.device != top.device) {
                *self.entry.lock() = top;
                break;
            }
            self.unmount_directly(true)?;
        }
        Ok(())
    }

    /// A view names the image in the folder of our own state, which is locked.
    fn is_of_this_view(&self, entry: &MountEntry) -> bool {
        entry.is_view() && entry.source == self.entry.lock().source
    }

    /// The device (`major:minor`) of a view's connection, which is not that of the view.
    pub fn apart(&self) -> Option<&str> {
        self.apart.as_deref()
    }

    /// What tells this mount from every other, and whether it was made by the helper.
    pub fn identity(&self) -> (MountEntry, bool) {
        (self.entry.lock().clone(), self.by_helper)
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the mount off its folder: EBUSY while in use, unless `force`, which detaches it now and lets those who
    /// still have files open there finish. False, and nothing happens, when the mount is gone already or lies below
    /// another. `served`: whether its connection is still alive.
    pub fn unmount(&self, force: bool, served: bool) -> Result<bool> {
        if !self.is_on_top()? || !(served || self.is_dead()) {
            return Ok(false);
        }
        let outcome =
            if self.by_helper { fusermount::unmount(&self.path, force) } else { self.unmount_directly(force) };
        outcome.map(|()| true).map_err(|error| match error.kind() {
            ErrorKind::Busy => error.with_hint("close what is open there, or force it"),
            _ => error,
        })
    }

    fn unmount_directly(&self, force: bool) -> Result<()> {
        let lazy = if force { MntFlags::MNT_DETACH } else { MntFlags::empty() };
        nix::mount::umount2(&self.path, lazy | MntFlags::UMOUNT_NOFOLLOW)
            .map_err(|error| Error::from_io("unmount", &self.path, error.into()))
    }

    /// The kernel gives the numbers of a mount that is gone to the next one. So once our connection has ended, what has
    /// our numbers is either our own mount, aborted, or somebody else's, alive: that one is not ours to take.
    fn is_dead(&self) -> bool {
        let is_shown =
            || mountinfo::topmost_at(&self.path).is_ok_and(|top| top.is_some_and(|top| self.is_of_this_view(&top)));
        let is_aborted =
            || std::fs::metadata(&self.path).is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN));
        // A view has no connection that could be missed.
        if self.entry.lock().is_view() { is_shown() } else { is_aborted() }
    }

    fn is_on_top(&self) -> Result<bool> {
        let top = mountinfo::topmost_at(&self.path)?;
        let entry = self.entry.lock();
        Ok(top.is_some_and(|top| top.id == entry.id && top.device == entry.device))
    }

    /// See `MountHandle::forget_pages`.
    pub fn forget_pages(&self, paths: &[Vec<u8>]) {
        for path in paths {
            let options = OpenOptions::new().read(true).custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC).clone();
            // What is not there is of another snapshot, or the view is gone.
            let Ok(file) = options.open(self.path.join(OsStr::from_bytes(path))) else { continue };
            let forgotten = nix::fcntl::posix_fadvise(&file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED);
            if let Err(error) = forgotten {
                tracing::warn!("fuse: the kernel keeps pages of a file that turned out to be wrong: {error}");
            }
        }
    }

    /// Lets the kernel read ahead up to `bytes` in this mount. Needs root's rights: otherwise its default stays.
    pub fn raise_readahead(&self, bytes: u32) {
        let setting = format!("/sys/class/bdi/{}/read_ahead_kb", self.entry.lock().device);
        if let Err(error) = std::fs::write(&setting, (bytes >> 10).to_string()) {
            tracing::debug!("fuse: the kernel's read-ahead stays as it is: {error}");
        }
    }
}

/// Clears a mount of ours whose process is gone, or any other at `mountpoint` that this user may take off.
pub fn unmount_path(mountpoint: &Path, force: bool) -> Result<()> {
    let Some(entry) = find_mount(mountpoint)? else {
        let message = format!("cannot unmount {}: nothing of Headrace is mounted there", mountpoint.display());
        return Err(Error::new(ErrorKind::NotFound, message));
    };
    let by_helper = !nix::unistd::geteuid().is_root();
    Mounted::again(entry.path.clone(), entry, by_helper, None).unmount(force, true).map(drop)
}

/// Without touching the mountpoint itself: a dead mount there answers nothing.
fn find_mount(mountpoint: &Path) -> Result<Option<MountEntry>> {
    let absolute = std::path::absolute(mountpoint).map_err(|error| Error::from_io("find", mountpoint, error))?;
    let path = match (absolute.parent().map(std::fs::canonicalize), absolute.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => absolute.clone(),
    };
    let exact = mountinfo::topmost_at(&path)?.filter(MountEntry::is_ours);
    match (exact, std::fs::read_link(&path)) {
        (None, Ok(target)) => {
            let target = path.parent().unwrap_or(Path::new("/")).join(target);
            Ok(mountinfo::topmost_at(&target)?.filter(MountEntry::is_ours))
        }
        (exact, _) => Ok(exact),
    }
}
