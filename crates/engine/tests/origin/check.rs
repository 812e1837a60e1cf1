//! What a person reads when an origin cannot be used: what failed, on what, and what to do, within seconds.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use crate::servers::fixture::{Fixture, Protocol, config, fixture, fixture_with, served, settings};
use crate::servers::wire::{Reply, Server};
use crate::servers::{SECRET_KEY, World, oss, s3};
use headrace_engine::config::{OriginConfig, TransferConfig};
use headrace_engine::error::{Error, ErrorKind};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::open;
use headrace_engine::secret::Secret;

const REMOTE: [Protocol; 4] = [Protocol::S3, Protocol::Oss, Protocol::Webhdfs, Protocol::Http];

async fn check(config: &OriginConfig) -> Error {
    let started = Instant::now();
    let origin = open(config, &settings(), &Metrics::new()).unwrap();
    let error = origin.check().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(error.hint().is_some(), "{error:?}");
    assert_no_secret(&error);
    error
}

fn assert_no_secret(error: &Error) {
    let mut text = format!("{error:?} {error} {:?}", error.context());
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text += &format!("{inner:?} {inner}");
        source = inner.source();
    }
    for secret in [SECRET_KEY, "hunter2", "Signature=", "delegation=", "You sent"] {
        assert!(!text.contains(secret), "{secret} in {text}");
    }
}

fn with_secret(mut config: OriginConfig, wrong: &str) -> OriginConfig {
    if let OriginConfig::S3 { secret_access_key: secret, .. } | OriginConfig::Oss { access_key_secret: secret, .. } =
        &mut config
    {
        *secret = Some(Secret::new(wrong));
    }
    config
}

fn with_key(config: OriginConfig, key: &str) -> OriginConfig {
    let mut config = config;
    if let OriginConfig::S3 { access_key_id, .. } | OriginConfig::Oss { access_key_id, .. } = &mut config {
        *access_key_id = Some(Secret::new(key));
    }
    config
}

fn in_bucket(config: OriginConfig, name: &str) -> OriginConfig {
    let mut config = config;
    if let OriginConfig::S3 { bucket, .. } | OriginConfig::Oss { bucket, .. } = &mut config {
        *bucket = name.to_owned();
    }
    config
}

async fn server(protocol: Protocol) -> (Server, OriginConfig) {
    let world = World::new();
    world.put("data/x", b"x");
    let handler = if protocol == Protocol::Oss { oss::handle } else { s3::handle };
    let server = crate::servers::wire::serve(world, handler).await;
    let config = config(protocol, &server.address, "data");
    (server, config)
}

#[tokio::test]
async fn a_wrong_secret_key_is_named_as_such() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (_server, config) = server(protocol).await;
        let error = check(&with_secret(config, "wrong hunter2")).await;
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.message().contains("signature") && error.hint().unwrap().contains("secret key"), "{error:?}");
    }
}

#[tokio::test]
async fn an_unknown_access_key_is_named_as_such() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (_server, config) = server(protocol).await;
        let error = check(&with_key(config, "AKIDSTRANGER")).await;
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        assert!(error.message().contains("access key is not known"), "{error:?}");
    }
}

#[tokio::test]
async fn a_missing_bucket_is_named_with_its_place() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (server, config) = server(protocol).await;
        let error = check(&in_bucket(config, "nosuch")).await;
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(
            error.message().contains("bucket nosuch does not exist") && error.message().contains(&server.address),
            "{error:?}"
        );
    }
}

#[tokio::test]
async fn a_prefix_with_nothing_below_is_not_found() {
    for protocol in REMOTE {
        let fixture = fixture_with(protocol, "missing/folder", settings()).await;
        fixture.put("x", b"x");
        let error = fixture.origin.check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound, "{protocol:?} {error:?}");
        assert!(error.message().contains("missing/folder") && error.hint().is_some(), "{error:?}");
    }
}

