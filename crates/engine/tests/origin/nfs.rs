//! What only NFS has: servers that lack a procedure, forget handles, close connections, answer little or nonsense.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::servers::fixture::{Fixture, Protocol, fixture, fixture_with, pattern, settings};
use crate::servers::nfs::{LOOKUP, NfsServer, READ, READDIRPLUS, framed, numbers, opaque};
use futures::StreamExt;
use headrace_engine::config::{OriginConfig, TransferConfig};
use headrace_engine::error::{Error, ErrorKind, Retry};
use headrace_engine::ids::{ByteRange, Version};
use headrace_engine::metrics::Metrics;
use headrace_engine::origin::{ObjectVersion, open};

fn server(fixture: &Fixture) -> &NfsServer {
    fixture.nfs.as_ref().unwrap()
}

fn replaced(honest: &[u8], result: &[u8]) -> Vec<u8> {
    framed(&[&honest[..24], result].concat())
}

async fn unretried(timeout_s: f64) -> Fixture {
    let settings = TransferConfig { retries: 0, timeout_s, ..settings() };
    fixture_with(Protocol::Nfs, "data", settings).await
}

#[tokio::test]
async fn a_server_without_readdirplus_is_listed_name_by_name() {
    let fixture = fixture(Protocol::Nfs).await;
    let names: Vec<String> = (0..60).map(|index| format!("d{}/f{index:02}", index % 3)).collect();
    names.iter().for_each(|name| fixture.put(name, name.as_bytes()));
    let full = fixture.list().await.unwrap();
    server(&fixture).lack_readdirplus();
    let mut plain = fixture.list().await.unwrap();
    let mut full = full;
    full.sort_by(|a, b| a.key.cmp(&b.key));
    plain.sort_by(|a, b| a.key.cmp(&b.key));
    assert_eq!(full.len(), 63);
    assert_eq!(plain, full);
}

#[tokio::test]
async fn what_a_server_may_leave_out_is_asked_for() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("d/large", &pattern(500_000));
    server(&fixture).tell_little();
    let object = fixture.version("d/large").await;
    assert_eq!(object.size, 500_000);
    assert!(fixture.read_all(&object).await.unwrap() == pattern(500_000));
    fixture.put("d/large", &vec![1; 500_000]);
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test]
async fn connections_are_kept_and_replaced_when_the_server_closes_them() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("file", &pattern(1_000_000));
    let object = fixture.version("file").await;
    let before = server(&fixture).connections();
    for _ in 0..10 {
        fixture.read_all(&object).await.unwrap();
    }
    assert_eq!(server(&fixture).connections(), before, "each read opened a connection");
    server(&fixture).end_connections_after(2);
    for _ in 0..10 {
        assert!(fixture.read_all(&object).await.unwrap() == pattern(1_000_000));
    }
    assert_eq!(fixture.metrics.origin_retries.get(), 0);
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_ends_the_read() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("file", &pattern(1_000_000));
    let object = fixture.version("file").await;
    let mut body = fixture.origin.read(&object, ByteRange::new(0, object.size)).await.unwrap();
    let first = body.next().await.unwrap().unwrap();
    assert!(pattern(1_000_000).starts_with(&first));
    fixture.put("file", &vec![7; 1_000_000]);
    let rest: Vec<_> = body.collect().await;
    assert_eq!(rest.last().unwrap().as_ref().unwrap_err().kind(), ErrorKind::Stale);
    assert!(rest.iter().flatten().next().is_none(), "bytes of another version were passed on");
}

#[tokio::test]
async fn a_server_that_forgot_its_handles_is_mounted_again() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("d/file", b"content");
    let object = fixture.version("d/file").await;
    fixture.read_all(&object).await.unwrap();
    let forgotten = AtomicU64::new(0);
    // The next two lookups: by the kept handle of the folder, and from the root.
    server(&fixture).tamper(move |asked, honest| {
        let forget =
            asked.program == 100_003 && asked.procedure == LOOKUP && forgotten.fetch_add(1, Ordering::SeqCst) < 2;
        if forget { replaced(&honest, &numbers(&[70, 0])) } else { framed(&honest) }
    });
    assert_eq!(fixture.read_all(&object).await.unwrap(), b"content");
}

