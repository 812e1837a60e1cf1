//! What only web servers have: versions that they may not tell, and pages that name their files in any way.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::servers::fixture::{Fixture, Protocol, fixture, pattern, served, settings};
use crate::servers::wire::{Reply, Request};
use crate::servers::{World, http_date, web};
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::origin::{LeftOut, ObjectKind};

/// No file has anything that tells its version, but for those called `told`.
fn handle_without_versions(world: &World, request: &Request) -> Reply {
    let mut reply = web::handle(world, request);
    if !request.path().ends_with("told") {
        reply.headers.retain(|(name, _)| name != "etag" && name != "last-modified");
    }
    reply
}

async fn kinds(fixture: &Fixture) -> Vec<(String, ObjectKind)> {
    let objects = fixture.list().await.unwrap().into_iter();
    let mut kinds: Vec<_> = objects.map(|object| (String::from_utf8_lossy(&object.key).into(), object.kind)).collect();
    kinds.sort_by(|left: &(String, _), right| left.0.cmp(&right.0));
    kinds
}

#[tokio::test]
async fn a_server_that_tells_no_versions_is_refused_with_the_remedy() {
    let fixture = served(Protocol::Http, handle_without_versions, "data", settings()).await;
    fixture.put("sub/file", b"x");
    let error = fixture.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
    assert!(error.message().contains("neither ETag nor Last-Modified") && error.message().contains("sub/file"));
    assert!(error.hint().is_some_and(|hint| hint.contains("have the server send")), "{error:?}");
}

#[tokio::test]
async fn one_file_without_a_version_is_left_out() {
    let fixture = served(Protocol::Http, handle_without_versions, "data", settings()).await;
    fixture.put("told", b"x");
    fixture.put("silent", b"x");
    let silent = ("silent".to_owned(), ObjectKind::LeftOut(LeftOut::Unversioned));
    assert_eq!(kinds(&fixture).await, [silent, ("told".to_owned(), ObjectKind::File)]);
}

/// A page whose author did not escape the names of files.
#[tokio::test]
async fn names_with_a_colon_are_files_where_the_server_has_them_and_counted_where_not() {
    let fixture = fixture(Protocol::Http).await;
    fixture.put("run:1.csv", b"one");
    fixture.put("plain", b"two");
    fixture.world.tamper(|request, reply| match request.path() {
        "/data/" => reply.body(
            br#"<a href="run:1.csv">run:1.csv</a><a href="run:2.csv">2</a><a href="plain">plain</a>
            <a href="mailto:me@here">me</a><a href="gone">gone</a>"#,
        ),
        _ => reply,
    });
    let unclear = ("run:2.csv".to_owned(), ObjectKind::LeftOut(LeftOut::UnclearLink));
    let files = ["plain", "run:1.csv"].map(|name| (name.to_owned(), ObjectKind::File));
    assert_eq!(kinds(&fixture).await, [&files[..], &[unclear]].concat());
    let object = fixture.version("run:1.csv").await;
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"one");
}

/// As whoever writes pages by hand does it, or by a program that escapes nothing.
#[tokio::test]
async fn names_that_no_link_should_hold_unescaped_are_files_where_the_server_has_them_and_counted_where_not() {
    let fixture = fixture(Protocol::Http).await;
    for name in ["what?.csv", "a#1.csv", "plain", "dir/x?y"] {
        fixture.put(name, name.as_bytes());
    }
    fixture.world.tamper(|request, reply| match request.path() {
        "/data/" => reply.body(
            br##"<a href="what?.csv">w</a><a href="gone?.csv">g</a><a href="a#1.csv">a</a><a href="a#2.csv">a</a>
            <a href="plain">p</a><a href="plain?download">p</a><a href="no%2Fname">n</a><a href="dir/">d</a>
            <a href="?C=N">sort</a><a href="dir/?C=N">sort</a><a href="#top">top</a>"##,
        ),
        "/data/dir/" => reply.body(br#"<a href="x?y">x</a>"#),
        _ => reply,
    });
    let file = |key: &str| (key.to_owned(), ObjectKind::File);
    let unclear = |key: &str| (key.to_owned(), ObjectKind::LeftOut(LeftOut::UnclearLink));
    let folder = ("dir".to_owned(), ObjectKind::Directory);
    let expected = [
        file("a#1.csv"),
        folder,
        file("dir/x?y"),
        unclear("gone?.csv"),
        unclear("no%2Fname"),
        file("plain"),
        file("what?.csv"),
    ];
    assert_eq!(kinds(&fixture).await, expected);
    let object = fixture.version("what?.csv").await;
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"what?.csv");
}

