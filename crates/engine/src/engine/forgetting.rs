//! Wrong bytes out of the kernel's page cache: when content turns out to be wrong after it was served, the mounts' kernels
//! forget the pages of its files.
//!
//! One scan of the snapshots at a time, for all files that were told of by then: a damaged disk tells of many at once.

use std::collections::HashSet;
use std::sync::{Arc, Weak};

use tokio::runtime::Handle;

use crate::fuse::{Mode, MountHandle};
use crate::store::{Blocks, WrongFile};
use crate::sync::Mutex;
use crate::vfs::Tree;

/// The mounts of one owner, and what their kernels are yet to forget.
pub struct Forgetting {
    /// Weak: the tree leads to the blocks, which lead here.
    tree: Weak<Tree>,
    runtime: Handle,
    /// A list of its own: the owner's is locked while a mount goes, which may wait for pages.
    mounts: Mutex<Vec<Weak<MountHandle>>>,
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    files: HashSet<WrongFile>,
    /// A task will look at `files` once more.
    has_task: bool,
}

impl Forgetting {
    /// Listens to what `blocks` tell from now on.
    pub fn start(tree: &Arc<Tree>, blocks: Option<&dyn Blocks>, runtime: &Handle) -> Arc<Self> {
        let (mounts, pending) = (Mutex::default(), Mutex::default());
        let forgetting = Arc::new(Forgetting { tree: Arc::downgrade(tree), runtime: runtime.clone(), mounts, pending });
        let listener = Arc::downgrade(&forgetting);
        if let Some(blocks) = blocks {
            blocks.on_wrong_content(Arc::new(move |file| {
                listener.upgrade().into_iter().for_each(|forgetting| forgetting.note(file));
            }));
        }
        forgetting
    }

    /// The kernel of `mount` shall forget, too.
    pub fn add(&self, mount: &Arc<MountHandle>) {
        let mut mounts = self.mounts.lock();
        mounts.retain(|mount| mount.strong_count() > 0);
        mounts.push(Arc::downgrade(mount));
    }

    fn note(self: Arc<Self>, file: WrongFile) {
        let mut pending = self.pending.lock();
        pending.files.insert(file);
        if !std::mem::replace(&mut pending.has_task, true) {
            drop(pending);
            let forgetting = self.clone();
            drop(self.runtime.spawn_blocking(move || while forgetting.forget_pending() {}));
        }
    }

    /// False when nothing was pending.
    fn forget_pending(&self) -> bool {
        let files = {
            let mut pending = self.pending.lock();
            pending.has_task = !pending.files.is_empty();
            std::mem::take(&mut pending.files)
        };
        if let (false, Some(tree)) = (files.is_empty(), self.tree.upgrade()) {
            let inodes = tree.inodes_of(&files);
            let mounts = self.mounts.lock().clone();
            for mount in mounts.iter().filter_map(Weak::upgrade) {
                if mount.mode() == Mode::View {
                    mount.forget_pages(&tree.paths_of(&inodes));
                } else {
                    // Not waited for: the kernel holds the message until pages that are being read are there.
                    drop(mount.invalidate_inodes(inodes.clone()));
                }
            }
        }
        !files.is_empty()
    }
}
