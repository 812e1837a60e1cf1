//! A mount as its owner sees it: from `mount` to `unmount`.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::kept::{self, KeptMount};
use super::ledger::Ledger;
use super::mount::{self, Mounted};
use super::negotiate::{Negotiated, whole_requests};
use super::notify::{Delivery, Notice, Notifier, TellName, notices_of};
use super::options::{Mode, MountOptions};
use super::relay::Relay;
use super::session::{Inheritance, Session, Surroundings};
use crate::budget::Budgets;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics::Metrics;
use crate::sync::Mutex;
use crate::vfs::{FileSystem, Inode, blob_name};

/// How long dropping a handle waits for the last requests.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// A mounted tree; dropping it unmounts. Who still has files open there may go on reading while this process lives.
pub struct MountHandle {
    notifier: Notifier,
    session: Session,
    ledger: Arc<Ledger>,
    negotiated: Negotiated,
    mounted: Mounted,
    /// Of a view: what the content of further lists is mounted from. Without it a process that goes on shows no other list.
    apart: Mutex<Option<OwnedFd>>,
    /// Whether `unmount` took it off: from then on what has its numbers in the kernel's table is another mount.
    taken_off: AtomicBool,
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
        .and_then(|session| Ok((Notifier::start(session.device(), session.ledger())?, session)));
    match started {
        Ok((notifier, session)) => {
            mounted.raise_readahead(whole_requests(options.max_readahead_bytes));
            Ok(MountHandle::new(notifier, session, mounted))
        }
        Err(error) => {
            let _ = mounted.unmount(true, true);
            Err(error)
        }
    }
}

/// One list of files for a view to show.
#[derive(Debug, Clone, Copy)]
pub struct ListImage<'a> {
    /// Its EROFS image, whose content is in the file `blob_name(identity)` of the connection.
    pub image: &'a Path,
    /// Of the snapshot.
    pub identity: u64,
}

/// Shows `list` on the folder `mountpoint`, its content in a file of `filesystem`, served as by `mount`.
///
/// The image may lose its name afterwards. `Unsupported` where the kernel has no such EROFS (before Linux 6.15).
pub fn mount_view(
    filesystem: Arc<dyn FileSystem>,
    list: ListImage<'_>,
    mountpoint: &Path,
    options: MountOptions,
    runtime: tokio::runtime::Handle,
    metrics: Metrics,
    budgets: Budgets,
) -> Result<MountHandle> {
    options.check()?;
    let (device, apart, path) = mount::mount_apart(mountpoint, &options)?;
    let surroundings = Surroundings { filesystem, runtime, metrics, budgets };
    // On an error `apart` is closed, and that ends the connection and who serves it.
    let session = Session::start(device, &options, surroundings)?;
    let notifier = Notifier::start(session.device(), session.ledger())?;
    let mounted = mount::show(list.image, &blob_name(list.identity), path, &apart)?;
    let handle = MountHandle::new(notifier, session, mounted);
    handle.ledger.announced().store(list.identity, Ordering::Release);
    *handle.apart.lock() = Some(apart);
    Ok(handle)
}

/// Goes on with a mount that another daemon served until it handed it over or died: `filesystem` must show the same
/// inodes. Programs notice nothing but the wait. On an error the mount is as it was, and may be tried again.
pub fn resume(
    filesystem: Arc<dyn FileSystem>,
    kept: KeptMount,
    options: MountOptions,
    runtime: tokio::runtime::Handle,
    metrics: Metrics,
    budgets: Budgets,
) -> Result<MountHandle> {
    options.check()?;
    let (negotiated, mounted) = kept::understand(&kept.words)?;
    if negotiated.mode == Mode::View {
        mounted.find_again()?;
    }
    let surroundings = Surroundings { filesystem, runtime, metrics, budgets };
    let inheritance = Inheritance { connection: kept.connection, ledger: kept.ledger, negotiated };
    let session = Session::resume(inheritance, &options, surroundings)?;
    let handle = MountHandle::new(Notifier::start(session.device(), session.ledger())?, session, mounted);
    *handle.apart.lock() = kept.apart;
    if let Some(relay) = kept.relay {
        handle.send_through(relay);
    }
    Ok(handle)
}

impl MountHandle {
    fn new(notifier: Notifier, session: Session, mounted: Mounted) -> Self {
        session.give_through(notifier.queue());
        let (ledger, negotiated) = (session.ledger(), session.negotiated());
        let (apart, taken_off) = (Mutex::default(), AtomicBool::new(false));
        MountHandle { notifier, session, ledger, negotiated, mounted, apart, taken_off }
    }

    /// How files are read: never `Auto`.
    pub fn mode(&self) -> Mode {
        match self.negotiated.mode {
            Mode::Passthrough if !self.session.allows_passthrough() => Mode::Classic,
            mode => mode,
        }
    }

    /// What kernel and daemon agreed on.
    pub fn negotiated(&self) -> Negotiated {
        self.negotiated
    }

    /// Where it is mounted: absolute, links followed.
    pub fn mountpoint(&self) -> &Path {
        self.mounted.path()
    }

    /// The device (`major:minor`) by which the kernel lists the connection of a view; `None` where it is the mount's own.
    pub fn connection(&self) -> Option<&str> {
        self.mounted.apart()
    }

