//! Opens files and folders below a folder so that no link, and no rename under our feet, can lead out of it.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The folder itself, as a starting point only. It may be reached through links: whoever named it chose them.
pub(in crate::origin) fn open_root(directory: &Path) -> io::Result<File> {
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC)
        .open(directory)
}

/// A file below `root`, opened for reading. Fails with ELOOP where a symbolic link stands in the path. Does not wait
/// for writers of a pipe; callers must check that it is a regular file.
pub(super) fn open_file(root: &File, key: &[u8]) -> io::Result<File> {
    open(root.as_fd(), key, libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOCTTY)
}

/// A folder below `root`, opened for listing; `key` empty for `root` itself.
pub(in crate::origin) fn open_folder(root: &File, key: &[u8]) -> io::Result<File> {
    open(root.as_fd(), if key.is_empty() { b"." } else { key }, libc::O_RDONLY | libc::O_DIRECTORY)
}

/// Whatever stands at `key` below `root`, to be asked what it is and not to be read. ELOOP for a link.
pub(in crate::origin) fn open_place(root: &File, key: &[u8]) -> io::Result<File> {
    open(root.as_fd(), key, libc::O_PATH)
}

fn open(root: BorrowedFd<'_>, key: &[u8], flags: i32) -> io::Result<File> {
    let path = CString::new(key).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `open_how` is a plain C structure of integers, for which all zeros is a valid value.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (flags | libc::O_CLOEXEC | libc::O_NOFOLLOW) as u64;
    how.resolve = libc::RESOLVE_BENEATH | libc::RESOLVE_NO_SYMLINKS | libc::RESOLVE_NO_MAGICLINKS;
    // SAFETY: `path` is a C string and `how` a valid structure of the given size; both outlive the call.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size_of::<libc::open_how>())
    };
    if descriptor >= 0 {
        // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
        return Ok(File::from(unsafe { OwnedFd::from_raw_fd(descriptor as i32) }));
    }
    match io::Error::last_os_error() {
        // Before Linux 5.6, or forbidden by a container's filter.
        error if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => open_stepwise(root, key, flags),
        error => Err(error),
    }
}

/// The same by one `openat` for each segment of the path.
fn open_stepwise(root: BorrowedFd<'_>, key: &[u8], flags: i32) -> io::Result<File> {
    let mut segments = key.split(|byte| *byte == b'/').peekable();
    let mut folder = root.try_clone_to_owned()?;
    while let Some(segment) = segments.next() {
        if segment == b".." || segment.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EXDEV));
        }
        let last = segments.peek().is_none();
        let flags = if last { flags } else { libc::O_PATH | libc::O_DIRECTORY };
        folder = open_segment(folder.as_fd(), segment, flags)?;
    }
    Ok(File::from(folder))
}

fn open_segment(folder: BorrowedFd<'_>, segment: &[u8], flags: i32) -> io::Result<OwnedFd> {
    let name = CString::new(segment).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
    // SAFETY: `name` is a C string that outlives the call.
    let descriptor =
        unsafe { libc::openat(folder.as_raw_fd(), name.as_ptr(), flags | libc::O_CLOEXEC | libc::O_NOFOLLOW) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave us this descriptor, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_opening_stay_inside_and_follow_no_link() {
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("secret"), "s").unwrap();
        let inside = tempfile::tempdir().unwrap();
        std::fs::create_dir(inside.path().join("real")).unwrap();
        std::fs::write(inside.path().join("real/file"), "f").unwrap();
        std::os::unix::fs::symlink(outside.path(), inside.path().join("out")).unwrap();
        std::os::unix::fs::symlink("file", inside.path().join("real/link")).unwrap();
        let root = open_root(inside.path()).unwrap();
        type Way = fn(BorrowedFd<'_>, &[u8], i32) -> io::Result<File>;
        for way in [open as Way, open_stepwise] {
            assert!(way(root.as_fd(), b"real/file", libc::O_RDONLY).is_ok());
            for bad in [&b"out/secret"[..], b"real/link", b"../x", b"real/../../x", b"/etc/passwd"] {
                assert!(way(root.as_fd(), bad, libc::O_RDONLY).is_err(), "{}", String::from_utf8_lossy(bad));
            }
        }
    }
}