#[tokio::test]
async fn a_prefix_is_a_folder_not_the_beginning_of_a_name() {
    let fixture = fixture(Protocol::S3).await;
    fixture.world.put("data-other/x", b"x");
    fixture.world.put("data", b"x");
    fixture.put("inside", b"x");
    assert_eq!(fixture.files().await, ["inside"]);
}

#[tokio::test]
async fn a_refused_connection_is_told_at_once() {
    for protocol in REMOTE {
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = check(&config(protocol, &format!("http://{free}"), "data")).await;
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        assert!(error.message().contains(&format!("{free} refuses connections")), "{error:?}");
    }
}

#[tokio::test]
async fn an_unknown_host_is_told_within_seconds() {
    let error = check(&config(Protocol::S3, "http://no-such-host.invalid", "data")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
}

/// Costs five seconds: the deadline itself is what is tested.
#[tokio::test]
async fn a_server_that_never_answers_is_given_up_within_seconds() {
    let fixture = served(Protocol::S3, s3::handle, "data", settings()).await;
    fixture.world.tamper(|_, reply| Reply { delay: Duration::from_secs(60), ..reply });
    let started = Instant::now();
    let error = fixture.origin.check().await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout), "{error:?}");
    assert!(started.elapsed() < Duration::from_secs(30));
}

#[tokio::test]
async fn tls_to_a_server_without_tls_is_explained() {
    let (server, _) = server(Protocol::S3).await;
    let error = check(&config(Protocol::S3, &server.address.replace("http:", "https:"), "data")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.hint().unwrap().contains("http://"), "{error:?}");
}

#[tokio::test]
async fn something_that_is_not_http_is_explained() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = tokio::io::AsyncWriteExt::write_all(&mut socket, b"SSH-2.0-OpenSSH\r\n").await;
        }
    });
    let error = check(&config(Protocol::S3, &address, "data")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable, "{error:?}");
    task.abort();
}

#[tokio::test]
async fn another_region_is_named_in_the_hint() {
    let fixture = fixture(Protocol::S3).await;
    fixture.world.tamper(|_, _| {
        crate::servers::xml_error(400, "AuthorizationHeaderMalformed").with("x-amz-bucket-region", "eu-west-3")
    });
    let error = fixture.origin.check().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.hint().unwrap().contains("eu-west-3"), "{error:?}");
}

#[tokio::test]
async fn half_a_pair_of_keys_is_a_mistake_and_anonymous_needs_none() {
    let world = World::new();
    world.put("data/x", b"x");
    let server = crate::servers::wire::serve(world, s3::handle_unsigned).await;
    let mut without = config(Protocol::S3, &server.address, "data");
    if let OriginConfig::S3 { secret_access_key, .. } = &mut without {
        *secret_access_key = None;
    }
    assert_eq!(open(&without, &settings(), &Metrics::new()).err().unwrap().kind(), ErrorKind::Config);
    if let OriginConfig::S3 { access_key_id, anonymous, .. } = &mut without {
        (*access_key_id, *anonymous) = (None, true);
    }
    open(&without, &settings(), &Metrics::new()).unwrap().check().await.unwrap();
}

