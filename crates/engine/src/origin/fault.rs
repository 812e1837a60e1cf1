//! A fault on the wire, as a typed cause without any text of the other side but its error code.
//!
//! A fault never holds a URL, a header's value or a body, so nothing secret can leave through it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{HeaderMap, StatusCode};

use crate::origin::machine_addresses::MachineAddress;
use crate::origin::redirects::Refused;
use crate::origin::version::http_seconds;

/// A failed exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub cause: Cause,
    /// `host:port` of the proxy that the exchange went through.
    pub proxy: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cause {
    /// The host's name could not be resolved.
    NameUnknown,
    /// It has no address but those at which machines are told their keys.
    MachineAddress,
    ConnectionRefused,
    /// No connection within the time for it.
    ConnectTimeout,
    /// No route, or another failure to connect.
    CannotConnect,
    /// The certificate was not accepted.
    Certificate,
    /// The answer to the beginning of a TLS handshake was something else than TLS.
    NoTls,
    /// The other side speaks TLS, and no handshake came about.
    Tls,
    /// The connection ended in the middle of an answer.
    Disconnected,
    /// Nothing was heard for the configured time.
    Silent,
    /// An answer larger than any page of a listing.
    TooLarge,
    /// Not HTTP, or a URL that cannot be sent.
    Garbled,
    /// It leads elsewhere, where we do not go.
    Redirected(Refused),
    /// A proxy of the environment wants a user and a password, or others.
    ProxyUnauthorized,
    /// A proxy of the environment makes no way to the host.
    ProxyRefuses,
    Refused(Refusal),
    /// No fault: the answer was taken whole, and lies in its slot.
    Captured,
}

/// An answer other than success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub status: u16,
    /// The protocol's error code (`NoSuchKey`, `FileNotFoundException`), letters and digits only; empty if none.
    pub code: String,
    pub retry_after: Option<Duration>,
    /// The region where the bucket really is, when the server tells.
    pub region: Option<String>,
}

impl From<Cause> for Fault {
    fn from(cause: Cause) -> Self {
        Fault { cause, proxy: None }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.cause {
            Cause::Refused(refusal) if refusal.code.is_empty() => write!(f, "status {}", refusal.status),
            Cause::Refused(refusal) => write!(f, "status {} {}", refusal.status, refusal.code),
            other => write!(f, "{other:?}"),
        }
    }
}

impl std::error::Error for Fault {}

impl Fault {
    /// What a failure of the HTTP client means.
    pub fn of_transport(error: &reqwest::Error) -> Self {
        let chain = Chain::of(error);
        let cause = if let Some(refused) = Refused::inside(error) {
            Cause::Redirected(refused)
        } else if MachineAddress::is_inside(error) {
            Cause::MachineAddress
        } else if chain.says("proxy authorization required") {
            Cause::ProxyUnauthorized
        } else if chain.says("tunnel error: unsuccessful") || chain.says("tunnel error: unexpected end") {
            Cause::ProxyRefuses
        } else if chain.says("certificate") {
            Cause::Certificate
        } else if chain.says("corrupt message") {
            Cause::NoTls
        } else if chain.says("handshake eof") {
            Cause::Disconnected
        } else if chain.says("handshake") || chain.says("tls") || chain.says("fatal alert") {
            Cause::Tls
        } else if error.is_connect() {
            chain.connect_cause(error.is_timeout())
        } else if error.is_timeout() {
            Cause::Silent
        } else if chain.says("invalid http") || chain.says("parse") || error.is_builder() || error.is_redirect() {
            Cause::Garbled
        } else {
            Cause::Disconnected
        };
        cause.into()
    }

