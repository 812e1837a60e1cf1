//! The calls of programs that write: what each changes here, and what the origin is to hold when it returns.

use std::os::unix::fs::FileExt;
use std::sync::Arc;

use futures::future::BoxFuture;

use super::core::WritableTree;
use super::found::{Found, nameless};
use super::handles::Closing;
use super::publishing::{refused, shown};
use crate::error::Result;
use crate::staging::{Content, Kind, NodeAttributes, Record, is_written};
use crate::vfs::{
    Attributes, Changes, Creation, FileKind, Inode, OpenedToWrite, Refused, Rename, Requester, Space, Writable, Writer,
    Written,
};

impl WritableTree {
    /// Does `work` on its own task: it goes on to its end whoever waits for it.
    fn task<T: Send + 'static, F>(&self, work: impl FnOnce(Arc<Self>) -> F) -> BoxFuture<'static, Written<T>>
    where
        F: Future<Output = Written<T>> + Send + 'static,
    {
        let Some(tree) = self.shared() else { return Box::pin(async { Err(Refused(libc::EIO)) }) };
        let task = self.runtime.spawn(work(tree));
        Box::pin(async move { task.await.unwrap_or(Err(Refused(libc::EIO))) })
    }

    /// What an earlier process did for this request, if it did.
    fn done_before(&self, by: Requester) -> Option<Inode> {
        if by.again { self.staged.look(|state| state.done_for(by.request)) } else { None }
    }

    /// A handle to write by, on a file whose content is brought back before. With the lock of its path, if it has one.
    async fn opened(&self, inode: Inode) -> Written<OpenedToWrite> {
        // First, so that nobody takes the content away again.
        let handle = self.handles.add(inode, true);
        let ready = match self.fetch(inode).await {
            Ok(()) => self.attributes_of(inode),
            Err(error) => Err(error),
        };
        match ready {
            Ok(attributes) => Ok(OpenedToWrite { handle, attributes }),
            Err(error) => {
                self.handles.remove(handle);
                Err(error.into())
            }
        }
    }

    /// A new file or folder under a name, in the place of what is there.
    fn make(&self, kind: Kind, path: &[u8], of: NodeAttributes, request: u64) -> Written<Inode> {
        let inode = self.next_inode()?;
        if kind == Kind::File {
            self.staged.make(inode)?;
        }
        let held = self.known_at(path)?;
        let made = self.staged.decide(|ledger| {
            let NodeAttributes { mode, uid, gid, .. } = of;
            ledger.commit(Record::Holds { path: path.to_vec(), held })?;
            ledger.commit(Record::Made { inode, kind, mode, uid, gid, path: path.to_vec(), request })
        });
        if let Err(error) = made {
            self.staged.remove(inode);
            return Err(error.into());
        }
        Ok(inode)
    }

    async fn create_now(&self, file: Creation, by: Requester) -> Written<OpenedToWrite> {
        if let Some(inode) = self.done_before(by) {
            return self.opened(inode).await;
        }
        let path = self.path_in(file.parent, &file.name)?;
        self.target.refuse_name(&path).map_err(|_| Refused(libc::EINVAL))?;
        let _lock = self.locks.lock(&path).await;
        let inode = match self.find(&path) {
            Ok(_) if file.flags & libc::O_EXCL != 0 => return Err(Refused(libc::EEXIST)),
            Ok(Found::Written(inode)) if self.node(inode)?.kind == Kind::Folder => return Err(Refused(libc::EISDIR)),
            Ok(Found::Written(inode)) => {
                let opened = self.opened(inode).await?;
                if file.flags & libc::O_TRUNC != 0 {
                    self.resize(inode, 0).await?;
                }
                return Ok(opened);
            }
            Ok(Found::Listed(listed)) if listed.kind != FileKind::File => return Err(Refused(libc::EISDIR)),
            Ok(Found::Listed(listed)) => {
                let limit = if file.flags & libc::O_TRUNC != 0 { 0 } else { u64::MAX };
                self.copy_up(&path, listed, limit).await?
            }
            Err(error) if error.errno() == libc::ENOENT => {
                let of = NodeAttributes { mode: file.mode & 0o7777, uid: by.uid, gid: by.gid, mtime_ns: None };
                self.make(Kind::File, &path, of, by.request)?
            }
            Err(error) => return Err(error.into()),
        };
        self.opened(inode).await
    }

