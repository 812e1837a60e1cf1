//! A server that sends us elsewhere: what we take along, and where we do not go.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::Ordering;

use crate::servers::fixture::{Fixture, Protocol, fixture, served, settings};
use crate::servers::wire::{Reply, Request};
use crate::servers::{World, web};
use headrace_engine::error::ErrorKind;

/// A web server that wants no credentials, and notices if it gets any.
fn handle_strangers(world: &World, request: &Request) -> Reply {
    if request.headers.iter().any(|(name, _)| matches!(name.as_str(), "authorization" | "cookie" | "referer")) {
        world.received.fetch_add(1, Ordering::SeqCst);
    }
    web::handle(world, request)
}

/// Has every request for `name` sent on to another place.
fn send_on(fixture: &Fixture, name: &'static str, place: String) {
    fixture.world.tamper(move |request, reply| {
        if request.path().ends_with(name) { Reply::status(307).with("location", &place) } else { reply }
    });
}

#[tokio::test]
async fn a_web_server_s_files_may_lie_on_another_one_which_gets_no_credentials() {
    let (fixture, elsewhere) =
        (fixture(Protocol::Http).await, served(Protocol::Http, handle_strangers, "data", settings()).await);
    fixture.put("file", b"stale");
    elsewhere.put("file", b"right");
    send_on(&fixture, "file", format!("{}/data/file", elsewhere.server.as_ref().unwrap().address));
    let object = fixture.version("file").await;
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"right");
    assert!(elsewhere.world.requests.load(Ordering::SeqCst) > 0);
    assert_eq!(elsewhere.world.received.load(Ordering::SeqCst), 0, "credentials of the one host came to the other");
}

#[tokio::test]
async fn a_bucket_s_request_goes_to_no_other_host() {
    for protocol in [Protocol::S3, Protocol::Oss] {
        let (fixture, elsewhere) =
            (fixture(protocol).await, served(Protocol::Http, handle_strangers, "data", settings()).await);
        fixture.put("file", b"right");
        let object = fixture.version("file").await;
        let place = elsewhere.server.as_ref().unwrap().address.clone();
        send_on(&fixture, "file", format!("{place}/data/file"));
        let error = fixture.read_all(&object).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{protocol:?}: {error:?}");
        assert!(error.message().contains("refers to another place"), "{protocol:?}: {error:?}");
        assert_eq!(elsewhere.world.requests.load(Ordering::SeqCst), 0, "{protocol:?}");
    }
}

#[tokio::test]
async fn a_circle_is_told_as_one() {
    let fixture = fixture(Protocol::Http).await;
    fixture.put("file", b"right");
    send_on(&fixture, "file", "file".into());
    let error = fixture.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error:?}");
    assert!(error.message().contains("redirects in circles"), "{error:?}");
}
