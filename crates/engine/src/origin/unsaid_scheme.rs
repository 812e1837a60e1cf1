//! Endpoints that name no scheme, and a port that is not that of HTTPS: they are asked by TLS, and without it only where
//! there is no TLS (`docs/decisions/0031-endpoints-without-a-scheme.md`).

use std::time::Duration;

use http::Request;
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

    /// Whether the server speaks HTTP and no TLS. An error where it speaks neither, or must not be asked in clear.
    pub async fn is_plain(&self, action: &str, config: &OriginConfig, wire: &Wire) -> Result<bool> {
        let host = self.endpoint.host();
        let fault = match ask(wire, &format!("https://{host}/")).await {
            Ok(()) => return Ok(false),
            Err(fault) => fault,
        };
        let no_tls = matches!(fault.cause, Cause::Tls | Cause::Disconnected | Cause::Silent | Cause::ConnectTimeout);
        if !no_tls || ask(wire, &format!("http://{host}/")).await.is_err() {
            return Err(self.place.explain_fault(action, &fault));
        }
        self.may_be_plain(config)?;
        tracing::warn!(
            "{host} does not speak TLS, and its endpoint names no scheme: it is asked without, and who listens on the \
             network can read the data (write http://{host} to have it so, https://{host} to refuse it)"
        );
        Ok(true)
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

/// Whether anything answers there, whatever it says to a request without keys.
async fn ask(wire: &Wire, url: &str) -> std::result::Result<(), Fault> {
    let request = Request::head(url).body(Buffer::new()).map_err(|_| Fault::from(Cause::Garbled))?;
    wire.send(request, PATIENCE.min(wire.silence)).await.map(drop)
}
