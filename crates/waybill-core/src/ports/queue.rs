use async_trait::async_trait;
use chrono::{DateTime, Utc};
use std::time::Duration;

/// Entries in one request (SQS quota).
pub const MAX_BATCH: usize = 10;
/// Bytes of bodies and attributes in one request (SQS quota, 1 MiB).
pub const MAX_BATCH_BYTES: usize = 1_048_576;

/// The queues of Waybill. Each has a dead-letter queue of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QueueName {
    /// Jobs to route.
    Main,
    MainDead,
    /// Deliveries to send.
    Delivery,
    DeliveryDead,
    /// Events that come from EventBridge instead of `POST /events`.
    Intake,
    IntakeDead,
    /// What providers tell us about our mails, where it comes by queue (SES by way of SNS).
    Feedback,
    FeedbackDead,
}

impl QueueName {
    pub const ALL: [QueueName; 8] = [
        Self::Main,
        Self::MainDead,
        Self::Delivery,
        Self::DeliveryDead,
        Self::Intake,
        Self::IntakeDead,
        Self::Feedback,
        Self::FeedbackDead,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::MainDead => "main-dead",
            Self::Delivery => "delivery",
            Self::DeliveryDead => "delivery-dead",
            Self::Intake => "intake",
            Self::IntakeDead => "intake-dead",
            Self::Feedback => "feedback",
            Self::FeedbackDead => "feedback-dead",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|q| q.as_str() == text)
    }

    /// Where messages of this queue go when they can't be handled; `None` for a dead-letter queue itself.
    pub fn dead_letter(self) -> Option<QueueName> {
        match self {
            Self::Main => Some(Self::MainDead),
            Self::Delivery => Some(Self::DeliveryDead),
            Self::Intake => Some(Self::IntakeDead),
            Self::Feedback => Some(Self::FeedbackDead),
            Self::MainDead | Self::DeliveryDead | Self::IntakeDead | Self::FeedbackDead => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutgoingMessage {
    pub body: String,
    /// The tenant, for fairness between tenants; says nothing about order. Any text: see [`super::queue_quotas::group`].
    pub group: Option<String>,
    /// At most 900 s (SQS quota); longer waits live in Postgres.
    pub delay: Duration,
    /// Names and values, at most 10 (SQS quota).
    pub attributes: Vec<(String, String)>,
}

impl OutgoingMessage {
    /// Body and attributes, in octets, as the quota counts them.
    pub fn bytes(&self) -> usize {
        self.body.len()
            + self.attributes.iter().map(|(name, value)| name.len() + value.len() + "String".len()).sum::<usize>()
    }
}

/// Names one reception of a message; stale after its visibility timeout.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Receipt(pub String);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The queue's own id, stable over redeliveries; safe to log.
    pub id: String,
    pub receipt: Receipt,
    pub body: String,
    /// How often it was received, this time included. A guard against crashes, never a count of business attempts.
    pub receive_count: u32,
    pub sent_at: DateTime<Utc>,
    pub attributes: Vec<(String, String)>,
}

/// Why one entry of a batch failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// Try this entry again.
    #[error("the queue did not take the entry: {0}")]
    Temporary(String),
    /// This entry can never be taken (too large, forbidden characters).
    #[error("the queue refuses the entry: {0}")]
    Permanent(String),
    /// The receipt is stale: the message was, or will be, delivered again.
    #[error("the receipt is stale")]
    StaleReceipt,
}

/// The whole request failed; entries may or may not have been taken. Repeating it is safe: claims absorb repeats.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue request failed: {0}")]
pub struct QueueError(pub String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueDepth {
    pub visible: u64,
    pub in_flight: u64,
    pub delayed: u64,
    /// Age of the oldest message that is not in flight, where the queue tells it.
    pub oldest_age: Option<Duration>,
}

/// A queue with the semantics of SQS standard queues: at least once, unordered, visibility timeout, receive count, dead-letter queue.
#[async_trait]
pub trait Queue: Send + Sync {
    /// Sends any number of messages in as few requests as [`split_batches`] allows. One result per message, in order: a 200 with
    /// failed entries, or with entries that the answer does not mention, is a failure of those entries.
    ///
    /// # Errors
    /// Only when nothing was tried; once a request went out its failure is a `Temporary` result of each of its entries.
    async fn send_batch(
        &self,
        queue: QueueName,
        messages: &[OutgoingMessage],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError>;

    /// Receives up to `max` (at most [`MAX_BATCH`]) messages; waits up to `wait` for the first. Received messages are invisible for
    /// `visibility`. Never drop this future to stop a worker: the queue may have handed out messages already.
    async fn receive(
        &self,
        queue: QueueName,
        max: usize,
        wait: Duration,
        visibility: Duration,
    ) -> Result<Vec<ReceivedMessage>, QueueError>;

    async fn delete_batch(
        &self,
        queue: QueueName,
        receipts: &[Receipt],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError>;

    /// Makes messages visible again after the given time; zero puts them back at once.
    async fn change_visibility_batch(
        &self,
        queue: QueueName,
        entries: &[(Receipt, Duration)],
    ) -> Result<Vec<Result<(), EntryError>>, QueueError>;

    async fn depth(&self, queue: QueueName) -> Result<QueueDepth, QueueError>;
}

/// Splits messages into requests by count and by bytes. A message that is too large alone stands alone; the adapter refuses it.
pub fn split_batches(messages: &[OutgoingMessage]) -> Vec<std::ops::Range<usize>> {
    split_batches_within(messages, MAX_BATCH_BYTES)
}

/// The same for a queue whose own limit is lower (SQS: `MaximumMessageSize`).
pub fn split_batches_within(messages: &[OutgoingMessage], max_bytes: usize) -> Vec<std::ops::Range<usize>> {
    let mut out = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, message) in messages.iter().enumerate() {
        let size = message.bytes();
        if index > start && (index - start == MAX_BATCH || bytes + size > max_bytes) {
            out.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += size;
    }
    if start < messages.len() {
        out.push(start..messages.len());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(bodies: &[usize]) -> Vec<usize> {
        let messages: Vec<_> =
            bodies.iter().map(|n| OutgoingMessage { body: "\u{e9}".repeat(n / 2), ..Default::default() }).collect();
        split_batches(&messages).iter().map(ExactSizeIterator::len).collect()
    }

    #[test]
    fn sqs_02_batches_are_split_by_count_and_by_octets() {
        assert_eq!(sizes(&[10; 25]), [10, 10, 5]);
        assert_eq!(sizes(&[150 * 1024; 10]), [6, 4]);
        assert_eq!(sizes(&[MAX_BATCH_BYTES, 2]), [1, 1]);
        assert_eq!(sizes(&[MAX_BATCH_BYTES * 2, 2]), [1, 1]);
        assert_eq!(sizes(&[]), [0usize; 0]);
        // 300,000 characters of two octets each.
        assert_eq!(sizes(&[600_000, 600_000]), [1, 1]);
    }

    #[test]
    fn sqs_02_a_queue_may_have_a_lower_limit() {
        let two = [200_000, 200_000].map(|n| OutgoingMessage { body: "x".repeat(n), ..Default::default() });
        assert_eq!(split_batches(&two), vec![0..2]);
        assert_eq!(split_batches_within(&two, 262_144), vec![0..1, 1..2]);
    }
}
