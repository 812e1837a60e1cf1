//! What a person reads when an origin cannot be used: what failed, on what, and what to do, within seconds.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use crate::servers::fixture::{Protocol, config, fixture, fixture_with, served, settings};
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

fn with_secret(config: OriginConfig, wrong: &str) -> OriginConfig {
    let secret = Some(Secret::new(wrong));
    match config {
        OriginConfig::S3 {
            bucket,
            prefix,
            endpoint,
            region,
            path_style,
            access_key_id,
            session_token,
            anonymous,
            ..
        } => OriginConfig::S3 {
            bucket,
            prefix,
            endpoint,
            region,
            path_style,
            ignore_checksums: false,
            access_key_id,
            secret_access_key: secret,
            session_token,
            anonymous,
        },
        OriginConfig::Oss {
            bucket, prefix, endpoint, path_style, access_key_id, security_token, anonymous, ..
        } => OriginConfig::Oss {
            bucket,
            prefix,
            endpoint,
            path_style,
            ignore_checksums: false,
            access_key_id,
            access_key_secret: secret,
            security_token,
            anonymous,
        },
        other => other,
    }
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
