//! What every origin must do, whatever its protocol: one suite, run on each of them.
#![allow(clippy::unwrap_used)]

use crate::servers::fixture::{Fixture, Protocol, excluding, fixture, pattern};
use crate::servers::wire::Reply;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::origin::{Exclusion, LeftOut, ListedObject, ObjectKind, Sieve};

/// Names that a careless client would trim, decode, collapse or cut.
const ODD_NAMES: &[&str] = &[
    "plain.txt",
    " leading blank",
    "trailing blank ",
    "q?m#hash%41+plus&and=;",
    "new\nline",
    "tab\tname",
    "quote'\"<>",
    "back\\slash",
    "100%",
    "%2F",
    "ünïcödé/😀/日本語.bin",
    "e\u{301}-decomposed",
    "dir/sub/deep/file",
    "dir/sub.file",
    "dir-file",
    "...",
    "a:b",
    "~home",
    "(paren)*!",
];

async fn lists_every_object_once_under_its_exact_key(fixture: Fixture) {
    for name in ODD_NAMES {
        fixture.put(name, name.as_bytes());
    }
    let mut expected: Vec<String> = ODD_NAMES.iter().map(|name| (*name).to_owned()).collect();
    expected.sort();
    assert_eq!(fixture.files().await, expected);
    fixture.origin.check().await.unwrap();
}

async fn reads_each_object_by_its_exact_key(fixture: Fixture) {
    for name in ODD_NAMES {
        fixture.put(name, format!("content of {name}").as_bytes());
    }
    for name in ODD_NAMES {
        let object = fixture.version(name).await;
        assert_eq!(fixture.read_all(&object).await.unwrap(), format!("content of {name}").as_bytes(), "{name:?}");
    }
}

async fn reads_exactly_the_range(fixture: Fixture) {
    let content = pattern(3_000_000);
    fixture.put("large", &content);
    let object = fixture.version("large").await;
    assert_eq!(object.size, 3_000_000);
    for (start, length) in [(0, 1), (0, 3_000_000), (1_234_567, 1_000_001), (2_999_999, 1), (2_999_000, 9_000), (5, 0)]
    {
        let range = ByteRange::new(start, length);
        let end = range.end.min(object.size) as usize;
        assert_eq!(fixture.read(&object, range).await.unwrap(), &content[start as usize..end], "{range:?}");
    }
    assert!(fixture.read(&object, ByteRange::new(3_000_000, 10)).await.unwrap().is_empty());
}

async fn an_empty_object_is_empty(fixture: Fixture) {
    fixture.put("empty", b"");
    let object = fixture.version("empty").await;
    assert_eq!(object.size, 0);
    assert!(fixture.read_all(&object).await.unwrap().is_empty());
}

async fn a_changed_object_is_stale(fixture: Fixture) {
    fixture.put("a", b"first");
    let object = fixture.version("a").await;
    fixture.put("a", b"other");
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
    let now = fixture.version("a").await;
    assert_ne!(now, object);
    assert_eq!(fixture.read_all(&now).await.unwrap(), b"other");
}

async fn an_object_replaced_by_one_of_the_same_size_and_time_is_another_version(fixture: Fixture) {
    fixture.put("a", b"first");
    let object = fixture.version("a").await;
    fixture.replace("a", b"other");
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
    let now = fixture.version("a").await;
    assert_ne!(now, object);
    assert_eq!(fixture.read_all(&now).await.unwrap(), b"other");
}

async fn a_shorter_object_is_stale_even_beyond_its_new_end(fixture: Fixture) {
    fixture.put("a", &pattern(10_000));
    let object = fixture.version("a").await;
    fixture.put("a", b"short");
    let error = fixture.read(&object, ByteRange::new(8_000, 1_000)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error:?}");
}

async fn a_deleted_object_is_stale_and_the_message_says_so(fixture: Fixture) {
    fixture.put("gone", b"first");
    fixture.put("stays", b"x");
    let object = fixture.version("gone").await;
    fixture.remove("gone");
    let error = fixture.read_all(&object).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale, "{error:?}");
    assert!(error.message().contains("deleted") && error.message().contains("gone"), "{error:?}");
    assert!(!error.is_temporary());
}

async fn many_objects_are_read_at_the_same_time_within_the_limit(fixture: Fixture) {
    let content = pattern(200_000);
    for index in 0..40 {
        fixture.put(&format!("{index:02}"), &content[index..]);
    }
    let objects: Vec<_> = fixture.list().await.unwrap().iter().map(crate::servers::fixture::version_of).collect();
    let reads = objects.iter().map(|object| fixture.read_all(object));
    for (object, read) in objects.iter().zip(futures::future::join_all(reads).await) {
        let index: usize = String::from_utf8_lossy(&object.key).parse().unwrap();
        assert!(read.unwrap() == content[index..], "{object:?}");
    }
    // WebHDFS asks the namenode for the version while the datanode's body is open.
    let requests_per_read = if fixture.protocol == Protocol::Webhdfs { 2 } else { 1 };
    assert!(fixture.world.most_in_flight.load(std::sync::atomic::Ordering::SeqCst) <= 8 * requests_per_read);
    assert!(fixture.metrics.origin_requests.get() >= 40);
    assert_eq!(fixture.metrics.origin_bytes.get(), objects.iter().map(|object| object.size).sum::<u64>());
    assert_eq!(fixture.metrics.origin_retries.get(), 0);
}

