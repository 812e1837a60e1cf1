//! Parallel listing of buckets: every key exactly once, whatever the keys, and fast in one flat folder, too.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use crate::servers::fixture::{Fixture, Protocol, fixture, served, settings};
use crate::servers::wire::{Reply, Request};
use crate::servers::{Stored, World, list_page, list_page_in, oss, s3, web, xml_error};
use headrace_engine::config::TransferConfig;
use headrace_engine::origin::{LeftOut, ObjectKind};
use proptest::prelude::*;

/// Pages of a few keys only, so that a few hundred keys take many pages. Signatures are checked: odd keys come back in
/// the queries of the next pages, where a client may sign them in another spelling than it sends.
fn tiny_s3(world: &World, request: &Request) -> Reply {
    s3::verify(request).map_or_else(|code| xml_error(403, code), |()| tiny_page(world, request))
}

fn tiny_oss(world: &World, request: &Request) -> Reply {
    oss::verify(request).map_or_else(|code| xml_error(403, code), |()| tiny_page(world, request))
}

fn tiny_page(world: &World, request: &Request) -> Reply {
    let mut request = request.clone();
    request.target = request.target.replace("max-keys=1000", "max-keys=7");
    list_page(world, &request)
}

async fn keys_of(keys: &BTreeSet<String>, protocol: Protocol) -> (Vec<String>, u64) {
    let handler = if protocol == Protocol::Oss { tiny_oss } else { tiny_s3 };
    let fixture = served(protocol, handler, "data", settings()).await;
    keys.iter().for_each(|key| fixture.put(key, b"x"));
    let mut listed: Vec<String> = fixture
        .list()
        .await
        .unwrap()
        .into_iter()
        .map(|object| String::from_utf8(object.key.into_vec()).unwrap())
        .collect();
    listed.sort();
    (listed, fixture.world.requests.load(Ordering::SeqCst))
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,6}",
        "img_[0-9]{6}\\.jpg",
        "(train|val)/n[0-9]{3}/[a-z]{1,3}",
        "[a-c]{1,4}",
        "[ -~]{1,12}",
        "[0-9a-f]{8}",
        "\\PC{1,5}",
        "['()*!+&=%#?/ ~]{1,3}x",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_key_is_listed_exactly_once(keys in proptest::collection::btree_set(key(), 0..400), oss in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let protocol = if oss { Protocol::Oss } else { Protocol::S3 };
        let (listed, requests) = runtime.block_on(keys_of(&keys, protocol));
        let expected: Vec<String> = keys.iter().cloned().collect();
        prop_assert_eq!(listed, expected);
        // Cuts that find nothing are bounded, so a listing never costs out of proportion.
        prop_assert!(requests <= 300 + 6 * (keys.len() as u64 / 7 + 1), "{} requests for {} keys", requests, keys.len());
    }
}

/// A name that compares as a server orders keys.
type Order = fn(&str) -> Vec<Vec<u16>>;

fn by_utf16(key: &str) -> Vec<Vec<u16>> {
    vec![key.encode_utf16().collect()]
}

/// A folder's files come before what is beside the folder.
fn by_names_of_files(key: &str) -> Vec<Vec<u16>> {
    key.split('/').map(|name| name.encode_utf16().collect()).collect()
}

fn listed_once(listed: Vec<headrace_engine::origin::ListedObject>) -> Vec<String> {
    let mut keys: Vec<String> =
        listed.into_iter().map(|object| String::from_utf8(object.key.into_vec()).unwrap()).collect();
    keys.sort();
    keys
}

