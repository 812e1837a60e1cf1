//! What every target keeps to: a file appears whole or not at all, can be gone on with, and leaves nothing when given up.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::servers::fixture::{Protocol, config, settings};
use crate::servers::wire::{Handler, Server, serve};
use crate::servers::{World, oss, s3};
use bytes::Bytes;
use futures::TryStreamExt;
use headrace_engine::config::{OriginConfig, TransferConfig};
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{Begun, Layout, Notes, Target, Writing, open_target, renewal};
use headrace_engine::secret::Secret;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

const PART: u64 = 5;
const CONTENT: &[u8] = b"0123456789abcdef";
const LAYOUT: Layout = Layout { size: CONTENT.len() as u64, part_bytes: PART };
const SMALL: Layout = Layout { size: PART, part_bytes: PART };
const EMPTY: Layout = Layout { size: 0, part_bytes: PART };

struct Place {
    target: Arc<dyn Target>,
    world: Arc<World>,
    folder: tempfile::TempDir,
    _server: Option<Server>,
}

impl Place {
    /// Everything that somebody could find there: names of a folder, or objects and uploads of a bucket.
    fn found(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).unwrap();
        let mut found: Vec<String> = files.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        found.extend(self.world.objects.lock().keys().cloned());
        found.extend(self.world.uploads.lock().keys().cloned());
        found
    }

    async fn content(&self, key: &[u8]) -> Vec<u8> {
        let held = self.target.look(key).await.unwrap().unwrap();
        let stream = self.target.read(key, &held, ByteRange::new(0, held.size)).await.unwrap();
        stream.try_collect::<Vec<Bytes>>().await.unwrap().concat()
    }
}

async fn place(protocol: Protocol) -> Place {
    place_with(protocol, settings()).await
}

async fn place_with(protocol: Protocol, settings: TransferConfig) -> Place {
    let (world, folder) = (World::new(), tempfile::tempdir().unwrap());
    let handler: Option<Handler> = match protocol {
        Protocol::S3 => Some(s3::handle),
        Protocol::Oss => Some(oss::handle),
        _ => None,
    };
    let server = match handler {
        Some(handler) => Some(serve(world.clone(), handler).await),
        None => None,
    };
    let config = match &server {
        Some(server) => config(protocol, &server.address, "to"),
        None => OriginConfig::Local { directory: folder.path().to_owned(), ignore_change_times: false },
    };
    let target = open_target(&config, &settings, &Metrics::new()).unwrap();
    target.prepare().await.unwrap();
    Place { target, world, folder, _server: server }
}

/// What a ledger would keep.
#[derive(Default)]
struct Kept(Mutex<Begun>);

impl Notes for Kept {
    fn begun(&self, token: &str) {
        self.0.lock().token = token.to_owned();
    }

    fn kept(&self, part: u32, tag: &str) {
        let mut begun = self.0.lock();
        begun.parts.truncate(part as usize);
        begun.parts.push(tag.to_owned());
    }
}

async fn write_from(writing: &mut Box<dyn Writing>, parts: std::ops::Range<usize>) {
    for part in parts {
        let (start, end) = (part * PART as usize, ((part + 1) * PART as usize).min(CONTENT.len()));
        writing.part(Bytes::from_static(&CONTENT[start..end])).await.unwrap();
    }
}

macro_rules! for_each_target {
    ($($name:ident),* $(,)?) => {
        mod folder { $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(super::Protocol::Local).await; })* }
        mod s3_bucket { $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(super::Protocol::S3).await; })* }
        mod oss_bucket { $(#[tokio::test(flavor = "multi_thread")] async fn $name() { super::$name(super::Protocol::Oss).await; })* }
    };
}

for_each_target!(
    a_file_appears_whole_and_only_at_the_end,
    a_write_goes_on_with_the_parts_that_were_kept,
    what_is_given_up_leaves_nothing,
    an_empty_file_and_one_of_a_single_part_are_files,
    what_is_not_there_is_told_apart_from_what_is,
);

async fn a_file_appears_whole_and_only_at_the_end(protocol: Protocol) {
    let place = place(protocol).await;
    let mut writing = place.target.write(b"a.bin", LAYOUT, None, Arc::new(Kept::default())).await.unwrap();
    write_from(&mut writing, 0..4).await;
    assert_eq!(place.target.look(b"a.bin").await.unwrap(), None);
    let held = writing.finish().await.unwrap();
    assert_eq!(place.target.look(b"a.bin").await.unwrap(), Some(held));
    assert_eq!(place.content(b"a.bin").await, CONTENT);
    assert_eq!(place.found().len(), 1, "{:?}", place.found());
}