async fn a_deep_tree_is_listed_whole(fixture: Fixture) {
    let mut expected = Vec::new();
    for outer in 0..6 {
        for inner in 0..7 {
            expected.push(format!("d{outer}/e{inner}/f"));
            expected.push(format!("d{outer}/g{inner}"));
        }
    }
    expected.iter().for_each(|key| fixture.put(key, key.as_bytes()));
    expected.sort();
    assert_eq!(fixture.files().await, expected);
    for object in fixture.list().await.unwrap() {
        assert!(matches!(object.kind, ObjectKind::File | ObjectKind::Directory));
        assert!(object.kind == ObjectKind::Directory || object.size == object.key.len() as u64);
    }
}

async fn what_nobody_wants_is_not_walked_into(fixture: Fixture) {
    for name in ["Trash/x", "Trash/deep/y", "sub/Trash/z", "sub/a", "sub/b.tmp", "c.tmp"] {
        fixture.put(name, name.as_bytes());
    }
    let walks = !fixture.origin.capability().list_from_key;
    if walks {
        fixture.world.tamper(|request, reply| match request.path() {
            path if path.contains("Trash") || path.contains(".tmp") => Reply::status(500),
            _ => reply,
        });
    }
    let mut listed = fixture.list_but(&["Trash/", "*.tmp"]).await.unwrap();
    listed.retain(|object| !object.key.is_empty());
    assert!(!walks || !listed.iter().any(|object| object.key.windows(6).any(|part| part == b"Trash/")), "{listed:?}");
    Sieve::new(excluding(&["Trash/", "*.tmp"])).sift(&mut listed);
    let names = |left_out: bool| {
        let is_left_out = |object: &&ListedObject| object.kind == ObjectKind::LeftOut(LeftOut::Excluded);
        let some = listed.iter().filter(|object| is_left_out(object) == left_out);
        let mut keys: Vec<_> = some.map(|object| String::from_utf8_lossy(&object.key).into_owned()).collect();
        keys.sort();
        keys
    };
    let (left, there): (&[&str], &[&str]) = match walks {
        true => (&["Trash", "c.tmp", "sub/Trash", "sub/b.tmp"], &["sub", "sub/a"]),
        false => (&["Trash/deep/y", "Trash/x", "c.tmp", "sub/Trash/z", "sub/b.tmp"], &["sub/a"]),
    };
    assert_eq!(names(true), left);
    assert_eq!(names(false), there);
}

async fn a_listing_that_nobody_takes_ends(fixture: Fixture) {
    (0..30).for_each(|index| fixture.put(&format!("{index}"), b"x"));
    let (sink, batches) = tokio::sync::mpsc::channel(1);
    drop(batches);
    let error = fixture.origin.list(&Exclusion::default(), sink).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error:?}");
}

async fn the_name_tells_the_place_and_no_secret(fixture: Fixture) {
    let name = fixture.origin.name();
    let scheme = match fixture.protocol {
        Protocol::Local => "local:///",
        Protocol::S3 => "s3://bucket/data@127.0.0.1:",
        Protocol::Oss => "oss://bucket/data@127.0.0.1:",
        Protocol::Webhdfs => "webhdfs://127.0.0.1:",
        Protocol::Http => "http://127.0.0.1:",
        Protocol::Nfs => "nfs://127.0.0.1:",
        Protocol::Ganesha => "nfs://198.19.",
    };
    assert!(name.starts_with(scheme), "{name}");
    assert!(!name.contains("hunter2"));
}

macro_rules! contract {
    ($($test:ident),* $(,)?) => {
        contract!(@protocol local, Protocol::Local, $($test),*);
        contract!(@protocol s3, Protocol::S3, $($test),*);
        contract!(@protocol oss, Protocol::Oss, $($test),*);
        contract!(@protocol webhdfs, Protocol::Webhdfs, $($test),*);
        contract!(@protocol http, Protocol::Http, $($test),*);
        contract!(@protocol nfs, Protocol::Nfs, $($test),*);
        contract!(@protocol ganesha, Protocol::Ganesha, $($test),*);
    };
    (@protocol $module:ident, $protocol:expr, $($test:ident),*) => {
        mod $module {
            use super::*;
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                if $protocol == Protocol::Ganesha && crate::servers::ganesha::ganesha().is_none() {
                    return;
                }
                super::$test(fixture($protocol).await).await;
            })*
        }
    };
}

contract!(
    lists_every_object_once_under_its_exact_key,
    reads_each_object_by_its_exact_key,
    reads_exactly_the_range,
    an_empty_object_is_empty,
    a_changed_object_is_stale,
    an_object_replaced_by_one_of_the_same_size_and_time_is_another_version,
    a_shorter_object_is_stale_even_beyond_its_new_end,
    a_deleted_object_is_stale_and_the_message_says_so,
    many_objects_are_read_at_the_same_time_within_the_limit,
    a_deep_tree_is_listed_whole,
    what_nobody_wants_is_not_walked_into,
    a_listing_that_nobody_takes_ends,
    the_name_tells_the_place_and_no_secret,
);