    async fn make_folder_now(&self, folder: Creation, by: Requester) -> Written<Attributes> {
        if let Some(inode) = self.done_before(by) {
            return Ok(self.attributes_of(inode)?);
        }
        let path = self.path_in(folder.parent, &folder.name)?;
        self.target.refuse_name(&path).map_err(|_| Refused(libc::EINVAL))?;
        let _lock = self.locks.lock(&path).await;
        if self.find(&path).is_ok() {
            return Err(Refused(libc::EEXIST));
        }
        self.target.make_folder(&path).await.map_err(refused)?;
        let of = NodeAttributes { mode: folder.mode & 0o7777, uid: by.uid, gid: by.gid, mtime_ns: None };
        let inode = self.make(Kind::Folder, &path, of, by.request)?;
        Ok(self.attributes_of(inode)?)
    }

    async fn open_now(&self, inode: Inode, flags: i32, by: Requester) -> Written<OpenedToWrite> {
        let truncates = flags & libc::O_TRUNC != 0;
        if is_written(inode) {
            return self.open_written(inode, truncates, by).await;
        }
        let path = self.path_of(inode)?;
        let _lock = self.locks.lock(&path).await;
        let listed = match self.find(&path) {
            Ok(Found::Listed(listed)) if listed.inode == inode => listed,
            // Another file has the name by now.
            _ => return Err(nameless().into()),
        };
        match listed.kind {
            FileKind::File => {}
            FileKind::Directory => return Err(Refused(libc::EISDIR)),
            FileKind::Symlink => return Err(Refused(libc::ELOOP)),
        }
        let limit = if truncates { 0 } else { u64::MAX };
        let made = self.copy_up(&path, listed, limit).await?;
        if truncates {
            self.fresh.lock().insert(made, by.thread);
        }
        Err(nameless().into())
    }

    async fn open_written(&self, inode: Inode, truncates: bool, by: Requester) -> Written<OpenedToWrite> {
        let Some(path) = self.node(inode)?.path else {
            let opened = self.opened(inode).await?;
            if truncates {
                self.resize(inode, 0).await?;
            }
            return Ok(opened);
        };
        let _lock = self.locks.lock(&path).await;
        let node = self.node(inode)?;
        if node.kind == Kind::Folder {
            return Err(Refused(libc::EISDIR));
        }
        if node.path.as_ref() != Some(&path) {
            return Err(nameless().into());
        }
        let is_fresh = self.fresh.lock().remove(&inode).is_some_and(|thread| thread == by.thread);
        if !truncates {
            return self.opened(inode).await;
        }
        let is_empty = !node.settled && self.staged.live(inode)?.size()? == 0;
        if is_fresh || is_empty || self.handles.users(inode).writing > 0 {
            let opened = self.opened(inode).await?;
            self.resize(inode, 0).await?;
            return Ok(opened);
        }
        // Who reads the old content goes on with it.
        self.keep_for_readers(inode).await?;
        let made = self.make(Kind::File, &path, NodeAttributes { mtime_ns: None, ..node.attributes }, 0)?;
        self.fresh.lock().insert(made, by.thread);
        self.forget_if_unused(inode);
        Err(nameless().into())
    }

    /// Before the origin's content goes: those who have the file open read from here.
    async fn keep_for_readers(&self, inode: Inode) -> Result<()> {
        if self.handles.users(inode).all > 0 { self.fetch(inode).await } else { Ok(()) }
    }

    /// A file that has lost its name goes with its last user.
    fn forget_if_unused(&self, inode: Inode) {
        if self.node(inode).is_ok_and(|node| node.path.is_none()) {
            self.handles.if_unused(inode, || {
                if self.staged.note(Record::Forgotten { inode }).is_ok() {
                    self.failures.lock().remove(&inode);
                    self.settled.lock().remove(&inode);
                    self.staged.remove(inode);
                }
            });
        }
    }

    /// Notes that the content is about to be another than the origin's.
    fn note_changed(&self, inode: Inode) -> Result<()> {
        self.staged.decide(|ledger| {
            let Some(node) = ledger.state().node(inode) else { return Err(nameless()) };
            let (content, of) = (node.content, node.attributes);
            if content != Content::Open {
                ledger.commit(Record::Changed { inode })?;
            }
            if of.mtime_ns.is_some() {
                ledger.commit(NodeAttributes { mtime_ns: None, ..of }.record(inode))?;
            }
            Ok(())
        })
    }

