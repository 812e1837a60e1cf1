//! A file on a disk whose reads wait.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use headrace_engine::fuse::Mode;
use headrace_engine::metrics::ReasonLabel;
use headrace_engine::vfs::{Inode, ROOT};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::mounts::{Content, Mount, Tree, memory};

/// A file on a disk whose reads wait until they are let go.
pub struct HangingFile {
    place: PathBuf,
    disk: Mount,
    inode: Inode,
    content: Vec<u8>,
}

impl HangingFile {
    /// Takes the place of the file at `path`.
    pub fn at(path: &Path) -> Self {
        let content = std::fs::read(path).unwrap();
        let tree = Tree::default();
        let inode = tree.put(ROOT, "data", Content::Stuck { size: content.len() as u64 });
        let disk = Mount::new(tree, Mode::Classic);
        // A link would not be followed.
        mount(Some(&disk.path("data")), path, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
        HangingFile { place: path.to_owned(), disk, inode, content }
    }

    pub fn reads(&self) -> u64 {
        self.disk.metrics.fuse_requests.get_or_create(&ReasonLabel { reason: "read".to_owned() }).get()
    }

    /// Reads wait again; what the kernel remembers of the file is forgotten.
    pub fn hang(&self) {
        self.disk.tree.replace(self.inode, Content::Stuck { size: self.content.len() as u64 });
        forget_pages(&self.disk.path("data"));
    }

    pub fn let_go(&self) {
        self.disk.tree.replace(self.inode, memory(&self.content));
    }
}

impl Drop for HangingFile {
    /// Whoever waits still would hold up the end of the test.
    fn drop(&mut self) {
        self.let_go();
        let _ = umount2(&self.place, MntFlags::MNT_DETACH);
    }
}

/// Has the kernel read the file anew.
pub fn forget_pages(path: &Path) {
    let file = File::open(path).unwrap();
    // SAFETY: a plain system call on a descriptor that is open.
    let result = unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    assert_eq!(result, 0);
}
