//! The form of a worker's address in a view: a host that somebody can connect to, and a port.

use std::net::{IpAddr, Ipv6Addr};

/// The longest name that DNS has.
const MAX_HOST_BYTES: usize = 253;

/// What is wrong with `address`, or `None`. Good are `10.0.0.7:7070`, `[fd00::7]:7070` and `node-7.cluster:7070`.
pub fn fault(address: &str) -> Option<&'static str> {
    let Some((host, port)) = address.rsplit_once(':') else {
        return Some("has no port");
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Some("has no port between 1 and 65535");
    }
    host_fault(host)
}

fn host_fault(host: &str) -> Option<&'static str> {
    let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let ip = match bracketed {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    };
    match ip {
        Some(ip) if ip.is_unspecified() || ip.is_multicast() => Some("is an address that nobody can connect to"),
        Some(_) => None,
        None if bracketed.is_none() && is_name(host) => None,
        None => Some("has neither an IP address (IPv6 in brackets) nor a host name before the port"),
    }
}

fn is_name(host: &str) -> bool {
    let is_label = |label: &str| {
        let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        let bytes = label.as_bytes();
        // Container names have underscores, which DNS proper has not.
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // Digits and dots alone are a mistyped IPv4 address.
    host.len() <= MAX_HOST_BYTES && host.split('.').all(is_label) && host.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::fault;

    #[test]
    fn addresses_that_can_be_connected_to_pass() {
        for address in ["10.0.0.7:7070", "[fd00::7]:1", "node-7:65535", "w_1.cluster.local:7070", "localhost:80"] {
            assert_eq!(fault(address), None, "{address}");
        }
    }

    #[test]
    fn others_do_not() {
        let absurd = [
            "",
            ":",
            "node-7",
            "node-7:",
            "node-7:0",
            "node-7:65536",
            "node-7:+80",
            "node-7:8 0",
            ":7070",
            "a b:1",
            "fd00::7:7070",
            "[fd00::7]",
            "[10.0.0.7]:1",
            "[node]:1",
            "10.0.0.300:1",
            "10.0.0:1",
            "0.0.0.0:7070",
            "[::]:7070",
            "224.0.0.1:1",
            "-node:1",
            "node-.x:1",
            "a..b:1",
            "node\n:1",
            "http://node:1",
            "nöde:1",
        ];
        for address in absurd.into_iter().map(str::to_owned).chain([format!("{}:1", "a".repeat(254))]) {
            assert!(fault(&address).is_some(), "{address}");
        }
    }
}