/// Its programs and exports come one after the other.
#[tokio::test]
async fn a_server_that_begins_anew_is_waited_for_until_it_offers_what_it_did() {
    for (program, refusal) in
        [(100_003, Refusal::NoProgram), (100_005, Refusal::NoProgram), (100_005, Refusal::NoExport)]
    {
        let fixture = fixture(Protocol::Nfs).await;
        fixture.put("d/file", b"content");
        let object = fixture.version("d/file").await;
        let (refused, forgotten) = (AtomicU64::new(0), AtomicU64::new(0));
        server(&fixture).tamper(move |asked, honest| {
            let is_looked_up = asked.program == 100_003 && asked.procedure == LOOKUP;
            if program == 100_005 && is_looked_up && forgotten.fetch_add(1, Ordering::SeqCst) < 1 {
                // So that it is mounted anew.
                return replaced(&honest, &numbers(&[70, 0]));
            }
            let refuse = asked.program == program && refused.fetch_add(1, Ordering::SeqCst) < 2;
            match refusal {
                Refusal::NoProgram if refuse => framed(&[&honest[..20], &numbers(&[1])].concat()),
                Refusal::NoExport if refuse => replaced(&honest, &numbers(&[13])),
                _ => framed(&honest),
            }
        });
        assert_eq!(fixture.read_all(&object).await.unwrap(), b"content", "{program} {refusal:?}");
    }
}

#[derive(Debug, Clone, Copy)]
enum Refusal {
    NoProgram,
    NoExport,
}

#[tokio::test]
async fn a_server_that_never_offered_it_is_told_at_once() {
    let fixture = fixture(Protocol::Nfs).await;
    let asked = Arc::new(AtomicU64::new(0));
    let counted = asked.clone();
    server(&fixture).tamper(move |_, honest| {
        counted.fetch_add(1, Ordering::SeqCst);
        framed(&[&honest[..20], &numbers(&[1])].concat())
    });
    let error = check(&config(server(&fixture).address.port(), "/export/data")).await;
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unsupported, Retry::Permanent));
    assert_eq!(asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_folder_that_was_moved_is_looked_for_again() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("d/file", b"content");
    fixture.put("d/other", b"x");
    let object = fixture.version("d/file").await;
    fixture.read_all(&object).await.unwrap();
    fixture.remove("d/file");
    assert_eq!(fixture.read_all(&object).await.unwrap_err().kind(), ErrorKind::Stale);
}

#[tokio::test]
async fn no_key_leads_out_of_the_folder() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.world.put("secret", b"secret");
    fixture.put("file", b"inside");
    for key in ["../secret", "..", ".", "", "/secret", "d/../../secret", "file/", "a\0b"] {
        let object = ObjectVersion { key: key.as_bytes().into(), size: 6, version: Version::ModifiedNs(0) };
        assert!(fixture.read_all(&object).await.is_err(), "{key:?} was read");
    }
}

