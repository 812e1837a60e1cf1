//! Credentials that are not given come from the environment; where there are none, it is said at once.
//!
//! Alone in its program, because it changes the environment.
#![allow(clippy::unwrap_used)]

#[path = "origin/servers/mod.rs"]
mod servers;

use std::time::{Duration, Instant};

use headrace_engine::config::OriginConfig;
use headrace_engine::error::{ErrorKind, Result};
use headrace_engine::ids::Version;
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ObjectVersion, open};
use servers::fixture::{Protocol, config, settings};
use servers::wire::{Server, serve};
use servers::{ACCESS_KEY, SECRET_KEY, World, oss, s3};

async fn server(protocol: Protocol) -> (Server, OriginConfig) {
    let world = World::new();
    world.put("data/x", b"x");
    // Told only when asked, as S3 does it.
    world.tamper(|request, reply| match request.header("x-amz-checksum-mode") {
        Some("ENABLED") if reply.status == 200 => reply.with("x-amz-checksum-crc64nvme", "rosUhgp5mIg="),
        _ => reply,
    });
    let server = serve(world, if protocol == Protocol::S3 { s3::handle } else { oss::handle }).await;
    let mut config = config(protocol, &server.address, "data");
    match &mut config {
        OriginConfig::S3 { access_key_id, secret_access_key, .. } => {
            (*access_key_id, *secret_access_key) = (None, None)
        }
        OriginConfig::Oss { access_key_id, access_key_secret, .. } => {
            (*access_key_id, *access_key_secret) = (None, None)
        }
        _ => {}
    }
    (server, config)
}

async fn check(config: &OriginConfig) -> Result<()> {
    open(config, &settings(), &Metrics::new()).unwrap().check().await
}

/// A request that is signed a second time, for the question in it, has the same keys.
async fn ask_for_checksum(config: &OriginConfig) {
    let object = ObjectVersion { key: b"x"[..].into(), size: 1, version: Version::Etag(b"tag-0"[..].into()) };
    let origin = open(config, &settings(), &Metrics::new()).unwrap();
    assert!(origin.checksum(&object).await.unwrap().is_some());
}

/// What failed is told apart from that there is nothing.
async fn a_credential_service_that_gives_no_keys_is_named() {
    let (_server, config) = server(Protocol::S3).await;
    let refusing = serve(World::new(), |_, _| servers::xml_error(403, "AccessDenied")).await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, says) in
        [(refusing.address.as_str(), "denies access"), (&format!("http://{free}"), "refuses connections")]
    {
        set("AWS_CONTAINER_CREDENTIALS_FULL_URI", address);
        let error = check(&config).await.unwrap_err();
        let text = error.sentence();
        let host = address.trim_start_matches("http://");
        assert!(text.contains("no keys for") && text.contains(host) && text.contains(says), "{text}");
    }
    // SAFETY: as in `set`.
    unsafe { std::env::remove_var("AWS_CONTAINER_CREDENTIALS_FULL_URI") };
}

fn set(name: &str, value: &str) {
    // SAFETY: this program runs this one test on one thread, and nothing else reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
}

#[tokio::test]
async fn the_environment_is_used_and_its_emptiness_is_told() {
    let nobody = tempfile::tempdir().unwrap();
    for (name, _) in std::env::vars().filter(|(name, _)| {
        name.starts_with("AWS_") || name.starts_with("ALIBABA_") || name.to_uppercase().ends_with("_PROXY")
    }) {
        // SAFETY: as in `set`.
        unsafe { std::env::remove_var(name) };
    }
    set("HOME", nobody.path().to_str().unwrap());
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (_server, config) = server(protocol).await;
        let started = Instant::now();
        let error = check(&config).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
        assert!(error.message().contains("no credentials") && error.hint().is_some(), "{error:?}");
        assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    }
    a_credential_service_that_gives_no_keys_is_named().await;
    what_a_proxy_of_the_environment_does_is_told_of_the_proxy().await;
    set("AWS_ACCESS_KEY_ID", ACCESS_KEY);
    set("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    set("ALIBABA_CLOUD_ACCESS_KEY_ID", ACCESS_KEY);
    set("ALIBABA_CLOUD_ACCESS_KEY_SECRET", SECRET_KEY);
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (_server, config) = server(protocol).await;
        check(&config).await.unwrap();
        if protocol == Protocol::S3 {
            ask_for_checksum(&config).await;
        }
    }
}

/// Proxies are named, and their passwords are not.
async fn what_a_proxy_of_the_environment_does_is_told_of_the_proxy() {
    let unauthorized = serve(World::new(), |_, _| servers::wire::Reply::status(407)).await;
    let denying = serve(World::new(), |_, _| servers::wire::Reply::status(403)).await;
    let lost = serve(World::new(), |_, _| servers::wire::Reply::status(502)).await;
    let free = format!("http://{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    for (proxy, scheme, says) in [
        (&free, "http", "refuses connections"),
        (&free, "https", "refuses connections"),
        (&unauthorized.address, "http", "wants a user and a password"),
        (&unauthorized.address, "https", "wants a user and a password"),
        (&denying.address, "http", "denies access"),
        (&lost.address, "https", "makes no way to https://s3.invalid"),
    ] {
        let host = proxy.trim_start_matches("http://");
        set(&format!("{}_PROXY", scheme.to_uppercase()), &format!("http://user:hunter2@{host}"));
        let error = check(&config(Protocol::S3, &format!("{scheme}://s3.invalid"), "data")).await.unwrap_err();
        let text = format!("{error:?} {}", error.sentence());
        assert!(text.contains(&format!("proxy {host}")) && text.contains(says), "{text}");
        assert!(text.contains("s3.invalid") && !text.contains("hunter2"), "{text}");
        // SAFETY: as in `set`.
        unsafe { std::env::remove_var(format!("{}_PROXY", scheme.to_uppercase())) };
    }
}
