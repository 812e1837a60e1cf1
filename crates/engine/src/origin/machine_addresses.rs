//! Addresses at which each machine is answered for itself, and told its keys: no origin lies there, whatever its name is.
//!
//! Names are looked up here for all requests, so that what was looked at is what is connected to. The HTTP client looks no
//! address up that is written as one: those of credential services, which we ask ourselves, and endpoints, which are refused
//! when they are opened.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Where clouds tell machines their keys beside the link-local addresses.
const METADATA_ADDRESSES: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)), IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254))];

/// The name has no other address than these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MachineAddress;

impl std::fmt::Display for MachineAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an address at which machines are told their keys")
    }
}

impl std::error::Error for MachineAddress {}

impl MachineAddress {
    /// Whether a failure of the HTTP client has this reason.
    pub fn is_inside(error: &reqwest::Error) -> bool {
        let mut next: Option<&(dyn std::error::Error + 'static)> = std::error::Error::source(error);
        while let Some(source) = next {
            if source.is::<Self>() {
                return true;
            }
            next = source.source();
        }
        false
    }
}

/// Whether it is a link-local address, or another one of a metadata service.
pub(super) fn is_of_machines(address: IpAddr) -> bool {
    let address = address.to_canonical();
    let is_link_local = match address {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    is_link_local || METADATA_ADDRESSES.contains(&address)
}

/// The addresses of a name that an origin may have; an error if there were others alone.
pub(super) fn of_origins(found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, MachineAddress> {
    let (refused, allowed): (Vec<_>, Vec<_>) = found.partition(|address| is_of_machines(address.ip()));
    if allowed.is_empty() && !refused.is_empty() { Err(MachineAddress) } else { Ok(allowed) }
}

/// Looks names up for the HTTP client.
pub(super) struct Lookup;

impl Resolve for Lookup {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(Box::new(of_origins(found)?.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
    }

    #[test]
    fn a_name_leads_nowhere_where_machines_are_told_their_keys() {
        let bad = [
            "169.254.169.254",
            "169.254.170.2",
            "fe80::1",
            "fd00:ec2::254",
            "::ffff:169.254.169.254",
            "100.100.100.200",
        ];
        for text in bad {
            assert_eq!(of_origins(addresses(&[text]).into_iter()), Err(MachineAddress), "{text}");
        }
        let good = ["10.0.0.7", "127.0.0.1", "::1", "fd00:ec2::253", "100.100.100.201", "2001:db8::1"];
        for text in good {
            assert_eq!(of_origins(addresses(&[bad[0], text, bad[2]]).into_iter()), Ok(addresses(&[text])), "{text}");
        }
        assert_eq!(of_origins(std::iter::empty()), Ok(Vec::new()));
    }

    #[tokio::test]
    async fn what_the_system_looks_up_is_looked_at() {
        // A spelling of 169.254.169.254 that the system knows without a server of names.
        let refused = Lookup.resolve("0xa9fea9fe".parse().unwrap()).await.err().unwrap();
        assert!(refused.is::<MachineAddress>());
        let found: Vec<_> = Lookup.resolve("localhost".parse().unwrap()).await.ok().unwrap().collect();
        assert!(found.iter().any(|address| address.ip().is_loopback()));
    }
}