    async fn resize(&self, inode: Inode, size: u64) -> Written<()> {
        let live = self.staged.live(inode)?;
        let _gate = live.gate.read().await;
        if live.size()? == size {
            return Ok(());
        }
        live.note_change();
        self.note_changed(inode)?;
        let outcome = live.file.set_len(size);
        live.note_change();
        Ok(outcome?)
    }

    async fn change_now(&self, inode: Inode, changes: Changes) -> Written<Attributes> {
        if let Some(size) = changes.size {
            if !is_written(inode) {
                return self.change_size_of_listed(inode, size).await;
            }
            if let Some(writer) = changes.by {
                self.handles.write(writer);
            }
            let path = self.node(inode)?.path;
            let _pin = self.handles.pin(inode);
            {
                let _lock = match &path {
                    Some(path) => Some(self.locks.lock(path).await),
                    None => None,
                };
                self.fetch(inode).await?;
            }
            self.resize(inode, size).await?;
            // By its name, and not by somebody who will close it.
            if self.handles.users(inode).writing == 0 {
                self.publish_closed(inode).await.map_err(refused)?;
            }
        }
        let before = self.attributes_of_any(inode)?;
        let Changes { mode, uid, gid, mtime_ns, .. } = changes;
        if mode.is_some() || uid.is_some() || gid.is_some() || mtime_ns.is_some() {
            let kept = if is_written(inode) {
                self.node(inode)?.attributes.mtime_ns
            } else {
                self.staged.look(|state| state.others(inode)).and_then(|of| of.mtime_ns)
            };
            let of = NodeAttributes {
                mode: mode.map_or(before.mode, |mode| mode & 0o7777),
                uid: uid.unwrap_or(before.uid),
                gid: gid.unwrap_or(before.gid),
                mtime_ns: mtime_ns.or(kept),
            };
            self.staged.note(of.record(inode))?;
        }
        Ok(self.attributes_of_any(inode)?)
    }

    /// The kernel asks again, for the file that has the name then.
    async fn change_size_of_listed(&self, inode: Inode, size: u64) -> Written<Attributes> {
        let path = self.path_of(inode)?;
        let _lock = self.locks.lock(&path).await;
        if let Ok(Found::Listed(listed)) = self.find(&path)
            && listed.inode == inode
            && listed.kind == FileKind::File
        {
            self.copy_up(&path, listed, size).await?;
        }
        Err(nameless().into())
    }

    async fn publish_closed(&self, inode: Inode) -> Result<()> {
        let changed = self.staged.decide(|ledger| {
            let content = ledger.state().node(inode).map(|node| node.content);
            if content == Some(Content::Open) {
                ledger.commit(Record::Closed { inode })?;
            }
            Ok(content.is_some_and(|content| content != Content::Published))
        })?;
        if changed {
            self.publish(inode).await?;
            self.trim(self.staged.size(inode));
        }
        Ok(())
    }

    async fn flush_now(&self, inode: Inode, by: Writer) -> Written<()> {
        match self.handles.close(by) {
            Some(Closing::Last) => self.publish_closed(inode).await.map_err(refused),
            Some(Closing::NotLast | Closing::OfAnother) | None => Ok(()),
        }
    }

    /// The last of its users is gone. Written by one that was never heard closing it, it goes to the origin now.
    pub(super) fn release_ours(&self, handle: u64) {
        let Some((inode, users)) = self.handles.remove(handle) else { return };
        if users.all == 0 {
            self.staged.close(inode);
            self.forget_if_unused(inode);
        }
        let Ok(node) = self.node(inode) else { return };
        let is_known = self.failures.lock().contains_key(&inode);
        if users.writing == 0 && node.path.is_some() && node.content == Content::Open && !is_known {
            let Some(tree) = self.shared() else { return };
            self.runtime.spawn(async move {
                if let Err(error) = tree.publish_closed(inode).await {
                    tracing::error!("{error}");
                }
            });
        }
    }

