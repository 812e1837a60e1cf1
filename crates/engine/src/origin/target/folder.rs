//! A folder of this machine as a target. A file is written under a temporary name beside its place, synced, and renamed.
//!
//! Nothing is ever written through a symbolic link: one in the target's folder could lead anywhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat, renameat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{AccessFlags, UnlinkatFlags, faccessat, symlinkat, unlinkat};

use super::{Begun, Expected, Layout, Mark, Notes, Survey, Target, TargetEntry, Writing};
use crate::config::{OriginConfig, TransferConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::ids::{ByteRange, Version};
use crate::metrics::Metrics;
use crate::origin::local::beneath::{open_folder, open_place, open_root};
use crate::origin::{ByteStream, ObjectVersion, Origin, open};

const NAME_MAX_BYTES: usize = 255;
const PATH_MAX_BYTES: usize = 4096;
const TEMPORARY: &str = ".headrace-copy-";

pub(super) struct Folder {
    directory: Arc<PathBuf>,
    /// The same place for reading.
    origin: Arc<dyn Origin>,
}

impl Folder {
    pub fn open(
        config: &OriginConfig,
        directory: &Path,
        settings: &TransferConfig,
        metrics: &Metrics,
    ) -> Result<Arc<dyn Target>> {
        let origin = open(config, settings, metrics)?;
        Ok(Arc::new(Folder { directory: Arc::new(directory.components().collect()), origin }))
    }

    /// Runs `work` on the folder where blocking is allowed.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> Result<T> + Send + 'static) -> Result<T> {
        let directory = self.directory.clone();
        in_background(move || work(&directory)).await
    }
}

async fn in_background<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Error::new(ErrorKind::Unexpected, "a write was broken off")),
    }
}

/// Folder and name of `key`.
fn split(key: &[u8]) -> (&[u8], &OsStr) {
    match key.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&key[..at], OsStr::from_bytes(&key[at + 1..])),
        None => (b"", OsStr::from_bytes(key)),
    }
}

fn path_of(directory: &Path, key: &[u8]) -> PathBuf {
    directory.join(OsStr::from_bytes(key))
}

fn fault(action: &str, path: &Path, error: impl Into<io::Error>) -> Error {
    let error: io::Error = error.into();
    let raw = error.raw_os_error();
    let plain = Error::from_io(action, path, error);
    match raw {
        Some(libc::ENOTDIR) => plain.with_hint("a file or a symbolic link stands where a folder must be: move it away"),
        Some(libc::EISDIR | libc::ENOTEMPTY | libc::EEXIST) => {
            plain.with_hint("a folder stands where a file must be: move it away")
        }
        Some(libc::ELOOP | libc::EXDEV) => {
            plain.with_hint("nothing is written through symbolic links: name the folder itself as the target")
        }
        Some(libc::ENOSPC | libc::EDQUOT) => plain.with_hint("make room at the target, and copy again"),
        _ => plain,
    }
}

/// Opens the folder at `key` after making what lacks of it.
fn made_folder(directory: &Path, key: &[u8]) -> Result<File> {
    let path = path_of(directory, key);
    let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
    match open_folder(&root, key) {
        Ok(folder) => return Ok(folder),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
        Err(error) => return Err(fault("make the folder", &path, error)),
    }
    let (above, name) = split(key);
    let parent = made_folder(directory, above)?;
    match mkdirat(&parent, name, Mode::from_bits_truncate(0o777)) {
        Ok(()) | Err(nix::Error::EEXIST) => {}
        Err(error) => return Err(fault("make the folder", &path, error)),
    }
    open_folder(&root, key).map_err(|error| fault("make the folder", &path, error))
}

fn held(metadata: &std::fs::Metadata) -> TargetEntry {
    let mtime_ns = metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec());
    let numbers = [
        metadata.dev() as i64,
        metadata.ino() as i64,
        metadata.size() as i64,
        mtime_ns,
        metadata.ctime(),
        metadata.ctime_nsec(),
    ];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    TargetEntry { size: metadata.size(), version: Version::ModifiedNs(mtime_ns), mark: Mark::of(&bytes) }
}

fn temporary(token: &str) -> String {
    format!("{TEMPORARY}{token}")
}

#[async_trait]
impl Target for Folder {
    fn name(&self) -> &str {
        self.origin.name()
    }

    async fn prepare(&self) -> Result<()> {
        self.blocking(|directory| {
            std::fs::create_dir_all(directory).map_err(|error| fault("make the folder", directory, error))?;
            let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
            faccessat(&root, ".", AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::empty())
                .map_err(|error| fault("write to", directory, error))
        })
        .await
    }

