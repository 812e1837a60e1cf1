//! Origins that lie, break and stall: what reaches the reader is right, or an error in good time.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::servers::fixture::{Fixture, Protocol, fixture, pattern, served, settings};
use crate::servers::wire::{Reply, Request};
use crate::servers::{s3, web};
use futures::StreamExt;
use headrace_engine::config::TransferConfig;
use headrace_engine::error::{Error, ErrorKind, Retry};
use headrace_engine::ids::{ByteRange, Version};
use headrace_engine::origin::ObjectKind;
use headrace_engine::origin::ObjectVersion;

const SIZE: usize = 600_000;

/// An S3 origin with one object, and the object.
async fn one_object() -> (Fixture, ObjectVersion) {
    one_object_of(Protocol::S3).await
}

async fn one_object_of(protocol: Protocol) -> (Fixture, ObjectVersion) {
    let fixture = fixture(protocol).await;
    fixture.put("object", &pattern(SIZE));
    let object = fixture.version("object").await;
    (fixture, object)
}

fn is_read(request: &Request) -> bool {
    request.path().ends_with("object")
}

/// Tampers with the first `times` reads.
fn tamper_reads(fixture: &Fixture, times: u32, change: impl Fn(Reply) -> Reply + Send + 'static) {
    let left = AtomicU32::new(times);
    fixture.world.tamper(move |request, reply| {
        let again = left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
        if is_read(request) && again { change(reply) } else { reply }
    });
}

#[tokio::test]
async fn a_broken_body_is_resumed_where_it_broke() {
    for protocol in [Protocol::S3, Protocol::Oss, Protocol::Http] {
        let (fixture, object) = one_object_of(protocol).await;
        tamper_reads(&fixture, 2, |reply| Reply { cut_at: Some(200_000), ..reply });
        assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE), "{protocol:?}");
        assert_eq!(fixture.metrics.origin_retries.get(), 2);
        // Resumed, not begun again: what was handed on once is not fetched twice.
        assert_eq!(fixture.metrics.origin_bytes.get(), SIZE as u64);
    }
}

#[tokio::test]
async fn a_body_that_is_always_short_fails_after_the_retries() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, u32::MAX, |reply| Reply { cut_at: Some(10), ..reply });
    let error = fixture.read_all(&object).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Exhausted, "{error:?}");
    assert_eq!(fixture.metrics.origin_retries.get(), 3);
}

#[tokio::test]
async fn a_body_shorter_than_its_range_with_an_honest_length_is_noticed() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, 1, |mut reply| {
        reply.body.truncate(1000);
        reply
    });
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
}

#[tokio::test]
async fn a_longer_body_is_cut_to_the_range() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, u32::MAX, |mut reply| {
        reply.body.extend_from_slice(b"too much");
        reply
    });
    let range = ByteRange::new(1000, 5000);
    assert!(fixture.read(&object, range).await.unwrap() == pattern(SIZE)[1000..6000]);
}

#[tokio::test]
async fn a_wrong_content_length_is_noticed() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, 1, |reply| Reply { declared_length: Some(SIZE + 100), ..reply });
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
}

#[tokio::test]
async fn the_wrong_range_is_never_taken_for_the_right_one() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, u32::MAX, |reply| reply.with("content-range", &format!("bytes 0-99/{SIZE}")));
    let error = fixture.read(&object, ByteRange::new(100, 100)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unexpected, "{error:?}");
}

#[tokio::test]
async fn a_storm_of_503_passes_and_is_throttling_when_it_does_not() {
    let impatient = TransferConfig { retries: 1, ..settings() };
    let fixture = served(Protocol::S3, s3::handle, "data", impatient).await;
    fixture.put("object", &pattern(SIZE));
    let object = fixture.version("object").await;
    // More often than any other fault would be forgiven: the server is alive and asks for time.
    tamper_reads(&fixture, 3, |_| crate::servers::xml_error(503, "SlowDown"));
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
    tamper_reads(&fixture, u32::MAX, |_| crate::servers::xml_error(503, "SlowDown"));
    let error = fixture.read_all(&object).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Throttled, Retry::Exhausted));
    let encoded = fixture.metrics.encode();
    assert!(encoded.contains("origin_errors_total{reason=\"Throttled\"} 1"), "{encoded}");
}

