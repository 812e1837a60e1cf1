//! The four frames that open every connection: versions are agreed on, and each side proves which token it knows.
//!
//! Hello (client: versions, nonce), Challenge (server: versions, choice, nonce), Proof (client), Welcome (server: proof,
//! limits). The server proves the same token as the client. A proof covers both payloads before it and the TLS session,
//! so nothing in them can be changed on the way.

use tokio_rustls::rustls::crypto::SecureRandom;

use crate::error::{Error, ErrorKind, Result};
use crate::wire::failure;
use crate::wire::fields::Fields;
use crate::wire::frame::{Header, Kind, UNNEGOTIATED, control_frame, damaged};
use crate::wire::read::ended;
use crate::wire::security::provider;
use crate::wire::token::{Rights, Side, Token};
use crate::wire::transport::Transport;

pub const MIN_VERSION: u16 = 1;
/// 2: requests tell of fills.
pub const MAX_VERSION: u16 = 2;
/// Strangers cannot make us hold more.
const MAX_HANDSHAKE_BYTES: usize = 16 << 10;

/// What both sides know when the handshake is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreement {
    pub version: u16,
    /// What the client may ask for.
    pub rights: Rights,
    /// Requests that the client may have under way on this connection.
    pub requests: u32,
}

/// The versions that one side speaks.
#[derive(Debug, Clone, Copy)]
struct Versions {
    min: u16,
    max: u16,
}

const OURS: Versions = Versions { min: MIN_VERSION, max: MAX_VERSION };

impl Versions {
    fn take(fields: &mut Fields) -> Result<Versions> {
        let (min, max) = (fields.u16()?, fields.u16()?);
        if min > max || min == UNNEGOTIATED {
            return Err(damaged(format!("versions {min} to {max} of the peer protocol make no sense")));
        }
        Ok(Versions { min, max })
    }

    fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.min.to_le_bytes());
        out.extend_from_slice(&self.max.to_le_bytes());
    }

    /// The newest version that both speak.
    fn common(client: Versions, server: Versions) -> Result<u16> {
        let version = client.max.min(server.max);
        if version >= client.min.max(server.min) {
            return Ok(version);
        }
        let message = format!(
            "the client speaks versions {} to {} of the peer protocol, the server versions {} to {}",
            client.min, client.max, server.min, server.max
        );
        Err(Error::new(ErrorKind::Unsupported, message).with_hint("upgrade the older of the two"))
    }
}

/// The client's side.
pub async fn greet(transport: &mut Transport, token: &Token) -> Result<Agreement> {
    let mut transcript = hello()?;
    send(transport, Kind::Hello, &transcript).await?;
    let challenge = receive(transport, Kind::Challenge).await?;
    let mut fields = Fields::new(&challenge);
    let (versions, version, _nonce) = (Versions::take(&mut fields)?, fields.u16()?, fields.array::<32>()?);
    fields.end()?;
    if Versions::common(OURS, versions)? != version {
        return Err(damaged(format!("the server chose version {version} of the peer protocol, which is not the best")));
    }
    transcript.extend_from_slice(&challenge);
    transcript.extend_from_slice(&transport.binding);
    let rights = token.rights();
    send(transport, Kind::Proof, &token.proof(Side::Client, rights, &transcript)?).await?;
    let welcome = receive(transport, Kind::Welcome).await?;
    let mut fields = Fields::new(&welcome);
    let (proof, requests) = (fields.array()?, fields.u32()?);
    fields.end()?;
    token.check_server(&transcript, proof)?;
    Ok(Agreement { version, rights, requests: requests.max(1) })
}

