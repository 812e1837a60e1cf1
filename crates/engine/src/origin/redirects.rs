//! The places that a server may send us on to. Its answer is not to be trusted further than the server itself: nothing
//! is asked in the clear that was asked under TLS, and no machine is asked that only we can reach.
//!
//! Credentials stay where they belong: the client leaves them out of a request to another host or port, and of a bucket,
//! whose requests have more than one header of them, only its own host is asked.

use std::net::IpAddr;

use reqwest::Url;
use reqwest::redirect::{Attempt, Policy};
use url::Host;

use crate::origin::endpoint::Endpoint;
use crate::origin::machine_addresses::is_of_machines;

const MOST: usize = 5;
/// Where clouds tell machines their keys, by name.
const METADATA_NAMES: [&str; 3] = ["metadata", "metadata.google.internal", "metadata.goog"];

/// Which hosts may be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Redirects {
    /// The server's own alone: what leads elsewhere is a refusal.
    OwnHost,
    /// Any host that others reach as well: the nodes behind a namenode, what stores a web server's files.
    AnyHost,
}

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    TooMany,
    InTheClear,
    ToThisMachine,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a redirect is not followed: {self:?}")
    }
}

impl std::error::Error for Refused {}

impl Refused {
    /// The reason that a failure of the HTTP client has, if it is one of these.
    pub fn inside(error: &reqwest::Error) -> Option<Self> {
        let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
        while let Some(source) = next {
            if let Some(refused) = source.downcast_ref::<Self>() {
                return Some(*refused);
            }
            next = source.source();
        }
        None
    }
}

impl Redirects {
    /// The rule for requests to `endpoint`.
    pub fn policy(self, endpoint: &Endpoint) -> Policy {
        let is_local = endpoint.is_loopback();
        Policy::custom(move |attempt: Attempt| match self.verdict(attempt.previous(), attempt.url(), is_local) {
            Ok(true) => attempt.follow(),
            Ok(false) => attempt.stop(),
            Err(refused) => attempt.error(refused),
        })
    }

    /// Whether to go on to `next`; false: the answer is taken as it is.
    fn verdict(self, previous: &[Url], next: &Url, is_local: bool) -> Result<bool, Refused> {
        let Some(last) = previous.last() else { return Ok(false) };
        if previous.len() > MOST {
            return Err(Refused::TooMany);
        }
        if last.scheme() == "https" && next.scheme() != "https" {
            return Err(Refused::InTheClear);
        }
        let is_same_host = last.host() == next.host();
        if self == Redirects::OwnHost {
            let is_upgrade = last.scheme() == "http" && next.scheme() == "https" && next.port().is_none();
            return Ok(is_same_host && (last.port_or_known_default() == next.port_or_known_default() || is_upgrade));
        }
        // A server of this machine is one of our own.
        if !is_same_host && !is_local && next.host().is_some_and(|host| is_ours_alone(&host)) {
            return Err(Refused::ToThisMachine);
        }
        Ok(true)
    }
}

/// Whether the host is this machine, or one that answers each machine for itself.
fn is_ours_alone(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost") || METADATA_NAMES.contains(&name)
        }
        Host::Ipv4(address) => is_address_ours_alone(IpAddr::V4(*address)),
        Host::Ipv6(address) => is_address_ours_alone(IpAddr::V6(*address)),
    }
}

fn is_address_ours_alone(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address.is_loopback() || address.is_unspecified() || is_of_machines(address)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn verdict(rule: Redirects, from: &str, to: &str) -> Result<bool, Refused> {
        let is_local = Endpoint::parse(from).unwrap().is_loopback();
        rule.verdict(&[Url::parse(from).unwrap()], &Url::parse(to).unwrap(), is_local)
    }

    #[test]
    fn nothing_goes_on_in_the_clear() {
        for rule in [Redirects::OwnHost, Redirects::AnyHost] {
            for to in ["http://data.example/x", "http://cdn.example/x", "http://data.example:443/x"] {
                assert_eq!(verdict(rule, "https://data.example", to), Err(Refused::InTheClear), "{to}");
            }
            assert_eq!(verdict(rule, "http://data.example", "https://data.example/x"), Ok(true));
        }
    }

    #[test]
    fn a_bucket_s_requests_stay_at_its_host() {
        let own = |to| verdict(Redirects::OwnHost, "https://s3.example", to);
        assert_eq!(own("https://s3.example/other"), Ok(true));
        for to in [
            "https://s3.example:8443/",
            "https://bucket.s3.example/",
            "https://evil.example/",
            "https://169.254.169.254/",
        ] {
            assert_eq!(own(to), Ok(false), "{to}");
        }
    }

    #[test]
    fn files_may_lie_on_another_host_but_not_where_only_this_machine_is_answered() {
        let any = |to| verdict(Redirects::AnyHost, "http://namenode.example:9870", to);
        assert_eq!(any("http://datanode7.example:9864/webhdfs/v1/x"), Ok(true));
        assert_eq!(any("http://10.0.0.7:9864/webhdfs/v1/x"), Ok(true));
        for to in [
            "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
            "http://[fe80::1]/",
            "http://[fd00:ec2::254]/",
            "http://[::ffff:169.254.169.254]/",
            "http://2852039166/",
            "http://100.100.100.200/",
            "http://metadata.google.internal./computeMetadata/v1/",
            "http://localhost:10255/pods",
            "http://127.0.0.1:10255/pods",
            "http://[::1]:2379/",
            "http://0.0.0.0/",
        ] {
            assert_eq!(any(to), Err(Refused::ToThisMachine), "{to}");
        }
        assert_eq!(verdict(Redirects::AnyHost, "http://localhost:9870", "http://127.0.0.1:9864/x"), Ok(true));
    }

    #[test]
    fn circles_end() {
        let url = Url::parse("http://data.example/").unwrap();
        let previous = vec![url.clone(); MOST + 1];
        assert_eq!(Redirects::AnyHost.verdict(&previous, &url, false), Err(Refused::TooMany));
        assert_eq!(Redirects::AnyHost.verdict(&previous[1..], &url, false), Ok(true));
    }
}
