//! A folder of a server, found: the ports, the export it lies in, its handle, and the handles of folders below it.
//!
//! Nobody says which part of a path is the export. The server is asked to mount the whole path, then ever shorter parts of
//! it; what is left is looked up name by name.

use std::collections::HashMap;

use crate::origin::nfs::client::Client;
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::procedures::{self as nfs, Attributes, Found, Handle, Kind};
use crate::origin::nfs::rpc::{Dial, Program};
use crate::sync::Mutex;

const PORTMAP_PORT: u16 = 111;
const NFS_PORT: u16 = 2049;
/// The bytes of one READ. Larger pieces are no faster, and a slow link must carry one within the longest silence.
const LARGEST_READ: u32 = 512 << 10;
const SMALLEST_READ: u32 = 4 << 10;
/// Handles of folders that are kept: those of a large dataset, in a few megabytes.
const MOST_FOLDERS: usize = 1 << 14;

/// What of the server's ports is known beforehand.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ports {
    pub nfs: Option<u16>,
    pub mount: Option<u16>,
}

pub(super) struct Export {
    pub client: Client,
    pub root: Handle,
    pub read_bytes: u32,
    folders: Mutex<HashMap<Box<[u8]>, Handle>>,
}

impl Export {
    /// Mounts the folder of these names. `connections`: how many are kept.
    pub async fn open(dial: &Dial, ports: Ports, names: &[&[u8]], connections: usize) -> Result<Self, Failure> {
        let (nfs_port, mount_port) = known_ports(dial, ports).await;
        let (mounted, rest) = mount(dial, mount_port, names).await?;
        let client = Client::new(dial.clone(), nfs_port, connections);
        let root = descend(&client, mounted, rest).await?;
        if attributes(&client, &root).await?.kind != Kind::Directory {
            return Err(Failure::Status(super::failure::status::NOTDIR));
        }
        let (most, best) = nfs::read_limits(client.call(nfs::limits_call(&root)).await?)?;
        let read_bytes = best.clamp(SMALLEST_READ, LARGEST_READ).min(most.max(1));
        Ok(Export { client, root, read_bytes, folders: Mutex::new(HashMap::new()) })
    }

    /// What stands at the path of `names`, which are `key` taken apart.
    pub async fn find(&self, key: &[u8], names: &[&[u8]]) -> Result<Found, Failure> {
        let Some((name, folder_names)) = names.split_last() else {
            return Ok(Found { handle: self.root.clone(), attributes: None });
        };
        let folder = &key[..key.len() - name.len()];
        if let Some(handle) = self.kept(folder) {
            match self.look_up(&handle, name).await {
                // The folder may be another one by now: it is looked for anew.
                Err(failure) if failure.is_gone() => self.forget(folder),
                outcome => return outcome,
            }
        }
        let handle = descend(&self.client, self.root.clone(), folder_names).await?;
        self.keep(folder, &handle);
        self.look_up(&handle, name).await
    }

    pub async fn look_up(&self, folder: &Handle, name: &[u8]) -> Result<Found, Failure> {
        nfs::found(self.client.call(nfs::lookup_call(folder, name)).await?)
    }

    pub async fn attributes(&self, handle: &Handle) -> Result<Attributes, Failure> {
        attributes(&self.client, handle).await
    }

    fn kept(&self, folder: &[u8]) -> Option<Handle> {
        if folder.is_empty() { None } else { self.folders.lock().get(folder).cloned() }
    }

    fn keep(&self, folder: &[u8], handle: &Handle) {
        if folder.is_empty() {
            return;
        }
        let mut folders = self.folders.lock();
        if folders.len() >= MOST_FOLDERS {
            folders.clear();
        }
        folders.insert(folder.into(), handle.clone());
    }

    fn forget(&self, folder: &[u8]) {
        self.folders.lock().remove(folder);
    }
}

/// The ports of NFS and of MOUNT: as given, else as the port mapper says, else the usual one.
async fn known_ports(dial: &Dial, given: Ports) -> (u16, u16) {
    let nfs = match given.nfs {
        Some(port) => port,
        None => mapped(dial, nfs::NFS).await.unwrap_or(NFS_PORT),
    };
    let mount = match given.mount {
        Some(port) => port,
        // Servers without a port mapper often answer both on one port.
        None => mapped(dial, nfs::MOUNT).await.unwrap_or(nfs),
    };
    (nfs, mount)
}

async fn mapped(dial: &Dial, program: Program) -> Option<u16> {
    let mut connection = dial.open(PORTMAP_PORT).await.ok()?;
    nfs::port(connection.call(&nfs::port_call(program)).await.ok()?).ok()?
}

/// The handle of the longest part of the path that the server mounts, and the names that are left.
async fn mount<'a, 'b>(dial: &Dial, port: u16, names: &'b [&'a [u8]]) -> Result<(Handle, &'b [&'a [u8]]), Failure> {
    let mut connection = dial.open(port).await?;
    let mut refusal = None;
    for length in (0..=names.len()).rev() {
        let reply = connection.call(&nfs::mount_call(&path(&names[..length]))).await?;
        match nfs::mounted(reply) {
            Ok(handle) => return Ok((handle, &names[length..])),
            // The first refusal is that of the path that was asked for, unless a later one says more.
            Err(Failure::Mount(status)) => refusal = Some(weightier(refusal, status)),
            Err(other) => return Err(other),
        }
    }
    Err(Failure::Mount(refusal.unwrap_or_default()))
}

fn weightier(before: Option<u32>, now: u32) -> u32 {
    use super::failure::status::{ACCES, NOENT, PERM};
    match before {
        None | Some(NOENT) if matches!(now, ACCES | PERM) => now,
        None => now,
        Some(before) => before,
    }
}

fn path(names: &[&[u8]]) -> Vec<u8> {
    if names.is_empty() { b"/".to_vec() } else { names.iter().flat_map(|name| [&b"/"[..], name].concat()).collect() }
}

async fn descend(client: &Client, from: Handle, names: &[&[u8]]) -> Result<Handle, Failure> {
    let mut handle = from;
    for name in names {
        handle = nfs::found(client.call(nfs::lookup_call(&handle, name)).await?)?.handle;
    }
    Ok(handle)
}

async fn attributes(client: &Client, handle: &Handle) -> Result<Attributes, Failure> {
    nfs::attributes(client.call(nfs::attributes_call(handle)).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_absolute() {
        assert_eq!(path(&[]), b"/");
        assert_eq!(path(&[b"a", b"b c"]), b"/a/b c");
    }

    #[test]
    fn a_refused_right_says_more_than_a_missing_path() {
        assert_eq!(weightier(None, 2), 2);
        assert_eq!(weightier(Some(2), 13), 13);
        assert_eq!(weightier(Some(13), 2), 13);
        assert_eq!(weightier(Some(20), 2), 20);
    }
}
