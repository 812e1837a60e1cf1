//! From mount to unmount: refusals, busy mounts, folders of others, ordinary users.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use crate::support::{Mount, SECOND, Tree, budgets, can_mount, hello, memory, pattern, refused, runtime, unmount};
use headrace_engine::error::ErrorKind;
use headrace_engine::fuse::{Mode, MountOptions, mount, unmount_path};
use headrace_engine::metrics::Metrics;
use headrace_engine::vfs::ROOT;

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
    // By a program of its own: what this one has open for writing, a child that begins has open, too, and is not run.
    let copied = Command::new("cp").arg(std::env::current_exe().expect("this program")).arg(&copy).status();
    assert!(copied.expect("cp").success());
    let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(program.path(), open_to_all).expect("opened");
    // A machine without udev lets only root open the device; in a mount namespace of its own the test has its own.
    let script = "mknod -m 666 $0/fuse c 10 229 && mount --bind $0/fuse /dev/fuse && exec setpriv --reuid=65534 \
        --regid=65534 --clear-groups $0/test --exact mounting::ordinary_user --ignored --nocapture";
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