/// Java's servers compare UTF-16, others what file systems give: no key may be lost or come twice for that.
#[tokio::test]
async fn a_bucket_that_is_listed_in_another_order_is_listed_whole() {
    fn tiny(world: &World, request: &Request, order: Order) -> Reply {
        let mut request = request.clone();
        request.target = request.target.replace("max-keys=1000", "max-keys=7");
        list_page_in(world, &request, order)
    }
    let handlers: [crate::servers::wire::Handler; 2] =
        [|world, request| tiny(world, request, by_utf16), |world, request| tiny(world, request, by_names_of_files)];
    for handler in handlers {
        let fixture = served(Protocol::S3, handler, "data", settings()).await;
        let keys = (0..60).flat_map(|number| {
            [
                format!("{number:02}/x"),
                format!("{number:02}-x"),
                format!("{number:02}\u{1F600}"),
                format!("{number:02}\u{FF5E}"),
            ]
        });
        let mut keys: Vec<String> = keys.collect();
        keys.iter().for_each(|key| fixture.put(key, b"x"));
        keys.sort();
        assert_eq!((fixture.origin.notice(), fixture.metrics.origin_unordered.get()), (None, 0));
        assert!(fixture.list_once().await.unwrap_err().message().contains("comes after"));
        for _ in 0..2 {
            assert_eq!(listed_once(fixture.list_once().await.unwrap()), keys);
        }
        // Told without a key: the state of a cluster is told to whoever asks.
        let notice = fixture.origin.notice().unwrap();
        assert!(notice.contains("one request at a time") && !notice.contains("00"), "{notice}");
        assert_eq!(fixture.metrics.origin_unordered.get(), 1);
    }
}

const UNTELLABLE: [&str; 4] = ["b\u{1}", "b\u{1}c/\u{7f}", "line\rend", "x\u{fffd}y"];

/// Servers fail at what XML cannot hold, or drop what follows: encoded, each key arrives and is read.
#[tokio::test]
async fn keys_that_xml_cannot_hold_are_asked_for_encoded() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let handler = if protocol == Protocol::S3 { tiny_s3_and_objects } else { tiny_oss_and_objects };
        let fixture = served(protocol, handler, "data", settings()).await;
        let mut keys: Vec<String> = UNTELLABLE.iter().map(|key| (*key).to_owned()).collect();
        keys.extend((0..30).map(|number| format!("a +%{number:02}")));
        keys.iter().for_each(|key| fixture.put(key, key.as_bytes()));
        fixture.world.tamper(|request, reply| match request.target.contains("list-type") {
            true if !request.target.contains("encoding-type=url") => xml_error(500, "InternalError"),
            _ => reply,
        });
        keys.sort();
        assert_eq!(fixture.files().await, keys);
        for key in UNTELLABLE {
            assert_eq!(fixture.read_all(&fixture.version(key).await).await.unwrap(), key.as_bytes());
        }
    }
}

/// Some ignore the question, and tell U+FFFD in the place of what they cannot: such a key is told apart, wherever it
/// comes, and no other key is lost for it. Some refuse the question.
#[tokio::test]
async fn a_key_of_which_a_character_is_lost_is_told_apart() {
    for refuses in [false, true] {
        let handler = if refuses { plain_pages_or_refusals } else { plain_pages };
        let fixture = served(Protocol::S3, handler, "data", settings()).await;
        let keys: Vec<String> = (0..40).map(|number| format!("k{number:02}")).collect();
        keys.iter().for_each(|key| fixture.put(key, b"x"));
        let lost: Vec<String> = (3..9).map(|number| format!("k{number:02}\u{1}\u{fffd}{number}")).collect();
        lost.iter().for_each(|key| fixture.put(key, b"x"));
        let listed = fixture.list().await.unwrap();
        let (garbled, whole): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|object| object.kind == ObjectKind::LeftOut(LeftOut::Garbled));
        assert_eq!(listed_once(whole), keys);
        assert_eq!(garbled.len(), lost.len());
    }
}

/// Tells nothing that XML has no place for, and heeds no `encoding-type`.
fn plain_pages(world: &World, request: &Request) -> Reply {
    let mut request = request.clone();
    request.target = request.target.replace("&encoding-type=url", "");
    request.target = request.target.replace("max-keys=1000", "max-keys=7").replace("max-keys=999", "max-keys=6");
    let reply = list_page(world, &request);
    let text = String::from_utf8(reply.body.clone()).unwrap();
    reply.body(text.replace("&#1;", "\u{fffd}").as_bytes())
}

fn plain_pages_or_refusals(world: &World, request: &Request) -> Reply {
    match request.target.contains("encoding-type") {
        true => xml_error(400, "InvalidArgument"),
        false => plain_pages(world, request),
    }
}

fn tiny_s3_and_objects(world: &World, request: &Request) -> Reply {
    if request.target.contains("list-type") { tiny_s3(world, request) } else { s3::handle(world, request) }
}

