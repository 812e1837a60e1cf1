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
use crate::origin::{Exclusion, LeftOut, ListedObject, ObjectKind, deliver};

/// Names that are looked up at the same time within one folder.
const LOOKUPS: usize = 16;
/// No path is longer: what lies deeper is a tree that holds itself, and the snapshot could not name it.
const LONGEST_KEY: usize = 4096;

/// A folder still to be listed.
struct Folder {
    /// Empty for the root.
    key: Vec<u8>,
    handle: Handle,
    /// What it is, told once it is seen that it may be listed.
    object: Option<ListedObject>,
}

/// What one name turned out to be.
#[derive(Default)]
struct Listed {
    object: Option<ListedObject>,
    folder: Option<Folder>,
}

/// What came of a question about something below the root.
enum Seen<T> {
    There(T),
    /// Not any more.
    Gone,
    Forbidden,
}

impl Nfs {
    pub(super) async fn walk(&self, excluded: &Exclusion, sink: mpsc::Sender<Vec<ListedObject>>) -> Result<()> {
        let export = self.mounted().await?;
        let root = Folder { key: Vec::new(), handle: export.root.clone(), object: None };
        let object = self.root_object(&export, &root).await?;
        let mut waiting = vec![Folder { object, ..root }];
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < self.pace.concurrency {
                let Some(folder) = waiting.pop() else { break };
                under_way.push(self.folder(export.clone(), folder, excluded, sink.clone()));
            }
            let Some(folders) = under_way.next().await else { return Ok(()) };
            waiting.extend(folders?);
        }
    }

    /// What the folder itself is: who may not look into it shall not look into its mount.
    async fn root_object(&self, export: &Export, root: &Folder) -> Result<Option<ListedObject>> {
        match self.seen(root, || export.attributes(&root.handle)).await? {
            Seen::There(attributes) => Ok(Some(listed_object(&root.key, ObjectKind::Directory, 0, &attributes))),
            Seen::Gone | Seen::Forbidden => Ok(None),
        }
    }

    /// Looks at the first names of the root: fails when they may not be listed.
    pub(super) async fn glance(&self) -> Result<()> {
        let export = self.mounted().await?;
        let root = Folder { key: Vec::new(), handle: export.root.clone(), object: None };
        self.page(&export, &root, Position::default()).await.map(|_| ())
    }

    /// Sends the names in a folder, and gives the folders among them.
    async fn folder(
        &self,
        export: Arc<Export>,
        mut folder: Folder,
        excluded: &Exclusion,
        sink: mpsc::Sender<Vec<ListedObject>>,
    ) -> Result<Vec<Folder>> {
        let (mut at, mut seen, mut folders) = (Position::default(), HashSet::new(), Vec::new());
        loop {
            if !seen.insert(at.cookie) {
                return Err(self.in_circles(&folder));
            }
            // Deleted between its parent's listing and now: what is not there is not listed.
            let page = match self.page(&export, &folder, at).await? {
                Seen::There(page) => page,
                Seen::Gone => return Ok(folders),
                Seen::Forbidden => {
                    deliver(&sink, vec![ListedObject::left_out(&folder.key, LeftOut::Unreadable)]).await?;
                    return Ok(folders);
                }
            };
            let (last, verifier, is_last) =
                (page.entries.last().map(|entry| entry.cookie), page.verifier, page.is_last);
            let mut batch = Vec::with_capacity(page.entries.len() + 1);
            batch.extend(folder.object.take());
            for listed in self.listed(&export, &folder, page, excluded).await? {
                batch.extend(listed.object);
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

    /// The names from `at` on.
    async fn page(&self, export: &Export, folder: &Folder, at: Position) -> Result<Seen<Page>> {
        let action = self.listing(folder);
        let asked = self.pace.patiently(|| async {
            match self.ask_page(export, &folder.handle, at).await {
                Ok(page) => Ok(Seen::There(page)),
                Err(failure) if failure.is_gone() && !folder.key.is_empty() => Ok(Seen::Gone),
                Err(failure) if failure.is_forbidden() && !folder.key.is_empty() => Ok(Seen::Forbidden),
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
    async fn listed(&self, export: &Export, folder: &Folder, page: Page, excluded: &Exclusion) -> Result<Vec<Listed>> {
        let entries: Vec<Entry> =
            page.entries.into_iter().filter(|entry| !matches!(&entry.name[..], b"." | b"..")).collect();
        let mut all = Vec::with_capacity(entries.len());
        for some in entries.chunks(LOOKUPS) {
            for listed in join_all(some.iter().map(|entry| self.object(export, folder, entry, excluded))).await {
                all.push(listed?);
            }
        }
        Ok(all)
    }

    /// Nothing for what is not there any more.
    async fn object(&self, export: &Export, folder: &Folder, entry: &Entry, excluded: &Exclusion) -> Result<Listed> {
        if entry.name.contains(&b'/') {
            return Err(self.corrupt(folder, "a name with a slash"));
        }
        let key = key_of(&folder.key, &entry.name);
        let left_out = |reason| Listed { object: Some(ListedObject::left_out(&key, reason)), folder: None };
        // Nobody is asked for what it is.
        if excluded.has_in_any_case(&key) {
            return Ok(left_out(LeftOut::Excluded));
        }
        let (handle, attributes) = match self.known(export, folder, entry).await? {
            Seen::There(known) => known,
            Seen::Gone => return Ok(Listed::default()),
            Seen::Forbidden => return Ok(left_out(LeftOut::Unreadable)),
        };
        if excluded.has(&key, attributes.kind == Kind::Directory) {
            return Ok(left_out(LeftOut::Excluded));
        }
        let (kind, size) = match attributes.kind {
            Kind::File => (ObjectKind::File, attributes.size),
            Kind::Directory => (ObjectKind::Directory, 0),
            Kind::Symlink => match self.link(export, folder, &handle).await? {
                Seen::There(text) => (ObjectKind::Symlink(text), 0),
                Seen::Gone => return Ok(Listed::default()),
                Seen::Forbidden => return Ok(left_out(LeftOut::Unreadable)),
            },
            Kind::Other => return Ok(left_out(LeftOut::Special)),
        };
        let deeper = kind == ObjectKind::Directory && key.len() < LONGEST_KEY;
        let stamp = (self.stamps && kind == ObjectKind::File).then_some(attributes.stamp);
        let object = ListedObject { stamp, ..listed_object(&key, kind, size, &attributes) };
        Ok(match handle.filter(|_| deeper) {
            Some(handle) => Listed { object: None, folder: Some(Folder { key, handle, object: Some(object) }) },
            None => Listed { object: Some(object), folder: None },
        })
    }

    /// Attributes of a name, and its handle where that is needed.
    async fn known(
        &self,
        export: &Export,
        folder: &Folder,
        entry: &Entry,
    ) -> Result<Seen<(Option<Handle>, Attributes)>> {
        match (&entry.handle, entry.attributes) {
            (Some(handle), Some(attributes)) => return Ok(Seen::There((Some(handle.clone()), attributes))),
            (None, Some(attributes)) if matches!(attributes.kind, Kind::File | Kind::Other) => {
                return Ok(Seen::There((None, attributes)));
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
        self.seen(folder, looked_up).await
    }

    async fn link(&self, export: &Export, folder: &Folder, handle: &Option<Handle>) -> Result<Seen<Box<[u8]>>> {
        let Some(handle) = handle else { return Ok(Seen::Gone) };
        let text = || async {
            let text = nfs::link(export.client.call(nfs::link_call(handle)).await?)?;
            Ok::<Box<[u8]>, Failure>(Box::from(&text[..]))
        };
        self.seen(folder, text).await
    }

    /// What `request` gives, with the patience of the pace.
    async fn seen<T, F: Future<Output = std::result::Result<T, Failure>>>(
        &self,
        folder: &Folder,
        request: impl Fn() -> F,
    ) -> Result<Seen<T>> {
        let action = self.listing(folder);
        let asked = self.pace.patiently(|| async {
            match request().await {
                Ok(value) => Ok(Seen::There(value)),
                Err(failure) if failure.is_gone() => Ok(Seen::Gone),
                Err(failure) if failure.is_forbidden() && !folder.key.is_empty() => Ok(Seen::Forbidden),
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
