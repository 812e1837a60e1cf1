//! The kernel's own view of a snapshot: an image mounted by the kernel says what the snapshot says. Mounting needs root and
//! Linux 6.12 with EROFS; elsewhere only the layout is checked.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::support::temporary;
use headrace_engine::origin::{ListedObject, ObjectKind, Permissions};
use headrace_engine::snapshot::erofs::{BLOCK_BYTES, BlobLayout, Defaults, write_image};
use headrace_engine::snapshot::{NodeIndex, NodeKind, Snapshot, SnapshotBuilder};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

const DEFAULTS: Defaults = Defaults { uid: 7, gid: 8, file_mode: 0o444, directory_mode: 0o555 };

struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// `None`, with a word on stderr, where the kernel or the rights do not allow it.
fn mounted(image: &Path, blob: &Path, place: &Path) -> Option<Mounted> {
    std::fs::create_dir_all(place).unwrap();
    let option = format!("device={}", blob.display());
    match mount(Some(image), place, Some("erofs"), MsFlags::MS_RDONLY, Some(option.as_str())) {
        Ok(()) => Some(Mounted(place.to_owned())),
        Err(nix::Error::EPERM | nix::Error::ENODEV | nix::Error::ENOTBLK) => {
            eprintln!("skipped: mounting EROFS needs root and Linux 6.12 with EROFS_FS_BACKED_BY_FILE");
            None
        }
        Err(error) => panic!("the kernel refused the image: {error}"),
    }
}

fn listed(key: &[u8], kind: ObjectKind, size: u64) -> ListedObject {
    let mtime_ns = 1_700_000_000_000_000_000 + size as i64 % 1000 * 1_000_000_000;
    ListedObject { key: key.into(), kind, size, mtime_ns, etag: None, stamp: None, permissions: None }
}

fn snapshot(folder: &Path, with_huge: bool) -> Snapshot {
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.accept_any_bytes(0);
    for number in 0..3000u64 {
        let key = format!("wide/img_{number:06}_{}", "x".repeat(number as usize % 200));
        builder.add(0, listed(key.as_bytes(), ObjectKind::File, number * 37 % 20_000));
    }
    for key in [&b"-before-the-dots"[..], b"!", b"caf\xe9/\xff", b"a/b/c/d/e", b".hidden", b"...", b"..a"] {
        builder.add(0, listed(key, ObjectKind::File, 5000));
    }
    builder.add(0, listed(b"empty", ObjectKind::Directory, 0));
    builder.add(0, listed(b"a/link", ObjectKind::Symlink(b"../wide"[..].into()), 7));
    if with_huge {
        builder.add(0, listed(b"huge", ObjectKind::File, (5 << 30) + 3));
        let permissions = Some(Permissions { mode: 0o640, uid: 70_000, gid: 3 });
        let owned = listed(b"owned/by-another", ObjectKind::File, 10);
        builder.add(0, ListedObject { permissions, mtime_ns: owned.mtime_ns + 123, ..owned });
    }
    builder.finish(&folder.join("snapshot"), None).unwrap().0
}

/// A blob in which each block of a file says whose it is and which.
fn write_blob(snapshot: &Snapshot, layout: &BlobLayout, path: &Path) {
    let blob = File::create(path).unwrap();
    blob.set_len(layout.blob_bytes()).unwrap();
    for index in (0..snapshot.nodes()).map(NodeIndex) {
        let node = snapshot.node(index).unwrap();
        let start = layout.offset_of(index).unwrap();
        let blocks = if node.kind == NodeKind::File { node.size.div_ceil(BLOCK_BYTES) } else { 0 };
        for block in [0, 1, 2, 3, 4, blocks.saturating_sub(1)].into_iter().filter(|block| *block < blocks) {
            let at = start + block * BLOCK_BYTES;
            blob.write_all_at(&mark(index, block), at).unwrap();
            assert_eq!(layout.locate(at), Some((index, block * BLOCK_BYTES)));
            assert_eq!(layout.locate(at + BLOCK_BYTES - 1), Some((index, (block + 1) * BLOCK_BYTES - 1)));
        }
    }
    assert_eq!(layout.locate(layout.blob_bytes()), None);
}