#[tokio::test]
async fn a_listing_in_circles_ends_with_an_error() {
    let fixture = unretried(30.0).await;
    (0..20).for_each(|index| fixture.put(&format!("{index}"), b"x"));
    let entry =
        |cookie: u64| [&numbers(&[1, 0, 1])[..], &opaque(b"name"), &cookie.to_be_bytes(), &numbers(&[0, 0])].concat();
    let page = move |cookie| [numbers(&[0, 0]), b"verifier".to_vec(), entry(cookie), numbers(&[0, 0])].concat();
    server(&fixture).tamper(move |asked, honest| match asked.procedure {
        READDIRPLUS => replaced(&honest, &page(7)),
        _ => framed(&honest),
    });
    let error = fixture.list().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error:?}");
    // A page without names that is not the last one.
    server(&fixture).tamper(|asked, honest| match asked.procedure {
        READDIRPLUS => replaced(&honest, &[numbers(&[0, 0]), b"verifier".to_vec(), numbers(&[0, 0])].concat()),
        _ => framed(&honest),
    });
    assert_eq!(fixture.list().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

#[tokio::test]
async fn a_name_with_a_slash_ends_the_listing() {
    let fixture = unretried(30.0).await;
    fixture.put("x", b"x");
    server(&fixture).tamper(|asked, honest| match asked.procedure {
        READDIRPLUS => {
            let entry = [&numbers(&[1, 0, 1])[..], &opaque(b"../x"), &9u64.to_be_bytes(), &numbers(&[0, 0])].concat();
            let page = [numbers(&[0, 0]), b"verifier".to_vec(), entry, numbers(&[0, 1])].concat();
            replaced(&honest, &page)
        }
        _ => framed(&honest),
    });
    assert_eq!(fixture.list().await.unwrap_err().kind(), ErrorKind::Corrupt);
}

/// Each of these would be an endless loop, a huge allocation or a panic in a client that believes lengths.
#[tokio::test]
async fn nonsense_is_an_error_within_the_silence() {
    let fixture = unretried(0.5).await;
    fixture.put("x", &pattern(10_000));
    let object = fixture.version("x").await;
    type Lie = fn(Vec<u8>) -> Vec<u8>;
    let lies: [(&str, Lie); 9] = [
        ("a huge record", |_| vec![0xff; 4]),
        ("fragments without end", |_| vec![0; 100_000]),
        ("half a record", |honest| framed(&honest)[..honest.len() / 2].to_vec()),
        ("an empty record", |_| framed(&[])),
        ("another call's reply", |mut honest| {
            honest[3] ^= 1;
            framed(&honest)
        }),
        ("a huge opaque", |honest| framed(&[&honest[..24], &numbers(&[0, 0, u32::MAX, 1, u32::MAX])].concat())),
        ("more than was asked for", |honest| {
            let data = vec![1; 100_000];
            framed(&[&honest[..24], &numbers(&[0, 0, 100_000, 1]), &opaque(&data)].concat())
        }),
        ("nothing at all", |_| Vec::new()),
        ("something else", |_| b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
    ];
    for (name, lie) in lies {
        server(&fixture).tamper(move |asked, honest| {
            if asked.program == 100_003 && asked.procedure == READ { lie(honest) } else { framed(&honest) }
        });
        let started = Instant::now();
        let error = fixture.read_all(&object).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unreachable | ErrorKind::Timeout), "{name}: {error:?}");
        assert!(started.elapsed() < Duration::from_secs(30), "{name}");
        server(&fixture).be_honest();
        // On a busy machine an honest answer may be late as well.
        let mut again = fixture.read_all(&object).await;
        while again.as_ref().is_err_and(|error| error.kind() == ErrorKind::Timeout) {
            assert!(started.elapsed() < Duration::from_secs(60), "after {name}: {again:?}");
            again = fixture.read_all(&object).await;
        }
        assert!(again.unwrap() == pattern(10_000), "after {name}");
    }
}

#[tokio::test]
async fn a_reply_in_many_fragments_is_put_together() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("x", &pattern(100_000));
    let object = fixture.version("x").await;
    server(&fixture).tamper(|_, honest| {
        let mut sent = Vec::new();
        let pieces: Vec<&[u8]> = honest.chunks(honest.len().div_ceil(7)).collect();
        for (index, piece) in pieces.iter().enumerate() {
            let last = if index + 1 == pieces.len() { 1 << 31 } else { 0 };
            sent.extend((last | piece.len() as u32).to_be_bytes());
            sent.extend_from_slice(piece);
        }
        sent
    });
    assert!(fixture.read_all(&object).await.unwrap() == pattern(100_000));
}

