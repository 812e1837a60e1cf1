//! Proxies of the environment (HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY), as the HTTP client takes them: their names,
//! for messages. Never their user and password.

use std::sync::Arc;

use hyper_util::client::proxy::matcher::Matcher;

/// Which proxy stands before which address.
#[derive(Debug, Clone)]
pub(super) struct Proxies(Option<Arc<Matcher>>);

impl Proxies {
    pub fn of_environment() -> Self {
        Proxies(Some(Arc::new(Matcher::from_system())))
    }

    /// The client asks directly, whatever the environment says.
    pub fn none() -> Self {
        Proxies(None)
    }

    /// `host:port` of the proxy through which `uri` is asked.
    pub fn of(&self, uri: &http::Uri) -> Option<String> {
        let proxy = self.0.as_ref()?.intercept(uri)?;
        let host = proxy.uri().host()?;
        Some(match proxy.uri().port_u16() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        })
    }
}
