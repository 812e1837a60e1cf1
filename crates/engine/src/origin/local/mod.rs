//! A folder of this machine, or of anything the kernel has mounted, read by system calls of its own.
//!
//! Not through OpenDAL: its paths are UTF-8, it follows symbolic links, and it cannot stay inside a folder. Here names
//! are bytes, links are listed with their text and never followed, and the kernel itself refuses to resolve anything
//! outside of the folder.

pub(super) mod beneath;
mod read;
mod stamp;
mod walk;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::config::OriginConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::ids::ByteRange;
use crate::origin::pace::Pace;
use crate::origin::{ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectVersion, Origin};

pub(super) struct Local {
    directory: Arc<PathBuf>,
    name: String,
    pace: Pace,
    /// Versions are told with what a file's owner cannot choose.
    stamps: bool,
}

/// The folder as an origin; it must be absolute.
pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Local> {
    let OriginConfig::Local { directory, ignore_change_times } = config else {
        return Err(Error::config("not the configuration of a folder"));
    };
    if !directory.is_absolute() {
        return Err(Error::config(format!("the folder {} is not an absolute path", directory.display())));
    }
    // The same folder has one name, with or without slashes and dots too many.
    let directory: PathBuf = directory.components().collect();
    let name = format!("local://{}", directory.display());
    Ok(Local { directory: Arc::new(directory), name, pace, stamps: !ignore_change_times })
}

impl Local {
    /// Runs `work` on the folder where blocking is allowed.
    async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Path) -> Result<T> + Send + 'static) -> Result<T> {
        let directory = self.directory.clone();
        match tokio::task::spawn_blocking(move || work(&directory)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::new(ErrorKind::Unexpected, format!("work on {} was broken off", self.name))),
        }
    }
}

#[async_trait]
impl Origin for Local {
    fn name(&self) -> &str {
        &self.name
    }

    fn capability(&self) -> Capability {
        Capability {
            conditional_read: true,
            list_from_key: false,
            etags: false,
            symlinks: true,
            checksums: Checksums::Never,
        }
    }

    async fn check(&self) -> Result<()> {
        self.blocking(|directory| {
            let hint = |error: Error| match error.kind() {
                ErrorKind::NotFound => error.with_hint("check the path"),
                ErrorKind::PermissionDenied => error.with_hint("run as a user who may read the folder"),
                ErrorKind::NotDirectory => error.with_hint("give the folder that holds the file"),
                _ => error,
            };
            std::fs::read_dir(directory)
                .map(|_| ())
                .map_err(|error| hint(Error::from_io("open the folder", directory, error)))
        })
        .await
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let threads = self.pace.concurrency.clamp(1, walk::MAX_THREADS);
        let (stamps, excluded) = (self.stamps, excluded.clone());
        self.blocking(move |directory| walk::walk(directory, stamps, &excluded, threads, sink)).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        let object = object.clone();
        let file = self.blocking(move |directory| read::Opened::open(directory, &object)).await?;
        Ok(file.stream(range))
    }
}