#[tokio::test]
async fn the_servers_wish_for_a_pause_is_heeded() {
    let (fixture, object) = one_object().await;
    tamper_reads(&fixture, 1, |_| Reply::status(503).with("retry-after", "1"));
    let started = Instant::now();
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
    assert!(started.elapsed() >= Duration::from_secs(1));
}

/// Costs some seconds: the silence must really pass, and a machine that is busy for one is not silent.
#[tokio::test]
async fn silence_ends_a_request_but_slowness_does_not() {
    let short = TransferConfig { timeout_s: 1.5, retries: 1, ..settings() };
    let fixture = served(Protocol::S3, s3::handle, "data", short).await;
    fixture.put("object", &pattern(SIZE));
    let object = fixture.version("object").await;
    tamper_reads(&fixture, 1, |reply| Reply { drip: Some((SIZE / 8, Duration::from_millis(200))), ..reply });
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
    assert_eq!(fixture.metrics.origin_retries.get(), 0);
    tamper_reads(&fixture, u32::MAX, |reply| Reply { drip: Some((SIZE / 2, Duration::from_secs(60))), ..reply });
    let started = Instant::now();
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Timeout);
    tamper_reads(&fixture, u32::MAX, |reply| Reply { delay: Duration::from_secs(60), ..reply });
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Timeout);
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
}

#[tokio::test]
async fn an_origin_that_ignores_the_condition_is_found_out_by_its_answer() {
    for protocol in [Protocol::S3, Protocol::Oss, Protocol::Http] {
        let (fixture, object) = one_object_of(protocol).await;
        tamper_reads(&fixture, u32::MAX, |reply| reply.with("etag", "\"another\""));
        assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
        tamper_reads(&fixture, u32::MAX, |reply| {
            reply.with("content-range", &format!("bytes 0-{}/{}", SIZE - 1, SIZE + 1))
        });
        assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
    }
}

/// The condition may have been overlooked as well: nothing says that these are the listed version's bytes.
#[tokio::test]
async fn an_answer_without_the_tag_that_the_listing_had_is_not_taken() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (fixture, object) = one_object_of(protocol).await;
        tamper_reads(&fixture, u32::MAX, |mut reply| {
            reply.headers.retain(|(name, _)| name != "etag");
            reply
        });
        let part = fixture.read(&object, ByteRange::new(1000, 50)).await.unwrap_err();
        let whole = fixture.origin.read_whole(&object).await.err().unwrap();
        for error in [part, whole] {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
            assert!(error.message().contains("does not tell the ETag"), "{error}");
            assert!(!error.is_temporary() && error.hint().is_some(), "{error:?}");
        }
    }
}

