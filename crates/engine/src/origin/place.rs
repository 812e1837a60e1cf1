//! The place of an origin, in words, and the meaning of a fault there for the person who asked.
//!
//! The one place that writes messages and hints of remote origins, so that all protocols speak alike.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Retry};
use crate::origin::fault::{Cause, Fault, Refusal};
use crate::origin::redirects::Refused;
use crate::origin::wire::NoKeys;

const PROXY_HINT: &str =
    "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY in the environment; NO_PROXY names what is asked directly";

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
    /// What else a denied access may mean, and what to do then.
    pub denied_hint: Option<&'static str>,
}

impl OriginNames {
    /// The error that an OpenDAL error means when `action` failed here.
    pub fn explain(&self, action: &str, error: &opendal::Error) -> Error {
        self.explain_with(action, error, None)
    }

    /// The same for a request before which a credential service was asked in vain.
    pub fn explain_with(&self, action: &str, error: &opendal::Error, no_keys: Option<NoKeys>) -> Error {
        if error.message().contains("sign") {
            return match no_keys {
                Some(no_keys) => self.without_keys(action, &no_keys),
                None => self.unsigned(action),
            };
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
        if let Some(error) = fault.proxy.as_deref().and_then(|proxy| self.explain_proxy(action, fault, proxy)) {
            return error;
        }
        let endpoint = &self.endpoint_through(fault.proxy.as_deref());
        let temporary = |kind, message: String| Error::new(kind, message).with_retry(Retry::Temporary);
        let unreachable = |what: String, hint: &str| {
            temporary(ErrorKind::Unreachable, format!("cannot {action}: {what}")).with_hint(hint)
        };
        match &fault.cause {
            Cause::Refused(refusal) => self.explain_refusal(action, refusal, endpoint),
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
            Cause::MachineAddress => Error::new(
                ErrorKind::Config,
                format!("cannot {action}: {endpoint} has no address but one at which machines are told their keys"),
            )
            .with_hint("write the name of a storage server; link-local addresses (169.254.…, fe80::…) are none"),
            Cause::CannotConnect => {
                unreachable(format!("no connection to {endpoint}"), "check the endpoint and this machine's network")
            }
            Cause::Certificate => unreachable(
                format!("the certificate of {endpoint} is not trusted"),
                "install the certificate of its authority on this machine, name its file in SSL_CERT_FILE, or correct the endpoint",
            )
            .with_retry(Retry::Permanent),
            Cause::NoTls => unreachable(
                format!("{endpoint} does not speak TLS"),
                "check whether the endpoint should begin with http:// instead of https://",
            )
            .with_retry(Retry::Permanent),
            Cause::Tls => unreachable(
                format!("{endpoint} and this client agree on no TLS connection"),
                "check which versions of TLS the server offers, and whether it asks for a client's certificate",
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
            Cause::ProxyUnauthorized => {
                Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} answers as a proxy that wants a user and a password"))
                    .with_hint("check that the endpoint is not that of a proxy")
                    .with_context("status", 407)
            }
            Cause::ProxyRefuses => unreachable(format!("a proxy makes no way to {endpoint}"), PROXY_HINT),
            Cause::Redirected(refused) => explain_redirect(action, *refused, endpoint),
            Cause::Captured => Error::new(ErrorKind::Unexpected, format!("cannot {action}: the answer was lost")),
        }
    }

    /// What failed between this process and a proxy of the environment, if that did.
    fn explain_proxy(&self, action: &str, fault: &Fault, proxy: &str) -> Option<Error> {
        let endpoint = &self.endpoint;
        let unreachable = |what: String| {
            Some(Error::new(ErrorKind::Unreachable, format!("cannot {action}: {what}")).with_retry(Retry::Temporary))
        };
        let error = match &fault.cause {
            Cause::NameUnknown => unreachable(format!("the host name of the proxy {proxy} is not known")),
            Cause::ConnectionRefused => unreachable(format!("the proxy {proxy}, by which to reach {endpoint}, refuses connections")),
            Cause::ConnectTimeout => unreachable(format!("the proxy {proxy}, by which to reach {endpoint}, does not answer")),
            Cause::CannotConnect => unreachable(format!("no connection to the proxy {proxy}, by which to reach {endpoint}")),
            Cause::ProxyRefuses => unreachable(format!("the proxy {proxy} makes no way to {endpoint}")),
            Cause::ProxyUnauthorized => Some(
                Error::new(
                    ErrorKind::PermissionDenied,
                    format!("cannot {action}: the proxy {proxy}, by which to reach {endpoint}, wants a user and a password, or others"),
                )
                .with_context("status", 407),
            ),
            _ => None,
        };
        error.map(|error| error.with_hint(PROXY_HINT))
    }

    fn endpoint_through(&self, proxy: Option<&str>) -> String {
        match proxy {
            Some(proxy) => format!("{} (through the proxy {proxy})", self.endpoint),
            None => self.endpoint.clone(),
        }
    }

    fn without_keys(&self, action: &str, no_keys: &NoKeys) -> Error {
        let service = OriginNames { endpoint: no_keys.host.clone(), ..self.clone() };
        let why = service.explain_fault(&format!("{action}: no keys for {}", self.name), &no_keys.fault);
        let why = if why.kind() == ErrorKind::NotFound { service.unsigned(action) } else { why };
        why.with_hint(format!(
            "{} was asked for temporary keys; check its address and the role, or give {}",
            no_keys.host, self.credential_hint
        ))
    }

    fn unsigned(&self, action: &str) -> Error {
        Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: no credentials for {}", self.name))
            .with_hint(format!("set {}, or ask for anonymous access", self.credential_hint))
    }

    fn explain_refusal(&self, action: &str, refusal: &Refusal, endpoint: &str) -> Error {
        let keys = self.credential_hint;
        let error = match (refusal.code.as_str(), refusal.status) {
            // The last is versitygw's, with a status of 404.
            ("InvalidAccessKeyId" | "XAdminUserNotFound", _) => Error::new(
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
            | (_, 429 | 503) => throttled(action, refusal, endpoint),
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
                Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} denies access")).with_hint(
                    match self.denied_hint {
                        Some(hint) => format!("check {keys}, and that they give the right to list and to read; {hint}"),
                        None => format!("check {keys}, and that they give the right to list and to read"),
                    },
                )
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
                format!("cannot {action}: {endpoint} refers to another place, or to none: it is not followed there"),
            )
            .with_hint("give the address of the place itself as the endpoint"),
            // Whatever else a server has against a request: some say so that it must be signed.
            _ => Error::new(ErrorKind::PermissionDenied, format!("cannot {action}: {endpoint} refuses the request"))
                .with_hint(format!("check {keys}, and whether anonymous access is allowed if that was asked for")),
        };
        let error = error.with_context("status", refusal.status);
        if refusal.code.is_empty() { error } else { error.with_context("code", &refusal.code) }
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

fn explain_redirect(action: &str, refused: Refused, endpoint: &str) -> Error {
    let (what, hint) = match refused {
        Refused::TooMany => ("redirects in circles", "check the endpoint"),
        Refused::InTheClear => (
            "redirects from https to http, where anybody on the way could read and change the data",
            "have the server redirect to https, or give an endpoint with http:// if that is as it should be",
        ),
        Refused::ToThisMachine => (
            "redirects to an address that means this very machine, or its cloud's service for machines",
            "check the server: such a redirect is an attempt to read what only this machine may, or a server that does not know its own name",
        ),
    };
    Error::new(ErrorKind::Config, format!("cannot {action}: {endpoint} {what}")).with_hint(hint)
}

fn throttled(action: &str, refusal: &Refusal, endpoint: &str) -> Error {
    let error = Error::new(ErrorKind::Throttled, format!("cannot {action}: {endpoint} asks to slow down"))
        .with_hint("try again later, or lower the number of requests at the same time (transfer concurrency)")
        .with_retry(Retry::Temporary);
    match refusal.retry_after {
        Some(pause) => error.with_context(super::pace::RETRY_AFTER, pause.as_secs()),
        None => error,
    }
}