    async fn survey(&self) -> Result<Option<Survey>> {
        Ok(None)
    }

    fn refuse_name(&self, key: &[u8]) -> Result<()> {
        let too_long = key.split(|byte| *byte == b'/').any(|name| name.len() > NAME_MAX_BYTES);
        if too_long || self.directory.as_os_str().len() + key.len() >= PATH_MAX_BYTES {
            let path = path_of(&self.directory, key);
            let message = format!("cannot write {}: its name is too long for a folder", path.display());
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(())
    }

    async fn look(&self, key: &[u8]) -> Result<Option<TargetEntry>> {
        let key = key.to_vec();
        self.blocking(move |directory| {
            let path = path_of(directory, &key);
            let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
            let place = match open_place(&root, &key) {
                Ok(place) => place,
                // A link in the file's own place is replaced; one on the way is refused when the file is written.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ELOOP)) => return Ok(None),
                Err(error) => return Err(fault("write", &path, error)),
            };
            let metadata = place.metadata().map_err(|error| fault("look at", &path, error))?;
            if metadata.is_dir() {
                return Err(fault("write", &path, io::Error::from_raw_os_error(libc::EISDIR)));
            }
            Ok(metadata.is_file().then(|| held(&metadata)))
        })
        .await
    }

    async fn read(&self, key: &[u8], held: &TargetEntry, range: ByteRange) -> Result<ByteStream> {
        let object = ObjectVersion { key: key.into(), size: held.size, version: held.version.clone() };
        self.origin.read(&object, range).await
    }

    async fn make_folder(&self, key: &[u8]) -> Result<()> {
        let key = key.to_vec();
        self.blocking(move |directory| made_folder(directory, &key).map(|_| ())).await
    }

    async fn make_link(&self, key: &[u8], text: &[u8]) -> Result<()> {
        let (key, text) = (key.to_vec(), text.to_vec());
        self.blocking(move |directory| make_link(directory, &key, OsStr::from_bytes(&text))).await
    }

    async fn write(
        &self,
        key: &[u8],
        layout: Layout,
        begun: Option<Begun>,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>> {
        let begun = begun.unwrap_or_else(|| {
            let token = fresh_token(key);
            notes.begun(&token);
            Begun { token, parts: Vec::new() }
        });
        let key = key.to_vec();
        self.blocking(move |directory| {
            let path = path_of(directory, &key);
            let (above, name) = split(&key);
            let parent = made_folder(directory, above)?;
            let flags = OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let file = openat(&parent, temporary(&begun.token).as_str(), flags, Mode::from_bits_truncate(0o666))
                .map_err(|error| fault("write", &path, error))?;
            let file = File::from(file);
            let there = file.metadata().map_err(|error| fault("write", &path, error))?.len();
            let before = begun.parts.len().min((there / layout.part_bytes.max(1)) as usize);
            let place = TargetPath { parent, name: name.to_owned(), token: begun.token, path };
            let written = Written { file, place, layout, notes };
            Ok(Box::new(WritingFile { written: Some(Arc::new(written)), before, next: before }) as Box<dyn Writing>)
        })
        .await
    }

    /// A folder has no conditions: whoever asks has just looked.
    async fn write_over(
        &self,
        key: &[u8],
        layout: Layout,
        _expected: Expected,
        notes: Arc<dyn Notes>,
    ) -> Result<Box<dyn Writing>> {
        self.write(key, layout, None, notes).await
    }

    async fn remove(&self, key: &[u8]) -> Result<()> {
        self.unlink(key, UnlinkatFlags::NoRemoveDir).await
    }

    async fn remove_folder(&self, key: &[u8]) -> Result<()> {
        self.unlink(key, UnlinkatFlags::RemoveDir).await
    }

    async fn try_writing(&self) -> Result<()> {
        self.blocking(|directory| {
            let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
            faccessat(&root, ".", AccessFlags::W_OK | AccessFlags::X_OK, AtFlags::AT_EACCESS)
                .map_err(|error| fault("write to", directory, error))
        })
        .await
    }

    async fn abandon(&self, key: &[u8], token: &str) -> Result<()> {
        let (key, name) = (key.to_vec(), temporary(token));
        self.blocking(move |directory| {
            let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
            let Ok(parent) = open_folder(&root, split(&key).0) else { return Ok(()) };
            match unlinkat(&parent, name.as_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(nix::Error::ENOENT) => Ok(()),
                Err(error) => Err(fault("remove what is left of", &path_of(directory, &key), error)),
            }
        })
        .await
    }
}

impl Folder {
    async fn unlink(&self, key: &[u8], flags: UnlinkatFlags) -> Result<()> {
        let key = key.to_vec();
        self.blocking(move |directory| {
            let root = open_root(directory).map_err(|error| fault("open the folder", directory, error))?;
            let (above, name) = split(&key);
            let parent = match open_folder(&root, above) {
                Ok(parent) => parent,
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
                Err(error) => return Err(fault("remove", &path_of(directory, &key), error)),
            };
            match unlinkat(&parent, name, flags) {
                Ok(()) => parent.sync_all().map_err(|error| fault("remove", &path_of(directory, &key), error)),
                Err(nix::Error::ENOENT) => Ok(()),
                Err(error) => Err(Error::from_io("remove", &path_of(directory, &key), error.into())),
            }
        })
        .await
    }
}

/// A word that no other write has.
fn fresh_token(key: &[u8]) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let mut words = key.to_vec();
    words.extend(now.as_nanos().to_le_bytes());
    words.extend(std::process::id().to_le_bytes());
    Mark::of(&words).0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn make_link(directory: &Path, key: &[u8], text: &OsStr) -> Result<()> {
    let path = path_of(directory, key);
    let (above, name) = split(key);
    let parent = made_folder(directory, above)?;
    if readlinkat(&parent, name).is_ok_and(|there| there == text) {
        return Ok(());
    }
    let token = temporary(&fresh_token(key));
    symlinkat(text, &parent, token.as_str()).map_err(|error| fault("make the link", &path, error))?;
    renameat(&parent, token.as_str(), &parent, name).map_err(|error| {
        let _ = unlinkat(&parent, token.as_str(), UnlinkatFlags::NoRemoveDir);
        fault("make the link", &path, error)
    })
}

/// Where a file is to stand.
struct TargetPath {
    parent: File,
    name: std::ffi::OsString,
    token: String,
    path: PathBuf,
}

struct Written {
    file: File,
    place: TargetPath,
    layout: Layout,
    notes: Arc<dyn Notes>,
}

struct WritingFile {
    written: Option<Arc<Written>>,
    before: usize,
    next: usize,
}

impl WritingFile {
    fn written(&self) -> Result<Arc<Written>> {
        self.written.clone().ok_or_else(|| Error::new(ErrorKind::Unexpected, "the file is finished already"))
    }
}

#[async_trait]
impl Writing for WritingFile {
    fn before(&self) -> usize {
        self.before
    }

    async fn part(&mut self, bytes: Bytes) -> Result<()> {
        let (written, number) = (self.written()?, self.next);
        in_background(move || {
            let offset = number as u64 * written.layout.part_bytes;
            let done = written.file.write_all_at(&bytes, offset);
            done.map_err(|error| fault("write", &written.place.path, error))?;
            written.notes.kept(number as u32, "");
            Ok(())
        })
        .await?;
        self.next += 1;
        Ok(())
    }

    async fn finish(&mut self) -> Result<TargetEntry> {
        let written = self.written()?;
        in_background(move || written.finish()).await
    }

    async fn belongs_to(&mut self, (uid, gid): (u32, u32), mode: u32) -> Result<()> {
        let written = self.written()?;
        in_background(move || {
            let failed = |error| fault("write", &written.place.path, error);
            let (uid, gid) = (nix::unistd::Uid::from_raw(uid), nix::unistd::Gid::from_raw(gid));
            match nix::unistd::fchown(&written.file, Some(uid), Some(gid)) {
                // Only root gives files away: then they are of whoever mounted.
                Ok(()) | Err(nix::Error::EPERM) => {}
                Err(error) => return Err(failed(error.into())),
            }
            written.file.set_permissions(std::fs::Permissions::from_mode(mode & 0o777)).map_err(failed)
        })
        .await
    }
}

impl Written {
    fn finish(&self) -> Result<TargetEntry> {
        let TargetPath { parent, name, token, path } = &self.place;
        let failed = |error: io::Error| fault("write", path, error);
        self.file.set_len(self.layout.size).map_err(failed)?;
        self.file.sync_all().map_err(failed)?;
        renameat(parent, temporary(token).as_str(), parent, name.as_os_str()).map_err(|error| failed(error.into()))?;
        parent.sync_all().map_err(failed)?;
        forget_pages(&self.file);
        let metadata = self.file.metadata().map_err(failed)?;
        Ok(held(&metadata))
    }
}

/// Has the disk asked, rather than the kernel's memory, when the file is compared. A hint: a kernel may ignore it.
fn forget_pages(file: &File) {
    // SAFETY: the call takes numbers only, and the descriptor is open.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
}
