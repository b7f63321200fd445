//! The queue by configuration, with what measurements and operators ask of it beyond the port.

use crate::config::{Config, QueueChoice};
use anyhow::Context as _;
use std::sync::Arc;
use waybill_aws::{SqsConfig, SqsQueue};
use waybill_core::{policy::Timings, ports::Queue};
use waybill_local::{LocalQueue, LocalQueueConfig};
use waybill_store::Store;

#[derive(Clone)]
pub(crate) struct WiredQueue {
    pub(crate) port: Arc<dyn Queue>,
    /// Requests so far, as SQS bills them.
    pub(crate) requests: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// The local queue, whose messages can be looked at without receiving them.
    pub(crate) local: Option<Arc<LocalQueue>>,
}

/// `expected`: what the application counts on; a queue of SQS that differs is told in the log.
///
/// # Errors
/// With SQS: the queue that is missing, or the rights.
pub(crate) async fn queue(config: &Config, store: &Store, expected: Option<Timings>) -> anyhow::Result<WiredQueue> {
    match &config.adapters.queue {
        QueueChoice::Local => {
            let limit = LocalQueueConfig { max_receive_count: config.settings.timings.max_receive_count };
            let queue = Arc::new(LocalQueue::new(store.pool().clone(), limit));
            let counted = queue.clone();
            Ok(WiredQueue { port: queue.clone(), requests: Arc::new(move || counted.requests()), local: Some(queue) })
        }
        QueueChoice::Sqs { prefix } => {
            let aws = waybill_aws::load(config.adapters.region.clone()).await;
            let queue = SqsQueue::connect(&aws, SqsConfig { prefix: prefix.clone(), expected }).await;
            let queue = Arc::new(queue.context("WAYBILL_QUEUE=sqs")?);
            let counted = queue.clone();
            Ok(WiredQueue { port: queue, requests: Arc::new(move || counted.requests()), local: None })
        }
    }
}