async fn a_write_goes_on_with_the_parts_that_were_kept(protocol: Protocol) {
    let place = place(protocol).await;
    let kept = Arc::new(Kept::default());
    let mut writing = place.target.write(b"a.bin", LAYOUT, None, kept.clone()).await.unwrap();
    write_from(&mut writing, 0..3).await;
    drop(writing);
    let begun = kept.0.lock().clone();
    let before = begun.parts.len();
    assert!(before >= 2, "a bucket's writer sends a part when the next one comes: {begun:?}");
    let sent = place.world.received.load(Ordering::SeqCst);
    let mut writing = place.target.write(b"a.bin", LAYOUT, Some(begun), kept).await.unwrap();
    assert_eq!(writing.before(), before);
    write_from(&mut writing, before..4).await;
    writing.finish().await.unwrap();
    assert_eq!(place.content(b"a.bin").await, CONTENT);
    let again = place.world.received.load(Ordering::SeqCst) - sent;
    assert!(again <= CONTENT.len() as u64 - before as u64 * PART, "{again} bytes were sent after the first two parts");
    assert_eq!(place.found().len(), 1, "{:?}", place.found());
}

async fn what_is_given_up_leaves_nothing(protocol: Protocol) {
    let place = place(protocol).await;
    let kept = Arc::new(Kept::default());
    let mut writing = place.target.write(b"a.bin", LAYOUT, None, kept.clone()).await.unwrap();
    write_from(&mut writing, 0..3).await;
    drop(writing);
    let token = kept.0.lock().token.clone();
    assert_eq!(place.found().len(), 1);
    place.target.abandon(b"a.bin", &token).await.unwrap();
    assert_eq!(place.found(), Vec::<String>::new());
    place.target.abandon(b"a.bin", &token).await.unwrap();
}

async fn an_empty_file_and_one_of_a_single_part_are_files(protocol: Protocol) {
    let place = place(protocol).await;
    let mut writing = place.target.write(b"empty", EMPTY, None, Arc::new(Kept::default())).await.unwrap();
    writing.finish().await.unwrap();
    assert_eq!(place.content(b"empty").await, b"");
    let layout = Layout { size: 3, part_bytes: PART };
    let mut writing = place.target.write(b"deep/er/one", layout, None, Arc::new(Kept::default())).await.unwrap();
    writing.part(Bytes::from_static(b"abc")).await.unwrap();
    writing.finish().await.unwrap();
    assert_eq!(place.content(b"deep/er/one").await, b"abc");
}

async fn what_is_not_there_is_told_apart_from_what_is(protocol: Protocol) {
    let place = place(protocol).await;
    assert_eq!(place.target.look(b"nothing").await.unwrap(), None);
    assert_eq!(place.target.look(b"no/folder/nothing").await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_was_lost_at_the_end_is_found_out() {
    let place = place(Protocol::S3).await;
    let mut writing = place.target.write(b"a.bin", LAYOUT, None, Arc::new(Kept::default())).await.unwrap();
    write_from(&mut writing, 0..4).await;
    let lost = Mutex::new(false);
    place.world.tamper(move |request, reply| {
        let finishes = request.method == "POST" && request.target.contains("uploadId");
        let first = finishes && !std::mem::replace(&mut *lost.lock(), true);
        if first { crate::servers::xml_error(500, "InternalError") } else { reply }
    });
    writing.finish().await.unwrap();
    assert_eq!(place.content(b"a.bin").await, CONTENT);
}

/// Keys that end in the midst of an upload, before a part, before its end, or while a small file is sent.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_under_way_goes_on_with_renewed_keys_and_sends_nothing_twice() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        for (number, (layout, before)) in
            [(LAYOUT, 0), (LAYOUT, 1), (LAYOUT, 2), (LAYOUT, 4), (SMALL, 1)].into_iter().enumerate()
        {
            let world = World::new();
            let server = serve(world.clone(), s3::handle_unsigned).await;
            let name = format!("a write {protocol:?} {number}");
            let config = keyed(config(protocol, &server.address, "to"), &name, "FIRST");
            let target = open_target(&config, &settings(), &Metrics::new()).unwrap();
            let mut writing = target.write(b"a.bin", layout, None, Arc::new(Kept::default())).await.unwrap();
            let parts = layout.size.div_ceil(PART) as usize;
            write_from(&mut writing, 0..before).await;
            world.guard(|request| {
                let shown = request.header("authorization").is_some_and(|shown| shown.contains("SECOND"));
                (!shown).then(|| crate::servers::xml_error(403, "ExpiredToken"))
            });
            let renewing = Renewing::start(&name, keyed(config, &name, "SECOND"));
            write_from(&mut writing, before..parts).await;
            writing.finish().await.unwrap();
            renewing.ended().await;
            let size = layout.size as usize;
            assert_eq!(world.get("to/a.bin").unwrap().body, CONTENT[..size], "{protocol:?} {before}");
            assert_eq!(world.received.load(Ordering::SeqCst), layout.size, "{protocol:?} {before}");
            assert!(world.uploads.lock().is_empty(), "{protocol:?} {before}");
        }
    }
}