#[tokio::test]
async fn local_folders_are_explained_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "x").unwrap();
    let local = |name: &str| OriginConfig::Local { directory: folder.path().join(name), ignore_change_times: false };
    assert_eq!(check(&local("missing")).await.kind(), ErrorKind::NotFound);
    assert_eq!(check(&local("file")).await.kind(), ErrorKind::NotDirectory);
    let relative = OriginConfig::Local { directory: "relative".into(), ignore_change_times: false };
    assert_eq!(open(&relative, &settings(), &Metrics::new()).err().unwrap().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_web_address_that_is_a_file_is_explained() {
    let fixture = fixture_with(Protocol::Http, "data/x", settings()).await;
    fixture.world.tamper(|_, _| Reply::status(200).with("content-type", "application/zip").body(b"PK"));
    assert_eq!(fixture.origin.check().await.unwrap_err().kind(), ErrorKind::NotDirectory);
}

#[tokio::test]
async fn a_read_error_tells_no_secret() {
    for protocol in REMOTE {
        let fixture = fixture_with(protocol, "data", TransferConfig { retries: 0, ..settings() }).await;
        fixture.put("x", b"x");
        let object = fixture.version("x").await;
        for status in [400, 401, 403, 404, 500, 503] {
            fixture.world.tamper(move |_, _| crate::servers::xml_error(status, "Odd"));
            let error = fixture.read_all(&object).await.unwrap_err();
            assert_no_secret(&error);
        }
    }
}

#[tokio::test]
async fn whatever_a_server_refuses_is_its_refusal_and_no_fault_of_ours() {
    for protocol in REMOTE {
        let fixture = fixture_with(protocol, "data", TransferConfig { retries: 0, ..settings() }).await;
        fixture.put("x", b"x");
        let object = fixture.version("x").await;
        for status in (400..432).chain([300, 302, 304, 451, 499, 500, 501, 503, 505, 507, 511, 599]) {
            fixture.world.tamper(move |_, _| Reply::status(status));
            let (check, list, read) = (
                fixture.origin.check().await.unwrap_err(),
                fixture.list().await.unwrap_err(),
                fixture.read_all(&object).await.unwrap_err(),
            );
            for error in [check, list, read] {
                assert_ne!(error.kind(), ErrorKind::Unexpected, "{protocol:?} {status} {error:?}");
                let names_it = error.to_string().contains(&format!("status={status}"));
                let is_gone = matches!(error.kind(), ErrorKind::Stale | ErrorKind::NotFound);
                assert!(names_it || is_gone, "{protocol:?} {status} {error:?}");
            }
        }
    }
}

fn at(mut config: OriginConfig, address: &str) -> OriginConfig {
    if let OriginConfig::S3 { endpoint, .. } = &mut config {
        *endpoint = Some(address.to_owned());
    }
    if let OriginConfig::Oss { endpoint, .. } = &mut config {
        *endpoint = address.to_owned();
    }
    config
}

#[tokio::test]
async fn an_endpoint_that_names_no_scheme_is_asked_without_tls_where_there_is_none() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (server, config) = server(protocol).await;
        let origin =
            open(&at(config.clone(), server.address.trim_start_matches("http://")), &settings(), &Metrics::new());
        let origin = origin.unwrap();
        origin.check().await.unwrap();
        assert_eq!(origin.name(), open(&config, &settings(), &Metrics::new()).unwrap().name());
        // Whoever writes the scheme means it.
        let written = at(config, &server.address.replace("http:", "https:"));
        assert_eq!(check(&written).await.kind(), ErrorKind::Unreachable);
    }
}

/// A server that answers a handshake of TLS by `handshake`, and what comes in clear by `plain`; an answer of `None` is
/// silence.
fn two_faced(handshake: Option<&'static [u8]>, plain: &'static str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            if stream.read(&mut request).is_ok_and(|length| length > 0) {
                match (request[0], handshake) {
                    (0x16, Some(answer)) => drop(stream.write_all(answer)),
                    (0x16, None) => silent.push(stream),
                    _ => drop(stream.write_all(plain.as_bytes())),
                }
            }
        }
    });
    address
}

const REFUSED_IN_CLEAR: &str = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
/// A fatal alert: handshake failure.
const ALERT: &[u8] = &[0x15, 3, 3, 0, 2, 2, 40];

#[tokio::test]
async fn a_server_that_is_slow_at_tls_or_refuses_a_handshake_is_not_asked_without() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let slow = check(&config(protocol, &two_faced(None, REFUSED_IN_CLEAR), "data")).await;
        assert!(slow.message().contains("does not answer"), "{slow:?}");
        let alerting = check(&config(protocol, &two_faced(Some(ALERT), REFUSED_IN_CLEAR), "data")).await;
        assert!(alerting.message().contains("agree on no TLS"), "{alerting:?}");
    }
}