/// One page for a whole tree, beside or in the place of a page for each folder.
#[tokio::test]
async fn links_that_lead_deeper_are_followed_and_each_file_is_listed_once() {
    let fixture = fixture(Protocol::Http).await;
    for name in ["a/one", "a/hidden", "b/c/two", "closed/three", "d/e/four"] {
        fixture.put(name, name.as_bytes());
    }
    fixture.world.tamper(|request, reply| match request.path() {
        "/data/" => reply.body(
            br#"<a href="a/">a</a><a href="a/one">1</a><a href="/data/a/hidden">h</a><a href="b/c/two">2</a>
            <a href="b/c/gone">g</a><a href="closed/three">3</a><a href="closed/">c</a><a href="d/e/">e</a>"#,
        ),
        "/data/a/" => reply.body(br#"<a href="one">1</a>"#),
        "/data/closed/" => Reply::status(403),
        _ => reply,
    });
    let listed = kinds(&fixture).await;
    let files: Vec<_> = listed.iter().filter(|(_, kind)| *kind == ObjectKind::File).map(|(key, _)| key).collect();
    assert_eq!(files, ["a/hidden", "a/one", "b/c/two", "closed/three", "d/e/four"]);
    let others: Vec<_> = listed.iter().filter(|(_, kind)| *kind != ObjectKind::File).cloned().collect();
    let directory = |key: &str| (key.to_owned(), ObjectKind::Directory);
    let closed = ("closed".to_owned(), ObjectKind::LeftOut(LeftOut::Unreadable));
    assert_eq!(others, [directory("a"), closed, directory("d/e")]);
    let mut wanted = fixture.list_but(&["closed", "c/"]).await.unwrap();
    wanted.retain(|object| object.kind == ObjectKind::File);
    assert_eq!(wanted.len(), 3, "{wanted:?}");
}

/// But not when it is the credentials that do not hold any more.
#[tokio::test]
async fn a_folder_that_the_server_does_not_show_is_left_out() {
    let fixture = fixture(Protocol::Http).await;
    fixture.put("closed/file", b"x");
    fixture.put("open/file", b"x");
    fixture.put("open/closed", b"x");
    fixture.world.tamper(|request, reply| if request.path().contains("closed") { Reply::status(403) } else { reply });
    let unreadable = |key: &str| (key.to_owned(), ObjectKind::LeftOut(LeftOut::Unreadable));
    let there = [("open".to_owned(), ObjectKind::Directory), ("open/file".to_owned(), ObjectKind::File)];
    let expected = [unreadable("closed"), there[0].clone(), unreadable("open/closed"), there[1].clone()];
    assert_eq!(kinds(&fixture).await, expected);
    let roots = AtomicU32::new(0);
    fixture.world.tamper(move |request, reply| match request.path() {
        "/data/" if roots.fetch_add(1, Ordering::SeqCst) == 0 => reply,
        _ => Reply::status(403),
    });
    assert_eq!(fixture.list().await.unwrap_err().kind(), ErrorKind::PermissionDenied);
}

/// A time at the beginning of time is that of a server that knows none.
#[tokio::test]
async fn a_time_that_means_nothing_is_no_version() {
    let fixture = served(Protocol::Http, web::handle_plainly, "data", settings()).await;
    fixture.put("file", b"x");
    fixture.world.objects.lock().values_mut().for_each(|stored| stored.mtime_s = 0);
    assert_eq!(fixture.list().await.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// The listing was told a version, and the answers to reads tell none: a file replaced in between would be pieced together.
#[tokio::test]
async fn an_answer_that_tells_no_version_is_not_taken() {
    for handler in [web::handle as fn(&World, &Request) -> Reply, web::handle_plainly] {
        let fixture = served(Protocol::Http, handler, "data", settings()).await;
        fixture.put("file", &pattern(100_000));
        let object = fixture.version("file").await;
        fixture.world.tamper(|request, mut reply| {
            if request.method == "GET" {
                reply.headers.retain(|(name, _)| name != "etag" && name != "last-modified");
            }
            reply
        });
        let error = fixture.read(&object, ByteRange::new(50_000, 10_000)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(!error.is_temporary() && error.hint().is_some());
    }
}

/// Two changes within one second have one time. So a file is asked for again when that second is over.
#[tokio::test]
async fn a_file_changed_in_this_very_second_is_asked_for_again() {
    let fixture = served(Protocol::Http, web::handle_plainly, "data", settings()).await;
    fixture.put("file", b"first");
    let (heads, world) = (Arc::new(AtomicU32::new(0)), Arc::downgrade(&fixture.world));
    let (counted, changed) = (heads.clone(), AtomicBool::new(false));
    let mtime_s = fixture.world.get("data/file").unwrap().mtime_s;
    fixture.world.tamper(move |request, reply| {
        if request.method != "HEAD" {
            return reply;
        }
        let head = counted.fetch_add(1, Ordering::SeqCst);
        if !changed.swap(true, Ordering::SeqCst) {
            // Changed after this answer, within its second.
            world.upgrade().unwrap().replace("data/file", b"again");
        }
        reply.with("date", &http_date(mtime_s + i64::from(head)))
    });
    let object = fixture.version("file").await;
    assert_eq!(heads.load(Ordering::SeqCst), 2);
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"again");
}

#[tokio::test]
async fn tags_and_times_of_an_honest_server_do() {
    let fixture = fixture(Protocol::Http).await;
    fixture.put("file", b"x");
    let object = fixture.version("file").await;
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"x");
}
