//! Ports and the ways to stop.

use super::Reader;
use std::{net::SocketAddr, time::Duration};

#[derive(Debug, Clone)]
pub(crate) struct ApiConfig {
    pub(crate) listen: SocketAddr,
    /// `/metrics` and health, apart from the public port.
    pub(crate) ops_listen: Option<SocketAddr>,
    /// From the signal to closing the listener.
    pub(crate) drain_delay: Duration,
    /// From the signal to cutting what still runs.
    pub(crate) stop_timeout: Duration,
    pub(crate) body_read_timeout: Duration,
}

impl ApiConfig {
    pub(super) fn read(r: &mut Reader) -> Self {
        Self {
            listen: r.parsed("WAYBILL_API_LISTEN", "127.0.0.1:8080", "Address of the HTTP API"),
            ops_listen: r.optional_parsed(
                "WAYBILL_OPS_LISTEN",
                "Address for `/metrics` and health, for every role; not set: no metrics, and health on the API's port only",
            ),
            drain_delay: r.millis(
                "WAYBILL_API_DRAIN_DELAY_MS",
                5_000,
                "After SIGTERM: how long the listener stays open while readiness already fails",
            ),
            stop_timeout: r.millis(
                "WAYBILL_STOP_TIMEOUT_MS",
                22_000,
                "After SIGTERM: when what still runs is cut. Above the long poll and one provider call, below the platform's stop timeout",
            ),
            body_read_timeout: r.millis("WAYBILL_API_BODY_TIMEOUT_MS", 10_000, "Total time for a request's body"),
        }
    }
}