/// Such a bucket is pinned by times alone, and by each answer's.
#[tokio::test]
async fn a_listing_without_tags_is_compared_by_times_and_an_answer_without_is_not_taken() {
    let (fixture, object) = one_object().await;
    let object = ObjectVersion {
        version: Version::ModifiedNs(fixture.world.get("data/object").unwrap().mtime_s * 1_000_000_000),
        ..object
    };
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
    tamper_reads(&fixture, u32::MAX, |mut reply| {
        reply.headers.retain(|(name, _)| name != "last-modified");
        reply
    });
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test]
async fn an_object_that_changes_between_two_tries_is_stale_not_a_mix() {
    let (fixture, object) = one_object().await;
    let mut body = {
        tamper_reads(&fixture, 1, |reply| Reply { cut_at: Some(100_000), ..reply });
        fixture.origin.read(&object, ByteRange::new(0, object.size)).await.unwrap()
    };
    fixture.put("object", &vec![7; SIZE]);
    let mut seen = Vec::new();
    let error = loop {
        match body.next().await.unwrap() {
            Ok(piece) => seen.extend_from_slice(&piece),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(seen == pattern(SIZE)[..seen.len()] && seen.len() <= 100_000);
    assert!(body.next().await.is_none());
}

/// Python's own web server knows no ranges and no tags.
#[tokio::test]
async fn a_server_without_ranges_and_tags_is_read_rightly() {
    let fixture = served(Protocol::Http, web::handle_plainly, "data", settings()).await;
    fixture.put("object", &pattern(SIZE));
    let object = fixture.version("object").await;
    assert!(fixture.read(&object, ByteRange::new(123_456, 7_000)).await.unwrap() == pattern(SIZE)[123_456..130_456]);
    fixture.put("object", &vec![7; SIZE]);
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test]
async fn a_permit_is_given_back_when_a_body_is_dropped() {
    let one = TransferConfig { concurrency: 1, ..settings() };
    let fixture = served(Protocol::S3, s3::handle, "data", one).await;
    fixture.put("object", &pattern(SIZE));
    let object = fixture.version("object").await;
    for _ in 0..5 {
        let mut body = fixture.origin.read(&object, ByteRange::new(0, object.size)).await.unwrap();
        body.next().await.unwrap().unwrap();
    }
    assert!(fixture.read_all(&object).await.unwrap() == pattern(SIZE));
}

async fn listing_error(change: impl Fn(&Request, Reply) -> Reply + Send + 'static) -> Error {
    let fixture = fixture(Protocol::S3).await;
    (0..2500).for_each(|index| fixture.put(&format!("{index:05}"), b"x"));
    fixture.world.tamper(change);
    tokio::time::timeout(Duration::from_secs(60), fixture.list()).await.expect("the listing does not end").unwrap_err()
}

fn replace(reply: Reply, from: &str, to: &str) -> Reply {
    let body = String::from_utf8(reply.body.clone()).unwrap().replace(from, to);
    reply.body(body.as_bytes())
}

#[tokio::test]
async fn a_listing_that_is_cut_off_is_an_error() {
    let error = listing_error(|_, mut reply| {
        reply.body.truncate(reply.body.len() / 2);
        reply
    });
    assert_eq!(error.await.retry(), Retry::Exhausted);
}

#[tokio::test]
async fn a_listing_that_is_no_listing_is_an_error() {
    let error = listing_error(|_, reply| reply.body(b"<html>Please log in</html>")).await;
    assert!(error.message().contains("no listing"), "{error:?}");
    let error = listing_error(|_, reply| reply.body(b"\x00\xff garbage &&& <<<")).await;
    assert!(error.message().contains("no XML"), "{error:?}");
}

#[tokio::test]
async fn a_truncated_listing_without_a_way_on_is_an_error() {
    let strip = |reply: Reply| {
        let text = String::from_utf8(reply.body.clone()).unwrap();
        match (text.find("<NextContinuationToken>"), text.find("</NextContinuationToken>")) {
            (Some(start), Some(end)) => reply.body(format!("{}{}", &text[..start], &text[end + 24..]).as_bytes()),
            _ => reply,
        }
    };
    let error = listing_error(move |_, reply| strip(reply)).await;
    assert!(error.message().contains("not how to go on"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_repeats_its_first_page_for_ever_is_found_out() {
    let error = listing_error(|request, reply| {
        let mut again = request.clone();
        again.target = "/bucket?list-type=2&prefix=data/&max-keys=1000".to_owned();
        let _ = reply;
        let world = crate::servers::World::new();
        (0..2500).for_each(|index| world.put(&format!("data/{index:05}"), b"x"));
        s3::handle_unsigned(&world, &again)
    });
    assert!(error.await.message().contains("repeats"));
}

/// Nor does another token each time hide that, nor a circle of several pages.
#[tokio::test]
async fn a_server_that_goes_round_in_a_circle_is_found_out() {
    for length in [1, 3] {
        let pages = std::sync::atomic::AtomicUsize::new(0);
        let error = listing_error(move |_, _| {
            let number = pages.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            let world = crate::servers::World::new();
            // Falling keys, so that it is listed page after page.
            let key = format!("data/{:05}", 9_000 - number % length);
            world.put(&key, b"x");
            let entry = crate::servers::entry(&key, &world.get(&key).unwrap());
            let token = format!("<NextContinuationToken>t{number}</NextContinuationToken>");
            let page = format!("<ListBucketResult><IsTruncated>true</IsTruncated>{token}{entry}</ListBucketResult>");
            Reply::status(200).body(page.as_bytes())
        });
        let error = error.await;
        assert!(error.message().contains("repeats") && error.message().contains("data/0"), "{error:?}");
    }
}

#[tokio::test]
async fn an_entry_without_size_is_named_unless_it_is_a_folder() {
    let bare = |reply: Reply, key: &str| {
        let page = String::from_utf8(reply.body.clone()).unwrap();
        reply.body(
            page.replacen("<Contents>", &format!("<Contents><Key>{key}</Key></Contents><Contents>"), 1).as_bytes(),
        )
    };
    let error = listing_error(move |_, reply| bare(reply, "data/0%1Bfile")).await;
    assert!(error.message().contains("'data/0%1Bfile'"), "{error:?}");
    let fixture = fixture(Protocol::S3).await;
    fixture.put("b", b"x");
    fixture.world.tamper(move |_, reply| bare(reply, "data/a/"));
    let listed = fixture.list().await.unwrap();
    let kinds: Vec<_> = listed.iter().map(|object| (&*object.key, object.kind.clone(), object.size)).collect();
    assert_eq!(kinds, [(&b"a/"[..], ObjectKind::Directory, 0), (&b"b"[..], ObjectKind::File, 1)]);
}

#[tokio::test]
async fn a_server_that_never_ends_with_empty_pages_is_found_out() {
    let empty = b"<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken></ListBucketResult>";
    let error = listing_error(|_, reply| reply.body(empty)).await;
    assert!(error.message().contains("does not advance"), "{error:?}");
}

#[tokio::test]
async fn keys_from_elsewhere_or_out_of_order_are_found_out() {
    let error = listing_error(|_, reply| replace(reply, "<Key>data/00500", "<Key>elsewhere/00500")).await;
    assert!(error.message().contains("outside") && error.message().contains("elsewhere/00500"), "{error:?}");
    let error = listing_error(|_, reply| replace(reply, "<Key>data/00500", "<Key>data/00400")).await;
    assert!(error.message().contains("twice") && error.message().contains("data/00400"), "{error:?}");
    let error = listing_error(|_, reply| replace(reply, "<KeyCount>1000", "<KeyCount>1001")).await;
    assert!(error.message().contains("fewer keys"), "{error:?}");
}

#[tokio::test]
async fn a_listing_survives_what_is_temporary() {
    let fixture = fixture(Protocol::Oss).await;
    (0..2500).for_each(|index| fixture.put(&format!("{index:05}"), b"x"));
    let tries = std::sync::Mutex::new(std::collections::HashMap::<String, u32>::new());
    fixture.world.tamper(move |request, reply| {
        let mut tries = tries.lock().unwrap();
        let count = tries.entry(request.target.clone()).or_default();
        *count += 1;
        match *count {
            1 => crate::servers::xml_error(503, "ServiceUnavailable"),
            2 => Reply { cut_at: Some(10), ..reply },
            _ => reply,
        }
    });
    assert_eq!(fixture.files().await.len(), 2500);
}
