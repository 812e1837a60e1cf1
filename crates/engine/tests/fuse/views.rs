//! A view while its process is killed: the kernel asks that process for the content's file, and nobody answers any more.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use futures::future::BoxFuture;

use crate::support::{budgets, can_mount, eventually, runtime};
use headrace_engine::error::{Error, ErrorKind, Result};
use headrace_engine::fuse::{ListImage, Mode, MountOptions, mount_view};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ListedObject, ObjectKind};
use headrace_engine::snapshot::SnapshotBuilder;
use headrace_engine::snapshot::erofs::{Defaults, write_image};
use headrace_engine::vfs::{
    AtHand, Attributes, Backing, DirectoryEntry, FileKind, FileSystem, Inode, Opened, ROOT, ReadReply, Statistics,
};

const DEFAULTS: Defaults = Defaults { uid: 0, gid: 0, file_mode: 0o444, directory_mode: 0o555 };

/// Says that it was asked for a name, and never answers.
struct Silent;

fn absent<T>() -> Result<T> {
    Err(Error::new(ErrorKind::NotFound, "nothing is here"))
}

impl FileSystem for Silent {
    fn lookup(&self, _parent: Inode, _name: &[u8]) -> Result<Attributes> {
        println!("\nasked");
        loop {
            std::thread::park();
        }
    }

    fn attributes(&self, _inode: Inode) -> Result<Attributes> {
        let kind = FileKind::Directory;
        Ok(Attributes { inode: ROOT, kind, size: 0, mtime_ns: 0, mode: 0o500, uid: 0, gid: 0, links: 2 })
    }

    fn read_link(&self, _inode: Inode) -> Result<Vec<u8>> {
        absent()
    }

    fn open(&self, _inode: Inode) -> Result<Opened> {
        absent()
    }

    fn release(&self, _handle: u64) {}

    fn backing(&self, _inode: Inode) -> Option<Backing> {
        None
    }

    fn at_hand(&self, _: Inode, _: u64, _: u64, _: usize, _: bool) -> Result<AtHand<ReadReply>> {
        absent()
    }

    fn read(self: Arc<Self>, _: Inode, _: u64, _: u64, _: usize) -> BoxFuture<'static, Result<ReadReply>> {
        Box::pin(async { absent() })
    }

    fn read_directory(&self, _: Inode, _: u64, _: &mut dyn FnMut(DirectoryEntry<'_>) -> bool) -> Result<()> {
        Ok(())
    }

    fn parent(&self, _inode: Inode) -> Result<Inode> {
        Ok(ROOT)
    }

    fn statistics(&self) -> Statistics {
        Statistics { files: 0, bytes: 0 }
    }
}

#[test]
#[ignore = "a part of another test: mounts until it is killed"]
fn server() {
    let Ok(folder) = std::env::var("HEADRACE_SERVE") else { return };
    let folder = Path::new(&folder);
    let mut builder = SnapshotBuilder::new(&[String::new()]).expect("made");
    let (key, kind) = (b"file"[..].into(), ObjectKind::File);
    builder.add(0, ListedObject { key, kind, size: 1, mtime_ns: 0, etag: None, stamp: None, permissions: None });
    let snapshot = builder.finish(&folder.join("snapshot"), None).expect("written").0;
    let image = folder.join("headrace.erofs");
    write_image(&snapshot, DEFAULTS, &image).expect("written");
    let list = ListImage { image: &image, identity: snapshot.identity() };
    let (runtime, options) = (runtime(), MountOptions { mode: Mode::View, allow_other: true, ..Default::default() });
    let handle = runtime.handle().clone();
    let mounted = mount_view(Arc::new(Silent), list, &folder.join("mnt"), options, handle, Metrics::new(), budgets());
    println!("\nended {:?}", mounted.err());
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_process_that_is_killed_while_the_kernel_asks_it_for_a_views_content_ends() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(folder.path().join("mnt")).expect("made");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "views::server", "--ignored", "--nocapture"])
        .env("HEADRACE_SERVE", folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(|line| line.ok());
    let said = lines.find(|line| line == "asked" || line.starts_with("ended")).expect("a word");
    child.kill().expect("killed");
    eventually("the end of the process", || child.try_wait().expect("a child").is_some());
    if said.contains("that needs EROFS of Linux 6.15") {
        return eprintln!("skipped: {said}");
    }
    assert_eq!(said, "asked");
    let table = std::fs::read_to_string("/proc/self/mountinfo").expect("readable");
    assert!(!table.contains(&*folder.path().to_string_lossy()), "{table}");
}
