//! `SendMessageBatch`.

use super::{
    SqsQueue, TIMEOUT,
    answers::{Entries, id},
    connect::Address,
    timeout, whole_seconds,
};
use crate::batches::{Answer, settle};
use aws_sdk_sqs::{
    error::BuildError,
    types::{MessageAttributeValue, SendMessageBatchRequestEntry},
};
use futures::FutureExt;
use std::ops::Range;
use waybill_core::ports::{EntryError, OutgoingMessage, queue_quotas, split_batches_within};

/// Sends all of them in requests of at most ten entries, and of at most the queue's own number of bytes.
pub(super) async fn all(
    queue: &SqsQueue,
    address: &Address,
    messages: &[OutgoingMessage],
) -> Vec<Result<(), EntryError>> {
    let mut results: Vec<_> = messages.iter().map(|message| check(message, address.max_bytes)).collect();
    let (places, good): (Vec<usize>, Vec<OutgoingMessage>) =
        (0..messages.len()).filter(|i| results[*i].is_ok()).map(|i| (i, messages[i].clone())).unzip();
    let requests = split_batches_within(&good, address.max_bytes);
    let answers = settle(requests, |range| request(queue, address, range.clone(), &good[range]).boxed()).await;
    for (place, answer) in places.into_iter().zip(answers) {
        results[place] = answer;
    }
    results
}

/// The queue's own limit may be lower than SQS's.
fn check(message: &OutgoingMessage, max_bytes: usize) -> Result<(), EntryError> {
    queue_quotas::check_message(message)?;
    let bytes = message.bytes();
    if bytes > max_bytes {
        let why = format!("body and attributes have {bytes} bytes, the queue takes {max_bytes} (MaximumMessageSize)");
        return Err(EntryError::Permanent(why));
    }
    Ok(())
}

async fn request(
    queue: &SqsQueue,
    address: &Address,
    range: Range<usize>,
    messages: &[OutgoingMessage],
) -> Answer<(), EntryError> {
    let entries = range.clone().zip(messages).map(|(index, message)| entry(index, message)).collect();
    let entries: Vec<_> = match entries {
        Ok(entries) => entries,
        Err(error) => return Answer::Refused(EntryError::Permanent(error.to_string())),
    };
    queue.count("SendMessageBatch");
    let sent = queue
        .client
        .send_message_batch()
        .queue_url(&address.url)
        .set_entries(Some(entries))
        .customize()
        .config_override(timeout(TIMEOUT))
        .send()
        .await;
    match sent {
        Ok(answer) => {
            Entries::Messages.answered(range, answer.successful().iter().map(|entry| entry.id()), answer.failed())
        }
        Err(error) => Entries::Messages.failed(&range, &error),
    }
}

fn entry(index: usize, message: &OutgoingMessage) -> Result<SendMessageBatchRequestEntry, BuildError> {
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(id(index))
        .message_body(&message.body)
        // Zero, too: else the queue's own default applies.
        .delay_seconds(whole_seconds(message.delay))
        // Fair queues: also on standard queues, whatever their name.
        .set_message_group_id(message.group.as_deref().map(|group| queue_quotas::group(group).into_owned()));
    for (name, value) in &message.attributes {
        let value = MessageAttributeValue::builder().data_type("String").string_value(value).build()?;
        entry = entry.message_attributes(name, value);
    }
    entry.build()
}
