//! Whole copies: what is done is not done again, what is wrong is found and told with its path, and nothing is left behind.
#![allow(clippy::unwrap_used)]

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::servers::fixture::{Protocol, config, settings};
use crate::servers::wire::{Reply, Server, serve};
use crate::servers::{World, s3};
use headrace_engine::config::{EngineConfig, Exclude, OriginConfig, OriginMount};
use headrace_engine::engine::{Copier, CopyConfig, JobState, Progress};
use headrace_engine::error::{ErrorKind, Result};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const MIB: usize = 1 << 20;
const LONG: Duration = Duration::from_secs(60);

/// A source folder, a bucket and a folder to copy to, and a state folder.
struct Scene {
    source: TempDir,
    state: TempDir,
    to: TempDir,
    world: Arc<World>,
    server: Server,
    _runtime: Runtime,
}

impl Scene {
    fn new() -> Self {
        let runtime = Runtime::new().unwrap();
        let world = World::new();
        let server = runtime.block_on(serve(world.clone(), s3::handle));
        let folder = || tempfile::tempdir().unwrap();
        Scene { source: folder(), state: folder(), to: folder(), world, server, _runtime: runtime }
    }

    /// A file of the source that is old enough for its time to tell versions apart.
    fn file(&self, name: &[u8], content: &[u8]) -> PathBuf {
        let path = self.source.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        let old = std::time::SystemTime::now() - Duration::from_secs(100);
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
        path
    }

    fn bucket(&self) -> OriginConfig {
        config(Protocol::S3, &self.server.address, "to")
    }

    fn folder(&self) -> OriginConfig {
        OriginConfig::Local { directory: self.to.path().to_owned(), ignore_change_times: false }
    }

    fn config(&self, target: OriginConfig) -> CopyConfig {
        self.config_with(target, self.state.path())
    }

    fn config_with(&self, target: OriginConfig, state: &Path) -> CopyConfig {
        let origin = OriginConfig::Local { directory: self.source.path().to_owned(), ignore_change_times: false };
        CopyConfig {
            source: EngineConfig {
                name: "copy".to_owned(),
                origins: vec![OriginMount { path: String::new(), origin, strict: false, exclude: Exclude::default() }],
                cache: Vec::new(),
                state_directory: state.to_owned(),
                limits: Default::default(),
                transfer: settings(),
                eviction: Default::default(),
                snapshot: Default::default(),
                cluster: None,
                writable: false,
            },
            source_path: String::new(),
            target,
            files: 4,
            part_bytes: 5 << 20,
        }
    }

    fn sent(&self) -> u64 {
        self.world.received.load(Ordering::SeqCst)
    }
}

fn copied(config: CopyConfig) -> Result<Progress> {
    let copier = Copier::open(config)?;
    let job = copier.start()?;
    assert!(job.wait(LONG), "the copy does not end");
    let progress = job.progress();
    copier.close();
    Ok(progress)
}

fn whole(config: CopyConfig) -> Progress {
    let progress = copied(config).unwrap();
    assert_eq!(progress.state, JobState::Done, "{progress:?}");
    progress
}

#[test]
fn what_is_there_and_was_compared_is_not_sent_again() {
    let scene = Scene::new();
    scene.file(b"a/small", b"small");
    scene.file(b"a/empty", b"");
    scene.file(b"large", &vec![7; 12 * MIB]);
    let progress = whole(scene.config(scene.bucket()));
    assert_eq!((progress.done_files, progress.done_bytes), (3, 12 * MIB as u64 + 5));
    assert_eq!(scene.world.get("to/large").unwrap().body, vec![7; 12 * MIB]);
    let (sent, requests) = (scene.sent(), scene.world.requests.load(Ordering::SeqCst));
    assert_eq!(sent, 12 * MIB as u64 + 5);
    whole(scene.config(scene.bucket()));
    assert_eq!(scene.sent(), sent);
    assert!(scene.world.requests.load(Ordering::SeqCst) - requests <= 3, "a ledger needs no look at each file");
}