/// The server's side, for who has one of these tokens. Says why before it fails, except to those who do not speak the
/// protocol at all.
pub async fn admit(transport: &mut Transport, tokens: &[&Token], requests: u32) -> Result<Agreement> {
    let mut transcript = receive(transport, Kind::Hello).await?;
    let mut fields = Fields::new(&transcript);
    let (versions, _nonce) = (Versions::take(&mut fields)?, fields.array::<32>()?);
    fields.end()?;
    let version = Versions::common(versions, OURS)?;
    let challenge = challenge(version)?;
    send(transport, Kind::Challenge, &challenge).await?;
    transcript.extend_from_slice(&challenge);
    transcript.extend_from_slice(&transport.binding);
    let proof = receive(transport, Kind::Proof).await?;
    let mut fields = Fields::new(&proof);
    let proof = fields.array()?;
    fields.end()?;
    let (token, rights) = admitted(tokens, &transcript, proof)?;
    let mut welcome = token.proof(Side::Server, rights, &transcript)?.to_vec();
    welcome.extend_from_slice(&requests.to_le_bytes());
    send(transport, Kind::Welcome, &welcome).await?;
    Ok(Agreement { version, rights, requests })
}

/// Whose token the client has proved, and its rights; why not, by the first of them.
fn admitted<'a>(tokens: &[&'a Token], transcript: &[u8], proof: [u8; 32]) -> Result<(&'a Token, Rights)> {
    let mut outcomes = tokens.iter().map(|token| token.check_client(transcript, proof).map(|rights| (*token, rights)));
    let first = outcomes.next().unwrap_or_else(|| unreachable!("a server has a token"));
    first.or_else(|error| outcomes.find_map(Result::ok).ok_or(error))
}

/// Tells the other side why the handshake ends here; a connection that is gone already is no further fault.
pub async fn refuse(transport: &mut Transport, error: &Error) {
    let _ = send(transport, Kind::Failure, &failure::encode(error)).await;
}

fn hello() -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(36);
    OURS.put(&mut out);
    out.extend_from_slice(&nonce()?);
    Ok(out)
}

fn challenge(version: u16) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(38);
    OURS.put(&mut out);
    out.extend_from_slice(&version.to_le_bytes());
    out.extend_from_slice(&nonce()?);
    Ok(out)
}

fn nonce() -> Result<[u8; 32]> {
    let mut nonce = [0; 32];
    let random: &dyn SecureRandom = provider().secure_random;
    random.fill(&mut nonce).map_err(|_| Error::new(ErrorKind::Unexpected, "the system gives no random numbers"))?;
    Ok(nonce)
}

async fn send(transport: &mut Transport, kind: Kind, payload: &[u8]) -> Result<()> {
    let frame = control_frame(UNNEGOTIATED, kind, 0, payload);
    transport.writer.write_all(&frame).await.map_err(|error| ended("early", Some(error)))
}

async fn receive(transport: &mut Transport, wanted: Kind) -> Result<Vec<u8>> {
    let (header, payload) = transport.reader.expect(MAX_HANDSHAKE_BYTES).await?;
    match header {
        Header { version: UNNEGOTIATED, kind: Kind::Failure, .. } => Err(failure::decode(&payload)?),
        Header { version: UNNEGOTIATED, kind, .. } if kind == wanted => Ok(payload.to_vec()),
        _ => Err(damaged(format!("a peer sent a {:?} frame where {wanted:?} was due", header.kind))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_newest_common_version_is_chosen_or_both_are_named(a in (1u16..9, 0u16..4), b in (1u16..9, 0u16..4)) {
            let (a, b) = (Versions { min: a.0, max: a.0 + a.1 }, Versions { min: b.0, max: b.0 + b.1 });
            let newest = (1..20).filter(|v| (a.min..=a.max).contains(v) && (b.min..=b.max).contains(v)).max();
            match Versions::common(a, b) {
                Ok(version) => prop_assert_eq!(Some(version), newest),
                Err(error) => {
                    prop_assert_eq!(newest, None);
                    prop_assert_eq!(error.kind(), ErrorKind::Unsupported);
                    for number in [a.min, a.max, b.min, b.max] {
                        prop_assert!(error.message().contains(&number.to_string()));
                    }
                }
            }
        }
    }
}
