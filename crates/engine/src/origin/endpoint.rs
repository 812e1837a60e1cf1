//! The address of a server, checked before anything is sent there.

use url::Url;

use crate::error::{Error, Result};

/// `http(s)://host[:port][/path]`, without credentials, query or trailing slash.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    url: Url,
    text: String,
}

impl Endpoint {
    /// The endpoint that `text` means; without a scheme it is HTTPS.
    pub fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        let whole = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        // The text may hold a password, so it is not repeated.
        let url = Url::parse(&whole)
            .map_err(|_| Error::config("the endpoint is not a URL").with_hint("write https://host[:port]"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
            return Err(Error::config("the endpoint must begin with http:// or https:// and a host")
                .with_hint("write https://host[:port]"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Error::config("the endpoint must not hold a user or a password")
                .with_hint("give credentials as options of their own"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::config("the endpoint must not hold a query (?) or a fragment (#)"));
        }
        let text = url.as_str().trim_end_matches('/').to_owned();
        Ok(Endpoint { url, text })
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The endpoint without a trailing slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The endpoint in messages, as `written`: no scheme is told that nobody said.
    pub fn shown(&self, written: &str) -> String {
        if written.contains("://") || self.url.port().is_none() { self.text.clone() } else { self.host().to_owned() }
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        match self.url.host() {
            Some(url::Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        }
    }

    /// The address, where it is written as one.
    pub fn address(&self) -> Option<std::net::IpAddr> {
        match self.url.host()? {
            url::Host::Domain(_) => None,
            url::Host::Ipv4(address) => Some(address.into()),
            url::Host::Ipv6(address) => Some(address.into()),
        }
    }

    /// `host[:port]`, and the path if there is one: what names the server, whichever scheme it is reached by.
    pub fn host(&self) -> &str {
        self.text.split_once("://").map_or(&self.text, |(_, host)| host)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read_in_every_usual_spelling() {
        for (written, meant, host) in [
            ("http://127.0.0.1:9000/", "http://127.0.0.1:9000", "127.0.0.1:9000"),
            ("oss-cn-hangzhou.aliyuncs.com", "https://oss-cn-hangzhou.aliyuncs.com", "oss-cn-hangzhou.aliyuncs.com"),
            ("https://S3.Example.org:443", "https://s3.example.org", "s3.example.org"),
        ] {
            let endpoint = Endpoint::parse(written).unwrap();
            assert_eq!((endpoint.as_str(), endpoint.host()), (meant, host));
        }
    }

    #[test]
    fn bad_endpoints_are_refused_without_repeating_them() {
        for written in ["", "ftp://host", "https://user:hunter2@host", "https://host?x=hunter2", "http://[hunter2"] {
            let error = Endpoint::parse(written).unwrap_err();
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
