//! Lists a server's tree: many folders at the same time, each page by page.
//!
//! READDIRPLUS tells names with attributes and handles. Where a server lacks it, or leaves some out, each name is looked
//! up by itself.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;

use crate::error::{Error, ErrorKind, Result};
use crate::origin::nfs::Nfs;
use crate::origin::nfs::export::Export;
use crate::origin::nfs::failure::Failure;
use crate::origin::nfs::procedures::{self as nfs, Attributes, Entry, Found, Handle, Kind, Page, Position};
use crate::origin::{ListedObject, ObjectKind, deliver};

/// Names that are looked up at the same time within one folder.
const LOOKUPS: usize = 16;
/// No path is longer: what lies deeper is a tree that holds itself, and the snapshot could not name it.
const LONGEST_KEY: usize = 4096;

/// A folder still to be listed.
struct Folder {
    /// Empty for the root.
    key: Vec<u8>,
    handle: Handle,
}

/// What one name turned out to be.
struct Listed {
    object: ListedObject,
    folder: Option<Folder>,
}

impl Nfs {
    pub(super) async fn walk(&self, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let export = self.mounted().await?;
        let root = Folder { key: Vec::new(), handle: export.root.clone() };
        deliver(&sink, self.root_object(&export, &root).await?.into_iter().collect()).await?;
        let mut waiting = vec![root];
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.pace.concurrency {
                let Some(folder) = waiting.pop() else { break };
                under_way.push(self.folder(export.clone(), folder, sink.clone()));
            }
            let Some(folders) = under_way.next().await else { return Ok(()) };
            waiting.extend(folders?);
        }
    }

    /// What the folder itself is: who may not look into it shall not look into its mount.
    async fn root_object(&self, export: &Export, root: &Folder) -> Result<Option<ListedObject>> {
        let asked = self.unless_gone(root, || export.attributes(&root.handle)).await?;
        Ok(asked.map(|attributes| listed_object(&root.key, ObjectKind::Directory, 0, &attributes)))
    }

    /// Looks at the first names of the root: fails when they may not be listed.
    pub(super) async fn glance(&self) -> Result<()> {
        let export = self.mounted().await?;
        let root = Folder { key: Vec::new(), handle: export.root.clone() };
        self.page(&export, &root, Position::default()).await.map(|_| ())
    }

    /// Sends the names in a folder, and gives the folders among them.
    async fn folder(
        &self,
        export: Arc<Export>,
        folder: Folder,
        sink: mpsc::Sender<Vec<ListedObject>>,
    ) -> Result<Vec<Folder>> {
        let (mut at, mut seen, mut folders) = (Position::default(), HashSet::new(), Vec::new());
        loop {
            if !seen.insert(at.cookie) {
                return Err(self.in_circles(&folder));
            }
            // Deleted between its parent's listing and now: what is not there is not listed.
            let Some(page) = self.page(&export, &folder, at).await? else { return Ok(folders) };
            let (last, verifier, is_last) =
                (page.entries.last().map(|entry| entry.cookie), page.verifier, page.is_last);
            let mut batch = Vec::with_capacity(page.entries.len());
            for listed in self.listed(&export, &folder, page).await? {
                batch.push(listed.object);
                folders.extend(listed.folder);
            }
            deliver(&sink, batch).await?;
            match last {
                _ if is_last => return Ok(folders),
                Some(cookie) => at = Position { cookie, verifier },
                None => return Err(self.in_circles(&folder)),
            }
        }
    }

    /// The names from `at` on; `None` when a folder below the root is not there any more.
    async fn page(&self, export: &Export, folder: &Folder, at: Position) -> Result<Option<Page>> {
        let action = self.listing(folder);
        let asked = self.pace.patiently(|| async {
            match self.ask_page(export, &folder.handle, at).await {
                Ok(page) => Ok(Some(page)),
                Err(failure) if failure.is_gone() && !folder.key.is_empty() => Ok(None),
                Err(failure) => Err(self.explain(&failure, &action)),
            }
        });
        asked.await
    }

    async fn ask_page(&self, export: &Export, folder: &Handle, at: Position) -> std::result::Result<Page, Failure> {
        if !self.lacks_full_pages.load(Ordering::Relaxed) {
            let reply = export.client.call(nfs::full_page_call(folder, at)).await;
            match reply.and_then(nfs::full_page) {
                Err(failure) if failure.is_lacking() => self.lacks_full_pages.store(true, Ordering::Relaxed),
                outcome => return outcome,
            }
        }
        nfs::name_page(export.client.call(nfs::name_page_call(folder, at)).await?)
    }

    /// What the names of a page are.
    async fn listed(&self, export: &Export, folder: &Folder, page: Page) -> Result<Vec<Listed>> {
        let entries: Vec<Entry> =
            page.entries.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")).collect();
        let mut all = Vec::with_capacity(entries.len());
        for some in entries.chunks(LOOKUPS) {
            for listed in join_all(some.iter().map(|entry| self.object(export, folder, entry))).await {
                all.extend(listed?);
            }
        }
        Ok(all)
    }

    /// `None` for what is neither file, folder nor link, and for what is not there any more.
    async fn object(&self, export: &Export, folder: &Folder, entry: &Entry) -> Result<Option<Listed>> {
        if entry.name.contains(&b'/') {
            return Err(self.corrupt(folder, "a name with a slash"));
        }
        let key = key_of(&folder.key, &entry.name);
        let Some((handle, attributes)) = self.known(export, folder, entry).await? else { return Ok(None) };
        let (kind, size) = match attributes.kind {
            Kind::File => (ObjectKind::File, attributes.size),
            Kind::Directory => (ObjectKind::Directory, 0),
            Kind::Symlink => match self.link(export, folder, &handle).await? {
                Some(text) => (ObjectKind::Symlink(text), 0),
                None => return Ok(None),
            },
            Kind::Other => return Ok(None),
        };
        let deeper = kind == ObjectKind::Directory && key.len() < LONGEST_KEY;
        let folder = handle.filter(|_| deeper).map(|handle| Folder { key: key.clone(), handle });
        let stamp = (self.stamps && kind == ObjectKind::File).then_some(attributes.stamp);
        let object = ListedObject { stamp, ..listed_object(&key, kind, size, &attributes) };
        Ok(Some(Listed { object, folder }))
    }

    /// Attributes of a name, and its handle where that is needed.
    async fn known(
        &self,
        export: &Export,
        folder: &Folder,
        entry: &Entry,
    ) -> Result<Option<(Option<Handle>, Attributes)>> {
        match (&entry.handle, entry.attributes) {
            (Some(handle), Some(attributes)) => return Ok(Some((Some(handle.clone()), attributes))),
            (None, Some(attributes)) if matches!(attributes.kind, Kind::File | Kind::Other) => {
                return Ok(Some((None, attributes)));
            }
            _ => {}
        }
        let looked_up = || async {
            let Found { handle, attributes } = export.look_up(&folder.handle, &entry.name).await?;
            let attributes = match attributes {
                Some(attributes) => attributes,
                None => export.attributes(&handle).await?,
            };
            Ok::<_, Failure>((Some(handle), attributes))
        };
        self.unless_gone(folder, looked_up).await
    }

    async fn link(&self, export: &Export, folder: &Folder, handle: &Option<Handle>) -> Result<Option<Box<[u8]>>> {
        let Some(handle) = handle else { return Ok(None) };
        let text = || async {
            let text = nfs::link(export.client.call(nfs::link_call(handle)).await?)?;
            Ok::<Box<[u8]>, Failure>(Box::from(&text[..]))
        };
        self.unless_gone(folder, text).await
    }

    /// What `request` gives, with the patience of the pace; `None` when the thing that it asks for is not there any more.
    async fn unless_gone<T, F: Future<Output = std::result::Result<T, Failure>>>(
        &self,
        folder: &Folder,
        request: impl Fn() -> F,
    ) -> Result<Option<T>> {
        let action = self.listing(folder);
        let asked = self.pace.patiently(|| async {
            match request().await {
                Ok(value) => Ok(Some(value)),
                Err(failure) if failure.is_gone() => Ok(None),
                Err(failure) => Err(self.explain(&failure, &action)),
            }
        });
        asked.await
    }

    fn listing(&self, folder: &Folder) -> String {
        if folder.key.is_empty() {
            return format!("list {}", self.place.name);
        }
        format!("list {:?} of {}", String::from_utf8_lossy(&folder.key), self.place.name)
    }

    fn in_circles(&self, folder: &Folder) -> Error {
        self.corrupt(folder, "names without end")
    }

    fn corrupt(&self, folder: &Folder, what: &str) -> Error {
        Error::new(ErrorKind::Corrupt, format!("cannot {}: the server tells {what}", self.listing(folder)))
            .with_hint("the server is at fault; try another one, or mount it and give the folder's path")
    }
}

fn listed_object(key: &[u8], kind: ObjectKind, size: u64, attributes: &Attributes) -> ListedObject {
    let permissions = Some(attributes.permissions);
    ListedObject { key: key.into(), kind, size, mtime_ns: attributes.mtime_ns, etag: None, stamp: None, permissions }
}

fn key_of(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { [folder, b"/", name].concat() }
}