fn tiny_oss_and_objects(world: &World, request: &Request) -> Reply {
    if request.target.contains("list-type") { tiny_oss(world, request) } else { oss::handle(world, request) }
}

/// What no file system can hold must arrive raw, for the snapshot to judge and to count.
#[tokio::test]
async fn keys_that_no_path_can_have_arrive_as_they_are() {
    let fixture = fixture(Protocol::S3).await;
    let odd = ["a//b", "/leading", "a/../b", "./x", "..", "trailing//", "\u{1}control", " ", "both", "both/inside"];
    odd.iter().for_each(|key| fixture.put(key, b"x"));
    fixture.put("marker/", b"");
    fixture.put("full/", b"content");
    fixture.put("", b"");
    let listed = fixture.list().await.unwrap();
    let mut keys: Vec<&str> = listed.iter().map(|object| std::str::from_utf8(&object.key).unwrap()).collect();
    let mut expected: Vec<&str> = odd.into_iter().chain(["marker/", "full/"]).collect();
    keys.sort();
    expected.sort();
    assert_eq!(keys, expected);
    for object in &listed {
        let marker = &*object.key == b"marker/";
        assert_eq!(object.kind == ObjectKind::Directory, marker, "{object:?}");
    }
    // Nor may such a key be read as another one: a URL would resolve the dots.
    fixture.put("b", b"another object");
    let dots = fixture.version("a/../b").await;
    assert!(fixture.read_all(&dots).await.is_err());
}

#[tokio::test]
async fn a_whole_bucket_without_a_prefix_is_listed() {
    let fixture = served(Protocol::S3, s3::handle, "", settings()).await;
    ["x", "data/y", "/z"].iter().for_each(|key| fixture.world.put(key, b"x"));
    assert_eq!(fixture.files().await, ["/z", "data/y", "x"]);
}

#[tokio::test]
async fn a_web_server_that_links_to_folders_without_a_slash_is_listed() {
    let fixture = served(Protocol::Http, web::handle_without_slashes, "data", settings()).await;
    ["a/b/c", "a/d", "e"].iter().for_each(|key| fixture.put(key, b"x"));
    assert_eq!(fixture.files().await, ["a/b/c", "a/d", "e"]);
}

fn flat_folder(count: usize) -> Arc<World> {
    let world = World::new();
    let stored = Stored { body: Vec::new(), etag: "e".to_owned(), mtime_s: 1_700_000_000 };
    world.objects.lock().extend((0..count).map(|index| (format!("data/img_{index:08}.jpg"), stored.clone())));
    world
}

async fn flat(count: usize, latency_ms: u64) -> (Fixture, f64, usize) {
    let settings = TransferConfig { concurrency: 32, ..settings() };
    let fixture = served(Protocol::S3, s3::handle_unsigned, "data", settings).await;
    *fixture.world.objects.lock() = std::mem::take(&mut *flat_folder(count).objects.lock());
    fixture.world.tamper(move |_, reply| Reply { delay: std::time::Duration::from_millis(latency_ms), ..reply });
    let started = Instant::now();
    let listed = fixture.list().await.unwrap().len();
    let seconds = started.elapsed().as_secs_f64();
    (fixture, seconds, listed)
}

/// Costs about a second: with 20 ms a page, 60 pages in sequence take at least 1.2 s; in parallel they must not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_flat_folder_is_listed_in_parallel() {
    let (fixture, _, listed) = flat(60_000, 20).await;
    assert_eq!(listed, 60_000);
    assert!(fixture.world.most_in_flight.load(Ordering::SeqCst) >= 8);
    let requests = fixture.world.requests.load(Ordering::SeqCst);
    assert!(requests < 60 * 4, "{requests} requests for 60 pages");
}

/// What a listing of `keys` costs: the keys that came, the requests, and the keys that the server sent for it.
struct Cost {
    listed: BTreeSet<String>,
    times_listed: usize,
    requests: u64,
    sent: usize,
}

