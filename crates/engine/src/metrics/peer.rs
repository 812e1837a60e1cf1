//! The metrics of the protocol between peers: what this process asks of others, and what others ask of it.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::{ReasonLabel, UnsignedGauge};

/// Both directions of the peer protocol. Clones share the counters.
#[derive(Debug, Clone)]
pub struct PeerMetrics {
    pub received_bytes: Counter,
    pub sent_bytes: Counter,
    pub requests: Counter,
    pub served_requests: Counter,
    pub errors: Family<ReasonLabel, Counter>,
    pub served_errors: Family<ReasonLabel, Counter>,
    pub connections: UnsignedGauge,
    pub served_connections: UnsignedGauge,
    pub refused_connections: Counter,
    pub queued_frames: UnsignedGauge,
}

impl PeerMetrics {
    pub(super) fn register(r: &mut Registry) -> Self {
        PeerMetrics {
            received_bytes: register!(
                r,
                "peer_received",
                Unit::Bytes,
                "Bytes of answers received from peers",
                Counter::default()
            ),
            sent_bytes: register!(r, "peer_sent", Unit::Bytes, "Bytes of answers sent to peers", Counter::default()),
            requests: register!(r, "peer_requests", "Requests sent to peers", Counter::default()),
            served_requests: register!(r, "peer_served_requests", "Requests of peers", Counter::default()),
            errors: register!(r, "peer_errors", "Requests to peers that failed, by kind of error", Family::default()),
            served_errors: register!(
                r,
                "peer_served_errors",
                "Requests of peers that failed here, by kind of error",
                Family::default()
            ),
            connections: register!(r, "peer_connections", "Open connections to peers", Gauge::default()),
            served_connections: register!(
                r,
                "peer_served_connections",
                "Open connections from peers",
                Gauge::default()
            ),
            refused_connections: register!(
                r,
                "peer_refused_connections",
                "Connections refused because the other side did not know the token",
                Counter::default()
            ),
            queued_frames: register!(r, "peer_queued_frames", "Frames that wait to be sent to peers", Gauge::default()),
        }
    }
}
