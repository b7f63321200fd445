//! `ReceiveMessage`.

use super::{SqsQueue, timeout, whole_seconds};
use crate::failure::Failure;
use aws_sdk_sqs::types::{Message, MessageSystemAttributeName};
use chrono::{DateTime, Utc};
use std::time::Duration;
use waybill_core::ports::{MAX_BATCH, QueueError, QueueName, Receipt, ReceivedMessage, queue_quotas};

/// Longest long poll (SQS quota).
const MAX_WAIT: Duration = Duration::from_secs(20);
/// The answer to a long poll comes at its end: the time-out is so much later.
const SLACK: Duration = Duration::from_secs(5);

/// One long poll. A lost answer is not asked for again: what it held is in flight, and comes back.
pub(super) async fn once(
    queue: &SqsQueue,
    name: QueueName,
    max: usize,
    wait: Duration,
    visibility: Duration,
) -> Result<Vec<ReceivedMessage>, QueueError> {
    queue_quotas::check_visibility(visibility).map_err(|error| QueueError(error.to_string()))?;
    let address = queue.address(name)?;
    let wait = whole_seconds(wait.min(MAX_WAIT));
    let allowed = Duration::from_secs(u64::from(wait.unsigned_abs())) + SLACK;
    queue.count("ReceiveMessage");
    let answer = queue
        .client
        .receive_message()
        .queue_url(&address.url)
        .max_number_of_messages(i32::try_from(max.clamp(1, MAX_BATCH)).unwrap_or(1))
        .wait_time_seconds(wait)
        .visibility_timeout(whole_seconds(visibility))
        .message_attribute_names("All")
        .message_system_attribute_names(MessageSystemAttributeName::ApproximateReceiveCount)
        .message_system_attribute_names(MessageSystemAttributeName::SentTimestamp)
        .customize()
        .config_override(timeout(allowed))
        .send()
        .await
        .map_err(|error| QueueError(Failure::of(&error).to_string()))?;
    let messages = answer.messages.unwrap_or_default();
    if messages.is_empty() {
        metrics::counter!("waybill_sqs_empty_receives_total").increment(1);
    }
    Ok(messages.into_iter().filter_map(|message| read(name, message)).collect())
}

/// A message with a hole can't be handled. It is left alone: it comes back, and after so many times it is dead-lettered by the queue.
fn read(queue: QueueName, message: Message) -> Option<ReceivedMessage> {
    let system = message.attributes.unwrap_or_default();
    let number = |name| system.get(&name).and_then(|text: &String| text.parse::<i64>().ok());
    let receive_count = number(MessageSystemAttributeName::ApproximateReceiveCount);
    let sent_at = number(MessageSystemAttributeName::SentTimestamp).and_then(DateTime::<Utc>::from_timestamp_millis);
    let parts = (message.message_id, message.receipt_handle, message.body, receive_count, sent_at);
    let (Some(id), Some(receipt), Some(body), Some(receive_count), Some(sent_at)) = parts else {
        tracing::error!(queue = queue.as_str(), message = parts.0, "sqs.incomplete_message");
        return None;
    };
    let mut attributes: Vec<(String, String)> = message
        .message_attributes
        .unwrap_or_default()
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.string_value?)))
        .collect();
    // SQS keeps them in no order.
    attributes.sort_unstable();
    Some(ReceivedMessage {
        id,
        receipt: Receipt(receipt),
        body,
        receive_count: u32::try_from(receive_count).unwrap_or(u32::MAX),
        sent_at,
        attributes,
    })
}