#[tokio::test]
async fn a_server_without_tls_that_waits_for_the_end_of_a_line_is_asked_without() {
    let denied = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let error = check(&config(Protocol::S3, &two_faced(None, denied), "data")).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_no_reason_to_ask_without_tls() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = check(&config(Protocol::S3, &free.to_string(), "data")).await;
    assert!(error.message().contains(&format!("{free} refuses connections")), "{error:?}");
    assert!(!error.message().contains("https://"), "{error:?}");
}

#[tokio::test]
async fn a_server_that_asks_for_time_is_named_with_what_it_said_and_how_long_it_was_waited_for() {
    for protocol in REMOTE {
        let fixture = fixture_with(protocol, "data", settings()).await;
        fixture.put("x", b"x");
        fixture.world.tamper(|_, _| crate::servers::xml_error(503, "SlowDown").with("retry-after", "120"));
        let started = Instant::now();
        let error = fixture.origin.check().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Throttled, "{error:?}");
        let text = error.to_string();
        let address = &fixture.server.as_ref().unwrap().address;
        for word in [address.as_str(), "slow down", "503", "SlowDown", "retry_after_s=120", "waited_s="] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!error.sentence().contains("firewall"), "{error:?}");
        // Nobody waits for what would be over too late.
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[tokio::test]
async fn a_pause_that_the_server_asks_for_is_kept() {
    let fixture = fixture_with(Protocol::S3, "data", settings()).await;
    fixture.put("x", b"x");
    let began = Instant::now();
    fixture.world.tamper(move |_, reply| match began.elapsed() < Duration::from_secs(1) {
        true => crate::servers::xml_error(503, "SlowDown").with("retry-after", "1"),
        false => reply,
    });
    fixture.origin.check().await.unwrap();
    assert_eq!(fixture.world.requests.load(std::sync::atomic::Ordering::SeqCst), 2);
}

fn paid_by_requester(mut config: OriginConfig) -> OriginConfig {
    if let OriginConfig::S3 { requester_pays, .. } = &mut config {
        *requester_pays = true;
    }
    config
}

#[tokio::test]
async fn whoever_asks_pays_where_that_is_wanted_and_a_refusal_says_so() {
    let world = World::new();
    world.put("data/x", b"x");
    // As S3 does it: without the header it is a denial like any other.
    world.tamper(|request, reply| match request.header("x-amz-request-payer") {
        Some("requester") => reply,
        _ => crate::servers::xml_error(403, "AccessDenied"),
    });
    let server = crate::servers::wire::serve(world.clone(), s3::handle).await;
    let config = config(Protocol::S3, &server.address, "data");
    let error = check(&config).await;
    assert!(error.hint().unwrap().contains("requester-pays"), "{error:?}");
    let metrics = Metrics::new();
    let origin = open(&paid_by_requester(config), &settings(), &metrics).unwrap();
    let fixture =
        Fixture { protocol: Protocol::S3, origin, metrics, world, folder: None, server: Some(server), nfs: None };
    fixture.origin.check().await.unwrap();
    let object = fixture.version("x").await;
    fixture.origin.checksum(&object).await.unwrap();
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"x");
    assert!(fixture.origin.read_whole(&object).await.is_ok());
}

#[tokio::test]
async fn a_key_that_is_not_known_any_more_is_no_deleted_file() {
    let fixture = fixture(Protocol::S3).await;
    fixture.put("x", b"x");
    let object = fixture.version("x").await;
    // As versitygw says it.
    fixture.world.tamper(|_, _| crate::servers::xml_error(404, "XAdminUserNotFound"));
    let error = fixture.read_all(&object).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    assert!(error.message().contains("access key is not known"), "{error:?}");
}