    async fn unlink_now(&self, parent: Inode, name: Vec<u8>, by: Requester) -> Written<()> {
        if self.done_before(by).is_some() {
            return Ok(());
        }
        let path = self.path_in(parent, &name)?;
        let _lock = self.locks.lock(&path).await;
        let found = self.find(&path)?;
        let inode = match found {
            Found::Written(inode) if self.node(inode)?.kind == Kind::Folder => return Err(Refused(libc::EISDIR)),
            Found::Listed(listed) if listed.kind == FileKind::Directory => return Err(Refused(libc::EISDIR)),
            Found::Listed(listed) if listed.kind == FileKind::Symlink => return Err(Refused(libc::EOPNOTSUPP)),
            Found::Written(inode) => Some(inode),
            Found::Listed(_) => None,
        };
        if let Some(inode) = inode {
            self.keep_for_readers(inode).await?;
        }
        self.delete_all(inode, &path).await.map_err(refused)?;
        self.staged.decide(|ledger| {
            ledger.commit(Record::Holds { path: path.clone(), held: None })?;
            ledger.commit(Record::Removed { path: path.clone(), request: by.request })
        })?;
        inode.into_iter().for_each(|inode| self.forget_if_unused(inode));
        Ok(())
    }

    /// Also what an upload put there that was heard to fail.
    async fn delete_all(&self, inode: Option<Inode>, path: &[u8]) -> Result<()> {
        if let Some(inode) = inode.filter(|inode| self.failures.lock().contains_key(inode)) {
            let live = self.staged.live(inode)?;
            if let Ok(Some(held)) = self.there_already(&live, live.size()?, path).await {
                self.staged.note(Record::Holds { path: path.to_vec(), held: Some(held) })?;
            }
        }
        self.delete(path).await
    }

    async fn remove_folder_now(&self, parent: Inode, name: Vec<u8>, by: Requester) -> Written<()> {
        if self.done_before(by).is_some() {
            return Ok(());
        }
        let path = self.path_in(parent, &name)?;
        let _lock = self.locks.lock(&path).await;
        let inode = match self.find(&path)? {
            Found::Written(inode) if self.node(inode)?.kind == Kind::Folder => inode,
            Found::Listed(listed) if listed.kind == FileKind::Directory => listed.inode,
            _ => return Err(Refused(libc::ENOTDIR)),
        };
        if !self.is_empty_folder(inode)? {
            return Err(Refused(libc::ENOTEMPTY));
        }
        self.target.remove_folder(&path).await.map_err(refused)?;
        self.staged.note(Record::Removed { path, request: by.request })?;
        if is_written(inode) {
            self.staged.note(Record::Forgotten { inode })?;
        }
        Ok(())
    }

    async fn rename_now(&self, rename: Rename, by: Requester) -> Written<()> {
        if self.done_before(by).is_some() {
            return Ok(());
        }
        if rename.flags & !libc::RENAME_NOREPLACE != 0 {
            return Err(Refused(libc::EINVAL));
        }
        let old = self.path_in(rename.parent, &rename.name)?;
        let new = self.path_in(rename.new_parent, &rename.new_name)?;
        self.target.refuse_name(&new).map_err(|_| Refused(libc::EINVAL))?;
        if old == new {
            return Ok(());
        }
        let _locks = self.locks.lock_both(&old, &new).await;
        let replaced = self.replaced(&new, rename.flags)?;
        let inode = match self.find(&old)? {
            Found::Written(inode) if self.node(inode)?.kind == Kind::File => inode,
            Found::Listed(listed) if listed.kind == FileKind::File => self.copy_up(&old, listed, u64::MAX).await?,
            // Folders are moved by copying what is in them.
            _ => return Err(Refused(libc::EXDEV)),
        };
        let _pin = self.handles.pin(inode);
        self.fetch(inode).await?;
        if let Some(replaced) = replaced {
            self.keep_for_readers(replaced).await?;
        }
        let (live, node) = (self.staged.live(inode)?, self.node(inode)?);
        let version = live.version();
        self.publish_at(inode, &node, &new).await.map_err(refused)?;
        self.note_renamed(inode, &old, &new, by.request, || live.version() == version)?;
        replaced.into_iter().for_each(|replaced| self.forget_if_unused(replaced));
        // From here on the new name is right whatever comes; the old one is deleted now or later.
        match self.delete(&old).await {
            Ok(()) => self.staged.note(Record::Holds { path: old, held: None })?,
            Err(error) => tracing::warn!("the old name {} is still in the origin: {error}", shown(&old)),
        }
        Ok(())
    }

