//! The file checksums of HDFS: believed where they are CRCs of the whole content.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use crate::servers::fixture::{Fixture, Protocol, fixture};
use crate::servers::wire::{Reply, Request};
use headrace_engine::checksum::{Checksum, Kind};
use headrace_engine::error::ErrorKind;
use headrace_engine::origin::{Checksums, ObjectVersion};

const BODY: &[u8] = b"what a file of HDFS has";

async fn one_file() -> (Fixture, ObjectVersion) {
    let fixture = fixture(Protocol::Webhdfs).await;
    fixture.put("a b/%41", BODY);
    let object = fixture.version("a b/%41").await;
    (fixture, object)
}

/// From now on questions for checksums are answered so.
fn answer(fixture: &Fixture, answer: impl Fn() -> Reply + Send + 'static) {
    let asks = |request: &Request| request.target.contains("op=GETFILECHECKSUM");
    fixture.world.tamper(move |request, reply| if asks(request) { answer() } else { reply });
}

fn told(algorithm: &str, bytes: &str) -> Reply {
    let body = format!(r#"{{"FileChecksum": {{"algorithm": "{algorithm}", "bytes": "{bytes}", "length": 28}}}}"#);
    Reply::status(200).body(body.as_bytes())
}

#[tokio::test]
async fn a_crc_of_the_whole_file_is_believed() {
    let (fixture, object) = one_file().await;
    assert_eq!(fixture.origin.capability().checksums, Checksums::Apart);
    assert_eq!(fixture.origin.checksum(&object).await.unwrap(), Some(Checksum::of(Kind::Crc32c, BODY)));
}

#[tokio::test]
async fn a_cluster_whose_checksums_depend_on_the_writer_is_asked_once() {
    let (fixture, object) = one_file().await;
    answer(&fixture, || told("MD5-of-1MD5-of-512CRC32C", "000002000000000000000001a7f3"));
    let before = fixture.world.requests.load(Ordering::SeqCst);
    assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
    assert_eq!(fixture.world.requests.load(Ordering::SeqCst) - before, 1);
    assert_eq!(fixture.origin.capability().checksums, Checksums::Never, "so nobody asks any more");
}

#[tokio::test]
async fn what_makes_no_sense_or_is_refused_is_no_checksum() {
    let (fixture, object) = one_file().await;
    for reply in [
        Reply::status(403),
        Reply::status(400),
        Reply::status(200).body(b"{}"),
        Reply::status(200).body(b"<html>"),
        told("COMPOSITE-CRC32C", "e306928"),
        told("COMPOSITE-CRC64", "e3069283"),
        told("", ""),
    ] {
        answer(&fixture, move || reply.clone());
        assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
        assert_eq!(fixture.origin.capability().checksums, Checksums::Apart);
    }
}

#[tokio::test]
async fn the_checksum_of_another_version_says_nothing_of_this_one() {
    let (fixture, object) = one_file().await;
    fixture.put("a b/%41", b"what another one has");
    assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
    fixture.remove("a b/%41");
    let outcome = fixture.origin.checksum(&object).await;
    assert!(
        outcome.as_ref().is_ok_and(Option::is_none) || outcome.as_ref().is_err_and(|e| e.kind() == ErrorKind::Stale)
    );
}