#[test]
fn without_a_ledger_bytes_are_compared_and_only_what_differs_is_sent() {
    let scene = Scene::new();
    scene.file(b"same", b"12345");
    scene.file(b"other", b"12345");
    whole(scene.config(scene.bucket()));
    scene.world.put("to/other", b"1234x");
    let (sent, fresh) = (scene.sent(), tempfile::tempdir().unwrap());
    whole(scene.config_with(scene.bucket(), fresh.path()));
    assert_eq!(scene.sent() - sent, 5);
    assert_eq!(scene.world.get("to/other").unwrap().body, b"12345");
}

#[test]
fn what_changed_at_the_target_or_the_source_is_copied_again_and_nothing_is_deleted() {
    let scene = Scene::new();
    scene.file(b"one", b"11111");
    scene.file(b"two", b"22222");
    scene.world.put("to/foreign", b"stays");
    whole(scene.config(scene.bucket()));
    scene.world.put("to/one", b"1111x");
    scene.file(b"two", b"33333");
    whole(scene.config(scene.bucket()));
    assert_eq!(scene.world.get("to/one").unwrap().body, b"11111");
    assert_eq!(scene.world.get("to/two").unwrap().body, b"33333");
    assert_eq!(scene.world.get("to/foreign").unwrap().body, b"stays");
}

#[test]
fn a_byte_that_the_storage_changed_is_found_and_the_others_are_there() {
    let scene = Scene::new();
    scene.file(b"good", b"good");
    scene.file(b"bad", &vec![1; 6 * MIB]);
    scene.world.tamper(|request, mut reply| {
        if request.method == "GET" && request.path().ends_with("/to/bad") && !reply.body.is_empty() {
            reply.body[0] ^= 1;
        }
        reply
    });
    let progress = copied(scene.config(scene.bucket())).unwrap();
    assert_eq!((progress.state, progress.done_files), (JobState::Failed, 1), "{progress:?}");
    assert!(progress.errors[0].starts_with("bad:"), "{progress:?}");
    assert!(progress.errors[0].contains("is not what was written"), "{progress:?}");
    scene.world.be_honest();
    whole(scene.config(scene.bucket()));
}

/// As gofakes3 and S3Proxy do it.
#[test]
fn an_upload_whose_end_tells_another_tag_than_the_object_has_is_compared_all_the_same() {
    let scene = Scene::new();
    scene.file(b"large", &vec![7; 12 * MIB]);
    scene.world.tamper(|request, reply| {
        if request.method != "POST" || !request.target.contains("uploadId") {
            return reply;
        }
        let body = b"<CompleteMultipartUploadResult><ETag>&quot;another-2&quot;</ETag></CompleteMultipartUploadResult>";
        Reply::status(200).with("etag", "\"another-2\"").body(body)
    });
    whole(scene.config(scene.bucket()));
    assert_eq!(scene.world.get("to/large").unwrap().body, vec![7; 12 * MIB]);
    let (sent, requests) = (scene.sent(), scene.world.requests.load(Ordering::SeqCst));
    whole(scene.config(scene.bucket()));
    assert_eq!(scene.sent(), sent);
    assert!(scene.world.requests.load(Ordering::SeqCst) - requests <= 3, "the ledger has the tag of the object");
}

#[test]
fn a_file_that_somebody_else_replaces_meanwhile_is_told_in_words_of_a_copy() {
    let scene = Scene::new();
    scene.file(b"a", b"content");
    scene.world.tamper(|request, reply| match request.method.as_str() {
        "GET" if request.path().ends_with("/to/a") => Reply::status(412),
        _ => reply,
    });
    let progress = copied(scene.config(scene.bucket())).unwrap();
    assert_eq!(progress.state, JobState::Failed);
    let told = &progress.errors[0];
    assert!(told.contains("another file stands there") && !told.contains("snapshot"), "{told}");
}

#[test]
fn a_source_that_changes_meanwhile_fails_that_file_alone() {
    let scene = Scene::new();
    scene.file(b"still", b"still");
    let moving = scene.file(b"moving", b"before");
    let copier = Copier::open(scene.config(scene.bucket())).unwrap();
    std::fs::write(moving, b"behind").unwrap();
    let job = copier.start().unwrap();
    assert!(job.wait(LONG));
    let progress = job.progress();
    assert_eq!((progress.state, progress.done_files), (JobState::Failed, 1), "{progress:?}");
    assert!(progress.errors[0].starts_with("moving:"), "{progress:?}");
    assert!(scene.world.get("to/moving").is_none());
    assert!(scene.world.uploads.lock().is_empty());
}

