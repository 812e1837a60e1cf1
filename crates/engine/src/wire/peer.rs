//! The connections of a client to one address.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::error::{Error, ErrorKind, Result, Retry};
use crate::metrics::PeerMetrics;
use crate::sync::Mutex;
use crate::wire::client_options::ClientOptions;
use crate::wire::handshake::greet;
use crate::wire::link::Link;
use crate::wire::renewed::InForce;
use crate::wire::security::ClientSecurity;
use crate::wire::token::Token;
use crate::wire::transport::connect;

/// After a failed attempt nobody tries again for this long: the many who wait for the same peer fail at once instead of
/// one after another.
const PAUSE: Duration = Duration::from_millis(250);

/// How connections are opened.
pub struct Dial {
    pub security: ClientSecurity,
    pub options: ClientOptions,
    pub metrics: PeerMetrics,
}

pub struct Peer {
    address: Box<str>,
    dial: Arc<Dial>,
    links: Mutex<Vec<Arc<Link>>>,
    opening: tokio::sync::Mutex<Option<(Instant, Error)>>,
    widening: AtomicBool,
}

impl Peer {
    pub fn new(address: &str, dial: Arc<Dial>) -> Self {
        let (links, opening) = (Mutex::default(), tokio::sync::Mutex::default());
        Peer { address: address.into(), dial, links, opening, widening: AtomicBool::new(false) }
    }

    pub fn is_connected(&self) -> bool {
        self.links.lock().iter().any(|link| link.is_usable())
    }

    /// The connection with the least to do. Opens the first one; others are opened beside requests under way.
    pub async fn link(self: Arc<Self>) -> Result<Arc<Link>> {
        if let Some(link) = self.open_link() {
            self.widen(&link);
            return Ok(link);
        }
        let mut failed = self.opening.lock().await;
        if let Some(link) = self.open_link() {
            return Ok(link);
        }
        if let Some((_, error)) = failed.as_ref().filter(|(when, _)| when.elapsed() < PAUSE) {
            return Err(error.clone());
        }
        *failed = None;
        match self.dial.open(&self.address).await {
            Ok(link) => {
                self.links.lock().push(link.clone());
                Ok(link)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn open_link(&self) -> Option<Arc<Link>> {
        let mut links = self.links.lock();
        links.retain(|link| link.is_usable());
        links.iter().min_by_key(|link| link.load()).cloned()
    }

    /// Opens one more connection in the background when all have work and more are allowed.
    fn widen(self: &Arc<Self>, least: &Link) {
        let count = self.links.lock().len();
        if least.load() == 0
            || count >= self.dial.options.connections_per_peer
            || self.widening.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let peer = self.clone();
        tokio::spawn(async move {
            // A failure shows when the connections that are left are used.
            if let Ok(link) = peer.dial.open(&peer.address).await {
                peer.links.lock().push(link);
            }
            peer.widening.store(false, Ordering::Relaxed);
        });
    }
}

impl Dial {
    async fn open(&self, address: &str) -> Result<Arc<Link>> {
        let InForce { now, before } = self.security.token.in_force().await;
        // A peer that has the new token takes the one before for as long; one that has not takes no other.
        if let Some(before) = before {
            match self.open_in_time(address, &before).await {
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
                opened => return opened,
            }
        }
        self.open_in_time(address, &now).await
    }

    async fn open_in_time(&self, address: &str, token: &Token) -> Result<Arc<Link>> {
        let patience = self.options.connect_timeout;
        timeout(patience, self.open_with(address, token)).await.unwrap_or_else(|_| Err(too_late(patience)))
    }

    async fn open_with(&self, address: &str, token: &Token) -> Result<Arc<Link>> {
        let host = host_of(address)?;
        let tls = match &self.security.tls {
            Some(tls) => Some(tls.in_force().await.now),
            None => None,
        };
        let stream = TcpStream::connect(address).await.map_err(unreachable)?;
        let mut transport = connect(stream, tls, host).await?;
        let agreement = greet(&mut transport, token).await.map_err(explain)?;
        Ok(Link::start(transport, agreement, self.options.silence, self.metrics.clone()))
    }
}

/// The host of `host:port` or `[address]:port`.
fn host_of(address: &str) -> Result<&str> {
    let (host, port) = address.rsplit_once(':').unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).unwrap_or(host);
    if host.is_empty() || port.parse::<u16>().is_err() {
        return Err(Error::config(format!("{address:?} is not the address of a peer"))
            .with_hint("write it as host:port, IPv6 as [address]:port"));
    }
    Ok(host)
}

/// A server that says nothing and closes is full, closing, or expects TLS.
fn explain(error: Error) -> Error {
    match error.hint() {
        None if error.kind() == ErrorKind::Unreachable => {
            error.with_hint("check that both sides agree on TLS; the peer's log may say more")
        }
        _ => error,
    }
}

fn unreachable(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unreachable, format!("cannot connect to a peer: {error}"))
        .with_source(error)
        .with_retry(Retry::Temporary)
}

fn too_late(patience: Duration) -> Error {
    Error::new(ErrorKind::Timeout, format!("no connection to a peer within {:.1} s", patience.as_secs_f64()))
        .with_retry(Retry::Temporary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_in_addresses() {
        assert_eq!(host_of("node-1:7000").expect("fine"), "node-1");
        assert_eq!(host_of("[::1]:7000").expect("fine"), "::1");
        for wrong in ["node-1", ":7000", "node-1:", "node-1:port", ""] {
            assert_eq!(host_of(wrong).expect_err(wrong).kind(), ErrorKind::Config);
        }
    }
}
