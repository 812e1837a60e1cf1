//! A folder of an NFS server, version 3 over TCP, without the kernel: nothing has to be mounted, and no one but the engine
//! waits when the server does not answer.
//!
//! Versions are told by size, times and file number, as in a local folder. Handles are kept, but never trusted: what is
//! not found by them is looked for again from the root, and a server that forgot its handles is mounted again.

mod client;
mod export;
mod failure;
mod identity;
mod procedures;
mod read;
mod rpc;
mod walk;
mod xdr;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::{Mutex, mpsc};

use crate::config::OriginConfig;
use crate::error::{Error, Result, Retry};
use crate::ids::ByteRange;
use crate::origin::nfs::export::{Export, Ports};
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::identity::Identity;
use crate::origin::nfs::read::Opened;
use crate::origin::nfs::rpc::Dial;
use crate::origin::pace::Pace;
use crate::origin::place::OriginNames;
use crate::origin::{ByteStream, Capability, Checksums, Exclusion, ListedObject, ObjectVersion, Origin, deadline};

const USUAL_PORT: u16 = 2049;

/// The origin. Clones are the same one.
#[derive(Clone)]
pub(super) struct Nfs(Arc<Inner>);

pub(super) struct Inner {
    place: OriginNames,
    dial: Dial,
    ports: Ports,
    /// Absolute, without slashes too many.
    directory: Vec<u8>,
    identity: Identity,
    /// Versions are told with what a file's owner cannot choose.
    stamps: bool,
    pace: Pace,
    /// The folder once it is found; another one when the server does not know it any more.
    export: Mutex<Option<Arc<Export>>>,
    /// The folder was found once.
    was_found: AtomicBool,
    /// The server has no READDIRPLUS.
    lacks_full_pages: AtomicBool,
}

impl std::ops::Deref for Nfs {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

pub(super) fn build(config: &OriginConfig, pace: Pace) -> Result<Nfs> {
    let OriginConfig::Nfs { server, port, mount_port, directory, uid, gid, ignore_change_times } = config else {
        return Err(Error::config("not the configuration of an NFS origin"));
    };
    let host = server.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.contains(['/', '@', ' ']) {
        return Err(Error::config("the NFS origin names no server").with_hint("write nfs://server/export/path"));
    }
    let directory = normal_directory(directory)?;
    let identity = Identity::of(*uid, *gid);
    let shown_port = port.filter(|port| *port != USUAL_PORT).map(|port| format!(":{port}")).unwrap_or_default();
    let place = OriginNames {
        name: format!("nfs://{server}{shown_port}{directory}").into(),
        endpoint: format!("{server}:{}", port.unwrap_or(USUAL_PORT)),
        bucket: None,
        credential_hint: "nfs.uid and nfs.gid",
        denied_hint: None,
    };
    let dial = Dial { host: host.to_owned(), credential: identity.credential(), silence: pace.silence };
    Ok(Nfs(Arc::new(Inner {
        place,
        dial,
        ports: Ports { nfs: *port, mount: *mount_port },
        directory: directory.into_bytes(),
        identity,
        stamps: !ignore_change_times,
        pace,
        export: Mutex::new(None),
        was_found: AtomicBool::new(false),
        lacks_full_pages: AtomicBool::new(false),
    })))
}

/// The same folder has one name, with or without slashes and dots too many.
fn normal_directory(directory: &str) -> Result<String> {
    let names: Vec<&str> = directory.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    if names.iter().any(|name| *name == ".." || name.contains('\0')) {
        return Err(Error::config(format!("the folder {directory:?} of the NFS origin has a .. in its path"))
            .with_hint("write the path from the export on"));
    }
    Ok(format!("/{}", names.join("/")))
}

impl Nfs {
    /// The folder, found at the server if it is not known yet.
    async fn export(&self, action: &str) -> Result<Arc<Export>> {
        let mut known = self.export.lock().await;
        if let Some(export) = &*known {
            return Ok(export.clone());
        }
        let names: Vec<&[u8]> = self.directory.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
        let opened = Export::open(&self.dial, self.ports, &names, self.pace.concurrency).await;
        let export = Arc::new(opened.map_err(|failure| self.explain_mount(&failure, action))?);
        *known = Some(export.clone());
        self.was_found.store(true, Ordering::Relaxed);
        Ok(export)
    }

    /// The folder for a listing: one whose handle the server still knows.
    async fn mounted(&self) -> Result<Arc<Export>> {
        let action = format!("list {}", self.place.name);
        let attempt = || async {
            let export = self.export(&action).await?;
            match export.attributes(&export.root).await {
                Ok(_) => Ok(export),
                Err(failure) if failure.unsettles() => {
                    self.forget(&export).await;
                    self.export(&action).await
                }
                Err(failure) => Err(self.explain(&failure, &action)),
            }
        };
        self.pace.patiently(attempt).await
    }

    /// The next to ask for the folder finds it anew.
    async fn forget(&self, export: &Arc<Export>) {
        let mut known = self.export.lock().await;
        if known.as_ref().is_some_and(|known| Arc::ptr_eq(known, export)) {
            *known = None;
        }
    }

    /// A server that offered the folder before and does not now may have begun anew, and not have all of it yet.
    fn explain(&self, failure: &Failure, action: &str) -> Error {
        let error = failure.explain(&self.place, &self.identity.to_string(), action);
        let may_begin = self.was_found.load(Ordering::Relaxed) && failure.is_of_a_beginning();
        if may_begin { error.with_retry(Retry::Temporary) } else { error }
    }

    /// A name that is missing below the export means that the folder itself is not there.
    fn explain_mount(&self, failure: &Failure, action: &str) -> Error {
        let failure = match failure {
            Failure::Status(number @ (failure::status::NOENT | failure::status::NOTDIR)) => Failure::Mount(*number),
            other => other.clone(),
        };
        self.explain(&failure, action)
    }
}

#[async_trait]
impl Origin for Nfs {
    fn name(&self) -> &str {
        &self.place.name
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
        deadline(&self.place, self.glance()).await
    }

    async fn list(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        self.walk(excluded, sink).await
    }

    async fn read(&self, object: &ObjectVersion, range: ByteRange) -> Result<ByteStream> {
        Ok(Opened::open(self, object).await?.stream(range))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_name() {
        for (written, meant) in [("/a//b/", "/a/b"), ("", "/"), ("/", "/"), ("a/./b", "/a/b")] {
            assert_eq!(normal_directory(written).unwrap(), meant);
        }
        assert!(normal_directory("/a/../b").is_err());
    }
}
