//! The same answers over TLS, and every wrong certificate refused with a reason.
//!
//! Certificates are made by the `openssl` command, fresh in every run.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::*;
use headrace_engine::error::{ErrorKind, Result};
use headrace_engine::ids::ByteRange;
use headrace_engine::metrics::Metrics;
use headrace_engine::wire::{ClientSecurity, PeerClient, ServerSecurity, Token};

/// A folder with an authority and what it signed.
struct Certificates {
    folder: tempfile::TempDir,
}

impl Certificates {
    fn new() -> Self {
        let certificates = Certificates { folder: tempfile::tempdir().unwrap() };
        certificates.openssl(&["req", "-x509", "-subj", "/CN=tests", "-keyout", "ca.key", "-out", "ca.pem"]);
        certificates
    }

    /// Signs a certificate for `subject` (`IP:…` or `DNS:…`); returns certificate and key.
    fn sign(&self, name: &str, subject: &str) -> (PathBuf, PathBuf) {
        let [key, request, certificate, extensions] = ["key", "csr", "pem", "ext"].map(|end| format!("{name}.{end}"));
        std::fs::write(self.path(&extensions), format!("subjectAltName={subject}\nbasicConstraints=CA:FALSE\n"))
            .unwrap();
        self.openssl(&["req", "-new", "-subj", "/CN=peer", "-keyout", &key, "-out", &request]);
        let sign = ["x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial"];
        self.run(&[&sign[..], &["-extfile", &extensions, "-out", &certificate]].concat());
        (self.path(&certificate), self.path(&key))
    }

    fn openssl(&self, words: &[&str]) {
        self.run(&[words, &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]].concat());
    }

    fn run(&self, words: &[&str]) {
        let output = Command::new("openssl").args(words).current_dir(self.folder.path()).output();
        let output = output.expect("the command openssl is needed for this test");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn authority(&self) -> PathBuf {
        self.path("ca.pem")
    }

    fn server(&self, subject: &str, client_authority: Option<&Path>) -> ServerSecurity {
        let (certificate, key) = self.sign("server", subject);
        ServerSecurity::with_tls(token(), &certificate, &key, client_authority).unwrap()
    }
}

