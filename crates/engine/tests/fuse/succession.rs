//! Who takes a mount over from a process that died or stopped: its connection, its open files, and who waits.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{
    Content, Mount, SECOND, Tree, budgets, can_mount, eventually, memory, pattern, refused, runtime, unmount,
};
use headrace_engine::error::ErrorKind;
use headrace_engine::fuse::{KeptMount, Mode, MountHandle, MountOptions, mount, resume, unmount_path};
use headrace_engine::metrics::Metrics;
use headrace_engine::vfs::{Inode, ROOT};

/// A server in a process of its own, so that it can be killed.
struct Server {
    child: Child,
    words: String,
}

impl Server {
    fn start(folder: &Path, mode: Mode, source: &Path) -> Server {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "succession::server", "--ignored", "--nocapture"])
            .env("HEADRACE_SERVE", folder)
            .env("HEADRACE_MODE", mode.to_string())
            .env("HEADRACE_SOURCE", source)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = lines.find_map(|line| line.ok().filter(|line| line.starts_with("mounted "))).expect("mounted");
        Server { child, words: line["mounted ".len()..].to_owned() }
    }

    /// What a supervisor would hold.
    fn kept(&self) -> KeptMount {
        KeptMount {
            words: self.words.clone(),
            connection: steal(self.child.id(), "/dev/fuse"),
            ledger: steal(self.child.id(), "/memfd:headrace-ledger (deleted)"),
            apart: None,
            relay: None,
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

/// A tree of the files in `source`, and one whose reads wait.
fn tree_with_stuck(source: &Path) -> (Tree, Inode) {
    let tree = Tree::of_folder(source);
    let stuck = tree.put(ROOT, "stuck", Content::Stuck { size: 11 });
    (tree, stuck)
}

#[test]
#[ignore = "a part of other tests: serves until it is killed"]
fn server() {
    let Ok(folder) = std::env::var("HEADRACE_SERVE") else { return };
    let mode = match std::env::var("HEADRACE_MODE").expect("told").as_str() {
        "passthrough" => Mode::Passthrough,
        "elide" => Mode::Elide,
        _ => Mode::Classic,
    };
    let (tree, _) = tree_with_stuck(Path::new(&std::env::var("HEADRACE_SOURCE").expect("told")));
    let runtime = runtime();
    let options = MountOptions { mode, allow_other: true, ..MountOptions::default() };
    let path = Path::new(&folder);
    let handle = mount(Arc::new(tree), path, options, runtime.handle().clone(), Metrics::new(), budgets());
    println!("\nmounted {}", handle.as_ref().expect("mounted").keep().expect("kept").words);
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn a_mount_whose_process_died_is_named_and_cleared() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    Server::start(folder.path(), Mode::Classic, folder.path()).kill();
    assert_eq!(std::fs::metadata(folder.path()).expect_err("dead").raw_os_error(), Some(libc::ENOTCONN));
    let error = refused(folder.path(), MountOptions::default());
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.hint().is_some_and(|hint| hint.contains("headrace unmount")), "{error:?}");
    unmount_path(folder.path(), false).expect("cleared");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder itself").count(), 0);
}

const RESEND: u64 = 1 << 39;

/// The same as an older kernel would have left it: nothing is sent again.
fn without_resend(kept: KeptMount) -> KeptMount {
    let mut words: serde_json::Value = serde_json::from_str(&kept.words).expect("JSON");
    words["flags"] = (words["flags"].as_u64().expect("a number") & !RESEND).into();
    KeptMount { words: words.to_string(), ..kept }
}

/// A daemon that goes on in this process.
struct Successor {
    handle: MountHandle,
    tree: Arc<Tree>,
    stuck: Inode,
    metrics: Metrics,
    _runtime: tokio::runtime::Runtime,
}

impl Successor {
    fn start(source: &Path, kept: KeptMount, prepare: impl FnOnce(&Tree)) -> Successor {
        let (tree, stuck) = tree_with_stuck(source);
        prepare(&tree);
        let (tree, runtime, metrics) = (Arc::new(tree), runtime(), Metrics::new());
        let options = MountOptions { allow_other: true, ..MountOptions::default() };
        let handle = resume(tree.clone(), kept, options, runtime.handle().clone(), metrics.clone(), budgets());
        Successor { handle: handle.expect("resumed"), tree, stuck, metrics, _runtime: runtime }
    }
}

fn source_of(files: u64) -> tempfile::TempDir {
    let source = tempfile::tempdir().expect("a temporary folder");
    for number in 0..files {
        std::fs::write(source.path().join(format!("file{number}")), pattern(300_000, number)).expect("written");
    }
    source
}

fn reader_of(path: &Path) -> Child {
    let reader = Command::new("cat").arg(path).stdout(Stdio::piped()).spawn().expect("cat");
    let open_files = format!("/proc/{}/fd", reader.id());
    // What it sees of the file's size is that of this moment, whenever its read comes.
    eventually("it has opened the file", || {
        let mut found = std::fs::read_dir(&open_files).expect("a child").flatten();
        found.any(|entry| std::fs::read_link(entry.path()).is_ok_and(|target| target == path))
    });
    std::thread::sleep(Duration::from_millis(200));
    reader
}

/// Readers wait for a server that is killed; another daemon takes the connection over and answers them, with the help of
/// the kernel and without.
#[test]
fn a_crash_is_survived_by_whoever_holds_the_connection_and_the_ledger() {
    if !can_mount() {
        return;
    }
    for (mode, resent) in
        [Mode::Elide, Mode::Classic, Mode::Passthrough].into_iter().flat_map(|mode| [(mode, true), (mode, false)])
    {
        let (folder, source) = (tempfile::tempdir().expect("a temporary folder"), source_of(3));
        let server = Server::start(folder.path(), mode, source.path());
        let path = |name: &str| folder.path().join(name);
        let opened: Vec<File> =
            (0..3).map(|number| File::open(path(&format!("file{number}"))).expect("openable")).collect();
        let mut readers: Vec<Child> = (0..4).map(|_| reader_of(&path("stuck"))).collect();
        let kept = server.kept();
        let kept = if resent { kept } else { without_resend(kept) };
        server.kill();
        let meanwhile = {
            let path = path("file1");
            std::thread::spawn(move || std::fs::read(path).expect("readable"))
        };

        let next = Successor::start(source.path(), kept, |_| ());
        assert_eq!((next.handle.resumed(), next.handle.announced()), (1, 0));
        std::thread::sleep(Duration::from_millis(100));
        readers.iter_mut().for_each(|reader| assert!(reader.try_wait().expect("a child").is_none(), "still waiting"));
        next.tree.replace(next.stuck, memory(b"not any more"));
        for reader in readers {
            assert_eq!(reader.wait_with_output().expect("ended").stdout, b"not any mor", "{mode:?} {resent}");
        }
        assert!(meanwhile.join().expect("no fault") == pattern(300_000, 1));
        for (number, file) in opened.iter().enumerate() {
            let mut buffer = vec![0; 1000];
            file.read_exact_at(&mut buffer, 200_000).expect("an open file goes on");
            assert!(buffer[..] == pattern(300_000, number as u64)[200_000..201_000]);
        }
        drop(opened);
        assert!(std::fs::read(path("file0")).expect("readable") == pattern(300_000, 0));
        unmount(&next.handle);
        assert!(next.handle.wait(Some(60 * SECOND)));
    }
}

/// The kernel refuses to mix two ways to open an inode, whoever answers; the successor finds the files of its
/// predecessor open, and would have decided otherwise.
#[test]
fn a_successor_opens_a_file_as_it_is_open_already() {
    if !can_mount() {
        return;
    }
    let (folder, source) = (tempfile::tempdir().expect("a temporary folder"), source_of(2));
    let server = Server::start(folder.path(), Mode::Passthrough, source.path());
    let path = |name: &str| folder.path().join(name);
    let passed = File::open(path("file0")).expect("openable");
    let kept = server.kept();
    server.kill();

    let evicted = |tree: &Tree| tree.knobs.no_backing.store(true, Ordering::Relaxed);
    let second = Successor::start(source.path(), kept, evicted);
    let cached = File::open(path("file1")).expect("openable");
    for number in 0..2 {
        let bytes = std::fs::read(path(&format!("file{number}"))).expect("readable");
        assert!(bytes == pattern(300_000, number), "{number}");
    }
    assert_eq!(second.metrics.passthrough_opens.get(), 1, "the one that is open that way");
    assert_eq!(second.metrics.passthrough_estimated_bytes.get(), 300_000, "its size is known to the successor");
    let kept = second.handle.keep().expect("kept");
    second.handle.hand_over();
    drop(second);

    // Now everything could be passed through, but one file is open the other way.
    let third = Successor::start(source.path(), kept, |_| ());
    assert_eq!(third.handle.resumed(), 2);
    for number in 0..2 {
        let bytes = std::fs::read(path(&format!("file{number}"))).expect("readable");
        assert!(bytes == pattern(300_000, number), "{number}");
    }
    assert_eq!(third.metrics.passthrough_opens.get(), 1);
    drop((passed, cached));
    eventually("both are closed, and all is open to choice", || {
        let before = third.metrics.passthrough_opens.get();
        (0..2).for_each(|number| drop(File::open(path(&format!("file{number}"))).expect("openable")));
        third.metrics.passthrough_opens.get() == before + 2
    });
    unmount(&third.handle);
}

/// Handles of a dead daemon name nothing in the next one, above all no other file.
#[test]
fn a_successor_does_not_take_one_open_file_for_another() {
    if !can_mount() {
        return;
    }
    let (folder, source) = (tempfile::tempdir().expect("a temporary folder"), source_of(8));
    let server = Server::start(folder.path(), Mode::Classic, source.path());
    let open = |number: u64| (number, File::open(folder.path().join(format!("file{number}"))).expect("openable"));
    let mut files: Vec<_> = (0..8).map(open).collect();
    let kept = server.kept();
    server.kill();
    let _next = Successor::start(source.path(), kept, |_| ());
    files.truncate(4);
    files.extend((0..8).rev().map(open));
    for (number, file) in &files {
        let mut buffer = vec![0; 300_000];
        file.read_exact_at(&mut buffer, 0).expect("readable");
        assert!(buffer == pattern(300_000, *number));
    }
}

/// A descriptor of another process, as a supervisor would hold it.
fn steal(process: u32, name: &str) -> OwnedFd {
    let folder = format!("/proc/{process}/fd");
    let is_it =
        |entry: &std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|target| target == Path::new(name));
    let entries = std::fs::read_dir(folder).expect("a process").map(|entry| entry.expect("an entry"));
    let number: i32 =
        entries.filter(is_it).find_map(|entry| entry.file_name().to_str()?.parse().ok()).expect("a descriptor");
    // SAFETY: plain system calls with checked results; the new descriptor is owned by nobody else.
    unsafe {
        let handle = libc::syscall(libc::SYS_pidfd_open, process, 0) as i32;
        assert!(handle >= 0);
        let handle = OwnedFd::from_raw_fd(handle);
        let stolen = libc::syscall(libc::SYS_pidfd_getfd, handle.as_raw_fd(), number, 0) as i32;
        assert!(stolen >= 0);
        OwnedFd::from_raw_fd(stolen)
    }
}

