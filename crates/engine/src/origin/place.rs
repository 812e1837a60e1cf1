//! Where an origin is, in words, and what a fault there means for the person who asked.
//!
//! The one place that writes messages and hints of remote origins, so that all protocols speak alike.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Retry};
use crate::origin::fault::{Cause, Fault, Refusal};

/// The names that messages about an origin need.
#[derive(Debug, Clone)]
pub(super) struct OriginNames {
    /// The canonical name: `s3://bucket/prefix@endpoint`.
    pub name: Arc<str>,
    /// Host and port, or the base URL without credentials.
    pub endpoint: String,
    pub bucket: Option<String>,
    /// Which option names hold the credentials, for hints.
    pub credential_hint: &'static str,
}

impl OriginNames {
    /// The error that an OpenDAL error means when `action` failed here.
    pub fn explain(&self, action: &str, error: &opendal::Error) -> Error {
        if error.message().contains("sign") {
            return self.unsigned(action);
        }
        match Fault::inside(error) {
            Some(fault) => self.explain_fault(action, &fault),
            // What OpenDAL says of its own accord may quote headers or URLs: only its kind is passed on.
            None => Error::new(
                ErrorKind::Unexpected,
                format!("cannot {action}: {} gave an answer that makes no sense", self.endpoint),
            )
            .with_context("kind", error.kind())
            .with_retry(Retry::Temporary),
        }
    }

    pub fn explain_fault(&self, action: &str, fault: &Fault) -> Error {
        let endpoint = &self.endpoint;
        let temporary = |kind, message: String| Error::new(kind, message).with_retry(Retry::Temporary);
        let unreachable = |what: String, hint: &str| {
            temporary(ErrorKind::Unreachable, format!("cannot {action}: {what}")).with_hint(hint)
        };
        match &fault.cause {
            Cause::Refused(refusal) => self.explain_refusal(action, refusal),
            Cause::NameUnknown => unreachable(
                format!("the host name of {endpoint} is not known"),
                "check the spelling of the endpoint, and the name service of this machine",
            ),
            Cause::ConnectionRefused => unreachable(
                format!("{endpoint} refuses connections"),
                "check host and port of the endpoint, and that the server runs",
            ),
            Cause::ConnectTimeout => unreachable(
                format!("{endpoint} does not answer"),
                "check the endpoint, and that no firewall stands between",
            ),
            Cause::CannotConnect => {
                unreachable(format!("no connection to {endpoint}"), "check the endpoint and this machine's network")
            }
            Cause::Certificate => unreachable(
                format!("the certificate of {endpoint} is not trusted"),
                "install the certificate of its authority on this machine, name its file in SSL_CERT_FILE, or correct the endpoint",
            )
            .with_retry(Retry::Permanent),
            Cause::Tls => unreachable(
                format!("{endpoint} does not speak TLS as expected"),
                "check whether the endpoint should begin with http:// instead of https://",
            )
            .with_retry(Retry::Permanent),
            Cause::Disconnected => unreachable(
                format!("{endpoint} ended the connection in the middle of an answer"),
                "check the network and the server",
            ),
            Cause::Garbled => unreachable(
                format!("what {endpoint} answers is not HTTP"),
                "check the port of the endpoint, and whether it should begin with https://",
            ),
            Cause::Silent => temporary(ErrorKind::Timeout, format!("cannot {action}: no answer of {endpoint} in time")),
            Cause::TooLarge => Error::new(
                ErrorKind::Corrupt,
                format!("cannot {action}: the answer of {endpoint} is larger than any page of a listing"),
            )
            .with_hint("check that the endpoint is that of the storage service"),
            Cause::TooManyRedirects => {
                Error::new(ErrorKind::Config, format!("cannot {action}: {endpoint} redirects in circles"))
                    .with_hint("check the endpoint")
            }
            Cause::Captured => Error::new(ErrorKind::Unexpected, format!("cannot {action}: the answer was lost")),
        }
    }

    fn unsigned(&self, action: &str) -> Error {
        Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: no credentials for {}", self.name))
            .with_hint(format!("set {}, or ask for anonymous access", self.credential_hint))
    }

