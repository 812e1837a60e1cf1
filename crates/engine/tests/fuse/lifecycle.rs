//! From mount to unmount: refusals, busy and dead mounts, hand-over, crashes, invalidation, killed readers, faults.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::{Content, Mount, Tree, budgets, can_mount, eventually, memory, pattern, runtime};
use headrace_engine::error::{Error, ErrorKind};
use headrace_engine::fuse::{KeptMount, Mode, MountHandle, MountOptions, mount, resume, unmount_path};
use headrace_engine::metrics::Metrics;
use headrace_engine::vfs::{Inode, ROOT};

const SECOND: Duration = Duration::from_secs(1);

fn hello() -> Tree {
    let tree = Tree::default();
    tree.put(ROOT, "hello", memory(b"hello world"));
    tree
}

/// The error of a mount that must fail.
fn refused(path: &Path, options: MountOptions) -> Error {
    let runtime = runtime();
    let tree = Arc::new(hello());
    let outcome = mount(tree, path, options, runtime.handle().clone(), Metrics::new(), budgets());
    outcome.err().expect("refused")
}

/// Nobody is inside, but a program that another test of this process starts has our descriptors until it runs.
fn unmount(handle: &MountHandle) {
    eventually("idle", || match handle.unmount(false) {
        Err(error) if error.kind() == ErrorKind::Busy => false,
        outcome => outcome.map(|()| true).expect("idle"),
    });
}

#[test]
fn a_busy_mount_is_not_unmounted_unless_forced() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Classic);
    let file = File::open(mount.path("hello")).expect("openable");
    let busy = mount.handle().unmount(false).expect_err("busy");
    assert_eq!((busy.kind(), busy.errno()), (ErrorKind::Busy, libc::EBUSY));
    assert!(!mount.handle().wait(Some(Duration::from_millis(50))));
    mount.handle().unmount(true).expect("detached");
    assert_eq!(std::fs::read_dir(mount.folder.path()).expect("the folder itself").count(), 0);
    let mut buffer = [0; 5];
    file.read_exact_at(&mut buffer, 6).expect("who has it open may finish");
    assert_eq!(&buffer, b"world");
    drop(file);
    assert!(mount.handle().wait(Some(60 * SECOND)));
    mount.handle().unmount(false).expect("gone already");
}

#[test]
fn an_idle_mount_is_unmounted_and_ends() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Auto);
    drop(std::fs::read(mount.path("hello")).expect("readable"));
    unmount(mount.handle());
    assert!(mount.handle().wait(Some(60 * SECOND)));
    assert!(!mount.path("hello").exists());
}

#[test]
fn dropping_unmounts_also_when_busy() {
    if !can_mount() {
        return;
    }
    let mut mount = Mount::new(hello(), Mode::Classic);
    let _file = File::open(mount.path("hello")).expect("openable");
    mount.handle = None;
    assert!(!mount.path("hello").exists());
}

#[test]
fn an_unmount_leaves_what_others_mounted_later() {
    if !can_mount() {
        return;
    }
    let first = Mount::new(hello(), Mode::Classic);
    unmount(first.handle());
    let other = Tree::default();
    other.put(ROOT, "other", memory(b"other"));
    let runtime = runtime();
    let second = mount(
        Arc::new(other),
        first.folder.path(),
        MountOptions::default(),
        runtime.handle().clone(),
        Metrics::new(),
        budgets(),
    );
    let _second = second.expect("mounted");
    first.handle().unmount(true).expect("nothing to do");
    assert!(first.path("other").exists());
}

#[test]
fn unfit_folders_are_refused_with_a_hint() {
    if !can_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), b"x").expect("written");
    for (path, kind) in [
        (folder.path().join("missing"), ErrorKind::NotFound),
        (folder.path().join("file"), ErrorKind::NotDirectory),
        (folder.path().to_owned(), ErrorKind::Busy),
    ] {
        let error = refused(&path, MountOptions::default());
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.hint().is_some() && !error.message().contains('\n'));
    }
    let nothing = unmount_path(folder.path(), false).expect_err("nothing there");
    assert_eq!(nothing.kind(), ErrorKind::NotFound);
}

#[test]
fn the_same_folder_is_not_mounted_on_twice() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Classic);
    let error = refused(mount.folder.path(), MountOptions::default());
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.hint().is_some_and(|hint| hint.contains("headrace unmount")), "{error:?}");
}