#[tokio::test]
async fn statuses_of_the_server_are_told_apart() {
    let fixture = unretried(30.0).await;
    fixture.put("x", b"x");
    let object = fixture.version("x").await;
    for (status, kind, is_temporary) in [
        (1, ErrorKind::PermissionDenied, false),
        (5, ErrorKind::Unreachable, true),
        (13, ErrorKind::PermissionDenied, false),
        (21, ErrorKind::Stale, false),
        (70, ErrorKind::Stale, false),
        (10_004, ErrorKind::Unsupported, false),
        (10_008, ErrorKind::Throttled, true),
        (99_999, ErrorKind::PermissionDenied, false),
    ] {
        server(&fixture).tamper(move |asked, honest| {
            let lie = asked.program == 100_003 && asked.procedure == READ;
            if lie { replaced(&honest, &numbers(&[status, 0])) } else { framed(&honest) }
        });
        let error = fixture.read_all(&object).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{status}: {error:?}");
        let was_temporary = error.retry() != headrace_engine::error::Retry::Permanent;
        assert_eq!(was_temporary, is_temporary, "{status}: {error:?}");
    }
}

async fn check(config: &OriginConfig) -> Error {
    let started = Instant::now();
    let error = open(config, &settings(), &Metrics::new()).unwrap().check().await.unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    assert!(error.hint().is_some(), "{error:?}");
    error
}

fn config(port: u16, directory: &str) -> OriginConfig {
    OriginConfig::Nfs {
        server: "127.0.0.1".to_owned(),
        port: Some(port),
        mount_port: Some(port),
        directory: directory.to_owned(),
        uid: Some(1000),
        gid: None,
        ignore_change_times: false,
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_at_once() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = check(&config(free.port(), "/export")).await;
    assert_eq!(error.kind(), ErrorKind::Unreachable);
    assert!(error.message().contains(&format!("{free} refuses connections")), "{error:?}");
    let unknown = OriginConfig::Nfs {
        server: "no-such-host.invalid".to_owned(),
        port: Some(1),
        mount_port: Some(1),
        directory: "/".to_owned(),
        uid: None,
        gid: None,
        ignore_change_times: false,
    };
    assert_eq!(check(&unknown).await.kind(), ErrorKind::Unreachable);
}

#[tokio::test]
async fn a_missing_folder_a_file_and_a_foreign_export_are_told_apart() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("file", b"x");
    let port = server(&fixture).address.port();
    assert_eq!(check(&config(port, "/export/data/missing")).await.kind(), ErrorKind::NotFound);
    assert_eq!(check(&config(port, "/export/data/file")).await.kind(), ErrorKind::NotDirectory);
    assert_eq!(check(&config(port, "/export/data/file/below")).await.kind(), ErrorKind::NotDirectory);
    let error = check(&config(port, "/elsewhere")).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("does not export nfs://127.0.0.1"), "{error:?}");
}

/// Ports that nobody knows are asked for at the server's port mapper, which this machine does not run or which knows none.
#[tokio::test]
async fn without_a_port_mapper_mount_is_asked_for_where_nfs_is() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("x", b"x");
    let mut config = config(server(&fixture).address.port(), "/export/data");
    if let OriginConfig::Nfs { mount_port, .. } = &mut config {
        *mount_port = None;
    }
    open(&config, &settings(), &Metrics::new()).unwrap().check().await.unwrap();
}

#[tokio::test]
async fn a_folder_with_dots_is_a_mistake() {
    let error = open(&config(1, "/a/../b"), &settings(), &Metrics::new()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Config);
}

#[tokio::test]
async fn a_right_that_is_lacking_names_who_asked() {
    let fixture = fixture(Protocol::Nfs).await;
    fixture.put("x", b"x");
    server(&fixture).tamper(|asked, honest| match asked.procedure {
        READDIRPLUS => replaced(&honest, &numbers(&[13, 0])),
        _ => framed(&honest),
    });
    let error = check(&config(server(&fixture).address.port(), "/export/data")).await;
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("user 1000") && error.hint().unwrap().contains("nfs.uid"), "{error:?}");
}
