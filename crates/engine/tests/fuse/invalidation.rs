//! What the kernel is told to forget, and what it believes until then.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Content, Mount, SECOND, Tree, can_mount, hello, memory};
use headrace_engine::fuse::Mode;
use headrace_engine::vfs::ROOT;

#[test]
fn an_invalidated_name_is_looked_up_again_while_readers_run() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    tree.put(ROOT, "file", memory(&[0; 50_000]));
    tree.knobs.slow.store(true, Ordering::Relaxed);
    let mount = Mount::new(tree, Mode::Classic);
    assert!(!mount.path("later").exists());
    let (stop, before) = (AtomicBool::new(false), File::open(mount.path("file")).expect("openable"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let bytes = std::fs::read(mount.path("file")).expect("readable");
                    assert!(
                        bytes.len() == 50_000 && bytes.iter().all(|byte| *byte == bytes[0]),
                        "one version at a time"
                    );
                    assert!(std::fs::read_dir(mount.folder.path()).expect("a folder").count() >= 1);
                }
            });
        }
        for version in 1..=40u8 {
            mount.tree.put(ROOT, "file", memory(&[version; 50_000]));
            let delivery = mount.handle().invalidate(vec![(ROOT, b"file".to_vec()), (ROOT, b"unheard of".to_vec())]);
            mount
                .runtime
                .block_on(async { tokio::time::timeout(60 * SECOND, delivery).await })
                .expect("no deadlock")
                .ok();
            assert_eq!(std::fs::read(mount.path("file")).expect("readable")[0], version);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let mut old = [9; 10];
    before.read_exact_at(&mut old, 0).expect("readable");
    assert_eq!(old, [0; 10], "an open file keeps its version");
}

#[test]
fn added_names_appear_after_invalidation() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Classic);
    let names = || std::fs::read_dir(mount.folder.path()).expect("a folder").count();
    assert_eq!((names(), names(), mount.path("later").exists()), (1, 1, false));
    mount.tree.put(ROOT, "later", memory(b"here"));
    assert_eq!((names(), mount.path("later").exists()), (1, false), "the kernel believes what it was told");
    let delivery = mount.handle().invalidate(vec![(ROOT, b"later".to_vec())]);
    assert_eq!(delivery.blocking_recv().expect("delivered").known, 2, "the name, and the list that it is missing in");
    assert_eq!((names(), std::fs::read(mount.path("later")).expect("readable")), (2, b"here".to_vec()));
}

#[test]
fn a_list_is_forgotten_for_a_name_that_nobody_asked_for() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Classic);
    let names = || std::fs::read_dir(mount.folder.path()).expect("a folder").count();
    assert_eq!((names(), names()), (1, 1));
    mount.tree.put(ROOT, "later", memory(b"here"));
    assert_eq!(names(), 1, "the kernel believes what it was told");
    mount.handle().invalidate(vec![(ROOT, b"later".to_vec())]).blocking_recv().expect("delivered");
    assert_eq!(names(), 2);
}

#[test]
fn all_names_can_be_forgotten_at_once() {
    if !can_mount() {
        return;
    }
    let tree = hello();
    let folder = tree.put(ROOT, "folder", Content::Directory(Default::default()));
    tree.put(folder, "file", memory(b"old"));
    let mount = Mount::new(tree, Mode::Classic);
    let read = || std::fs::read(mount.path("folder/file")).expect("readable");
    assert_eq!((read(), mount.path("folder/new").exists()), (b"old".to_vec(), false));
    mount.tree.put(folder, "file", memory(b"new"));
    mount.tree.put(folder, "new", memory(b"new"));
    let delivered = mount.handle().invalidate_all_names().blocking_recv().expect("delivered");
    if delivered.unsupported > 0 {
        return eprintln!("skipped: this kernel has no FUSE_NOTIFY_INC_EPOCH");
    }
    assert_eq!((read(), mount.path("folder/new").exists()), (b"new".to_vec(), true));
}