#[test]
fn senseless_options_are_refused() {
    let unfit = [
        MountOptions { threads: Some(0), ..Default::default() },
        MountOptions { entry_timeout_s: f64::NAN, ..Default::default() },
        MountOptions { source: "two\nlines".into(), ..Default::default() },
    ];
    for options in unfit {
        assert_eq!(refused(Path::new("/"), options).kind(), ErrorKind::Config);
    }
}

/// A server in a process of its own, so that it can be killed.
struct Server {
    child: Child,
    words: String,
}

impl Server {
    fn start(folder: &Path, mode: Mode, source: &Path) -> Server {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "lifecycle::server", "--ignored", "--nocapture"])
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

/// A page fault without read-ahead: the kernel waits for our answer itself, and sends INTERRUPT for any signal.
const FAULTING_READER: &str = "import mmap, signal, sys\n\
    signal.signal(signal.SIGUSR1, lambda *_: None)\n\
    signal.siginterrupt(signal.SIGUSR1, True)\n\
    file = open(sys.argv[1], 'rb', 0)\n\
    memory = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\n\
    memory.madvise(mmap.MADV_RANDOM)\n\
    print('ready', flush=True)\n\
    print(memory[0], memory[5000], flush=True)\n";

fn faulting_reader(path: &Path, tree: &Tree) -> Child {
    let mut command = Command::new("python3");
    let mut reader = command.args(["-c", FAULTING_READER]).arg(path).stdout(Stdio::piped()).spawn().expect("python3");
    let mut ready = [0; 6];
    reader.stdout.as_mut().expect("piped").read_exact(&mut ready).expect("started");
    eventually("its read waits", || tree.knobs.waiting.load(Ordering::SeqCst) > 0);
    reader
}

fn ends_soon(child: &mut Child) {
    eventually("the reader ends", || child.try_wait().expect("a child").is_some());
}

fn signal(child: &Child, number: i32) {
    // SAFETY: our own child, not waited for yet.
    unsafe { libc::kill(child.id() as i32, number) };
}

#[test]
fn a_killed_reader_is_let_go_and_its_read_cancelled() {
    if !can_mount() {
        return;
    }
    for number in [libc::SIGKILL, libc::SIGTERM] {
        let tree = Tree::default();
        tree.put(ROOT, "stuck", Content::Stuck { size: 8192 });
        let mount = Mount::new(tree, Mode::Classic);
        let mut reader = faulting_reader(&mount.path("stuck"), &mount.tree);
        if number == libc::SIGKILL {
            // A signal that is waiting already: only SIGKILL still counts as fatal to the kernel then.
            signal(&reader, libc::SIGUSR1);
            std::thread::sleep(Duration::from_millis(100));
        }
        assert!(reader.try_wait().expect("a child").is_none(), "still waiting");
        signal(&reader, number);
        ends_soon(&mut reader);
        eventually("the read is cancelled", || mount.tree.knobs.cancelled.load(Ordering::SeqCst) == 1);
        unmount(mount.handle());
    }
}

/// A profiler's timer or a child that ends must not throw away what was fetched so far, nor fail a read.
#[test]
fn a_handled_signal_does_not_break_a_read() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    let inode = tree.put(ROOT, "stuck", Content::Stuck { size: 8192 });
    let mount = Mount::new(tree, Mode::Classic);
    let mut reader = faulting_reader(&mount.path("stuck"), &mount.tree);
    for _ in 0..5 {
        signal(&reader, libc::SIGUSR1);
        std::thread::sleep(Duration::from_millis(30));
    }
    assert!(reader.try_wait().expect("a child").is_none(), "still waiting");
    assert_eq!(mount.tree.knobs.cancelled.load(Ordering::SeqCst), 0);
    mount.tree.replace(inode, memory(&[7; 8192]));
    let output = reader.wait_with_output().expect("ended");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7 7\n", "{:?}", output.status);
}

#[test]
fn a_fault_in_one_request_is_an_error_and_the_mount_goes_on() {
    if !can_mount() {
        return;
    }
    let mount = Mount::new(hello(), Mode::Classic);
    mount.tree.knobs.panic.store(true, Ordering::Relaxed);
    let error = std::fs::read(mount.path("hello")).expect_err("a fault");
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
    mount.tree.knobs.panic.store(false, Ordering::Relaxed);
    assert_eq!(std::fs::read(mount.path("hello")).expect("readable"), b"hello world");
}