#[test]
fn a_cancelled_copy_takes_away_what_it_began() {
    let scene = Scene::new();
    scene.file(b"large", &vec![7; 30 * MIB]);
    scene.world.tamper(|request, mut reply| {
        if request.target.contains("partNumber=3") {
            reply.delay = LONG;
        }
        reply
    });
    let copier = Copier::open(scene.config(scene.bucket())).unwrap();
    let job = copier.start().unwrap();
    wait_until(|| scene.sent() >= 15 * MIB as u64);
    job.cancel();
    assert!(job.wait(LONG));
    assert_eq!(job.progress().state, JobState::Cancelled);
    assert!(scene.world.uploads.lock().is_empty());
    assert!(scene.world.objects.lock().is_empty());
}

#[test]
fn a_copy_whose_process_ended_goes_on_with_its_parts() {
    let scene = Scene::new();
    let content: Vec<u8> = (0..30 * MIB).map(|at| (at / 1000) as u8).collect();
    scene.file(b"large", &content);
    scene.world.tamper(|request, mut reply| {
        if request.target.contains("partNumber=4") {
            reply.delay = LONG;
        }
        reply
    });
    let copier = Copier::open(scene.config(scene.bucket())).unwrap();
    let _job = copier.start().unwrap();
    wait_until(|| scene.sent() >= 20 * MIB as u64);
    copier.close();
    drop(copier);
    scene.world.be_honest();
    let sent = scene.sent();
    whole(scene.config(scene.bucket()));
    // Three parts were acknowledged; the fourth was on its way.
    assert_eq!(scene.sent() - sent, 15 * MIB as u64);
    assert_eq!(scene.world.get("to/large").unwrap().body, content);
    assert!(scene.world.uploads.lock().is_empty());
}

#[test]
fn uploads_that_the_storage_forgot_are_begun_anew() {
    let scene = Scene::new();
    scene.file(b"large", &vec![7; 15 * MIB]);
    scene.world.tamper(|request, mut reply| {
        if request.target.contains("partNumber=2") {
            reply.delay = LONG;
        }
        reply
    });
    let copier = Copier::open(scene.config(scene.bucket())).unwrap();
    let _job = copier.start().unwrap();
    wait_until(|| scene.sent() >= 10 * MIB as u64);
    copier.close();
    drop(copier);
    scene.world.be_honest();
    scene.world.uploads.lock().clear();
    whole(scene.config(scene.bucket()));
    assert_eq!(scene.world.get("to/large").unwrap().body.len(), 15 * MIB);
}

#[test]
fn a_folder_gets_files_folders_links_and_names_of_any_bytes() {
    let scene = Scene::new();
    scene.file(b"a/b/file", b"content");
    scene.file(b"\xff odd\n", b"odd");
    std::fs::create_dir(scene.source.path().join("void")).unwrap();
    std::os::unix::fs::symlink("b/file", scene.source.path().join("a/link")).unwrap();
    whole(scene.config(scene.folder()));
    assert_eq!(std::fs::read(scene.to.path().join("a/link")).unwrap(), b"content");
    assert!(scene.to.path().join("void").is_dir());
    assert_eq!(std::fs::read(scene.to.path().join(std::ffi::OsStr::from_bytes(b"\xff odd\n"))).unwrap(), b"odd");
    whole(scene.config(scene.folder()));
}

#[test]
fn names_that_a_target_cannot_hold_fail_and_the_others_are_copied() {
    let scene = Scene::new();
    scene.file(b"good", b"good");
    scene.file(b"\xff", b"odd");
    std::os::unix::fs::symlink("good", scene.source.path().join("link")).unwrap();
    let progress = copied(scene.config(scene.bucket())).unwrap();
    assert_eq!((progress.state, progress.done_files, progress.errors.len()), (JobState::Failed, 1, 2), "{progress:?}");
    std::fs::write(scene.to.path().join("good"), b"").unwrap();
    std::fs::remove_file(scene.to.path().join("good")).unwrap();
    std::fs::create_dir(scene.to.path().join("good")).unwrap();
    let other = tempfile::tempdir().unwrap();
    let progress = copied(scene.config_with(scene.folder(), other.path())).unwrap();
    assert!(progress.errors[0].contains("a folder stands where a file must be"), "{progress:?}");
    assert_eq!(progress.done_files, 2);
}

