//! Checksums that S3 tells only when it is asked, by a header that must be signed.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use crate::servers::fixture::{Fixture, Protocol, config, served, settings};
use crate::servers::wire::{Handler, Reply, Request};
use crate::servers::{s3, xml_error};
use futures::StreamExt;
use headrace_engine::checksum::{Checksum, Kind};
use headrace_engine::config::OriginConfig;
use headrace_engine::ids::Version;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ObjectVersion, Part, open};
use headrace_engine::secret::Secret;

const BODY: &[u8] = b"123456789";
/// The base64 of its CRC64NVME.
const CRC64: &str = "rosUhgp5mIg=";
const MODE: &str = "x-amz-checksum-mode";

/// As S3 does it: told when asked, of whole objects alone.
fn tell(request: &Request, reply: Reply) -> Reply {
    let asked = request.header(MODE).is_some_and(|mode| mode == "ENABLED");
    let whole = asked && reply.status == 200 && request.path().ends_with("/x");
    if whole { reply.with("x-amz-checksum-crc64nvme", CRC64).with("x-amz-checksum-type", "FULL_OBJECT") } else { reply }
}

async fn fixture(handler: Handler, change: impl Fn(&mut OriginConfig)) -> (Fixture, ObjectVersion) {
    let mut fixture = served(Protocol::S3, handler, "data", settings()).await;
    let mut config = config(Protocol::S3, &fixture.server.as_ref().unwrap().address, "data");
    change(&mut config);
    fixture.origin = open(&config, &settings(), &Metrics::new()).unwrap();
    fixture.put("x", BODY);
    fixture.world.tamper(tell);
    let object = fixture.version("x").await;
    (fixture, object)
}

/// What a read of the whole object tells; its bytes are compared.
async fn told_by_read(fixture: &Fixture, object: &ObjectVersion) -> Option<Checksum> {
    let (body, told) = fixture.origin.read_whole(object).await.unwrap();
    let pieces: Vec<_> = body.map(|piece| piece.unwrap()).collect().await;
    assert_eq!(pieces.concat(), BODY);
    told
}

#[tokio::test]
async fn objects_are_asked_for_with_their_checksum() {
    let signed: fn(&mut OriginConfig) = |_| {};
    let with_token: fn(&mut OriginConfig) = |config| {
        if let OriginConfig::S3 { session_token, region, .. } = config {
            (*session_token, *region) = (Some(Secret::new("a session")), Some("eu-west-3".to_owned()));
        }
    };
    let unsigned: fn(&mut OriginConfig) = |config| {
        if let OriginConfig::S3 { anonymous, access_key_id, secret_access_key, .. } = config {
            (*anonymous, *access_key_id, *secret_access_key) = (true, None, None);
        }
    };
    let expected = Some(Checksum::of(Kind::Crc64Nvme, BODY));
    let cases: [(Handler, _); 3] = [(s3::handle, signed), (s3::handle, with_token), (s3::handle_unsigned, unsigned)];
    for (handler, change) in cases {
        let (fixture, object) = fixture(handler, change).await;
        let before = fixture.world.requests.load(Ordering::SeqCst);
        assert_eq!(told_by_read(&fixture, &object).await, expected);
        assert_eq!(fixture.origin.checksum(&object).await.unwrap(), expected);
        assert_eq!(fixture.world.requests.load(Ordering::SeqCst) - before, 2, "each in one request");
    }
}

#[tokio::test]
async fn a_storage_that_refuses_the_question_is_read_without_it() {
    for (status, code) in [(400, "InvalidArgument"), (403, "SignatureDoesNotMatch"), (501, "NotImplemented")] {
        let (fixture, object) = fixture(s3::handle, |_| {}).await;
        fixture.world.tamper(move |request, reply| match request.header(MODE) {
            Some(_) => xml_error(status, code),
            None => reply,
        });
        let count = || fixture.world.requests.load(Ordering::SeqCst);
        let before = count();
        assert_eq!(told_by_read(&fixture, &object).await, None);
        assert_eq!(count() - before, 2, "{code}: refused, and asked again without it");
        assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
        assert_eq!(told_by_read(&fixture, &object).await, None);
        assert_eq!(count() - before, 4, "{code}: what was refused once is not tried again");
    }
}

