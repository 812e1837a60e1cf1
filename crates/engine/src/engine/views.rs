//! What a view is made of: the image of a snapshot, and the blob with its content.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::state::StateDirectory;
use crate::error::{Error, ErrorKind, Result};
use crate::fuse::IMAGE_NAME;
use crate::snapshot::Snapshot;
use crate::snapshot::erofs::{BlobLayout, Defaults, write_image};
use crate::vfs::{Blob, Tree};

/// An image that has a name until this is dropped; whoever has it open or mounted goes on with it.
pub struct Image(PathBuf);

impl Image {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(%error, path = %self.0.display(), "cannot remove the image of a view");
        }
    }
}

/// The image of `snapshot`, which `tree` has, and its content.
pub fn make(state: &StateDirectory, tree: &Arc<Tree>, snapshot: &Snapshot) -> Result<(Image, Arc<Blob>)> {
    let image = Image(state.path().join(IMAGE_NAME));
    let layout = lay_out(tree, snapshot, &image)?;
    Ok((image, Blob::new(tree.clone(), snapshot.identity(), layout)?))
}

/// The content of an image that a process before has mounted: the same snapshot gives the same image, byte for byte.
pub fn make_again(state: &StateDirectory, tree: &Arc<Tree>, identity: u64) -> Result<Arc<Blob>> {
    let snapshot = tree.snapshot_of(identity).ok_or_else(|| {
        Error::new(ErrorKind::Stale, "the list of files that the view shows is gone").with_hint("mount again")
    })?;
    make(state, tree, &snapshot).map(|(_, blob)| blob)
}

fn lay_out(tree: &Tree, snapshot: &Snapshot, image: &Image) -> Result<BlobLayout> {
    let of = tree.ownership();
    let defaults =
        Defaults { uid: of.uid, gid: of.gid, file_mode: of.file_mode as u16, directory_mode: of.directory_mode as u16 };
    // Never over one that a process before was killed beside: the kernel may show it still.
    match std::fs::remove_file(image.path()) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::from_io("replace", image.path(), error))
        }
        _ => write_image(snapshot, defaults, image.path()),
    }
}
