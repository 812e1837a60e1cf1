//! Keys that expire while they are in use: what comes in their place is taken up, and no read fails if it is there.
#![allow(clippy::unwrap_used)]

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headrace_engine::config::OriginConfig;
use headrace_engine::error::ErrorKind;
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{Origin, open, renewal};
use headrace_engine::secret::Secret;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use parking_lot::Mutex;

use crate::servers::fixture::{Fixture, Protocol, config, settings};
use crate::servers::wire::{Handler, Request, serve};
use crate::servers::{World, hdfs, s3, web, xml_error};

const PROTOCOLS: [Protocol; 4] = [Protocol::S3, Protocol::Oss, Protocol::Webhdfs, Protocol::Http];

/// Answers demands as long as it lives: with `config` and the key that the server wants now, or that there is none.
struct KeyKeeper {
    stop: Arc<AtomicBool>,
    demands: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl KeyKeeper {
    fn start(config: OriginConfig, key: Option<Arc<Mutex<String>>>) -> Self {
        let names = [config.renewal().unwrap().to_owned()];
        let descriptor = renewal::watch_demands(&names).unwrap();
        let (stop, demands) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counted) = (stop.clone(), demands.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let mut waiting = [PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)];
                if poll(&mut waiting, PollTimeout::from(20u8)).unwrap() > 0 {
                    nix::unistd::read(&descriptor, &mut [0; 8]).unwrap();
                }
                for name in renewal::demands(&names) {
                    counted.fetch_add(1, Ordering::SeqCst);
                    match &key {
                        Some(key) => renewal::renew(&name, with_key(config.clone(), &key.lock())),
                        None => renewal::decline(&name),
                    }
                }
            }
        });
        KeyKeeper { stop, demands, thread: Some(thread) }
    }
}

impl Drop for KeyKeeper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn with_key(mut config: OriginConfig, text: &str) -> OriginConfig {
    let key = Some(Secret::new(text));
    match &mut config {
        OriginConfig::S3 { access_key_id, .. } | OriginConfig::Oss { access_key_id, .. } => *access_key_id = key,
        OriginConfig::Webhdfs { delegation_token, .. } => *delegation_token = key,
        OriginConfig::Http { token, .. } => *token = key,
        _ => {}
    }
    config
}

fn renewed_as(mut config: OriginConfig, name: &str) -> OriginConfig {
    match &mut config {
        OriginConfig::S3 { renewal, .. }
        | OriginConfig::Oss { renewal, .. }
        | OriginConfig::Webhdfs { renewal, .. }
        | OriginConfig::Http { renewal, .. } => *renewal = Some(name.to_owned()),
        _ => {}
    }
    config
}

fn shows(request: &Request, key: &str) -> bool {
    request.header("authorization").is_some_and(|shown| shown.contains(key)) || request.target.contains(key)
}

/// An origin whose server takes one key alone, which the test changes.
async fn guarded(protocol: Protocol, name: &str) -> (Fixture, OriginConfig, Arc<Mutex<String>>) {
    let world = World::new();
    let handler: Handler = match protocol {
        Protocol::Webhdfs => hdfs::handle,
        Protocol::Http => web::handle,
        _ => s3::handle_unsigned,
    };
    let server = serve(world.clone(), handler).await;
    let wanted = Arc::new(Mutex::new("FIRST".to_owned()));
    let now = wanted.clone();
    world.tamper(move |request, reply| match request.method.as_str() {
        _ if shows(request, &now.lock()) => reply,
        // As AWS answers it: a HEAD has no body that could tell the code.
        "HEAD" => crate::servers::wire::Reply::status(400),
        _ => xml_error(403, "ExpiredToken"),
    });
    let config = renewed_as(with_key(config(protocol, &server.address, "data"), "FIRST"), name);
    let (metrics, settings) = (Metrics::new(), settings());
    let origin = open(&config, &settings, &metrics).unwrap();
    let fixture = Fixture { protocol, origin, metrics, world, folder: None, server: Some(server), nfs: None };
    (fixture, config, wanted)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_read_and_no_listing_fails_when_keys_expire_and_new_ones_are_there() {
    for protocol in PROTOCOLS {
        let (fixture, config, wanted) = guarded(protocol, &format!("expiring {protocol:?}")).await;
        let keeper = KeyKeeper::start(config, Some(wanted.clone()));
        fixture.put("x", b"first");
        let object = fixture.version("x").await;
        for (turn, key) in ["SECOND", "THIRD"].into_iter().enumerate() {
            *wanted.lock() = key.to_owned();
            assert_eq!(fixture.read_all(&object).await.unwrap(), b"first", "{protocol:?}");
            assert_eq!(keeper.demands.load(Ordering::SeqCst), turn as u64 + 1, "{protocol:?}");
        }
        *wanted.lock() = "FOURTH".to_owned();
        assert_eq!(fixture.files().await, ["x"], "{protocol:?}");
        *wanted.lock() = "FIFTH".to_owned();
        fixture.origin.check().await.unwrap();
        *wanted.lock() = "SIXTH".to_owned();
        fixture.origin.checksum(&object).await.unwrap();
        *wanted.lock() = "SEVENTH".to_owned();
        let whole = fixture.origin.read_whole(&object).await;
        assert!(whole.is_ok(), "{protocol:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_stands_when_there_are_no_other_keys() {
    let (fixture, config, wanted) = guarded(Protocol::S3, "without others").await;
    let keeper = KeyKeeper::start(config, None);
    fixture.put("x", b"first");
    let object = fixture.version("x").await;
    *wanted.lock() = "OTHER".to_owned();
    let error = fixture.read_all(&object).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    assert_eq!(keeper.demands.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_readers_at_once_are_all_served_by_the_keys_that_one_of_them_asked_for() {
    let (fixture, config, wanted) = guarded(Protocol::S3, "many readers").await;
    let _keeper = KeyKeeper::start(config, Some(wanted.clone()));
    fixture.put("x", b"first");
    let object = fixture.version("x").await;
    *wanted.lock() = "SECOND".to_owned();
    let reads = (0..16).map(|_| {
        let (origin, object): (Arc<dyn Origin>, _) = (fixture.origin.clone(), object.clone());
        tokio::spawn(async move { origin.read(&object, ByteRange::new(0, 5)).await.map(drop) })
    });
    for read in reads.collect::<Vec<_>>() {
        read.await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_come_unasked_are_used_before_a_request_is_refused() {
    let (fixture, config, wanted) = guarded(Protocol::S3, "unasked").await;
    fixture.put("x", b"first");
    let object = fixture.version("x").await;
    *wanted.lock() = "SECOND".to_owned();
    renewal::renew("unasked", with_key(config, "SECOND"));
    let before = fixture.world.requests.load(Ordering::SeqCst);
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"first");
    assert_eq!(fixture.world.requests.load(Ordering::SeqCst), before + 1);
}
