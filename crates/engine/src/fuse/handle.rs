//! A mount as its owner sees it: from `mount` to `unmount`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::mount::{self, Mounted};
use super::negotiate::Negotiated;
use super::notify::{Delivery, Notice, Notifier};
use super::options::{Mode, MountOptions};
use super::session::{Handover, Session, Surroundings};
use crate::budget::Budgets;
use crate::error::Result;
use crate::metrics::Metrics;
use crate::vfs::{FileSystem, Inode};

/// How long dropping a handle waits for the last requests.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// A mounted tree; dropping it unmounts. Who still has files open there may go on reading while this process lives.
pub struct MountHandle {
    notifier: Notifier,
    session: Option<Session>,
    negotiated: Negotiated,
    mounted: Mounted,
}

/// Mounts `filesystem` on the folder `mountpoint` and serves it from threads of its own.
///
/// Reads that need an origin wait on `runtime`. Errors: the folder is missing, not a directory, not empty, or mounted
/// on; no `/dev/fuse`; no right to mount. Each comes within a second.
pub fn mount(
    filesystem: Arc<dyn FileSystem>,
    mountpoint: &Path,
    options: MountOptions,
    runtime: tokio::runtime::Handle,
    metrics: Metrics,
    budgets: Budgets,
) -> Result<MountHandle> {
    options.check()?;
    let (device, mounted) = mount::mount(mountpoint, &options)?;
    let surroundings = Surroundings { filesystem, runtime, metrics, budgets };
    let started = Session::start(device, &options, surroundings)
        .and_then(|session| Ok((Notifier::start(session.device())?, session)));
    match started {
        Ok((notifier, session)) => {
            mounted.raise_readahead(options.max_readahead_bytes);
            let negotiated = session.negotiated();
            Ok(MountHandle { notifier, session: Some(session), negotiated, mounted })
        }
        Err(error) => {
            let _ = mounted.unmount(true, true);
            Err(error)
        }
    }
}

impl MountHandle {
    /// How files are read: never `Auto`.
    pub fn mode(&self) -> Mode {
        let refused = |session: &Session| !session.allows_passthrough();
        match self.negotiated.mode {
            Mode::Passthrough if self.session.as_ref().is_some_and(refused) => Mode::Classic,
            mode => mode,
        }
    }

    /// What kernel and daemon agreed on; with the descriptor of the connection it is what a supervisor must keep.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Where it is mounted: absolute, links followed.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.path()
    }

    /// References to inodes that the kernel holds.
    pub fn kernel_lookups(&self) -> u64 {
        self.session.as_ref().map_or(0, Session::lookups)
    }

    /// Waits until the mount is gone, by our `unmount` or anybody's; false when `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.session.as_ref().is_none_or(|session| session.wait(timeout))
    }

    /// Takes the mount off. `Busy` while files are open or somebody stands in it, unless `force`: then it disappears
    /// from its folder now, and ends when the last of them is done.
    pub fn unmount(&self, force: bool) -> Result<()> {
        self.mounted.unmount(force, !self.wait(Some(Duration::ZERO)))
    }

    /// Makes the kernel forget what it knows of these names; it looks them up again when next used, and open files stay
    /// as they are. Returns at once; the delivery resolves when it has happened.
    pub fn invalidate(&self, names: Vec<(Inode, Vec<u8>)>) -> Delivery {
        self.notifier.send(names.into_iter().map(|(parent, name)| Notice::Name { parent, name }).collect())
    }

    /// The same for every name at once. `Delivered::unsupported` is 1 on kernels before Linux 6.16.
    pub fn invalidate_all_names(&self) -> Delivery {
        self.notifier.send(vec![Notice::AllNames])
    }

    /// Makes the kernel forget attributes and cached pages (of a directory: its cached listing).
    pub fn invalidate_inodes(&self, inodes: Vec<Inode>) -> Delivery {
        self.notifier.send(inodes.into_iter().map(Notice::Inode).collect())
    }

    /// Stops serving without unmounting, so that another session can `resume` with what this returns. The caller then
    /// owns the mount: nothing unmounts it by itself any more.
    pub fn hand_over(mut self) -> Result<Option<Handover>> {
        self.session.take().map(Session::stop).transpose()
    }
}

impl Drop for MountHandle {
    fn drop(&mut self) {
        let Some(session) = &self.session else { return };
        if let Err(error) = self.unmount(false).or_else(|_| self.unmount(true)) {
            tracing::warn!("fuse: {error}");
        }
        session.wait(Some(DROP_TIMEOUT));
    }
}
