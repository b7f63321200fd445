//! SQS standard queues.
//!
//! **No retries.** The SDK would repeat a request whose answer was lost, and a repeated `SendMessageBatch` may queue everything
//! twice, out of sight. Here a lost answer is a `Temporary` failure of each entry, and the caller, who knows what is still open,
//! decides: rows are sent again, and claims absorb the repeats. A lost `ReceiveMessage` is not repeated either: its messages are in
//! flight, and come back.
//!
//! **Every entry has its own answer** ([`answers`]). What an answer does not mention has failed, whatever the HTTP status.
//!
//! **Limits are checked here first** ([`waybill_core::ports::queue_quotas`] and the queue's own `MaximumMessageSize`), because SQS
//! refuses some of them for the whole request, and emulators take what SQS refuses.

mod answers;
mod connect;
mod receipts;
mod receive;
mod send;

use crate::{AwsError, config::within};
use async_trait::async_trait;
use aws_config::{SdkConfig, retry::RetryConfig};
use aws_sdk_sqs::{config::Builder, types::QueueAttributeName};
use connect::Address;
use std::{
    collections::HashMap,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use waybill_core::{
    policy::Timings,
    ports::{EntryError, OutgoingMessage, Queue, QueueDepth, QueueError, QueueName, Receipt, ReceivedMessage},
};

/// For every operation but the long poll.
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqsConfig {
    /// Queues are called `{prefix}-{name}`: `waybill-main`, `waybill-main-dead`, …
    pub prefix: String,
    /// What the application counts on; a queue that differs is told in the log at start-up.
    pub expected: Option<Timings>,
}

impl SqsConfig {
    pub fn new(prefix: impl Into<String>) -> Self {
        Self { prefix: prefix.into(), expected: None }
    }
}

/// The [`Queue`] on SQS. Make one per process.
pub struct SqsQueue {
    client: aws_sdk_sqs::Client,
    addresses: HashMap<QueueName, Address>,
    requests: AtomicU64,
}

impl SqsQueue {
    /// Looks up each queue and its attributes, so that a missing or wrong one, or missing rights, show at start-up.
    ///
    /// # Errors
    /// [`AwsError`] that names the queue and what to do: it is not there, may not be read, has no dead-letter queue or another one
    /// than Waybill's, or keeps messages as long as its dead-letter queue does.
    pub async fn connect(aws: &SdkConfig, config: SqsConfig) -> Result<Self, AwsError> {
        let client = aws_sdk_sqs::Client::from_conf(Builder::from(aws).retry_config(RetryConfig::disabled()).build());
        let mut queue = Self { client, addresses: HashMap::new(), requests: AtomicU64::new(0) };
        queue.addresses = connect::find_all(&queue, &config).await?;
        Ok(queue)
    }

    /// Requests so far, as SQS bills them: one per batch, one per long poll, empty ones included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Called for each HTTP request; there are no others, because nothing is retried.
    fn count(&self, action: &'static str) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        metrics::counter!("waybill_sqs_requests_total", "action" => action).increment(1);
    }

    fn address(&self, queue: QueueName) -> Result<&Address, QueueError> {
        self.addresses.get(&queue).ok_or_else(|| QueueError(format!("queue {} was never looked up", queue.as_str())))
    }
}

/// The client's settings for one operation.
fn timeout(operation: Duration) -> Builder {
    Builder::new().timeout_config(within(operation))
}

/// SQS counts whole seconds. Upwards: nothing is shown early, and a short wait is not a busy loop.
fn whole_seconds(duration: Duration) -> i32 {
    let seconds = duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0));
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

#[async_trait]
impl Queue for SqsQueue {
    async fn send_batch(
        &self,
        queue: QueueName,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        Ok(send::all(self, self.address(queue)?, messages).await)
    }

    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>, QueueError> {
        receive::once(self, queue, max, wait, visibility).await
    }

    async fn delete_batch(
        &self,
        queue: QueueName,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        Ok(receipts::delete(self, self.address(queue)?, receipts).await)
    }

    async fn change_visibility_batch(
        &self,
        queue: QueueName,
        entries: &[(Receipt, Duration)],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError> {
        Ok(receipts::change(self, self.address(queue)?, entries).await)
    }

    /// SQS has no age of the oldest message among a queue's attributes; it is a metric of CloudWatch.
    async fn depth(&self, queue: QueueName) -> Result<QueueDepth, QueueError> {
        use QueueAttributeName::{
            ApproximateNumberOfMessages, ApproximateNumberOfMessagesDelayed, ApproximateNumberOfMessagesNotVisible,
        };
        let wanted =
            [ApproximateNumberOfMessages, ApproximateNumberOfMessagesNotVisible, ApproximateNumberOfMessagesDelayed];
        let attributes = connect::attributes(self, &self.address(queue)?.url, &wanted)
            .await
            .map_err(|failure| QueueError(failure.to_string()))?;
        let number = |name: &QueueAttributeName| {
            let text = attributes.get(name).and_then(|text| text.parse().ok());
            text.ok_or_else(|| QueueError(format!("the answer has no {name}")))
        };
        let [visible, in_flight, delayed] = &wanted;
        Ok(QueueDepth {
            visible: number(visible)?,
            in_flight: number(in_flight)?,
            delayed: number(delayed)?,
            oldest_age: None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_up() {
        for (milliseconds, seconds) in [(0, 0), (1, 1), (999, 1), (1000, 1), (1001, 2), (43_200_000, 43_200)] {
            assert_eq!(whole_seconds(Duration::from_millis(milliseconds)), seconds);
        }
        assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
    }
}