#[tokio::test]
async fn a_refusal_that_has_other_reasons_is_no_reason_to_stop_asking() {
    let (fixture, object) = fixture(s3::handle, |_| {}).await;
    for status in [400, 403] {
        fixture.world.tamper(move |_, _| xml_error(status, "Odd"));
        assert!(fixture.origin.read_whole(&object).await.is_err());
    }
    fixture.world.tamper(tell);
    assert!(told_by_read(&fixture, &object).await.is_some());
}

#[tokio::test]
async fn who_ignores_checksums_does_not_ask_for_them() {
    let ignoring = |config: &mut OriginConfig| {
        if let OriginConfig::S3 { ignore_checksums, .. } = config {
            *ignore_checksums = true;
        }
    };
    let (fixture, object) = fixture(s3::handle, ignoring).await;
    fixture.world.tamper(|request, reply| match request.header(MODE) {
        Some(_) => xml_error(404, "NoSuchKey"),
        None => reply,
    });
    assert_eq!(told_by_read(&fixture, &object).await, None);
    assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
}

fn part_number(request: &Request) -> Option<usize> {
    request.query().iter().find(|(name, _)| name == "partNumber").map(|(_, number)| number.parse().unwrap())
}

/// As S3 does it, of an object that came in parts of 4, 4 and 1 bytes.
fn tell_part(request: &Request, reply: Reply) -> Reply {
    let Some(number) = part_number(request) else { return reply };
    match BODY.chunks(4).nth(number - 1) {
        Some(part) => Reply { status: 206, body: part.to_vec(), ..reply }.with("x-amz-mp-parts-count", "3"),
        None => xml_error(416, "InvalidPartNumber"),
    }
}

#[tokio::test]
async fn parts_are_asked_for_one_by_one() {
    let (fixture, object) = fixture(s3::handle, |_| {}).await;
    fixture.world.tamper(tell_part);
    for (number, length) in [(1, 4), (3, 1)] {
        assert_eq!(fixture.origin.part(&object, number).await.unwrap(), Some(Part { length, count: 3 }));
    }
    assert!(fixture.origin.part(&object, 4).await.is_err());
    assert!(fixture.origin.part(&object, 1).await.unwrap().is_some(), "that says nothing of other parts");
    let other = ObjectVersion { version: Version::Etag(b"another"[..].into()), ..object };
    assert_eq!(fixture.origin.part(&other, 1).await.unwrap(), None);
    assert!(fixture.origin.part(&fixture.version("x").await, 2).await.unwrap().is_some());
}

#[tokio::test]
async fn a_storage_that_tells_no_parts_is_asked_once() {
    let ignores: fn(&Request, Reply) -> Reply = |_, reply| reply;
    let refuses: fn(&Request, Reply) -> Reply =
        |request, reply| if part_number(request).is_some() { xml_error(501, "NotImplemented") } else { reply };
    for tamper in [ignores, refuses] {
        let (fixture, object) = fixture(s3::handle, |_| {}).await;
        fixture.world.tamper(tamper);
        assert_eq!(fixture.origin.part(&object, 1).await.unwrap(), None);
        let before = fixture.world.requests.load(Ordering::SeqCst);
        assert_eq!(fixture.origin.part(&object, 2).await.unwrap(), None);
        assert_eq!(fixture.world.requests.load(Ordering::SeqCst), before);
        fixture.world.tamper(tell);
        assert!(told_by_read(&fixture, &object).await.is_some(), "checksums are asked for all the same");
    }
}

/// As moto answers a HEAD of what boto3 uploaded in parts: the CRC of the parts' CRCs, without a word of that.
#[tokio::test]
async fn a_checksum_that_may_be_of_the_parts_is_not_believed_of_the_object() {
    let (fixture, object) = fixture(s3::handle, |_| {}).await;
    fixture.world.tamper(|_, reply| reply.with("x-amz-checksum-crc32", "AAAAAA=="));
    let Version::Etag(tag) = &object.version else { panic!("{object:?}") };
    assert!(tag.ends_with(b"-0"), "as that of an object in parts");
    assert_eq!(told_by_read(&fixture, &object).await, None);
    assert_eq!(fixture.origin.checksum(&object).await.unwrap(), None);
}