fn mark(index: NodeIndex, block: u64) -> Vec<u8> {
    let word = (u64::from(index.0) << 32 | block).to_le_bytes();
    word.repeat(BLOCK_BYTES as usize / 8)
}

fn compare(snapshot: &Snapshot, place: &Path, directory: NodeIndex, seconds_only: bool) -> u64 {
    let mut names: Vec<_> = std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    let mut wanted = Vec::new();
    snapshot.children(directory, 0, &mut |index, name| {
        wanted.push((name.to_vec(), index));
        true
    });
    assert!(names.iter().map(|name| name.as_bytes()).eq(wanted.iter().map(|(name, _)| name.as_slice())), "{place:?}");
    wanted
        .iter()
        .zip(&names)
        .map(|((_, index), name)| compare_entry(snapshot, &place.join(name), *index, seconds_only))
        .sum()
}

fn compare_entry(snapshot: &Snapshot, path: &Path, index: NodeIndex, seconds_only: bool) -> u64 {
    let (node, seen) = (snapshot.node(index).unwrap(), std::fs::symlink_metadata(path).unwrap());
    assert_eq!(seen.mtime(), node.mtime_ns.div_euclid(1_000_000_000), "{path:?}");
    let (uid, gid) = node.permissions.map_or((7, 8), |known| (known.uid, known.gid));
    assert_eq!((seen.uid(), seen.gid()), (uid, gid), "{path:?}");
    assert!(seconds_only || seen.mtime_nsec() == node.mtime_ns.rem_euclid(1_000_000_000));
    match node.kind {
        NodeKind::Directory => {
            assert_eq!(seen.nlink(), u64::from(node.subdirectories) + 2);
            1 + compare(snapshot, path, index, seconds_only)
        }
        NodeKind::Symlink => {
            assert_eq!(
                std::fs::read_link(path).unwrap().as_os_str().as_bytes(),
                snapshot.symlink_target(index).unwrap()
            );
            1
        }
        NodeKind::File => {
            let mode = node.permissions.map_or(0o444, |known| u32::from(known.mode));
            assert_eq!((seen.len(), seen.mode()), (node.size, 0o100_000 | mode), "{path:?}");
            check_content(path, &node);
            1
        }
    }
}

/// The first and the last bytes are this file's own.
fn check_content(path: &Path, node: &headrace_engine::snapshot::Node) {
    let Some(last) = node.size.checked_sub(1) else { return };
    let file = File::open(path).unwrap();
    for at in [0, last] {
        let mut byte = [0xa5];
        file.read_exact_at(&mut byte, at).unwrap();
        assert_eq!(byte[0], mark(node.index, at / BLOCK_BYTES)[(at % BLOCK_BYTES) as usize], "{path:?} at {at}");
    }
    assert_eq!(file.read_at(&mut [0], node.size).unwrap(), 0);
}

#[test]
fn the_kernel_sees_what_the_snapshot_says() {
    for with_huge in [false, true] {
        let folder = temporary();
        let snapshot = snapshot(folder.path(), with_huge);
        let (image, blob) = (folder.path().join("image"), folder.path().join("blob"));
        let layout = write_image(&snapshot, DEFAULTS, &image).unwrap();
        assert_eq!(layout.image_bytes() % BLOCK_BYTES, 0);
        write_blob(&snapshot, &layout, &blob);
        let Some(mounted) = mounted(&image, &blob, &folder.path().join("mount")) else { return };
        let seen = compare(&snapshot, &mounted.0, NodeIndex::ROOT, !with_huge);
        assert_eq!(seen + 1, u64::from(snapshot.nodes()));
        let absent = std::fs::symlink_metadata(mounted.0.join("wide/img_absent")).unwrap_err();
        assert_eq!(absent.kind(), std::io::ErrorKind::NotFound);
    }
}

#[test]
fn more_than_an_image_can_address_is_refused() {
    let folder = temporary();
    let mut builder = SnapshotBuilder::new(&[String::new()]).unwrap();
    builder.add(0, listed(b"huge", ObjectKind::File, 17 << 40));
    let (snapshot, _) = builder.finish(&folder.path().join("snapshot"), None).unwrap();
    let error = write_image(&snapshot, DEFAULTS, &folder.path().join("image")).unwrap_err();
    assert_eq!(error.errno(), nix::libc::EOPNOTSUPP);
}