#[test]
fn what_is_not_copied_is_named_by_its_rule_and_what_was_excluded_is_not_missed() {
    let scene = Scene::new();
    scene.file(b"a", b"content");
    scene.file(b"b.o", b"nobody wants it");
    let mut config = scene.config(scene.folder());
    config.source.origins[0].exclude = Exclude { patterns: vec!["*.o".to_owned()], below: String::new() };
    assert_eq!(whole(config.clone()).message, "1 files are there and were compared");
    let fifo = std::process::Command::new("mkfifo").arg(scene.source.path().join("pipe")).status().unwrap();
    assert!(fifo.success());
    let message = whole(config).message;
    assert!(message.ends_with("not copied, as the source has them: special-file 1"), "{message}");
}

#[test]
fn an_empty_source_is_copied_and_a_missing_one_or_bucket_is_told() {
    let scene = Scene::new();
    assert_eq!(whole(scene.config(scene.folder())).total_files, 0);
    scene.world.tamper(|_, _| crate::servers::xml_error(404, "NoSuchBucket"));
    let error = copied(scene.config(scene.bucket())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error:?}");
    assert!(error.message().contains("bucket"), "{error}");
    scene.world.tamper(|_, _| crate::servers::xml_error(403, "AccessDenied"));
    let error = copied(scene.config(scene.bucket())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    let missing = CopyConfig { source_path: "nowhere".to_owned(), ..scene.config(scene.folder()) };
    assert_eq!(copied(missing).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_part_of_a_source_and_a_single_file_can_be_copied() {
    let scene = Scene::new();
    scene.file(b"a/b/c", b"c");
    scene.file(b"d", b"d");
    whole(CopyConfig { source_path: "a".to_owned(), ..scene.config(scene.folder()) });
    assert_eq!(std::fs::read(scene.to.path().join("b/c")).unwrap(), b"c");
    assert!(!scene.to.path().join("d").exists());
    whole(CopyConfig { source_path: "a/b/c".to_owned(), ..scene.config(scene.folder()) });
    assert_eq!(std::fs::read(scene.to.path().join("c")).unwrap(), b"c");
}

#[test]
fn a_tree_is_not_copied_into_itself() {
    let scene = Scene::new();
    scene.file(b"a/b", b"b");
    let link = scene.to.path().join("link");
    std::os::unix::fs::symlink(scene.source.path(), &link).unwrap();
    for directory in [scene.source.path().to_owned(), scene.source.path().join("a/new"), link.join("new")] {
        let error = copied(scene.config(OriginConfig::Local { directory, ignore_change_times: false })).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
        assert!(error.message().contains("lies in the other"), "{error}");
    }
    let beside = CopyConfig {
        source_path: "a".to_owned(),
        ..scene.config(OriginConfig::Local { directory: scene.source.path().join("copy"), ignore_change_times: false })
    };
    whole(beside);
}

#[test]
fn a_full_disk_fails_with_the_path() {
    let scene = Scene::new();
    scene.file(b"a", b"x");
    scene.world.tamper(
        |request, reply| {
            if request.method == "PUT" { crate::servers::xml_error(403, "QuotaExceeded") } else { reply }
        },
    );
    let progress = copied(scene.config(scene.bucket())).unwrap();
    assert_eq!(progress.state, JobState::Failed);
    assert!(progress.message.contains("a: cannot write to/a"), "{progress:?}");
    assert!(!format!("{progress:?}").contains(crate::servers::SECRET_KEY));
}

fn wait_until(condition: impl Fn() -> bool) {
    let deadline = std::time::Instant::now() + LONG;
    while !condition() {
        assert!(std::time::Instant::now() < deadline, "it does not come to pass");
        std::thread::sleep(Duration::from_millis(10));
    }
}
