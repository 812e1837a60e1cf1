//! The requests that a web server is still to be sent, as far as its pages say. Asks nobody.

use std::collections::{BTreeMap, HashSet};

use crate::origin::http::index::{Name, Sense};
use crate::origin::{Exclusion, LeftOut, ListedObject, ObjectKind};

/// A link that leads somewhere, as far as a page says.
pub(super) struct Link {
    /// Of a folder with a slash at its end; empty for the root.
    pub key: String,
    pub sense: Sense,
}

/// What is to be asked of the server.
pub(super) enum Question {
    File(Link),
    Folder(Link),
    /// Which of these files the page of their folder does not name.
    Deep {
        folder: String,
        links: Vec<Link>,
    },
}

/// What the pages read so far lead to.
pub(super) struct ToDo<'a> {
    excluded: &'a Exclusion,
    /// Every folder whose page was or will be read.
    seen: HashSet<String>,
    folders: Vec<Link>,
    pub files: Vec<Link>,
    /// Files that pages of other folders lead to, by their own folder. Its page most often names them, too.
    deep: BTreeMap<String, BTreeMap<String, Sense>>,
    /// Nothing that is known may yet name them.
    pages_are_read: bool,
    /// What is known, and not handed on yet.
    pub batch: Vec<ListedObject>,
}

impl<'a> ToDo<'a> {
    pub fn new(excluded: &'a Exclusion) -> Self {
        ToDo {
            excluded,
            seen: HashSet::from([String::new()]),
            folders: vec![Link { key: String::new(), sense: Sense::Plain }],
            files: Vec::new(),
            deep: BTreeMap::new(),
            pages_are_read: false,
            batch: Vec::new(),
        }
    }

    /// `is_idle`: all that was asked is answered.
    pub fn next(&mut self, is_idle: bool) -> Option<Question> {
        // Files first: it keeps the lists of what is still to do short.
        if let Some(file) = self.files.pop() {
            return Some(Question::File(file));
        }
        if let Some(folder) = self.folders.pop() {
            self.pages_are_read = false;
            return Some(Question::Folder(folder));
        }
        self.pages_are_read |= is_idle;
        let (folder, files) = if self.pages_are_read { self.deep.pop_first()? } else { return None };
        let links = files.into_iter().map(|(key, sense)| Link { key, sense });
        if self.seen.contains(&folder) {
            return Some(Question::Deep { folder, links: links.collect() });
        }
        self.files.extend(links);
        self.files.pop().map(Question::File)
    }

    /// Takes note of a name on the page of `below`.
    pub fn add(&mut self, below: &str, name: Name) {
        let mut key = below.as_bytes().to_vec();
        key.extend_from_slice(&name.bytes);
        let is_excluded = match name.folder {
            true => self.excluded.has_path(&key, true),
            // Without a slash it may be a folder all the same.
            false => self.excluded.has_path(&key, false) && self.excluded.has_path(&key, true),
        };
        if is_excluded {
            return self.batch.push(Exclusion::left_out(&key));
        }
        if name.sense == Sense::Impossible {
            return self.batch.push(ListedObject::left_out(&key, LeftOut::UnclearLink));
        }
        match String::from_utf8(key) {
            Ok(key) if name.folder => {
                let folder = format!("{key}/");
                if self.seen.insert(folder.clone()) {
                    self.folders.push(Link { key: folder, sense: name.sense });
                }
            }
            Ok(key) if name.bytes.contains(&b'/') => {
                self.deep.entry(parent(&key).to_owned()).or_default().insert(key, name.sense);
            }
            Ok(key) => self.files.push(Link { key, sense: name.sense }),
            // It can be named, so that the snapshot tells of it, but not asked for.
            Err(error) => self.batch.push(object(error.into_bytes(), ObjectKind::File)),
        }
    }
}

pub(super) fn object(key: Vec<u8>, kind: ObjectKind) -> ListedObject {
    ListedObject { key: key.into(), kind, size: 0, mtime_ns: 0, etag: None, stamp: None, permissions: None }
}

/// The folder that holds `key`, empty or with a trailing slash.
pub(super) fn parent(key: &str) -> &str {
    key.rfind('/').map_or("", |slash| &key[..=slash])
}

pub(super) fn last(key: &str) -> &str {
    key.rsplit('/').next().unwrap_or(key)
}
