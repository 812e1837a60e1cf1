//! Endpoints that name no scheme, and a port that is not that of HTTPS: they are asked by TLS, and without it only where
//! there is no TLS (`docs/decisions/0031-endpoints-without-a-scheme.md`).

use std::time::Duration;

use http::{Request, StatusCode};
use opendal::Buffer;

use crate::config::OriginConfig;
use crate::error::{Error, ErrorKind, Result};
use crate::origin::endpoint::Endpoint;
use crate::origin::fault::{Cause, Fault};
use crate::origin::place::OriginNames;
use crate::origin::wire::Wire;

/// A server that waits for the end of what it takes for a request is not waited for.
const PATIENCE: Duration = Duration::from_secs(3);
const HTTPS_PORT: u16 = 443;

/// An endpoint whose scheme nobody said.
pub(super) struct UnsaidScheme {
    endpoint: Endpoint,
    place: OriginNames,
}

impl UnsaidScheme {
    /// The endpoint of `place` as it is written, if it leaves the scheme open.
    pub fn of(written: &str, place: &OriginNames) -> Option<Self> {
        let endpoint = Endpoint::parse(written).ok()?;
        let open = !written.contains("://") && endpoint.url().port().is_some_and(|port| port != HTTPS_PORT);
        open.then(|| UnsaidScheme { endpoint, place: place.clone() })
    }

    /// True if the server speaks HTTP and no TLS. An error where it speaks neither, where that is not certain, or where it
    /// must not be asked in clear.
    pub async fn is_plain(&self, action: &str, config: &OriginConfig, wire: &Wire) -> Result<bool> {
        let host = self.endpoint.host();
        let secured = format!("https://{host}/");
        let Err(mut fault) = ask(wire, &secured, PATIENCE).await else { return Ok(false) };
        let sign = Sign::of(&fault.cause);
        if sign != Sign::Tls && sign.is_plain_with(ask(wire, &format!("http://{host}/"), PATIENCE).await.ok()) {
            self.may_be_plain(config)?;
            tracing::warn!(
                "{host} does not speak TLS, and its endpoint names no scheme: it is asked without, and who listens on \
                 the network can read the data (write http://{host} to have it so, https://{host} to refuse it)"
            );
            return Ok(true);
        }
        if sign == Sign::Unclear {
            // A busy server takes its time for a handshake.
            match ask(wire, &secured, wire.silence).await {
                Ok(_) => return Ok(false),
                Err(later) => fault = later,
            }
        }
        Err(self.place.explain_fault(action, &fault))
    }

    /// Refuses to send temporary keys in clear: their token is a credential, unlike a signature. Keys that the machine's
    /// own chain finds are mostly such. Within one machine nobody listens.
    pub fn may_be_plain(&self, config: &OriginConfig) -> Result<()> {
        let lasting = match config {
            OriginConfig::S3 { anonymous, access_key_id, session_token: token, .. }
            | OriginConfig::Oss { anonymous, access_key_id, security_token: token, .. } => {
                *anonymous || (access_key_id.is_some() && token.is_none())
            }
            _ => false,
        };
        if lasting || self.endpoint.is_loopback() {
            return Ok(());
        }
        let host = self.endpoint.host();
        let message = format!("{host} does not speak TLS, and a token of temporary keys is not sent in clear unasked");
        Err(Error::new(ErrorKind::Unreachable, message).with_hint(format!(
            "write the endpoint as http://{host} to send it all the same, or name a port that speaks TLS"
        )))
    }

    /// The configuration by which it is asked without TLS.
    pub fn plainly(&self, mut config: OriginConfig) -> OriginConfig {
        let plain = format!("http://{}", self.endpoint.host());
        match &mut config {
            OriginConfig::S3 { endpoint, .. } => *endpoint = Some(plain),
            OriginConfig::Oss { endpoint, .. } => *endpoint = plain,
            _ => {}
        }
        config
    }
}

/// What a failed question by TLS says of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sign {
    /// It answered, and not by TLS.
    NoTls,
    /// It speaks TLS, or nothing is there: not to be asked without.
    Tls,
    /// It said nothing in time or closed the connection: a server without TLS may do so, and one with TLS that is busy.
    Unclear,
}

impl Sign {
    fn of(cause: &Cause) -> Self {
        match cause {
            Cause::NoTls => Sign::NoTls,
            Cause::Disconnected | Cause::Silent | Cause::ConnectTimeout => Sign::Unclear,
            _ => Sign::Tls,
        }
    }

    /// True if the server speaks no TLS, given its answer to a question without: the status, if there was one.
    fn is_plain_with(self, answer: Option<StatusCode>) -> bool {
        match (self, answer) {
            (Sign::Tls, _) | (_, None) => false,
            (Sign::NoTls, Some(_)) => true,
            // By these a server that speaks TLS refuses, or sends on, who came without.
            (Sign::Unclear, Some(status)) => {
                !status.is_redirection() && !matches!(status, StatusCode::BAD_REQUEST | StatusCode::UPGRADE_REQUIRED)
            }
        }
    }
}

/// The status of any answer in clear or by TLS, as `url` says, to a request without keys.
async fn ask(wire: &Wire, url: &str, patience: Duration) -> std::result::Result<StatusCode, Fault> {
    let request = Request::head(url).body(Buffer::new()).map_err(|_| Fault::from(Cause::Garbled))?;
    let answer = wire.send(request, patience.min(wire.silence)).await?;
    // Who is led from one to the other has no answer of the one.
    match url.starts_with(&format!("{}://", answer.url().scheme())) {
        true => Ok(answer.status()),
        false => Err(Cause::Garbled.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_no_server_with_tls_does_is_a_reason_to_ask_without() {
        let answers = [None, Some(StatusCode::OK), Some(StatusCode::FORBIDDEN), Some(StatusCode::BAD_REQUEST)];
        let plain_with = |cause: &Cause| answers.map(|answer| Sign::of(cause).is_plain_with(answer));
        assert_eq!(plain_with(&Cause::NoTls), [false, true, true, true]);
        for unclear in [Cause::Silent, Cause::Disconnected, Cause::ConnectTimeout] {
            assert_eq!(plain_with(&unclear), [false, true, true, false], "{unclear:?}");
            assert!(!Sign::of(&unclear).is_plain_with(Some(StatusCode::PERMANENT_REDIRECT)));
            assert!(!Sign::of(&unclear).is_plain_with(Some(StatusCode::UPGRADE_REQUIRED)));
        }
        for tls in [Cause::Tls, Cause::Certificate, Cause::ConnectionRefused, Cause::NameUnknown, Cause::Garbled] {
            assert_eq!(plain_with(&tls), [false; 4], "{tls:?}");
        }
    }
}