#[test]
fn another_daemon_goes_on_where_one_stopped() {
    if !can_mount() {
        return;
    }
    for mode in [Mode::Passthrough, Mode::Classic, Mode::Elide] {
        let source = source_of(1);
        let mut mount = Mount::new(tree_with_stuck(source.path()).0, mode);
        let open = File::open(mount.path("file0")).expect("openable");
        let reader = reader_of(&mount.path("stuck"));
        eventually("its read waits", || mount.tree.knobs.waiting.load(Ordering::SeqCst) > 0);
        let kept = mount.handle().keep().expect("kept");
        mount.handle().hand_over();
        assert!(mount.handle().is_handed_over() && mount.handle().wait(Some(Duration::ZERO)));
        mount.handle().unmount(true).expect("nothing happens");
        // The old daemon ends with all it has begun, and nobody hears of it.
        mount.handle = None;
        let path = mount.path("file0");
        let blocked = std::thread::spawn(move || std::fs::read(path).expect("readable"));
        std::thread::sleep(Duration::from_millis(50));
        assert!(mode != Mode::Passthrough || !blocked.is_finished(), "nobody serves");
        let next = Successor::start(source.path(), kept, |_| ());
        assert!(blocked.join().expect("no fault") == pattern(300_000, 0), "{mode:?}");
        next.tree.replace(next.stuck, memory(b"not any more"));
        assert_eq!(reader.wait_with_output().expect("ended").stdout, b"not any mor", "{mode:?}");
        let mut buffer = vec![0; 1000];
        open.read_exact_at(&mut buffer, 200_000).expect("an open file goes on");
        assert!(buffer[..] == pattern(300_000, 0)[200_000..201_000]);
        drop(open);
        assert!(std::fs::read(mount.path("file0")).expect("readable") == pattern(300_000, 0), "{mode:?}");
        unmount(&next.handle);
        assert!(next.handle.wait(Some(60 * SECOND)));
    }
}