async fn ask(security: ClientSecurity, address: &str) -> Result<Vec<u8>> {
    let client = PeerClient::new(security, one_connection(), &Metrics::new());
    get(&client, address, &request("a", ByteRange::new(3, 100_000))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_and_files_arrive_byte_for_byte() {
    let certificates = Certificates::new();
    let fixture = Fixture::with(Depot::with_file(5_000_000), certificates.server("IP:127.0.0.1", None)).await;
    let security = ClientSecurity::with_tls(token(), &certificates.authority(), None).unwrap();
    let client = PeerClient::new(security, one_connection(), &Metrics::new());
    let range = ByteRange { start: 1234, end: 5_000_000 };
    for path in ["a", "file", "file-crc"] {
        assert!(get(&client, &fixture.address(), &request(path, range)).await.unwrap() == content(range), "{path}");
    }
    fixture.depot.file.as_ref().unwrap().set_len(1_000_000).unwrap();
    for path in ["file", "file-crc"] {
        let error = get(&client, &fixture.address(), &request(path, range)).await.unwrap_err();
        assert!(error.is_temporary() && error.kind() == ErrorKind::Corrupt, "{error:?}");
    }
}

#[tokio::test]
async fn a_client_certificate_is_asked_for_where_configured() {
    let certificates = Certificates::new();
    let authority = certificates.authority();
    let fixture = Fixture::with(Depot::new(), certificates.server("IP:127.0.0.1", Some(&authority))).await;
    let (certificate, key) = certificates.sign("client", "DNS:mount");
    let known = ClientSecurity::with_tls(token(), &authority, Some((&certificate, &key))).unwrap();
    assert!(ask(known, &fixture.address()).await.is_ok());
    let unknown = ClientSecurity::with_tls(token(), &authority, None).unwrap();
    let error = ask(unknown, &fixture.address()).await.unwrap_err();
    assert!(error.to_string().contains("CertificateRequired"), "{error:?}");
    assert_eq!(fixture.metrics.peer.served_requests.get(), 1);
}

#[tokio::test]
async fn a_server_with_the_wrong_name_or_a_strange_authority_is_refused() {
    let certificates = Certificates::new();
    let fixture = Fixture::with(Depot::new(), certificates.server("DNS:elsewhere", None)).await;
    let security = ClientSecurity::with_tls(token(), &certificates.authority(), None).unwrap();
    let error = ask(security, &fixture.address()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
    let strange = ClientSecurity::with_tls(token(), &Certificates::new().authority(), None).unwrap();
    let error = ask(strange, &fixture.address()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error:?}");
}

#[tokio::test]
async fn the_token_is_asked_for_under_tls_too() {
    let certificates = Certificates::new();
    let fixture = Fixture::with(Depot::new(), certificates.server("IP:127.0.0.1", None)).await;
    let other = Token::new("some other token of theirs").unwrap();
    let security = ClientSecurity::with_tls(other, &certificates.authority(), None).unwrap();
    let error = ask(security, &fixture.address()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("same cluster")), "{error:?}");
}

#[tokio::test]
async fn sides_that_disagree_on_tls_fail_soon_and_say_so() {
    let certificates = Certificates::new();
    let covered = Fixture::with(Depot::new(), certificates.server("IP:127.0.0.1", None)).await;
    let error = ask(ClientSecurity::token_only(token()), &covered.address()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("TLS")), "{error:?}");
    let plain = Fixture::new(Depot::new()).await;
    let security = ClientSecurity::with_tls(token(), &certificates.authority(), None).unwrap();
    let error = ask(security, &plain.address()).await.unwrap_err();
    assert!(error.hint().is_some_and(|hint| hint.contains("TLS")), "{error:?}");
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_by_a_server_that_runs_and_a_broken_one_is_not() {
    let (certificates, others) = (Certificates::new(), Certificates::new());
    let fixture = Fixture::with(Depot::new(), certificates.server("IP:127.0.0.1", None)).await;
    let believing = |by: &Certificates| ClientSecurity::with_tls(token(), &by.authority(), None).unwrap();
    let (old, new) = (believing(&certificates), believing(&others));
    let (certificate, key) = others.sign("server", "IP:127.0.0.1");
    // A certificate whose key is not there yet.
    std::fs::copy(&certificate, certificates.path("server.pem")).unwrap();
    assert!(ask(old.clone(), &fixture.address()).await.is_ok());
    std::fs::copy(&key, certificates.path("server.key")).unwrap();
    assert!(ask(new, &fixture.address()).await.is_ok());
    assert!(ask(old.clone(), &fixture.address()).await.is_err());
    // A client that runs believes another authority once its file has changed.
    std::fs::copy(others.authority(), certificates.authority()).unwrap();
    assert!(ask(old, &fixture.address()).await.is_ok());
}

#[tokio::test]
async fn a_renewed_token_is_taken_by_either_side_first_and_the_one_before_is_good_meanwhile() {
    let folder = tempfile::tempdir().unwrap();
    let [of_server, of_client] = ["server", "client"].map(|name| folder.path().join(name));
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    for path in [&of_server, &of_client] {
        write(path, "a token that all tests know");
    }
    let server = ServerSecurity::token_only(token()).with_token_file(token(), of_server.clone());
    let fixture = Fixture::with(Depot::new(), server).await;
    let client = ClientSecurity::token_only(token()).with_token_file(token(), of_client.clone());
    write(&of_client, "another token that is new");
    assert!(ask(client.clone(), &fixture.address()).await.is_ok(), "the server has the old one still");
    write(&of_server, "another token that is new");
    let new = Token::new("another token that is new").unwrap();
    assert!(ask(ClientSecurity::token_only(new.clone()), &fixture.address()).await.is_ok());
    assert!(ask(ClientSecurity::token_only(token()), &fixture.address()).await.is_ok(), "others have it still");
    write(&of_server, "short");
    assert!(ask(client.clone(), &fixture.address()).await.is_ok(), "a broken file changes nothing");
    std::fs::remove_file(&of_server).unwrap();
    assert!(ask(ClientSecurity::token_only(new), &fixture.address()).await.is_ok());
    let never = Token::new("a token that nobody has").unwrap();
    assert!(ask(ClientSecurity::token_only(never), &fixture.address()).await.is_err());
}

#[test]
fn files_that_cannot_be_used_are_named_and_not_quoted() {
    let certificates = Certificates::new();
    let (certificate, key) = certificates.sign("server", "IP:127.0.0.1");
    let (_, other_key) = certificates.sign("other", "IP:127.0.0.1");
    let missing = certificates.path("missing.pem");
    let broken = certificates.path("broken.pem");
    let text = std::fs::read_to_string(&key).unwrap().replace("END", "AND");
    std::fs::write(&broken, &text).unwrap();
    for (certificate, key, named) in [
        (&missing, &key, &missing),
        (&certificate, &missing, &missing),
        (&certificate, &broken, &broken),
        (&key, &key, &key),
        (&certificate, &other_key, &other_key),
    ] {
        let error = ServerSecurity::with_tls(token(), certificate, key, None).unwrap_err();
        assert!(error.message().contains(named.to_str().unwrap()), "{error}");
        assert!(!text.lines().skip(1).any(|line| !line.is_empty() && error.to_string().contains(line)), "{error}");
    }
    let error = ClientSecurity::with_tls(token(), &key, None).unwrap_err();
    assert!(error.message().contains("no certificate in"), "{error}");
    std::fs::write(&broken, "short\n").unwrap();
    let error = Token::from_file(&broken).unwrap_err();
    assert!(error.to_string().contains("broken.pem") && !error.to_string().contains("short\n"), "{error}");
}
