//! A TCP connection as two halves that carry frames, with or without TLS around it.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ConnectionCommon, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::error::{Error, ErrorKind, Result};
use crate::wire::heard::Heard;
use crate::wire::read::{FrameReader, ended};
use crate::wire::socket::tune;
use crate::wire::write::FrameWriter;

/// Ties the token's proofs to this very TLS session: whoever sits in the middle cannot pass them on.
const BINDING_LABEL: &[u8] = b"EXPORTER-headrace-peer-protocol";

pub struct Transport {
    pub reader: FrameReader,
    pub writer: FrameWriter,
    pub heard: Arc<Heard>,
    /// Known to both ends of the TLS session only; zeros without TLS.
    pub binding: [u8; 32],
}

/// The server's side of a fresh connection.
pub async fn accept(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Result<Transport> {
    tune(&stream).map_err(|error| ended("early", Some(error)))?;
    let Some(tls) = tls else { return Ok(plain(stream)) };
    let stream = TlsAcceptor::from(tls).accept(stream).await.map_err(|error| ended("in TLS", Some(error)))?;
    let binding = binding(stream.get_ref().1)?;
    Ok(covered(stream, binding))
}

/// The client's side; `host` is what the server's certificate must be for.
pub async fn connect(stream: TcpStream, tls: Option<Arc<ClientConfig>>, host: &str) -> Result<Transport> {
    tune(&stream).map_err(|error| ended("early", Some(error)))?;
    let Some(tls) = tls else { return Ok(plain(stream)) };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| Error::config(format!("{host} is neither a host name nor an address")))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(refused)?;
    let binding = binding(stream.get_ref().1)?;
    Ok(covered(stream, binding))
}

fn plain(stream: TcpStream) -> Transport {
    let heard = Arc::new(Heard::new());
    let (read, write) = stream.into_split();
    let reader = FrameReader::new(Box::new(read), heard.clone());
    Transport { reader, writer: FrameWriter::Plain(write), heard, binding: [0; 32] }
}

fn covered(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static, binding: [u8; 32]) -> Transport {
    let heard = Arc::new(Heard::new());
    let (read, write) = tokio::io::split(stream);
    let reader = FrameReader::new(Box::new(read), heard.clone());
    Transport { reader, writer: FrameWriter::Covered(Box::new(write)), heard, binding }
}

fn binding<S>(session: &ConnectionCommon<S>) -> Result<[u8; 32]> {
    session
        .export_keying_material([0; 32], BINDING_LABEL, None)
        .map_err(|error| Error::new(ErrorKind::Unexpected, format!("cannot tie the token to the TLS session: {error}")))
}

/// A failed TLS handshake: a fault of certificates is permanent, a broken connection is not.
fn refused(error: std::io::Error) -> Error {
    use tokio_rustls::rustls;
    match error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>()) {
        Some(rustls::Error::InvalidCertificate(_)) => {
            Error::new(ErrorKind::PermissionDenied, format!("the peer's certificate is not accepted: {error}"))
                .with_hint("check the certificate authority, and that the certificate holds the peer's name or address")
        }
        Some(rustls::Error::AlertReceived(alert)) => {
            Error::new(ErrorKind::PermissionDenied, format!("the peer refused TLS: {alert:?}"))
                .with_hint("the peer may demand a client certificate")
        }
        _ => ended("in TLS", Some(error)).with_hint("check that both sides agree on TLS"),
    }
}