fn keyed(mut config: OriginConfig, name: &str, key: &str) -> OriginConfig {
    match &mut config {
        OriginConfig::S3 { access_key_id, renewal, .. } | OriginConfig::Oss { access_key_id, renewal, .. } => {
            (*access_key_id, *renewal) = (Some(Secret::new(key)), Some(name.to_owned()));
        }
        _ => {}
    }
    config
}

/// Answers the first demand for keys of a name.
struct Renewing(tokio::task::JoinHandle<()>);

impl Renewing {
    fn start(name: &str, config: OriginConfig) -> Self {
        let (name, names) = (name.to_owned(), [name.to_owned()]);
        let bell = renewal::watch_demands(&names).unwrap();
        Renewing(tokio::task::spawn_blocking(move || {
            let mut waiting = [PollFd::new(bell.as_fd(), PollFlags::POLLIN)];
            poll(&mut waiting, PollTimeout::from(20_000u16)).unwrap();
            assert_eq!(renewal::demands(&names), names);
            renewal::renew(&name, config);
        }))
    }

    async fn ended(self) {
        self.0.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_inside_an_answer_of_success_is_a_failure() {
    let place = place(Protocol::S3).await;
    let mut writing = place.target.write(b"a.bin", LAYOUT, None, Arc::new(Kept::default())).await.unwrap();
    write_from(&mut writing, 0..4).await;
    place.world.tamper(|request, reply| {
        let finishes = request.method == "POST" && request.target.contains("uploadId");
        if !finishes {
            return reply;
        }
        crate::servers::wire::Reply { status: 200, ..crate::servers::xml_error(500, "InternalError") }
    });
    place.world.remove("to/a.bin");
    let error = writing.finish().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::NotFound), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_bucket_cannot_hold_are_refused_with_a_reason() {
    let place = place(Protocol::S3).await;
    for (name, why) in
        [(&b"\xff"[..], "UTF-8"), (b"a/../b", "segment"), (b"a//b", "segment"), (&[b'x'; 1100][..], "1024")]
    {
        let error = place.target.refuse_name(name).unwrap_err();
        assert!(error.message().contains(why), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_keeps_names_of_any_bytes_and_writes_through_no_link() {
    let place = place(Protocol::Local).await;
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), place.folder.path().join("link")).unwrap();
    let notes = Arc::new(Kept::default());
    let refused = place.target.write(b"link/secret", EMPTY, None, notes.clone()).await.err().unwrap();
    assert!(refused.hint().unwrap().contains("symbolic"), "{refused:?}");
    let mut writing = place.target.write(b"\xff\n name", EMPTY, None, notes).await.unwrap();
    writing.finish().await.unwrap();
    assert!(place.target.look(b"\xff\n name").await.unwrap().is_some());
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_where_a_folder_must_be_and_the_other_way_round_are_named() {
    let place = place(Protocol::Local).await;
    std::fs::write(place.folder.path().join("a"), b"x").unwrap();
    std::fs::create_dir(place.folder.path().join("b")).unwrap();
    let error = place.target.write(b"a/b", EMPTY, None, Arc::new(Kept::default())).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::NotDirectory, "{error:?}");
    let error = place.target.look(b"b").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::IsDirectory, "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_storage_refuses_is_its_refusal_with_its_status() {
    for status in [400, 402, 405, 409, 411, 412, 413, 416, 418, 429, 451, 501, 505, 507] {
        let place = place_with(Protocol::S3, TransferConfig { retries: 0, ..settings() }).await;
        let mut whole = place.target.write(b"small", LAYOUT, None, Arc::new(Kept::default())).await.unwrap();
        whole.part(Bytes::from_static(b"abc")).await.unwrap();
        let mut parts = place.target.write(b"a.bin", LAYOUT, None, Arc::new(Kept::default())).await.unwrap();
        write_from(&mut parts, 0..4).await;
        place.world.tamper(move |_, _| crate::servers::wire::Reply::status(status));
        let errors = [
            whole.finish().await.unwrap_err(),
            parts.finish().await.unwrap_err(),
            place.target.look(b"a.bin").await.unwrap_err(),
        ];
        for error in errors {
            assert_ne!(error.kind(), ErrorKind::Unexpected, "{error:?}");
            assert!(error.to_string().contains(&format!("status={status}")), "{error:?}");
        }
    }
}
