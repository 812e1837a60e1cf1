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

fn set(name: &str, value: &str) {
    // SAFETY: this program runs this one test on one thread, and nothing else reads the environment meanwhile.
    unsafe { std::env::set_var(name, value) };
}

#[tokio::test]
async fn the_environment_is_used_and_its_emptiness_is_told() {
    let nobody = tempfile::tempdir().unwrap();
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_") || name.starts_with("ALIBABA_")) {
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