/// Lists `keys` in pages of 50 from a server that passes each request and reply through `change`.
async fn cost(
    keys: &BTreeSet<String>,
    change: impl Fn(&World, &Request, Reply) -> Reply + Send + Sync + 'static,
) -> Cost {
    let settings = TransferConfig { concurrency: 32, ..settings() };
    let fixture = served(Protocol::S3, pages_of_fifty, "", settings).await;
    keys.iter().for_each(|key| fixture.world.put(key, b"x"));
    let sent = Arc::new(AtomicUsize::new(0));
    let (counter, world) = (sent.clone(), World::new());
    keys.iter().for_each(|key| world.put(key, b"x"));
    fixture.world.tamper(move |request, reply| {
        let reply = change(&world, request, reply);
        counter.fetch_add(keys_in(&reply), Ordering::SeqCst);
        reply
    });
    let listed = fixture.list().await.unwrap();
    let names = listed.iter().map(|object| String::from_utf8(object.key.to_vec()).unwrap()).collect();
    let requests = fixture.world.requests.load(Ordering::SeqCst);
    Cost { listed: names, times_listed: listed.len(), requests, sent: sent.load(Ordering::SeqCst) }
}

fn pages_of_fifty(world: &World, request: &Request) -> Reply {
    let mut request = request.clone();
    request.target = request.target.replace("max-keys=1000", "max-keys=50");
    list_page(world, &request)
}

fn keys_in(reply: &Reply) -> usize {
    String::from_utf8_lossy(&reply.body).matches("<Key>").count()
}

fn classes() -> BTreeSet<String> {
    (0..5_000).map(|index| format!("class-{:04}/image-{index:06}.jpg", index / 10)).collect()
}

fn numbers() -> BTreeSet<String> {
    (0..5_000).map(|index| format!("sample-{index:09}.jpg")).collect()
}

fn folders_of_many() -> BTreeSet<String> {
    (0..5_000).map(|index| format!("train/n{:08}/n_{}.JPEG", 1_440_764 + index / 100 * 7_919, index % 100)).collect()
}

/// A server that reads its own folders for each page is as fast as the pages are few: what is listed at once must not
/// be listed twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_sends_hardly_any_key_twice() {
    for keys in [classes(), numbers(), folders_of_many()] {
        let cost = cost(&keys, |_, _, reply| reply).await;
        assert_eq!((&cost.listed, cost.times_listed), (&keys, keys.len()));
        assert!(cost.sent <= keys.len() + keys.len() / 20, "{} keys sent for {}", cost.sent, keys.len());
        assert!(cost.requests <= 3 * 100, "{} requests for 100 pages", cost.requests);
    }
}

/// Prefixes that end within a name are what ranges are asked for by: a server that does not know them must not hide a
/// key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_knows_only_whole_folders_as_prefixes_is_listed_in_sequence() {
    for refuses in [false, true] {
        let keys = classes();
        let cost = cost(&keys, move |_, request, reply| match prefix_of(request) {
            prefix if prefix.is_empty() || prefix.ends_with('/') => reply,
            _ if refuses => xml_error(400, "InvalidArgument"),
            _ => reply.body(b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"),
        })
        .await;
        assert_eq!((&cost.listed, cost.times_listed), (&keys, keys.len()));
        assert!(cost.requests <= 110, "{} requests for 100 pages", cost.requests);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_heeds_no_prefix_is_listed_in_sequence() {
    let keys = numbers();
    let cost = cost(&keys, |world, request, _| {
        let mut asked = request.clone();
        asked.target =
            asked.target.split('&').filter(|part| !part.starts_with("prefix=")).collect::<Vec<_>>().join("&");
        pages_of_fifty(world, &asked)
    })
    .await;
    assert_eq!((&cost.listed, cost.times_listed), (&keys, keys.len()));
}

fn prefix_of(request: &Request) -> String {
    let query = request.query();
    query.into_iter().find(|(name, _)| name == "prefix").map(|(_, value)| value).unwrap_or_default()
}

/// A measurement, not a test: a million keys of one folder, server in the same process. Run with `--ignored`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes half a minute; prints a rate"]
async fn a_million_keys_of_one_folder() {
    for latency_ms in [0, 20] {
        let (fixture, seconds, listed) = flat(1_000_000, latency_ms).await;
        assert_eq!(listed, 1_000_000);
        let requests = fixture.world.requests.load(Ordering::SeqCst);
        println!("{latency_ms} ms a page: {seconds:.1} s, {:.0} keys/s, {requests} requests", listed as f64 / seconds);
    }
}