    /// What an answer other than success means; `body` is searched for the protocol's error code alone.
    pub fn of_refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED {
            return Cause::ProxyUnauthorized.into();
        }
        let retry_after = text("retry-after").and_then(pause);
        let region = text("x-amz-bucket-region").map(code_characters).filter(|region| !region.is_empty());
        Cause::Refused(Refusal { status: status.as_u16(), code: error_code(body), retry_after, region }).into()
    }

    /// The same fault of an exchange that went through `proxy`.
    pub fn through(self, proxy: Option<String>) -> Self {
        Fault { proxy, ..self }
    }

    pub fn into_opendal(self) -> opendal::Error {
        opendal::Error::new(opendal::ErrorKind::Unexpected, "the exchange failed").set_source(self)
    }

    /// The fault inside an OpenDAL error, if it came through the wire.
    pub fn inside(error: &opendal::Error) -> Option<Fault> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
        while let Some(source) = next {
            if let Some(fault) = source.downcast_ref::<Fault>() {
                return Some(fault.clone());
            }
            next = source.source();
        }
        None
    }
}

/// A `Retry-After`: seconds, or the date until which to wait.
fn pause(text: &str) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = Duration::from_secs(u64::try_from(http_seconds(text.trim())?).ok()?);
    Some(until.saturating_sub(SystemTime::now().duration_since(UNIX_EPOCH).ok()?))
}

/// All messages of an error and its sources, in lower case. Only ever searched, never shown.
struct Chain {
    text: String,
    io: Option<std::io::ErrorKind>,
}

impl Chain {
    fn of(error: &reqwest::Error) -> Self {
        let mut chain = Chain { text: String::new(), io: None };
        let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
        while let Some(source) = next {
            if let Some(io) = source.downcast_ref::<std::io::Error>() {
                chain.io = Some(io.kind());
            }
            chain.text.push_str(&source.to_string().to_lowercase());
            chain.text.push('\n');
            next = source.source();
        }
        chain
    }

    fn says(&self, words: &str) -> bool {
        self.text.contains(words)
    }

    fn connect_cause(&self, timeout: bool) -> Cause {
        match self.io {
            Some(std::io::ErrorKind::ConnectionRefused) => Cause::ConnectionRefused,
            _ if self.says("dns error") || self.says("failed to lookup address") => Cause::NameUnknown,
            _ if timeout || self.says("timed out") => Cause::ConnectTimeout,
            _ => Cause::CannotConnect,
        }
    }
}

/// The text of `<Code>` (S3, OSS) or of `"exception"` (WebHDFS).
fn error_code(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let after = |start: &str| text.find(start).map(|at| text[at + start.len()..].trim_start());
    if let Some(rest) = after("<Code>") {
        return code_characters(rest);
    }
    match after("\"exception\"").and_then(|rest| rest.strip_prefix(':')).map(str::trim_start) {
        Some(rest) => code_characters(rest.trim_start_matches('"')),
        None => String::new(),
    }
}

/// The leading letters, digits, dots and dashes, at most 64: enough for any code, too little for a secret document.
fn code_characters(text: &str) -> String {
    text.chars().take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_')).take(64).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_all_that_is_kept_of_a_body() {
        let body = b"<Error><Code>NoSuchKey</Code><Message>secret words</Message></Error>";
        let fault = Fault::of_refusal(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert_eq!(fault.to_string(), "status 404 NoSuchKey");
        let body = br#"{"RemoteException": {"exception" : "FileNotFoundException", "message": "secret words"}}"#;
        let fault = Fault::of_refusal(StatusCode::NOT_FOUND, &HeaderMap::new(), body);
        assert_eq!(fault.to_string(), "status 404 FileNotFoundException");
    }

    #[test]
    fn a_pause_is_asked_for_by_seconds_or_by_a_date() {
        assert_eq!(pause(" 7 "), Some(Duration::from_secs(7)));
        assert_eq!(pause("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert!(pause("Fri, 06 Nov 2893 08:49:37 GMT").unwrap() > Duration::from_secs(86_400));
        assert_eq!(pause("soon"), None);
    }

    #[test]
    fn a_body_without_a_code_gives_none() {
        assert_eq!(error_code(b"<html>no <Code>"), "");
        assert_eq!(error_code(&[0xff, 0xfe, b'<']), "");
        assert_eq!(error_code(b"\"exception\""), "");
    }
}
