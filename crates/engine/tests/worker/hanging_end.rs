//! The end of a store whose disk hangs: soon, and with the name of the folder.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headrace_engine::ids::FileId;
use headrace_engine::store::{Put, Store};

use crate::hanging_file::HangingFile;
use crate::members::{key, object};
use crate::mounts::{can_mount, eventually};
use crate::support::{KIB, MIB, pattern, store_over};

const BLOCK: u64 = 64 * KIB;
const SIZE: u64 = 8 * BLOCK;
const PATIENCE: Duration = Duration::from_secs(60);

fn opened(folder: &Path) -> Arc<Store> {
    store_over(&[folder.to_owned()], 64 * MIB, BLOCK)
}

/// Closes a store with one file, whose content is made to hang afterwards.
fn closed_with_a_file(folder: &Path) -> (FileId, HangingFile) {
    let (store, key) = (opened(folder), Arc::new(key(&object("held", SIZE, 1))));
    for (index, block) in (0..).zip(pattern(SIZE, 1).chunks(BLOCK as usize)) {
        assert_eq!(store.put(&key, index, &[Bytes::copy_from_slice(block)]), Put::Stored);
    }
    store.close().unwrap();
    let name = key.id().to_string();
    (key.id(), HangingFile::at(&folder.join("data").join(&name[..2]).join(&name)))
}

/// What `close` returns, which must come.
fn end_of(store: &Arc<Store>) -> headrace_engine::error::Result<()> {
    let (told, coming) = std::sync::mpsc::channel();
    let closing = store.clone();
    std::thread::spawn(move || told.send(closing.close()));
    coming.recv_timeout(PATIENCE).expect("the end waits for the disk")
}

#[test]
fn a_store_whose_own_thread_waits_for_a_disk_closes_its_folder_all_the_same() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (id, disk) = closed_with_a_file(folder.path());
    let store = opened(folder.path());
    store.set_disk_patience(Duration::from_millis(400));
    let verifying = store.clone();
    // Verifies a first block here, and asks the store's own thread for all of them.
    let asking = std::thread::spawn(move || drop(verifying.whole_file(&id, SIZE)));
    eventually("a read waits for the disk", || disk.reads() > 0 && !store.hanging_folders().is_empty());
    // So that a busy machine has two seconds for what needs no disk.
    store.set_disk_patience(Duration::from_secs(10));
    end_of(&store).unwrap();
    assert!(Store::is_free(folder.path()), "what nobody changes can be given free");
    disk.let_go();
    asking.join().unwrap();
    let again = opened(folder.path());
    assert_eq!(again.cached_bytes(&id), SIZE);
    again.close().unwrap();
}
