//! What every route shares.

use crate::{health::ReadinessCache, service::Service};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;
use waybill_core::event::EventLimits;

/// Limits and deadlines of the API. Every refusal by one of them names it and its number.
#[derive(Debug, Clone)]
pub struct ApiConfig {
    pub event: EventLimits,
    /// Bytes of a request body, as received and after decompression.
    pub max_body_bytes: usize,
    /// From the first byte of the body wanted to the last one received.
    pub body_timeout: Duration,
    /// Events in one batch.
    pub max_batch_events: usize,
    /// After this, `/readyz` answers 503 whatever the dependencies are doing.
    pub ready_timeout: Duration,
    /// A readiness answer is kept this long, so that probes from many sides don't become load.
    pub ready_cache: Duration,
}

impl Default for ApiConfig {
    fn default() -> Self {
        Self {
            event: EventLimits::default(),
            max_body_bytes: 1024 * 1024,
            body_timeout: Duration::from_secs(10),
            max_batch_events: 100,
            ready_timeout: Duration::from_secs(2),
            ready_cache: Duration::from_secs(1),
        }
    }
}

/// Shared by all routes; cheap to clone.
#[derive(Clone)]
pub struct ApiState {
    pub(crate) service: Arc<dyn Service>,
    pub(crate) config: Arc<ApiConfig>,
    pub(crate) draining: CancellationToken,
    pub(crate) readiness: Arc<ReadinessCache>,
}

impl ApiState {
    /// `draining` is the soft token of [`crate::Shutdown`]: once it is cancelled, `/readyz` answers 503.
    pub fn new(service: Arc<dyn Service>, config: ApiConfig, draining: CancellationToken) -> Self {
        Self { service, config: Arc::new(config), draining, readiness: Arc::default() }
    }
}
