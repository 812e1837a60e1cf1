//! Readers that are killed or interrupted, and faults beside which the mount goes on.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::support::{Content, Mount, Tree, budgets, can_mount, eventually, hello, memory, runtime, unmount};
use headrace_engine::fuse::{Mode, MountOptions, mount};
use headrace_engine::metrics::Metrics;
use headrace_engine::vfs::ROOT;

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