    /// Shows another list in a view: at its mountpoint it takes the place of the one before, which stays for who has files
    /// of it open, stands in it, or sees it from another mount namespace.
    pub fn show_next(&self, list: ListImage<'_>) -> Result<()> {
        let apart = self.apart.lock();
        let Some(apart) = &*apart else {
            let message = "the process of this view goes on for another one, and can show no other list of files";
            return Err(Error::new(ErrorKind::Unsupported, message).with_hint("unmount, and mount again"));
        };
        self.mounted.show_next(list.image, &blob_name(list.identity), apart)?;
        self.ledger.announced().store(list.identity, Ordering::Release);
        Ok(())
    }

    /// A view shows what a snapshot of that identity says without another image.
    pub fn shows_already(&self, identity: u64) {
        self.ledger.announced().store(identity, Ordering::Release);
    }

    /// Serves no more: for a view of which nobody has a list any longer. From any thread but those that serve.
    pub fn end(&self) {
        self.notifier.stop_in_silence(|| self.session.end());
        drop(self.apart.lock().take());
    }

    /// References to inodes that the kernel holds.
    pub fn kernel_lookups(&self) -> u64 {
        self.session.lookups()
    }

    /// Waits until the mount is gone, by our `unmount` or anybody's, or handed over; false when `timeout` passed first.
    pub fn wait(&self, timeout: Option<Duration>) -> bool {
        self.session.wait(timeout)
    }

    /// Takes the mount off. `Busy` while files are open or somebody stands in it, unless `force`: then it disappears
    /// from its folder now, and ends when the last of them is done.
    /// Nothing happens once that was done, or it is handed over.
    pub fn unmount(&self, force: bool) -> Result<()> {
        if self.is_handed_over() || self.taken_off.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.mounted.unmount(force, !self.wait(Some(Duration::ZERO)))? {
            self.taken_off.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Makes the kernel forget what it knows of these names, and the lists of their directories; it looks them up again
    /// when next used, and open files stay as they are. Returns at once; the delivery resolves when it has happened.
    pub fn invalidate(&self, names: Vec<(Inode, Vec<u8>)>) -> Delivery {
        let walk = move |tell: TellName<'_>| names.iter().for_each(|(parent, name)| tell(*parent, name));
        self.notifier.send(notices_of(walk), None)
    }

    /// The same for every name at once. `Delivered::unsupported` is 1 on kernels before Linux 6.16.
    pub fn invalidate_all_names(&self) -> Delivery {
        self.notifier.send(Box::new(|tell| tell(Notice::AllNames)), None)
    }

    /// Makes the kernel forget attributes and cached pages (of a directory: its cached listing).
    pub fn invalidate_inodes(&self, inodes: Vec<Inode>) -> Delivery {
        self.notifier.send(Box::new(move |tell| inodes.into_iter().map(Notice::Inode).for_each(tell)), None)
    }

    /// Makes the kernel forget what it has of these files of a view in its page cache, but for pages that are mapped.
    /// May wait for the disk of the image.
    pub fn forget_pages(&self, paths: &[Vec<u8>]) {
        self.mounted.forget_pages(paths);
    }

    /// Tells the kernel what a snapshot has changed, by its identity: each name that `walk` tells, directory by directory.
    /// Until that has happened, `announced` is what it was.
    pub fn announce(&self, identity: u64, walk: impl FnOnce(TellName<'_>) + Send + 'static) -> Delivery {
        self.notifier.send(notices_of(walk), Some(identity))
    }

    /// The same when it is not known what has changed: every name, and the lists of `directories`, which are all.
    pub fn announce_all(
        &self,
        identity: u64,
        directories: impl FnOnce(&mut dyn FnMut(Inode)) + Send + 'static,
    ) -> Delivery {
        let notices = Box::new(move |tell: &mut dyn FnMut(Notice<'_>)| {
            tell(Notice::AllNames);
            directories(&mut |inode| tell(Notice::Inode(inode)));
        });
        self.notifier.send(notices, Some(identity))
    }

    /// The identity of the snapshot that the kernel was told of last, also by a daemon before; 0: none.
    pub fn announced(&self) -> u64 {
        self.ledger.announced().load(Ordering::Acquire)
    }

    /// How often another daemon took this mount over.
    pub fn resumed(&self) -> u64 {
        self.ledger.resumed().load(Ordering::Relaxed)
    }

    /// What another process needs to `resume` this mount once this one has handed it over or is dead.
    pub fn keep(&self) -> Result<KeptMount> {
        let cannot = |error| Error::from_io("keep the connection of", self.mountpoint(), error);
        Ok(KeptMount {
            words: kept::describe(self.negotiated, &self.mounted)?,
            connection: self.session.device().duplicate().map_err(cannot)?,
            ledger: self.ledger.duplicate().map_err(cannot)?,
            apart: self.apart.lock().as_ref().map(OwnedFd::try_clone).transpose().map_err(cannot)?,
            relay: None,
        })
    }

    /// Stops serving without unmounting, for good: whoever has what `keep` returned goes on. Readers wait until then.
    pub fn hand_over(&self) {
        self.notifier.stop_in_silence(|| self.session.stop());
        self.notifier.abandon();
        drop(self.apart.lock().take());
    }

    /// From now on invalidations go through a supervisor at the other end of `relay`, a pair of packet sockets.
    pub fn send_through(&self, relay: OwnedFd) {
        self.notifier.go_through(Relay::new(relay));
    }

    /// Whether it serves no more because of `hand_over`.
    pub fn is_handed_over(&self) -> bool {
        self.session.device().is_retired()
    }
}

impl Drop for MountHandle {
    fn drop(&mut self) {
        if self.is_handed_over() {
            return;
        }
        if let Err(error) = self.unmount(false).or_else(|_| self.unmount(true)) {
            tracing::warn!("fuse: {error}");
        }
        self.session.wait(Some(DROP_TIMEOUT));
    }
}