    /// The written file that a rename takes the name from.
    fn replaced(&self, new: &[u8], flags: u32) -> Written<Option<Inode>> {
        match self.find(new) {
            Ok(_) if flags & libc::RENAME_NOREPLACE != 0 => Err(Refused(libc::EEXIST)),
            Ok(Found::Written(inode)) => match self.node(inode)?.kind {
                Kind::Folder => Err(Refused(libc::EISDIR)),
                Kind::File => Ok(Some(inode)),
            },
            Ok(Found::Listed(listed)) if listed.kind == FileKind::Directory => Err(Refused(libc::EISDIR)),
            Ok(Found::Listed(_)) => Ok(None),
            Err(error) if error.errno() == libc::ENOENT => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn note_renamed(
        &self,
        inode: Inode,
        old: &[u8],
        new: &[u8],
        request: u64,
        is_newest: impl Fn() -> bool,
    ) -> Result<()> {
        let known = self.known_at(old)?;
        self.staged.decide(|ledger| {
            let held = ledger.state().name(new).and_then(|name| name.held.clone());
            ledger.commit(Record::Holds { path: old.to_vec(), held: known })?;
            ledger.commit(Record::Moved { inode, path: new.to_vec(), request })?;
            // Written to while it was put there, its close puts it there once more.
            match held.filter(|_| is_newest()) {
                Some(held) => ledger.commit(Record::Published { inode, held }),
                None => ledger.commit(Record::Changed { inode }),
            }
        })
    }
}

impl Writable for WritableTree {
    fn create(&self, file: Creation, by: Requester) -> BoxFuture<'static, Written<OpenedToWrite>> {
        self.task(|tree| async move { tree.create_now(file, by).await })
    }

    fn make_folder(&self, folder: Creation, by: Requester) -> BoxFuture<'static, Written<Attributes>> {
        self.task(|tree| async move { tree.make_folder_now(folder, by).await })
    }

    fn open_to_write(&self, inode: Inode, flags: i32, by: Requester) -> BoxFuture<'static, Written<OpenedToWrite>> {
        self.task(move |tree| async move { tree.open_now(inode, flags, by).await })
    }

    fn open_again(&self, inode: Inode) -> u64 {
        let handle = self.handles.add(inode, true);
        // Whether all of it is in the origin nobody knows.
        if let Err(error) = self.note_changed(inode) {
            tracing::warn!("a file that is open to be written is not here any more: {error}");
        }
        handle
    }

    fn write(&self, inode: Inode, by: Writer, offset: u64, bytes: &[u8]) -> Written<()> {
        if !self.handles.write(by) {
            return Err(Refused(libc::EBADF));
        }
        let live = self.staged.live(inode)?;
        let _gate = live.gate.blocking_read();
        live.note_change();
        self.note_changed(inode)?;
        let outcome = live.file.write_all_at(bytes, offset);
        live.note_change();
        Ok(outcome?)
    }

    fn change(&self, inode: Inode, changes: Changes) -> BoxFuture<'static, Written<Attributes>> {
        self.task(move |tree| async move { tree.change_now(inode, changes).await })
    }

    fn flush(&self, inode: Inode, by: Writer) -> BoxFuture<'static, Written<()>> {
        self.task(move |tree| async move { tree.flush_now(inode, by).await })
    }

    fn sync(&self, inode: Inode) -> BoxFuture<'static, Written<()>> {
        self.task(move |tree| async move {
            if is_written(inode) { tree.publish(inode).await.map_err(refused) } else { Ok(()) }
        })
    }

    fn unlink(&self, parent: Inode, name: Vec<u8>, by: Requester) -> BoxFuture<'static, Written<()>> {
        self.task(move |tree| async move { tree.unlink_now(parent, name, by).await })
    }

    fn remove_folder(&self, parent: Inode, name: Vec<u8>, by: Requester) -> BoxFuture<'static, Written<()>> {
        self.task(move |tree| async move { tree.remove_folder_now(parent, name, by).await })
    }

    fn rename(&self, rename: Rename, by: Requester) -> BoxFuture<'static, Written<()>> {
        self.task(|tree| async move { tree.rename_now(rename, by).await })
    }

    fn space(&self) -> Written<Space> {
        let room = self.staged.room()?;
        let crate::staging::Room { total_bytes, free_bytes, files, free_files } = room;
        Ok(Space { total_bytes, free_bytes, files, free_files })
    }
}
