//! How a connection is protected: the token always, TLS when its files are given. Version 1.3 only. Files that are
//! renewed are read again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};

use crate::error::{Error, Result};
use crate::wire::renewed::Renewed;
use crate::wire::token::{Rights, Token};

/// What a server demands of those who connect.
#[derive(Debug, Clone)]
pub struct ServerSecurity {
    pub(super) token: Renewed<Token>,
    pub(super) tls: Option<Renewed<ServerConfig>>,
}

/// What a client shows and demands.
#[derive(Debug, Clone)]
pub struct ClientSecurity {
    pub(super) token: Renewed<Token>,
    pub(super) tls: Option<Renewed<ClientConfig>>,
}

impl ServerSecurity {
    /// The token alone: who connects is known, what is said can be read and changed on the way.
    pub fn token_only(token: Token) -> Self {
        ServerSecurity { token: Renewed::fixed(token), tls: None }
    }

    /// TLS with the certificate chain and key in these PEM files. With `client_authority`, clients must show a
    /// certificate that one of its authorities signed.
    pub fn with_tls(token: Token, certificate: &Path, key: &Path, client_authority: Option<&Path>) -> Result<Self> {
        let files: Vec<PathBuf> = [certificate, key].into_iter().chain(client_authority).map(Path::to_owned).collect();
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        let client_authority = client_authority.map(Path::to_owned);
        let make = move || server_config(&certificate, &key, client_authority.as_deref());
        let tls = Renewed::of("the certificate of this worker", files, make)?;
        Ok(ServerSecurity { token: Renewed::fixed(token), tls: Some(tls) })
    }

    /// The same, whose token is read again when `file` changes; one with less than a worker's rights is none.
    pub fn with_token_file(self, token: Token, file: PathBuf) -> Self {
        ServerSecurity { token: renewed_token(token, file, Rights::Worker), ..self }
    }
}

impl ClientSecurity {
    /// The token alone, see `ServerSecurity::token_only`.
    pub fn token_only(token: Token) -> Self {
        ClientSecurity { token: Renewed::fixed(token), tls: None }
    }

    /// TLS; the server's certificate must be signed by an authority in the PEM file `authority` and hold the host name
    /// or IP address that is connected to. `identity` is this side's own certificate and key, where the server asks.
    pub fn with_tls(token: Token, authority: &Path, identity: Option<(&Path, &Path)>) -> Result<Self> {
        let identity = identity.map(|(certificate, key)| (certificate.to_owned(), key.to_owned()));
        let own = identity.iter().flat_map(|(certificate, key)| [certificate.clone(), key.clone()]);
        let files: Vec<PathBuf> = std::iter::once(authority.to_owned()).chain(own).collect();
        let authority = authority.to_owned();
        let make = move || client_config(&authority, identity.as_ref());
        let tls = Renewed::of("the authority and the certificate for peers", files, make)?;
        Ok(ClientSecurity { token: Renewed::fixed(token), tls: Some(tls) })
    }

    /// The same, whose token is read again when `file` changes.
    pub fn with_token_file(self, token: Token, file: PathBuf) -> Self {
        ClientSecurity { token: renewed_token(token, file, Rights::Reader), ..self }
    }
}

fn renewed_token(token: Token, file: PathBuf, least: Rights) -> Renewed<Token> {
    let path = file.clone();
    Renewed::after(token, "the cluster's token", file, move || {
        let token = Token::from_file(&path)?;
        token.derived(least)?;
        Ok(token)
    })
}

fn server_config(certificate: &Path, key: &Path, client_authority: Option<&Path>) -> Result<ServerConfig> {
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable("TLS", certificate, error))?;
    let builder = match client_authority {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(path)?), provider());
            let verifier = verifier.build().map_err(|error| unusable("the certificate authority", path, error))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let config = builder.with_single_cert(chain(certificate)?, private_key(key)?);
    config.map_err(|error| unusable_pair(certificate, key, error))
}

fn client_config(authority: &Path, identity: Option<&(PathBuf, PathBuf)>) -> Result<ClientConfig> {
    let builder = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable("TLS", authority, error))?
        .with_root_certificates(authorities(authority)?);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => builder
            .with_client_auth_cert(chain(certificate)?, private_key(key)?)
            .map_err(|error| unusable_pair(certificate, key, error)),
    }
}

/// The one implementation of cryptography, whatever other libraries of this process choose.
pub(super) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

fn chain(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<std::result::Result<Vec<_>, _>>();
    match read() {
        Ok(chain) if chain.is_empty() => Err(unreadable("certificate", path, pem::Error::NoItemsFound)),
        Ok(chain) => Ok(chain),
        Err(error) => Err(unreadable("certificate", path, error)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unreadable("private key", path, error))
}

fn authorities(path: &Path) -> Result<RootCertStore> {
    let mut store = RootCertStore::empty();
    for certificate in chain(path)? {
        store.add(certificate).map_err(|error| unusable("the certificate authority", path, error))?;
    }
    Ok(store)
}

/// The parser's own words may quote the file, which may hold a key: they are not repeated.
fn unreadable(what: &str, path: &Path, error: pem::Error) -> Error {
    match error {
        pem::Error::Io(error) => Error::from_io(&format!("read the {what} in"), path, error),
        pem::Error::NoItemsFound => Error::config(format!("there is no {what} in {}", path.display()))
            .with_hint(format!("the file must hold a PEM section with a {what}")),
        _ => Error::config(format!("the {what} in {} is not valid PEM", path.display())),
    }
}

fn unusable(what: &str, path: &Path, error: impl std::fmt::Display) -> Error {
    Error::config(format!("cannot use {what} in {}: {error}", path.display()))
}

fn unusable_pair(certificate: &Path, key: &Path, error: rustls::Error) -> Error {
    let (certificate, key) = (certificate.display(), key.display());
    Error::config(format!("cannot use the certificate in {certificate} with the key in {key}: {error}"))
}
