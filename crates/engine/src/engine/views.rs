//! The views of one owner: each shows the image of a list, with the content in a blob, and goes on to the next list.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::state::StateDirectory;
use crate::error::{Error, Result};
use crate::fuse::{IMAGE_NAME, ListImage, MountHandle};
use crate::origin::Permissions;
use crate::snapshot::erofs::{BlobLayout, Defaults, write_image};
use crate::snapshot::{NodeIndex, Snapshot, difference_inodes};
use crate::sync::Mutex;
use crate::vfs::{Blobs, Offer, Tree};

/// Those that are mounted.
#[derive(Default)]
pub struct Views(Mutex<Vec<View>>);

struct View {
    mount: Weak<MountHandle>,
    blobs: Arc<Blobs>,
}

/// A list that is ready to be shown: its image, which has a name until this is dropped, and its content.
pub struct Ready {
    image: Image,
    identity: u64,
    _content: Offer,
}

/// Whoever has it open or mounted goes on with it when its name is gone.
struct Image(PathBuf);

impl Drop for Image {
    fn drop(&mut self) {
        match std::fs::remove_file(&self.0) {
            // The next image has taken its name.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                tracing::warn!(%error, path = %self.0.display(), "cannot remove the image of a view");
            }
            _ => {}
        }
    }
}

impl Ready {
    /// Makes the image of `snapshot`, which `tree` has, and offers its content in `blobs`.
    pub fn make(state: &StateDirectory, tree: &Tree, blobs: &Arc<Blobs>, snapshot: &Snapshot) -> Result<Ready> {
        let image = Image(state.path().join(IMAGE_NAME));
        let identity = snapshot.identity();
        let content = blobs.offer(identity, lay_out(tree, snapshot, &image.0)?)?;
        Ok(Ready { image, identity, _content: content })
    }

    pub fn list(&self) -> ListImage<'_> {
        ListImage { image: &self.image.0, identity: self.identity }
    }
}

/// The content of lists that a process before has shown: the same snapshot gives the same image, byte for byte. One that
/// is gone can be read no more; the others go on. They are offered until the second value is dropped.
pub fn make_again(
    state: &StateDirectory,
    tree: &Arc<Tree>,
    identities: &BTreeSet<u64>,
) -> Result<(Arc<Blobs>, Vec<Ready>)> {
    let blobs = Blobs::new(tree.clone())?;
    let mut ready = Vec::new();
    for identity in identities {
        match tree.snapshot_of(*identity) {
            Some(snapshot) => ready.push(Ready::make(state, tree, &blobs, &snapshot)?),
            None => tracing::warn!("a list of files that programs have open in a view is gone"),
        }
    }
    Ok((blobs, ready))
}

impl Views {
    /// Adds what `make` mounts, with its content: no other image is made or shown meanwhile. Ends the mount once nobody has
    /// anything of it open.
    pub fn mount(&self, make: impl FnOnce() -> Result<(MountHandle, Arc<Blobs>)>) -> Result<Arc<MountHandle>> {
        let mut views = self.0.lock();
        let (mount, blobs) = make()?;
        let mount = Arc::new(mount);
        let ending = Arc::downgrade(&mount);
        blobs.when_unused(move || {
            let ending = ending.clone();
            // Not in the thread that serves the last request.
            let thread = std::thread::Builder::new().name("headrace-end".to_owned());
            let ended = thread.spawn(move || ending.upgrade().into_iter().for_each(|mount| mount.end()));
            ended.err().into_iter().for_each(|error| tracing::error!(%error, "a view that is gone cannot be ended"));
        });
        views.retain(View::is_there);
        views.push(View { mount: Arc::downgrade(&mount), blobs });
        Ok(mount)
    }

    /// Shows `snapshot`, which `tree` has, in all views. The first error, once all were tried.
    pub fn show(&self, state: &StateDirectory, tree: &Tree, snapshot: &Snapshot) -> Result<()> {
        let views = self.0.lock();
        let shown = views.iter().map(|view| view.show(state, tree, snapshot));
        shown.fold(Ok(()), Result::and)
    }
}

impl View {
    fn is_there(&self) -> bool {
        self.mount.upgrade().is_some_and(|mount| !mount.wait(Some(Duration::ZERO)))
    }

    fn show(&self, state: &StateDirectory, tree: &Tree, snapshot: &Snapshot) -> Result<()> {
        let Some(mount) = self.mount.upgrade().filter(|_| self.is_there()) else { return Ok(()) };
        if is_same(tree.snapshot_of(mount.announced()).as_ref(), snapshot) {
            // What the kernel has in its page cache stays there.
            mount.shows_already(snapshot.identity());
            return Ok(());
        }
        mount.show_next(Ready::make(state, tree, &self.blobs, snapshot)?.list())
    }
}

/// Whether a program could not tell the two from each other.
fn is_same(shown: Option<&Snapshot>, next: &Snapshot) -> bool {
    let Some(shown) = shown else { return false };
    let mut changes = 0_u64;
    difference_inodes(shown, next, &mut |_| changes += 1);
    // The top is below no name, so no change of names tells of it.
    changes == 0 && attributes_of_root(shown) == attributes_of_root(next)
}

fn attributes_of_root(snapshot: &Snapshot) -> Option<(i64, Option<Permissions>)> {
    snapshot.node(NodeIndex::ROOT).map(|root| (root.mtime_ns, root.permissions))
}

fn lay_out(tree: &Tree, snapshot: &Snapshot, image: &Path) -> Result<BlobLayout> {
    let of = tree.ownership();
    let defaults =
        Defaults { uid: of.uid, gid: of.gid, file_mode: of.file_mode as u16, directory_mode: of.directory_mode as u16 };
    // Never over one that a process before was killed beside: the kernel may show it still.
    match std::fs::remove_file(image) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::from_io("replace", image, error)),
        _ => write_image(snapshot, defaults, image),
    }
}