#[test]
fn a_runtime_that_ends_answers_its_readers() {
    if !can_mount() {
        return;
    }
    let tree = Tree::default();
    tree.put(ROOT, "stuck", Content::Stuck { size: 100 });
    let (folder, runtime) = (tempfile::tempdir().expect("a folder"), runtime());
    let (options, tree) = (MountOptions::default(), Arc::new(tree));
    let handle = mount(tree.clone(), folder.path(), options, runtime.handle().clone(), Metrics::new(), budgets());
    let _handle = handle.expect("mounted");
    let path = folder.path().join("stuck");
    let reader = std::thread::spawn(move || std::fs::read(path));
    eventually("its read waits", || tree.knobs.waiting.load(Ordering::SeqCst) > 0);
    runtime.shutdown_background();
    assert_eq!(reader.join().expect("no fault").expect_err("given up").raw_os_error(), Some(libc::EIO));
}

/// The same program as another user, who mounts through `fusermount3`.
#[test]
fn an_ordinary_user_mounts_through_the_helper() {
    if !can_mount() {
        return;
    }
    if Command::new("fusermount3").arg("--version").output().is_err() {
        return eprintln!("skipped: fusermount3 is not installed");
    }
    // Where the program lies, another user may not be able to look.
    let program = tempfile::Builder::new().prefix("headrace-test").tempdir_in("/tmp").expect("a folder");
    let copy = program.path().join("test");
    std::fs::copy(std::env::current_exe().expect("this program"), &copy).expect("copied");
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program.path(), open_to_all).expect("opened");
    // A machine without udev lets only root open the device; in a mount namespace of its own the test has its own.
    let script = "mknod -m 666 $0/fuse c 10 229 && mount --bind $0/fuse /dev/fuse && exec setpriv --reuid=65534 \
        --regid=65534 --clear-groups $0/test --exact lifecycle::ordinary_user --ignored --nocapture";
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", script])
        .arg(program.path())
        .env("HEADRACE_ORDINARY", "1")
        .env("TMPDIR", "/tmp")
        .current_dir("/")
        .output()
        .expect("unshare");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("all of it worked"), "{said}");
}

#[test]
#[ignore = "a part of an_ordinary_user_mounts_through_the_helper"]
fn ordinary_user() {
    if std::env::var("HEADRACE_ORDINARY").is_err() {
        return;
    }
    let source = tempfile::tempdir().expect("a temporary folder");
    let bytes = pattern(3_000_000, 5);
    std::fs::write(source.path().join("file"), &bytes).expect("written");
    let options = |allow_other| MountOptions { allow_other, source: "a,b \\c".into(), ..MountOptions::default() };
    let mount = Mount::with(Tree::of_folder(source.path()), options(false));
    assert_eq!(mount.handle().mode(), Mode::Classic, "passthrough is root's");
    assert!(std::fs::read(mount.path("file")).expect("readable") == bytes);
    assert_eq!(std::fs::metadata(mount.path("file")).expect("there").uid(), 65534);
    let table = std::fs::read_to_string("/proc/self/mounts").expect("readable");
    assert!(table.contains("a,b\\040\\134c"), "{table}");

    let file = File::open(mount.path("file")).expect("openable");
    assert_eq!(mount.handle().unmount(false).expect_err("busy").kind(), ErrorKind::Busy);
    drop(file);
    assert_eq!(refused(mount.folder.path(), options(false)).kind(), ErrorKind::Busy);
    unmount(mount.handle());
    assert!(mount.handle().wait(Some(60 * SECOND)));

    let folder = tempfile::tempdir().expect("a temporary folder");
    if !std::fs::read_to_string("/etc/fuse.conf").unwrap_or_default().lines().any(|line| line == "user_allow_other") {
        let other = refused(folder.path(), options(true));
        assert_eq!(other.kind(), ErrorKind::PermissionDenied);
        assert!(other.hint().is_some_and(|hint| hint.contains("user_allow_other")), "{other:?}");
    }
    assert_eq!(refused(Path::new("/srv"), options(false)).kind(), ErrorKind::PermissionDenied);
    // SAFETY: this process runs this test alone.
    unsafe { std::env::set_var("PATH", "/nowhere") };
    let missing = refused(folder.path(), options(false));
    assert_eq!(missing.kind(), ErrorKind::Unsupported);
    assert!(missing.hint().is_some_and(|hint| hint.contains("fuse3")), "{missing:?}");
    println!("all of it worked");
}