    fn explain_refusal(&self, action: &str, refusal: &Refusal) -> Error {
        let endpoint = &self.endpoint;
        let keys = self.credential_hint;
        let error = match (refusal.code.as_str(), refusal.status) {
            ("InvalidAccessKeyId", _) => Error::new(
                ErrorKind::PermissionDenied,
                format!("cannot {action}: the access key is not known to {endpoint}"),
            )
            .with_hint(format!("check {keys}")),
            ("SignatureDoesNotMatch", _) => {
                Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} refuses the signature"))
                    .with_hint(format!("most likely the secret key is wrong: check {keys}"))
            }
            ("ExpiredToken" | "InvalidToken" | "SecurityTokenExpired" | "InvalidSecurityToken", _) => Error::new(
                ErrorKind::PermissionDenied,
                format!("cannot {action}: the session token is not valid (any more) at {endpoint}"),
            )
            .with_hint("get new temporary credentials"),
            ("RequestTimeTooSkewed", _) => Error::new(
                ErrorKind::PermissionDenied,
                format!("cannot {action}: the clock of this machine differs from that of {endpoint}"),
            )
            .with_hint("set the clock, for example with NTP"),
            ("NoSuchBucket", _) => Error::new(
                ErrorKind::NotFound,
                format!(
                    "cannot {action}: bucket {} does not exist at {endpoint}",
                    self.bucket.as_deref().unwrap_or("?")
                ),
            )
            .with_hint("check the name of the bucket, and the endpoint"),
            ("PermanentRedirect" | "AuthorizationHeaderMalformed" | "IllegalLocationConstraintException", _)
            | (_, 301) => self.elsewhere(action, refusal),
            ("SlowDown" | "Throttling" | "RequestLimitExceeded" | "RequestThrottled" | "QpsLimitExceeded", _)
            | (_, 429 | 503) => self.throttled(action, refusal),
            ("InvalidObjectState", _) => {
                Error::new(ErrorKind::Unsupported, format!("cannot {action}: the object is archived"))
                    .with_hint("restore it in the storage service first")
            }
            ("StandbyException", _) => {
                Error::new(ErrorKind::Unreachable, format!("cannot {action}: {endpoint} is a standby namenode"))
                    .with_hint("give the address of the active namenode")
                    .with_retry(Retry::Temporary)
            }
            (_, 401 | 403) => {
                Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} denies access"))
                    .with_hint(format!("check {keys}, and that they give the right to list and to read"))
            }
            (_, 404 | 410) => {
                Error::new(ErrorKind::NotFound, format!("cannot {action}: not there")).with_hint("check the name")
            }
            ("OperationAborted" | "ConditionalRequestConflict", _) => Error::new(
                ErrorKind::Unreachable,
                format!("cannot {action}: {endpoint} is busy with another request for it"),
            )
            .with_retry(Retry::Temporary),
            (_, 408) => {
                Error::new(ErrorKind::Timeout, format!("cannot {action}: {endpoint} waited in vain for the request"))
                    .with_retry(Retry::Temporary)
            }
            (_, 405 | 406 | 411 | 413..=415 | 417 | 431 | 501 | 505) => {
                Error::new(ErrorKind::Unsupported, format!("cannot {action}: {endpoint} does not support the request"))
                    .with_hint("check that the endpoint is that of the storage service, and what that can do")
            }
            (_, 500..=599) => {
                Error::new(ErrorKind::Unreachable, format!("cannot {action}: {endpoint} reports a fault of its own"))
                    .with_retry(Retry::Temporary)
            }
            (_, 300..=399) => Error::new(
                ErrorKind::Config,
                format!("cannot {action}: {endpoint} refers to another place, and names none"),
            )
            .with_hint("check the endpoint"),
            // Whatever else a server has against a request: some say so that it must be signed.
            _ => Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} refuses the request"))
                .with_hint(format!("check {keys}, and whether anonymous access is allowed if that was asked for")),
        };
        let error = error.with_context("status", refusal.status);
        if refusal.code.is_empty() { error } else { error.with_context("code", &refusal.code) }
    }

    fn throttled(&self, action: &str, refusal: &Refusal) -> Error {
        let error = Error::new(ErrorKind::Throttled, format!("cannot {action}: {} asks to slow down", self.endpoint))
            .with_hint("lower the number of requests at the same time (transfer concurrency)")
            .with_retry(Retry::Temporary);
        match refusal.retry_after {
            Some(pause) => error.with_context(super::pace::RETRY_AFTER, pause.as_secs()),
            None => error,
        }
    }

    fn elsewhere(&self, action: &str, refusal: &Refusal) -> Error {
        let bucket = self.bucket.as_deref().unwrap_or("?");
        let hint = match &refusal.region {
            Some(region) => format!("set the region to {region}"),
            None => "set the region of the bucket, and an endpoint of that region".to_owned(),
        };
        Error::new(ErrorKind::Config, format!("cannot {action}: bucket {bucket} is in another region than asked for"))
            .with_hint(hint)
    }
}
